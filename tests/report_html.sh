#!/usr/bin/env bash
# watop report --format html: the page is well-formed, fetches nothing and runs nothing, escapes strangers' text, shows gaps as gaps, says the same
# numbers as the JSON report, and stays small with ten thousand samples. A browser is used where there is one. TAP; 77 without python3.
set -u
top=${WATOP_SOURCE:-$(cd "$(dirname "$0")/.." && pwd)}
bin=${WATOP_BIN:-$top/build-test}
watop=$bin/watop steps=$bin/tests/lab_log_steps
[ -x "$watop" ] && [ -x "$steps" ] || { echo "no watop in $bin"; exit 77; }
python3 -c 'import json, html.parser, xml.etree.ElementTree' 2>/dev/null || { echo "no python3"; exit 77; }
dir=$(mktemp -d "${TMPDIR:-/tmp}/watop-html.XXXXXX") || exit 77
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM HUP
cd "$dir" || exit 1
export LC_ALL=C.UTF-8
number=0 failed=0
check() { # check NAME STATUS [DETAIL]
  number=$((number + 1))
  if [ "$2" = 0 ]; then echo "ok $number - $1"; else echo "not ok $number - $1"; failed=1; [ -n "${3:-}" ] && printf '%s\n' "$3" | head -20 | sed 's/^/# /'; fi
}
skip() { number=$((number + 1)); echo "ok $number - $1 # SKIP $2"; }
page() { # page NAME: NAME.watop from standard input, and its page and JSON
  "$steps" "$1.watop" && "$watop" report --format html "$1.watop" >"$1.html" && "$watop" report --format json "$1.watop" >"$1.json"
}

python3 "$top/tests/report_steps.py" 1 | page steps
check "a page is written" $?
cat >check.py <<'PY'
import html.parser, json, re, sys
import xml.etree.ElementTree as ET
name = sys.argv[1]
text = open(name + ".html", encoding="utf-8").read()
root = ET.fromstring(text.split("\n", 1)[1])  # raises when not well-formed
assert text.startswith("<!DOCTYPE html>\n"), text[:20]
class Check(html.parser.HTMLParser):
    void, stack = {"meta", "br", "link", "img"}, []
    def handle_starttag(self, tag, attributes):
        assert tag not in ("script", "link", "img", "iframe", "object", "base"), tag
        for key, value in attributes:
            assert not key.startswith("on") and key not in ("src", "srcset", "action"), key
            assert key != "href" or value.startswith("#"), value
        if tag not in self.void:
            self.stack.append(tag)
    def handle_startendtag(self, tag, attributes): pass
    def handle_endtag(self, tag): assert self.stack.pop() == tag, tag
checker = Check(); checker.feed(text); checker.close()
assert not checker.stack
assert not re.search(r"https?:|//[a-z]|@import", text), re.search(r".{20}(https?:|//[a-z]|@import).{20}", text)
assert set(re.findall(r"url\(([^)]*)\)", text)) <= {"#hatch"}
ids = [e.get("id") for e in root.iter() if e.get("id")]
assert len(ids) == len(set(ids))
assert all(a.get("href")[1:] in ids for a in root.iter("a"))
for svg in root.iter("svg"):
    assert svg.get("aria-hidden") or (svg.get("role") == "img" and svg.get("aria-label")), svg.attrib
for path in root.iter("path"):
    assert re.fullmatch(r"[MHVLZ0-9 .\-]*", path.get("d")), path.get("d")[:80]
    assert not any(int(v) > 10000 for v in re.findall(r"\d+", path.get("d")))
for rect in root.iter("rect"):
    assert int(rect.get("x")) >= 0 and int(rect.get("x")) + int(rect.get("width")) <= 10001, rect.attrib
