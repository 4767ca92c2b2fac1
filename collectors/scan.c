/*
 * Scanning kernel text: words, lines and numbers of a buffer, without allocating, without a locale, never past `end`.
 *
 * A file may be cut short, come from a stranger's captured tree, or hold bytes that no kernel ever wrote; a scan then answers
 * false and does not move, and the caller leaves the metric absent. Numbers saturate rather than wrap, so garbage stays garbage.
 */
#include "collectors/procfs.h"

#include <string.h>

static bool blank(char c)
{
        return c == ' ' || c == '\t' || c == '\r';
}

static void skip_blanks(struct scan *s)
{
        while (s->at < s->end && blank(*s->at))
                s->at++;
}

void scan_init(struct scan *s, const char *text, size_t length)
{
        s->at = text;
        s->end = text + length;
}

bool scan_line(struct scan *s, struct scan *line)
{
        if (s->at >= s->end)
                return false;
        const char *newline = memchr(s->at, '\n', (size_t)(s->end - s->at));
        line->at = s->at;
        line->end = newline ? newline : s->end;
        s->at = newline ? newline + 1 : s->end;
        return true;
}

bool scan_word(struct scan *s, const char **word, size_t *length)
{
        struct scan t = *s;
        skip_blanks(&t);
        const char *start = t.at;
        while (t.at < t.end && !blank(*t.at) && *t.at != '\n')
                t.at++;
        if (t.at == start)
                return false;
        *word = start;
        *length = (size_t)(t.at - start);
        *s = t;
        return true;
}

bool scan_u64(struct scan *s, uint64_t *value)
{
        struct scan t = *s;
        skip_blanks(&t);
        if (t.at >= t.end || *t.at < '0' || *t.at > '9')
                return false;
        uint64_t v = 0;
        for (; t.at < t.end && *t.at >= '0' && *t.at <= '9'; t.at++) {
                unsigned digit = (unsigned)(*t.at - '0');
                v = v > (UINT64_MAX - digit) / 10 ? UINT64_MAX : v * 10 + digit;
        }
        *value = v;
        *s = t;
        return true;
}

bool scan_i64(struct scan *s, int64_t *value)
{
        struct scan t = *s;
        skip_blanks(&t);
        bool minus = t.at < t.end && *t.at == '-';
        t.at += minus;
        if (t.at >= t.end || *t.at < '0' || *t.at > '9')
                return false;
        uint64_t v;
        scan_u64(&t, &v);
        if (v > INT64_MAX)
                v = INT64_MAX;
        *value = minus ? -(int64_t)v : (int64_t)v;
        *s = t;
        return true;
}

static int hex_digit(char c)
{
        if (c >= '0' && c <= '9')
                return c - '0';
        if (c >= 'a' && c <= 'f')
                return c - 'a' + 10;
        if (c >= 'A' && c <= 'F')
                return c - 'A' + 10;
        return -1;
}

bool scan_hex(struct scan *s, uint64_t *value)
{
        struct scan t = *s;
        skip_blanks(&t);
        if (t.end - t.at > 2 && t.at[0] == '0' && (t.at[1] == 'x' || t.at[1] == 'X') && hex_digit(t.at[2]) >= 0)
                t.at += 2;
        if (t.at >= t.end || hex_digit(*t.at) < 0)
                return false;
        uint64_t v = 0;
        for (; t.at < t.end && hex_digit(*t.at) >= 0; t.at++)
                v = v >> 60 ? UINT64_MAX : v << 4 | (unsigned)hex_digit(*t.at);
        *value = v;
        *s = t;
        return true;
}

bool scan_skip(struct scan *s, unsigned words)
{
        struct scan t = *s;
        const char *word;
        size_t length;
        for (; words > 0; words--)
                if (!scan_word(&t, &word, &length))
                        return false;
        *s = t;
        return true;
}

bool scan_prefix(struct scan *s, const char *text)
{
        size_t length = strlen(text);
        if ((size_t)(s->end - s->at) < length || memcmp(s->at, text, length) != 0)
                return false;
        s->at += length;
        return true;
}
