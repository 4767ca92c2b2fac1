/*
 * Fuzzer of the sinks: whatever the bytes and the room, the result is terminated, within its room, and holds nothing that steers.
 */
#include <locale.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tui/clean.h"

size_t fuzz_seed(unsigned number, uint8_t *buffer, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
        if (!holds)
                abort();
}

static void no_controls(const char *text, size_t length, const char *allowed)
{
        for (size_t i = 0; i < length; i++) {
                unsigned char byte = (unsigned char)text[i];
                must((byte >= 0x20 && byte != 0x7f) || (byte && strchr(allowed, byte)));
                if (byte == 0xc2) /* C1 */
                        must((unsigned char)text[i + 1] >= 0xa0);
        }
}

/* Quotes are paired, and nothing follows the closing one. */
static void csv_is_whole(const char *text, size_t length)
{
        if (length == 0 || text[0] != '"') {
                must(!memchr(text, '"', length) && !memchr(text, ',', length) && !memchr(text, '\n', length));
                return;
        }
        size_t i = 1;
        while (i < length && (text[i] != '"' || (i + 1 < length && text[i + 1] == '"')))
                i += text[i] == '"' ? 2 : 1;
        must(i == length - 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static char out[1 << 19];
        const char *text = (const char *)data;

        setlocale(LC_CTYPE, "C.UTF-8");
        if (size > 4096)
                size = 4096;
        size_t rooms[] = {1, size % 40 + 1, size + 3, sizeof out};
        for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++) {
                for (int utf8 = 0; utf8 < 2; utf8++) {
                        size_t columns, most = i == 1 ? size / 2 : SIZE_MAX;
                        size_t n = clean_screen(out, rooms[i], text, size, utf8, most, &columns);
                        must(n < rooms[i] && out[n] == '\0' && strlen(out) == n && columns <= most);
                        no_controls(out, n, "");
                }
                size_t n = clean_json(out, rooms[i], text, size);
                must(n < rooms[i] && out[n] == '\0' && strlen(out) == n);
                no_controls(out, n, "");
                n = clean_csv(out, rooms[i], text, size);
                must(n < rooms[i] && out[n] == '\0' && strlen(out) == n);
                no_controls(out, n, "\t\r\n");
                csv_is_whole(out, n);
                n = clean_markdown(out, rooms[i], text, size);
                must(n < rooms[i] && out[n] == '\0' && strlen(out) == n && !strpbrk(out, "<>\"'"));
                no_controls(out, n, "");
                n = clean_html(out, rooms[i], text, size);
                must(n < rooms[i] && out[n] == '\0' && strlen(out) == n && !strpbrk(out, "<>\"'"));
                no_controls(out, n, "");
        }
        return 0;
}

size_t fuzz_seed(unsigned number, uint8_t *buffer, size_t size)
{
        static const char *const seeds[] = {
                "plain", "=1+1,\"a\"\n", "\x1b]0;title\x07", "caf\xc3\xa9 \xe6\xbc\xa2 \xf0\x9f\x90\x89",
                "\xc2\x9b[31m\xe2\x80\xae", "\xc0\xaf\xed\xa0\x80\xff",
        };

        if (number >= sizeof seeds / sizeof *seeds || size < 64)
                return 0;
        memcpy(buffer, seeds[number], strlen(seeds[number]));
        return strlen(seeds[number]);
}