PY
out=$(python3 check.py steps 2>&1)
check "well-formed, no script, nothing is fetched, every plot has a name" $? "$out"
out=$(python3 - 2>&1 <<'PY'
import json
import xml.etree.ElementTree as ET
root = ET.fromstring(open("steps.html").read().split("\n", 1)[1])
d = json.load(open("steps.json"))
def table(section):
    t = section.find(".//table")
    return rows(t)
def rows(t):
    heads = ["".join(h.itertext()) for h in t.find("thead/tr")]
    return [dict(zip(heads, ["".join(c.itertext()) for c in r])) for r in t.find("tbody")]
sections = {s.get("id"): s for s in root.iter("section")}
phases = table(sections["phases"])
assert len(phases) == 6 == len(d["phases"])
for row, p in zip(phases, d["phases"]):
    assert row["phase"] == p["phase"]
    assert row["load"] == f"{p['load']:.1f}" and row["us+sy"] == f"{p['us_sy']:.1f}" and row["hi+si"] == f"{p['hi_si']:.1f}", (row, p)
    assert row["SET r/s"] == f"{p['result']:,.0f}", row
    assert row["growth"] == ("-" if p["growth_pct"] is None else f"{p['growth_pct']:+.1f}%"), row
loads = [float(r["load"]) for r in phases]  # the cells of a core add to 100 but for rounding
assert all(abs(a - b) < 0.5 for a, b in zip(loads, (309.2, 466.8, 536.8, 639.6, 627.7, 674.2))), loads
for n, detail in enumerate(d["details"], 1):
    cores = next(rows(t) for t in sections[f"phase-{n}"].iter("table") if t.find("caption").text.startswith("Cores"))
    assert len(cores) == 9
    for row, c in zip(cores, detail["cores"]):
        for key in ("us", "sy", "wa", "hi", "si", "load"):
            assert row[key] == f"{c[key]:.1f}", (row, c)
bars = [r for t in root.iter("table") if t.get("class") == "bars" for r in t.find("tbody")]
assert len(bars) == 12
widths = [float(i.get("style").split(":")[1][:-1]) for r in bars[:6] for i in r.iter("i")]
best = max(p["result"] for p in d["phases"])
for width, p in zip(widths, d["phases"]):
    assert abs(width - 100 * p["result"] / best) < 0.06, (width, p["result"])
PY
)
check "its numbers are the JSON report's, and the document's" $? "$out"

# Area under the CPU plot's paths: the drawn us of the whole recording against the tables' means.
out=$(python3 - 2>&1 <<'PY'
import json, re
import xml.etree.ElementTree as ET
root = ET.fromstring(open("steps.html").read().split("\n", 1)[1])
d = json.load(open("steps.json"))
figure = next(f for f in root.iter("figure") if f.find("figcaption/b").text == "CPU, all cores")
def area(path):  # of stepped polygons, in units
    total = 0
    for polygon in path.split("Z"):
        x = y = 0; points = []
        for letter, a, b in re.findall(r"([MHV])(-?\d+)(?: (-?\d+))?", polygon):
            if letter == "M": x, y = int(a), int(b)
            elif letter == "H": x = int(a)
            else: y = int(a)
            points.append((x, y))
        total += abs(sum(p[0] * q[1] - q[0] * p[1] for p, q in zip(points, points[1:] + points[:1]))) / 2
    return total
seconds = sum(p["seconds"] for p in d["phases"])
def drawn(name):
    return area(next(p.get("d") for p in figure.iter("path") if p.get("class") == name)) / 1000 / 10000 * 800
for key in ("us", "sy", "si"):
    wanted = sum(next(c for c in detail["cores"] if c["cpu"] == "SUM")[key] * p["seconds"] for detail, p in zip(d["details"], d["phases"])) / seconds
    assert abs(drawn(key) - wanted) < 0.02 * wanted, (key, drawn(key), wanted)
PY
)
check "the areas drawn are the means of the tables" $? "$out"

# ---- strangers ---------------------------------------------------------------------------------------------------------------------------
printf '%s\n' 'label <script>alert(1)</script>&"'"'" 'host "><img src=x onerror=alert(1)>' 'cpu 0 10 5 0 80 5 0 0 0' 'disk </style><b>x 5 5 20 1 3' \
  'task 7 <i>x</i>&amp 3 4' 'phase </title><svg onload=alert(2)>' 'ticks 5' 'print SET: 10.00 requests per second, p50=1.000 msec <b>' \
  $'phase \033[31m\xff\xfe r\xc3\xa9sum\xc3\xa9' 'ticks 5' end | page hostile
