/*
 * Lines of blkparse's text and of block tracepoints. See blk_read.h.
 *
 *        7,0    1        1     0.000000000 12069  Q  RS 4936 + 8 [fio]                                        blkparse
 *      fio-12069   [001] .....  1498.962318: block_rq_insert: 7,0 RS 4096 () 4936 + 8 be,0,4 [fio]            tracefs, trace-cmd
 *      fio 12069 [001]  1498.962318: block:block_rq_insert: 7,0 RS 4096 () 4936 + 8 [fio]                     perf script
 *
 * Tracepoint formats grew fields over the years (the priority; rwbs of 8, 9, 10 letters): fields are found by their shape.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tui/blk_read.h"

struct scan {
        const char *at, *end;
};

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_letter(char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); }

static void blanks(struct scan *scan)
{
        while (scan->at < scan->end && *scan->at == ' ')
                scan->at++;
}

static bool take(struct scan *scan, char c)
{
        if (scan->at >= scan->end || *scan->at != c)
                return false;
        scan->at++;
        return true;
}

static bool number(struct scan *scan, uint64_t *value)
{
        uint64_t sum = 0;

        if (scan->at >= scan->end || !is_digit(*scan->at))
                return false;
        for (; scan->at < scan->end && is_digit(*scan->at); scan->at++) {
                unsigned digit = (unsigned)(*scan->at - '0');
                if (sum > (UINT64_MAX - digit) / 10)
                        return false;
                sum = sum * 10 + digit;
        }
        *value = sum;
        return true;
}

static bool number32(struct scan *scan, uint32_t *value)
{
        uint64_t wide;

        if (!number(scan, &wide) || wide > UINT32_MAX)
                return false;
        *value = (uint32_t)wide;
        return true;
}

/* "MAJOR,MINOR". */
static bool device(struct scan *scan, uint32_t *value)
{
        uint32_t major, minor;

        if (!number32(scan, &major) || !take(scan, ',') || !number32(scan, &minor) || major >= 1 << 12 || minor >= 1 << 20)
                return false;
        *value = major << 20 | minor;
        return true;
}

/* "1498.962318": up to nine digits behind the point. */
static bool seconds(struct scan *scan, uint64_t *ns)
{
        uint64_t whole, unit = 100000000;

        if (!number(scan, &whole) || whole > UINT64_MAX / 1000000000 - 1 || !take(scan, '.') || scan->at >= scan->end ||
                !is_digit(*scan->at))
                return false;
        *ns = whole * 1000000000;
        for (; scan->at < scan->end && is_digit(*scan->at); scan->at++, unit /= 10)
                *ns += unit * (uint64_t)(*scan->at - '0');
        return true;
}

static bool rwbs(struct scan *scan, struct blk_record *record)
{
        size_t length = 0;

        while (scan->at + length < scan->end && is_letter(scan->at[length]))
                length++;
        if (length == 0 || length >= sizeof record->rwbs)
                return false;
        memcpy(record->rwbs, scan->at, length);
        record->rwbs[length] = '\0';
        scan->at += length;
        return stage_rwbs(record->rwbs, length, &record->event);
}

/* What is in the last brackets: a name (which may hold anything), or an error. */
static void brackets(struct scan *scan, struct blk_record *record, char name[BLK_NAME])
{
        const char *open = memchr(scan->at, '[', (size_t)(scan->end - scan->at)), *close = scan->end - 1;

        if (open == NULL)
                return;
        while (close > open && *close != ']')
                close--;
        struct scan inside = {.at = open + 1, .end = close > open ? close : open + 1};
        if (record->event.action == STAGE_C || record->event.action == STAGE_R) {
                uint32_t error;
                bool minus = take(&inside, '-');
                if (number32(&inside, &error) && error < 1 << 15)
                        record->event.error = minus ? -(int32_t)error : (int32_t)error;
                return;
        }
        size_t length = (size_t)(inside.end - inside.at);
        if (length == 0 || (length == 6 && memcmp(inside.at, "(null)", 6) == 0))
                return;
        if (length > BLK_NAME - 1)
                length = BLK_NAME - 1;
        memcpy(name, inside.at, length);
        name[length] = '\0';
        if (close + 1 < scan->end && (record->event.action == STAGE_U || record->event.action == STAGE_UT)) {
                struct scan count = {.at = close + 1, .end = scan->end};
                blanks(&count);
                number(&count, &record->event.other);
        }
}

