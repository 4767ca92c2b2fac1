/*
 * Output that was made elsewhere (a load generator on another machine), joined to the phases of a recording: by time stamps at its lines'
 * starts, or by marks, lines that are a phase's name ("bench_01", "== bench_01 ==", "bench_01:"). The n-th mark of a name is its n-th
 * round.
 *
 * Where marks have time stamps too, the two clocks' offset is known: the median of (phase's start - mark's time) over all marks.
 */
#include "tui/report_make.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { FILE_MAX = 64 << 20 };

/* A regular file or a pipe, at most FILE_MAX bytes. */
static int read_file(const char *path, char **text, size_t *length)
{
        int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY), r = 0;
        size_t room = 1 << 16;
        struct stat st;

        *length = 0;
        if (fd < 0)
                return -errno;
        if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode))
                r = -EISDIR;
        *text = malloc(room);
        while (r == 0 && *text) {
                if (*length == room) {
                        char *grown = room < FILE_MAX ? realloc(*text, room * 2) : NULL;
                        if (!grown) {
                                r = room < FILE_MAX ? -ENOMEM : -EFBIG;
                                break;
                        }
                        *text = grown;
                        room *= 2;
                }
                ssize_t n = read(fd, *text + *length, room - *length);
                if (n <= 0) {
                        r = n < 0 ? -errno : 0;
                        break;
                }
                *length += (size_t)n;
        }
        close(fd);
        r = *text ? r : -ENOMEM;
        if (r < 0) {
                free(*text);
                *text = NULL;
        }
        return r;
}

static bool is_blank(char c)
{
        return c == ' ' || c == '\t' || c == '\r';
}

/* The line without what makes it a mark: blanks and '=' around, or ':' behind. */
static void bare(const char **line, size_t *length)
{
        const char *at = *line, *end = at + *length;

        while (at < end && is_blank(*at))
                at++;
        while (end > at && is_blank(end[-1]))
                end--;
        if (end - at > 4 && at[0] == '=' && at[1] == '=' && end[-1] == '=' && end[-2] == '=') {
                while (at < end && (*at == '=' || is_blank(*at)))
                        at++;
                while (end > at && (end[-1] == '=' || is_blank(end[-1])))
                        end--;
        } else if (end > at && end[-1] == ':') {
                end--;
        }
        *line = at;
        *length = (size_t)(end - at);
}

/* The phase that this line begins: the next round of its name. -1: the line is no mark, -2: it ends one. */
static int mark_of(const struct report *report, unsigned *rounds, const char *line, size_t length)
{
        int last = -1;

        bare(&line, &length);
        if (length == 0)
                return -1;
        if (length == 3 && memcmp(line, "end", 3) == 0)
                return -2;
        for (size_t i = 0; i < report->phase_count; i++) {
                const struct report_phase *phase = &report->phases[i];
                bool named = strlen(phase->name) == length && memcmp(phase->name, line, length) == 0;
                if (strlen(phase->title) == length && memcmp(phase->title, line, length) == 0 && phase->round > 1)
                        return (int)i;
                if (!named)
                        continue;
                last = (int)i;
                if (!rounds[i]) {
                        rounds[i] = 1;
                        return (int)i;
                }
        }
        return last; /* oftener than there are rounds: the last one */
}

/* `"timestamp_ms" : 1764547200123,`: when fio wrote this object. "timestamp" is the same in seconds, for fio that has no other. */
static bool json_time(const char *line, size_t length, double *time)
{
        static const struct { const char *key; double unit; } keys[] = {{"\"timestamp_ms\"", 1e-3}, {"\"timestamp\"", 1}};
        const char *end = line + length;

        while (line < end && is_blank(*line))
                line++;
        for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
                size_t key = strlen(keys[i].key);
                const char *at = line + key;
                double value = 0;
                if ((size_t)(end - line) <= key || memcmp(line, keys[i].key, key) != 0)
                        continue;
                while (at < end && (is_blank(*at) || *at == ':'))
                        at++;
                const char *digits = at;
                for (; at < end && *at >= '0' && *at <= '9' && at - digits < 15; at++)
                        value = value * 10 + (*at - '0');
                *time = value * keys[i].unit;
                return at > digits;
        }
        return false;
}