check "a page of hostile names is written" $?
out=$(python3 check.py hostile 2>&1)
check "strangers' text stays text" $? "$out"
! grep -q '<script\|<img\|<b>x\|onload=alert(2)>' hostile.html && grep -q 'résumé' hostile.html && grep -qF '\x1b[31m\xff\xfe' hostile.html
check "escaped, and still readable" $?

# ---- gaps, joined samples, nothing at all -----------------------------------------------------------------------------------------------------
{ python3 "$top/tests/report_steps.py" sums long a=5 | grep -v '^end'; printf '%s\n' 'wave 30' 'phase long' 'ticks 9000' 'phase short' 'ticks 20' end; } | page long
check "9,000 samples" $?
out=$(python3 check.py long 2>&1)
check "9,000 samples: well-formed" $? "$out"
[ "$(stat -c %s long.html)" -lt 400000 ] && grep -q 'largest sample' long.html && grep -q 'more samples than fit' long.html
check "9,000 samples: joined, said so, below 400 kB" $? "$(stat -c %s long.html)"
! grep -q 'more samples than fit' steps.html && ! grep -q 'largest sample' steps.html
check "few samples are drawn as they are" $?
printf '%s\n' 'cpu 0 10 5 0 80 5 0 0 0' 'ticks 3' 'phase a' 'ticks 5' end 'ticks 600' 'phase b' 'ticks 5' end | page pause
grep -q '60[0-9].[0-9] s between phases' pause.html && python3 check.py pause
check "a long pause is shortened, and its length told" $?
printf '%s\n' 'cpu 0 10 5 0 80 5 0 0 0' 'ticks 3' 'phase a' 'ticks 20' 'phase b' 'ticks 20' 'suspend 50' 'ticks 20' end | page suspend
out=$(python3 check.py suspend 2>&1 && ! grep -q 'class="gap"' steps.html && python3 - 2>&1 <<'PY'
import re, xml.etree.ElementTree as ET
root = ET.fromstring(open("suspend.html").read().split("\n", 1)[1])
figure = next(root.iter("figure"))
gaps = [(int(r.get("x")), int(r.get("x")) + int(r.get("width"))) for r in figure.iter("rect") if r.get("class") == "gap"]
assert gaps and all(r.find("title").text.startswith("no samples for ") for r in figure.iter("rect") if r.get("class") == "gap"), gaps
us = next(p.get("d") for p in figure.iter("path") if p.get("class") == "us")
for polygon in filter(None, us.split("Z")):  # nothing is drawn across
    xs = [int(v) for v in re.findall(r"[MH](\d+)", polygon)]
    assert all(max(xs) <= left or min(xs) >= right for left, right in gaps), (xs, gaps)
PY
)
check "a suspend is a gap: hatched, nothing drawn across" $? "$out"
printf '%s\n' 'cpu 0 10 5 0 80 5 0 0 0' 'ticks 1' | page nothing
grep -q 'No samples\|no two frames' nothing.html && python3 check.py nothing
check "a log of one frame makes a page that says so" $?

# ---- a browser -----------------------------------------------------------------------------------------------------------------------------
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome)
if [ -z "$browser" ]; then
  skip "rendered in a browser" "no chromium"
else
  HOME=$dir timeout 90 "$browser" --headless --no-sandbox --disable-gpu --disable-background-networking --user-data-dir="$dir/profile" --window-size=1400,2000 \
    --dump-dom "file://$dir/steps.html" >dom.html 2>browser.log
  python3 - <<'PY'
import re
dom = open("dom.html").read()
assert dom.count("<figure") == open("steps.html").read().count("<figure") >= 12 and dom.rstrip().endswith("</html>")
PY
  check "rendered in a browser" $? "$(tail -3 browser.log)"
fi
echo "1..$number"
exit $failed
