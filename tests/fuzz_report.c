/*
 * A report of a log whose notes are anything, joined with output that is anything: what runs, members, output, its index and a client's
 * file say is strangers' bytes. Input: those, separated by 0x1e. Every format is written.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/report_log.h"
#include "tui/report.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t fuzz_seed(unsigned number, uint8_t *buffer, size_t size);

enum { PIECES = 9 };
static const char *const notes[PIECES - 1] = {"runs", "members", "watched", "output.index", "output.info", "output", "cost", "label"};

static char folder[64], path[96], joined[96];

static void clean_up(void)
{
        unlink(path);
        unlink(joined);
        rmdir(folder);
}

static void set_up(void)
{
        snprintf(folder, sizeof folder, "%s/watop-fuzz.XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
        if (!mkdtemp(folder))
                abort();
        snprintf(path, sizeof path, "%s/log", folder);
        snprintf(joined, sizeof joined, "%s/client", folder);
        atexit(clean_up);
}

static void write_log(const uint8_t *const piece[PIECES], const size_t length[PIECES])
{
        static struct report_log l;

        memset(&l, 0, sizeof l);
        if (log_create(path, &(struct log_create_options){.force = true}, &l.writer) < 0)
                abort();
        sealed_open(&l.s);
        report_log_frame(&l, 0, 1000, 50, NULL);
        report_log_frame(&l, 0, 100, 50, "a");
        for (int i = 0; i < 4; i++)
                report_log_frame(&l, 0, 1000, i % 3 ? 100 : 10, NULL);
        report_log_frame(&l, 0, 300, 50, "b");
        report_log_frame(&l, 1, 1000, 50, NULL);
        report_log_frame(&l, 1, 1000, 50, "a");
        report_log_frame(&l, 1, 1000, 50, "end");
        for (int i = 0; i < PIECES - 1; i++)
                if (length[i] > 0 && log_note(l.writer, notes[i], piece[i], length[i]) < 0)
                        abort();
        sealed_close(&l.s);
        if (log_finish(l.writer) < 0)
                abort();
        FILE *f = fopen(joined, "w");
        if (!f || fwrite(piece[PIECES - 1], 1, length[PIECES - 1], f) != length[PIECES - 1] || fclose(f) != 0)
                abort();
}

static void write_all(const struct report *report)
{
        static const enum report_format formats[] = {REPORT_TEXT, REPORT_MARKDOWN};
        char *text = NULL;
        size_t size = 0;
        FILE *out = open_memstream(&text, &size);

        if (!out)
                abort();
        for (size_t i = 0; i < 2; i++)
                if (report_text(report, formats[i], &(struct report_shape){.width = 80, .only = -1, .spread = true, .verbose = true},
                                out) < 0)
                        abort();
        if (report_csv(report, &(struct report_shape){.only = REPORT_TABLE_RESULTS}, out) < 0 ||
            report_json(report, &(struct report_shape){.only = -1, .spread = true}, out) < 0 ||
            report_html(report, out) < 0)
                abort();
        fclose(out);
        if (memchr(text, '\033', size) || memchr(text, '\0', size)) /* nothing steers a terminal */
                abort();
        free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        const uint8_t *piece[PIECES];
        size_t length[PIECES] = {0}, at = 0;
        struct report *report;
        char why[512];

        if (folder[0] == '\0')
                set_up();
        for (int i = 0; i < PIECES; i++) {
                const uint8_t *end = i + 1 < PIECES ? memchr(data + at, 0x1e, size - at) : NULL;
                piece[i] = data + at;
                length[i] = end ? (size_t)(end - data) - at : size - at;
                at += length[i] + (end != NULL);
        }
        write_log(piece, length);
        int r = report_open(path, &(struct report_options){.join = {joined}, .join_count = 1}, &report, why, sizeof why);
        if (r == 0)
                write_all(report);
        else if (memchr(why, '\0', sizeof why) == NULL)
                abort();
        report_close(report);
        return 0;
}

size_t fuzz_seed(unsigned number, uint8_t *buffer, size_t size)
{
        static const char *const seeds[] = {
                "2 7 1 0 1000 2000 3 4 a\n\0362 rule\n5 5\n\036rule watched\n100 5\n\0361002000000000 0 1\n1003000000000 10 1\n"
                "\036path x\nnote_offset 0\n\036SET: 5.0 requests per second\r\nSET: 6.0 requests per second\n"
                "\036watop_cpu_ns 5\nwall_ns 100\n\036label\036== a ==\n1700001502.5 SET: 7.0 requests per second\nb:\n"
                "2026-11-30T19:36:29Z SET: 8.0 requests per second, p50=1 msec\nend\n",
                "2 7\n\036rule ancestry may be incomplete\n\036\0361002000000000 0 1\n\036note_offset 99\n"
                "\036Run status group 0 (all jobs):\n"
                "   READ: bw=1, run=1-8001msec\n\036\036\036Mon Nov 30 19:36:29 UTC 2026 a\nx\n",
        };

        if (number >= sizeof seeds / sizeof *seeds || size < strlen(seeds[number]))
                return 0;
        memcpy(buffer, seeds[number], strlen(seeds[number]));
        return strlen(seeds[number]);
}
