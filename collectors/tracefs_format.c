/*
 * Where fields are: tracefs' own descriptions of its events and pages. Contract: tracefs_own.h.
 *
 *      ID: 1131
 *              field:unsigned short common_type;       offset:0;       size:2; signed:0;
 *              field:char rwbs[10];    offset:28;      size:10;        signed:0;
 *              field:__data_loc char[] cmd;    offset:60;      size:4; signed:0;
 *
 * Lines that are not of this form are passed over; a field that stands twice counts once, as first told.
 */
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "collectors/tracefs_own.h"

static const char *const names[FIELD_COUNT] = {
        [FIELD_TYPE] = "common_type", [FIELD_PID] = "common_pid", [FIELD_DEV] = "dev", [FIELD_SECTOR] = "sector",
        [FIELD_SECTORS] = "nr_sector", [FIELD_RWBS] = "rwbs", [FIELD_COMM] = "comm", [FIELD_ERROR] = "error",
        [FIELD_NEW_SECTOR] = "new_sector", [FIELD_OLD_DEV] = "old_dev", [FIELD_OLD_SECTOR] = "old_sector", [FIELD_REQUESTS] = "nr_rq",
        [FIELD_COMMAND] = "cmd", [FIELD_FD] = "fd", [FIELD_RESULT] = "ret",
};

struct line {
        const char *at, *end;
};

/* The next line, without its end; false after the last. */
static bool next_line(struct line *rest, struct line *line)
{
        if (rest->at >= rest->end)
                return false;
        const char *stop = memchr(rest->at, '\n', (size_t)(rest->end - rest->at));
        *line = (struct line){rest->at, stop ? stop : rest->end};
        rest->at = stop ? stop + 1 : rest->end;
        return true;
}

static bool take(struct line *line, const char *word)
{
        size_t length = strlen(word);

        while (line->at < line->end && (*line->at == ' ' || *line->at == '\t'))
                line->at++;
        if ((size_t)(line->end - line->at) < length || memcmp(line->at, word, length) != 0)
                return false;
        line->at += length;
        return true;
}

static bool number(struct line *line, uint64_t most, uint64_t *value)
{
        uint64_t sum = 0;
        bool any = false;

        while (line->at < line->end && *line->at == ' ')
                line->at++;
        for (; line->at < line->end && *line->at >= '0' && *line->at <= '9'; line->at++, any = true) {
                uint64_t digit = (uint64_t)(*line->at - '0');
                if (digit > most || sum > (most - digit) / 10)
                        return false;
                sum = sum * 10 + digit;
        }
        *value = sum;
        return any;
}

/* "field:TYPE NAME[N]; offset:N; size:N; signed:N;": the name's bounds and the place. */
static bool field(struct line line, struct line *name, struct tracefs_place *place)
{
        uint64_t offset, size, is_signed = 0;

        if (!take(&line, "field:"))
                return false;
        const char *stop = memchr(line.at, ';', (size_t)(line.end - line.at));
        if (stop == NULL)
                return false;
        const char *end = stop;
        if (end > line.at && end[-1] == ']') /* an array's bounds; those of "__data_loc char[] cmd" stand before the name */
                while (end > line.at && *end != '[')
                        end--;
        const char *from = end;
        while (from > line.at && (isalnum((unsigned char)from[-1]) || from[-1] == '_'))
                from--;
        *name = (struct line){from, end};
        line.at = stop + 1;
        if (!take(&line, "offset:") || !number(&line, UINT16_MAX, &offset) || !take(&line, ";") || !take(&line, "size:") ||
                !number(&line, UINT16_MAX, &size) || !take(&line, ";"))
                return false;
        if (take(&line, "signed:")) /* since 2.6.33 */
                number(&line, 1, &is_signed);
        *place = (struct tracefs_place){.offset = (uint16_t)offset, .size = (uint16_t)size, .is_signed = is_signed != 0};
        return from < end;
}

static bool is(struct line name, const char *word)
{
        return (size_t)(name.end - name.at) == strlen(word) && memcmp(name.at, word, strlen(word)) == 0;
}

/* Letters and names are arrays, everything else a number. */
static bool fits(int i, struct tracefs_place place)
{
        if (i == FIELD_RWBS || i == FIELD_COMM)
                return place.size > 0 && place.size <= 256;
        return place.size == 1 || place.size == 2 || place.size == 4 || place.size == 8;
}

int tracefs_parse_format(const char *text, size_t length, struct tracefs_format *format)
{
        struct tracefs_format found = {0};
        struct line rest = {text, text + length}, line, name;
        struct tracefs_place place;
        uint64_t id = 0;
        bool has_id = false;

        while (next_line(&rest, &line)) {
                struct line word = line;
                if (!has_id && take(&word, "ID:"))
                        has_id = number(&word, UINT16_MAX, &id);
                if (!field(line, &name, &place))
                        continue;
                for (int i = 0; i < FIELD_COUNT; i++)
                        if (found.field[i].size == 0 && fits(i, place) &&
                                (is(name, names[i]) || (i == FIELD_ERROR && is(name, "errors")))) /* "errors" before 4.14 */
                                found.field[i] = place;
        }
        if (!has_id || found.field[FIELD_TYPE].size != 2 || found.field[FIELD_PID].size != 4)
                return -EBADMSG;
        found.id = (uint16_t)id;
        *format = found;
        return 0;
}

int tracefs_parse_header(const char *text, size_t length, struct tracefs_layout *layout)
{
        struct tracefs_layout found = {0};
        struct line rest = {text, text + length}, line, name;
        struct tracefs_place place;

        while (next_line(&rest, &line)) {
                if (!field(line, &name, &place))
                        continue;
                if (is(name, "timestamp"))
                        found.time = place;
                else if (is(name, "commit"))
                        found.commit = place;
                else if (is(name, "data"))
                        found.data = place;
        }
        if (found.time.size != 8 || (found.commit.size != 4 && found.commit.size != 8) || found.data.size < 64 ||
                found.time.offset + 8 > found.data.offset || found.commit.offset + found.commit.size > found.data.offset)
                return -EBADMSG;
        *layout = found;
        return 0;
}

void tracefs_parse_stats(const char *text, size_t length, uint64_t *overwritten, uint64_t *refused)
{
        struct line rest = {text, text + length}, line;
        uint64_t value;

        *overwritten = *refused = 0;
        while (next_line(&rest, &line)) {
                if (take(&line, "overrun:") && number(&line, UINT64_MAX, &value))
                        *overwritten = value;
                else if ((take(&line, "commit overrun:") || take(&line, "dropped events:")) && number(&line, UINT64_MAX, &value))
                        *refused += value;
        }
}