/* From the sector on: "S + N", "S / T", "S + N <- (M,m) T", "S" of blkparse's empty ones, and nothing. */
static bool place(struct scan *scan, struct blk_record *record)
{
        struct stage_event *event = &record->event;

        blanks(scan);
        if (scan->at >= scan->end || *scan->at == '[')
                return event->action != STAGE_X && event->action != STAGE_A;
        if (!number(scan, &event->sector))
                return false;
        blanks(scan);
        if (event->action == STAGE_X) {
                if (!take(scan, '/'))
                        return false;
                blanks(scan);
                event->sectors = 1; /* it has a place; its length is in nobody's text */
                return number(scan, &event->other);
        }
        if (take(scan, '+')) {
                blanks(scan);
                if (!number32(scan, &event->sectors))
                        return false;
        }
        if (event->action != STAGE_A)
                return true;
        blanks(scan);
        if (!take(scan, '<') || !take(scan, '-'))
                return false;
        blanks(scan);
        if (!take(scan, '(') || !device(scan, &event->other_device) || !take(scan, ')'))
                return false;
        blanks(scan);
        return number(scan, &event->other);
}

/* ---- blkparse ------------------------------------------------------------------------------------------------------------------------ */

static uint8_t letter_action(const char *letters, size_t length)
{
        static const struct { char letter; uint8_t action; } actions[] = {{'Q', STAGE_Q}, {'G', STAGE_G}, {'I', STAGE_I}, {'D', STAGE_D},
                {'C', STAGE_C}, {'M', STAGE_M}, {'F', STAGE_F}, {'R', STAGE_R}, {'X', STAGE_X}, {'A', STAGE_A}, {'P', STAGE_P},
                        {'U', STAGE_U}};

        if (length == 2 && memcmp(letters, "UT", 2) == 0)
                return STAGE_UT;
        for (size_t i = 0; length == 1 && i < sizeof actions / sizeof *actions; i++)
                if (actions[i].letter == *letters)
                        return actions[i].action;
        return STAGE_ACTIONS;
}

static enum blk_line dump_line(struct scan *scan, struct blk_record *record, char name[BLK_NAME])
{
        struct stage_event *event = &record->event;
        uint64_t sequence;

        if (!device(scan, &event->device))
                return BLK_LINE_OTHER;
        blanks(scan);
        if (!number32(scan, &record->cpu))
                return BLK_LINE_BAD;
        blanks(scan);
        if (!number(scan, &sequence)) /* blkparse's own count, also of what was filtered: says nothing of losses */
                return BLK_LINE_BAD;
        blanks(scan);
        if (!seconds(scan, &event->time))
                return BLK_LINE_BAD;
        blanks(scan);
        if (!number32(scan, &event->pid))
                return BLK_LINE_BAD;
        blanks(scan);
        size_t length = 0;
        while (scan->at + length < scan->end && is_letter(scan->at[length]))
                length++;
        event->action = letter_action(scan->at, length);
        if (event->action == STAGE_ACTIONS)
                return length > 0 && length < 3 ? BLK_LINE_OTHER : BLK_LINE_BAD; /* m a message, S, B */
        scan->at += length;
        blanks(scan);
        bool plug = event->action == STAGE_P || event->action == STAGE_U || event->action == STAGE_UT;
        if (plug && scan->at < scan->end && *scan->at == '[') /* of no operation: "N", or nothing */
                memcpy(record->rwbs, "N", 2);
        else if (!rwbs(scan, record))
                return BLK_LINE_BAD;
        struct scan ahead = *scan;
        uint64_t bytes;
        blanks(&ahead);
        if (number(&ahead, &bytes))
                blanks(&ahead);
        if (ahead.at < ahead.end && *ahead.at == '(' && event->action != STAGE_A) { /* "36 (12 00 ..)": a command */
                event->flags |= STAGE_PASSTHROUGH;
                event->sectors = 1;
                brackets(scan, record, name);
                return BLK_LINE_EVENT;
        }
        if (!plug && !place(scan, record))
                return BLK_LINE_BAD;
        brackets(scan, record, name);
        return BLK_LINE_EVENT;
}

/* ---- tracepoints ------------------------------------------------------------------------------------------------------------------- */

