/*
 * A list of phases, and the texts of marks. Contract: record.h.
 */
#include "tui/record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LIST_MAX = 1 << 20 };

size_t record_clean_text(char *out, size_t size, const char *text, size_t length)
{
        size_t most = size - 1 < RECORD_TEXT ? size - 1 : RECORD_TEXT, n = 0;

        while (length > 0 && (unsigned char)*text <= ' ') {
                text++;
                length--;
        }
        for (; n < length && n < most; n++) {
                unsigned char byte = (unsigned char)text[n];
                out[n] = byte < ' ' || byte == 0x7f ? ' ' : (char)byte;
        }
        /* A character that was cut in two: its first byte goes as well. */
        if (n < length && ((unsigned char)text[n] & 0xc0) == 0x80) {
                while (n > 0 && ((unsigned char)out[n - 1] & 0xc0) == 0x80)
                        n--;
                n -= n > 0;
        }
        while (n > 0 && out[n - 1] == ' ')
                n--;
        out[n] = '\0';
        return n;
}

/* ---- --phases FILE ---------------------------------------------------------------------------------------------------------------- */

static char *trim(char *text)
{
        char *end = text + strlen(text);

        while (*text == ' ' || *text == '\t')
                text++;
        while (end > text && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r'))
                *--end = '\0';
        return text;
}

/* 1 a step, 0 nothing, -EBADMSG. A name may hold no ':' and must not be what ends phases. */
static int read_line(char *line, struct record_step *step)
{
        char clean[RECORD_TEXT + 1];

        line = trim(line);
        if (*line == '\0' || *line == '#')
                return 0;
        char *colon = strchr(line, ':');
        if (colon == NULL)
                return -EBADMSG;
        *colon = '\0';
        *step = (struct record_step){ .name = trim(line), .command = trim(colon + 1) };
        size_t length = strlen(step->name);
        if (length == 0 || *step->command == '\0' || strcmp(step->name, "end") == 0)
                return -EBADMSG;
        bool clean_already = record_clean_text(clean, sizeof clean, step->name, length) == length && memcmp(clean, step->name, length) == 0;
        return clean_already ? 1 : -EBADMSG;
}

int record_list_parse(struct record_list *list, const char *bytes, size_t length, size_t *line)
{
        size_t lines = 1, at_line = 0;

        *list = (struct record_list){ .count = 0 };
        for (size_t i = 0; i < length; i++)
                lines += bytes[i] == '\n';
        list->text = malloc(length + 1);
        list->source = malloc(length + 1);
        list->steps = calloc(lines, sizeof *list->steps);
        int r = list->text == NULL || list->source == NULL || list->steps == NULL ? -ENOMEM : 0;
        if (r == 0 && memchr(bytes, '\0', length) != NULL)
                r = -EBADMSG;
        if (r == 0) {
                memcpy(list->source, bytes, length);
                list->source_length = length;
                memcpy(list->text, bytes, length);
                list->text[length] = '\0';
        }
        for (char *at = list->text; r == 0 && at != NULL;) {
                char *next = strchr(at, '\n');
                if (next != NULL)
                        *next++ = '\0';
                at_line++;
                int got = read_line(at, &list->steps[list->count]);
                if (got < 0)
                        r = got;
                else
                        list->count += (size_t)got;
                at = next;
        }
        *line = at_line;
        if (r < 0)
                record_list_free(list);
        return r;
}

int record_list_read(struct record_list *list, const char *path, size_t *line)
{
        size_t length = 0;
        ssize_t n = 1;

        *list = (struct record_list){ .count = 0 };
        *line = 0;
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        char *bytes = malloc(LIST_MAX);
        int r = bytes != NULL ? 0 : -ENOMEM;
        while (r == 0 && n > 0 && length < LIST_MAX) {
                n = read(fd, bytes + length, LIST_MAX - length);
                if (n > 0)
                        length += (size_t)n;
                else if (n < 0)
                        r = -errno;
        }
        close(fd);
        if (r == 0)
                r = length == LIST_MAX ? -EFBIG : record_list_parse(list, bytes, length, line);
        free(bytes);
        return r;
}

void record_list_free(struct record_list *list)
{
        free(list->steps);
        free(list->text);
        free(list->source);
        *list = (struct record_list){ .count = 0 };
}