/* An object's time stands within it, its results at its start: all its lines get it, from the last `{` at a line's start on. */
static void stamp_object(struct report_joined *joined, double time)
{
        size_t i = joined->stamp_count;

        while (i > 0 && joined->text[joined->stamps[i - 1].offset] != '{')
                i--;
        if (i == 0)
                return;
        for (i--; i < joined->stamp_count; i++)
                joined->stamps[i].time = time;
}

static int add_line(struct report_maker *maker, struct report_joined *joined, const char *line, size_t length, unsigned *rounds, int year,
                    size_t *room)
{
        const struct report_stamp *before = joined->stamp_count ? &joined->stamps[joined->stamp_count - 1] : NULL;
        struct report_stamp stamp = {.offset = joined->length, .time = before ? before->time : NAN, .phase = before ? before->phase : -1};
        double time;
        size_t skip = report_time_parse(line, length, year, &time);

        if (skip > 0)
                stamp.time = time;
        int mark = mark_of(maker->report, rounds, line + skip, length - skip);
        if (mark != -1)
                stamp.phase = mark;
        stamp.mark = mark >= 0 && skip > 0;
        if (joined->stamp_count == *room) {
                struct report_stamp *grown = reallocarray(joined->stamps, *room * 2 + 64, sizeof *grown);
                if (!grown)
                        return -ENOMEM;
                joined->stamps = grown;
                *room = *room * 2 + 64;
        }
        joined->stamps[joined->stamp_count++] = stamp;
        memmove(joined->text + joined->length, line + skip, length - skip);
        joined->length += length - skip;
        if (skip == 0 && json_time(joined->text + stamp.offset, length, &time))
                stamp_object(joined, time);
        return 0;
}

static int by_value(const void *left, const void *right)
{
        double a = *(const double *)left, b = *(const double *)right;

        return a < b ? -1 : a > b;
}

static int estimate_offset(const struct report *report, struct report_source *source, const struct report_joined *joined)
{
        double *distances = malloc((joined->stamp_count + 1) * sizeof *distances);
        size_t count = 0;

        if (!distances)
                return -ENOMEM;
        source->offset_spread = NAN;
        for (size_t i = 0; i < joined->stamp_count; i++) {
                const struct report_stamp *s = &joined->stamps[i];
                if (s->phase >= 0 && (i == 0 || joined->stamps[i - 1].phase != s->phase)) {
                        source->marks++;
                        if (s->mark && !isnan(s->time))
                                distances[count++] = (double)report->phases[s->phase].full.from_real_ns * 1e-9 - s->time;
                }
        }
        if (count > 0 && !source->offset_given) {
                qsort(distances, count, sizeof *distances, by_value);
                source->offset = count % 2 ? distances[count / 2] : (distances[count / 2 - 1] + distances[count / 2]) / 2;
                source->offset_known = true;
                if (count > 1)
                        source->offset_spread = fmax(source->offset - distances[0], distances[count - 1] - source->offset);
        }
        source->by_marks = source->marks > 0;
        free(distances);
        return 0;
}

int report_join_read(struct report_maker *maker, struct report_source *source, struct report_joined *joined)
{
        const struct report *report = maker->report;
        time_t start = (time_t)(report->first_real_ns / 1000000000);
        unsigned *rounds = calloc(report->phase_count + 1, sizeof *rounds);
        size_t length = 0, room = 0;
        char *text = NULL;
        struct tm tm = {0};
        int r = rounds ? read_file(source->path, &text, &length) : -ENOMEM;

        localtime_r(&start, &tm);
        joined->text = text; /* stamps only ever go: the text is written over itself */
        for (size_t at = 0; r == 0 && at < length; ) {
                size_t end = at;
                while (end < length && text[end] != '\n' && text[end] != '\r')
                        end++;
                r = add_line(maker, joined, text + at, end - at, rounds, tm.tm_year + 1900, &room);
                if (end < length)
                        joined->text[joined->length++] = text[end];
                at = end + 1;
        }
        source->bytes = length;
        free(rounds);
        return r < 0 ? r : estimate_offset(report, source, joined);
}

void report_join_free(struct report_joined *joined)
{
        free(joined->stamps);
        free(joined->text);
}

const struct report_stamp *report_join_at(const struct report_joined *joined, size_t offset)
{
        size_t low = 0, high = joined->stamp_count;

        while (low < high) {
                size_t middle = (low + high) / 2;
                if (joined->stamps[middle].offset <= offset)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low ? &joined->stamps[low - 1] : NULL;
}