static const struct tracepoint { const char *name; uint8_t action; } tracepoints[] = {
        {"block_bio_queue", STAGE_Q}, {"block_getrq", STAGE_G}, {"block_rq_insert", STAGE_I}, {"block_rq_issue", STAGE_D},
        {"block_rq_complete", STAGE_C}, {"block_bio_complete", STAGE_C}, {"block_bio_backmerge", STAGE_M},
                {"block_bio_frontmerge", STAGE_F},
        {"block_rq_merge", STAGE_MERGE}, {"block_rq_requeue", STAGE_R}, {"block_split", STAGE_X}, {"block_bio_remap", STAGE_A},
        {"block_rq_remap", STAGE_A}, {"block_plug", STAGE_P}, {"block_unplug", STAGE_U},
};

static const struct tracepoint *find_tracepoint(const char *at, size_t length)
{
        for (size_t i = 0; i < sizeof tracepoints / sizeof *tracepoints; i++)
                if (strlen(tracepoints[i].name) == length && memcmp(tracepoints[i].name, at, length) == 0)
                        return &tracepoints[i];
        return NULL;
}

/* What stands before the event's name: "TASK-PID (TGID) [CPU] FLAGS TIME: ". */
static bool before(const char *line, const char *at, struct blk_record *record)
{
        const char *end = at;

        if (end - line > 6 && memcmp(end - 6, "block:", 6) == 0)
                end -= 6;
        while (end > line && end[-1] == ' ')
                end--;
        if (end == line || *--end != ':')
                return false;
        const char *from = end;
        while (from > line && (is_digit(from[-1]) || from[-1] == '.'))
                from--;
        struct scan time = {.at = from, .end = end};
        if (!seconds(&time, &record->event.time) || time.at != end)
                return false;
        const char *close = from;
        while (close > line && !(close[-1] == ']' && close - line > 2 && is_digit(close[-2])))
                close--;
        if (close == line)
                return false;
        const char *open = close - 1;
        while (open > line && is_digit(open[-1]))
                open--;
        struct scan cpu = {.at = open, .end = close - 1};
        if (open == line || open[-1] != '[' || !number32(&cpu, &record->cpu))
                return false;
        for (open--; open > line && open[-1] == ' '; open--)
                ;
        if (open > line && open[-1] == ')') { /* the thread group */
                while (open > line && *open != '(')
                        open--;
                while (open > line && open[-1] == ' ')
                        open--;
        }
        from = open;
        while (from > line && is_digit(from[-1]))
                from--;
        struct scan pid = {.at = from, .end = open};
        return number32(&pid, &record->event.pid);
}

static enum blk_line after(struct scan *scan, struct blk_record *record, char name[BLK_NAME])
{
        struct stage_event *event = &record->event;
        struct scan ahead;
        uint64_t bytes = 0;

        blanks(scan);
        if (event->action == STAGE_P || event->action == STAGE_U) { /* they have no device */
                memcpy(record->rwbs, "N", 2);
                brackets(scan, record, name);
                return BLK_LINE_EVENT;
        }
        if (!device(scan, &event->device))
                return BLK_LINE_BAD;
        blanks(scan);
        if (!rwbs(scan, record))
                return BLK_LINE_BAD;
        blanks(scan);
        ahead = *scan;
        if (number(&ahead, &bytes))
                blanks(&ahead);
        if (ahead.at < ahead.end && *ahead.at == '(' && event->action != STAGE_A) { /* a request: [bytes] (command) */
                const char *close = memchr(ahead.at, ')', (size_t)(ahead.end - ahead.at));
                if (close == NULL)
                        return BLK_LINE_BAD;
                if (close > ahead.at + 1)
                        event->flags |= STAGE_PASSTHROUGH;
                scan->at = close + 1;
        }
        if (!place(scan, record))
                return BLK_LINE_BAD;
        if (event->flags & STAGE_FLUSH_OP)
                event->sector = 0; /* -1 at its end */
        brackets(scan, record, name);
        return BLK_LINE_EVENT;
}

/* "CPU:1 [LOST 123 EVENTS]" and "# entries-in-buffer/entries-written: 100/4000   #P:2". */
static enum blk_line loss(struct scan *scan, struct blk_record *record)
{
        static const char lost[] = "[LOST ", entries[] = "entries-in-buffer/entries-written: ";
        size_t length = (size_t)(scan->end - scan->at);
        const char *at = memmem(scan->at, length, lost, sizeof lost - 1);
        uint64_t kept;

        if (at && length > 4 && memcmp(scan->at, "CPU:", 4) == 0) {
                scan->at = at + sizeof lost - 1;
                return number(scan, &record->lost) ? BLK_LINE_LOST : BLK_LINE_BAD;
        }
        at = *scan->at == '#' ? memmem(scan->at, length, entries, sizeof entries - 1) : NULL;
        if (at) {
                scan->at = at + sizeof entries - 1;
                if (number(scan, &kept) && take(scan, '/') && number(scan, &record->lost) && record->lost > kept) {
                        record->lost -= kept;
                        return BLK_LINE_OVERWRITTEN;
                }
        }
        return BLK_LINE_OTHER;
}

enum blk_line blk_parse_line(const char *line, size_t length, struct blk_record *record, char name[BLK_NAME])
{
        struct scan scan = {.at = line, .end = line + length};

        *record = (struct blk_record){0};
        name[0] = '\0';
        while (scan.end > scan.at && (scan.end[-1] == '\r' || scan.end[-1] == ' '))
                scan.end--;
        blanks(&scan);
        if (scan.at == scan.end)
                return BLK_LINE_OTHER;
        if (is_digit(*scan.at)) {
                enum blk_line kind = dump_line(&scan, record, name);
                if (kind != BLK_LINE_OTHER)
                        return kind;
        }
        scan.at = line;
        for (const char *at = line; (at = memmem(at, (size_t)(scan.end - at), "block_", 6)) != NULL; at += 6) {
                size_t used = 0;
                while (at + used < scan.end && at[used] != ':' && at[used] != ' ')
                        used++;
                if (at + used >= scan.end || at[used] != ':' || !before(line, at, record))
                        continue;
                const struct tracepoint *point = find_tracepoint(at, used);
                if (point == NULL)
                        return BLK_LINE_OTHER; /* block_io_start and the like */
                record->event.action = point->action;
                record->event.flags = strncmp(point->name, "block_rq_", 9) == 0 ? STAGE_OF_REQUEST : 0;
                scan.at = at + used + 1;
                return after(&scan, record, name);
        }
        blanks(&scan);
        return loss(&scan, record);
}

/* ---- blkparse's letters ------------------------------------------------------------------------------------------------------------- */

size_t blk_format(char *out, size_t size, const struct blk_record *record, uint64_t start)
{
        const struct stage_event *event = &record->event;
        uint64_t time = event->time > start ? event->time - start : 0;
        char action[3] = {stage_letter(event->action), event->action == STAGE_UT ? 'T' : '\0', '\0'}, tail[96] = "",
                name[BLK_NAME + 4] = "";

        if (event->action == STAGE_C || event->action == STAGE_R)
                snprintf(name, sizeof name, " [%d]", event->error);
        else if (event->action != STAGE_A)
                snprintf(name, sizeof name, " [%.15s]", event->name && event->name[0] ? event->name : "-");
        if (event->action == STAGE_P || event->action == STAGE_U || event->action == STAGE_UT || event->flags & STAGE_PASSTHROUGH)
                tail[0] = '\0';
        else if (event->action == STAGE_X)
                snprintf(tail, sizeof tail, " %" PRIu64 " / %" PRIu64, event->sector, event->other);
        else if (event->action == STAGE_A)
                snprintf(tail, sizeof tail, " %" PRIu64 " + %" PRIu32 " <- (%" PRIu32 ",%" PRIu32 ") %" PRIu64, event->sector,
                        event->sectors,
                        event->other_device >> 20, event->other_device & 0xfffff, event->other);
        else if (event->sectors)
                snprintf(tail, sizeof tail, " %" PRIu64 " + %" PRIu32, event->sector, event->sectors);
        else if (event->action == STAGE_C || event->action == STAGE_R)
                snprintf(tail, sizeof tail, " %" PRIu64, event->sector);
        int n = snprintf(out, size,
                "%3" PRIu32 ",%-3" PRIu32 " %2" PRIu32 " %8" PRIu32 " %5" PRIu64 ".%09" PRIu64 " %5" PRIu32 " %2s %3s%s%s",
                event->device >> 20, event->device & 0xfffff, record->cpu, record->sequence, time / 1000000000, time % 1000000000,
                        event->pid, action,
                record->rwbs[0] ? record->rwbs : "N", tail, name);
        if (n > 0 && (event->action == STAGE_U || event->action == STAGE_UT) && (size_t)n < size)
                n += snprintf(out + n, size - (size_t)n, " %" PRIu64, event->other);
        return n < 0 ? 0 : (size_t)n < size ? (size_t)n : size - 1;
}
