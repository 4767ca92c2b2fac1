/*
 * Text from strangers, made harmless. See clean.h.
 *
 * One decoder of UTF-8 serves all sinks; it takes only what RFC 3629 allows (no overlong forms, no surrogates, nothing above U+10FFFF), so
 * that no second decoder further down sees something else than we did. Characters that steer a terminal or turn the reading direction are
 * not text: C0, DEL, C1, the bidirectional and other invisible format characters.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <wchar.h>

#include "tui/clean.h"

/* Bytes of the character that this one begins, 0 when none begins so. */
static size_t bytes_of(unsigned char first)
{
        if (first < 0x80)
                return 1;
        if (first < 0xc2) /* a middle byte, or an overlong form */
                return 0;
        return first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
}

/* Bytes of the valid character at text, 0 when it is none; *point is its code point. */
static size_t decode(const unsigned char *text, size_t length, uint32_t *point)
{
        static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
        unsigned char first = text[0];
        size_t need = bytes_of(first);

        if (need == 0 || need > length)
                return 0;
        uint32_t value = need == 1 ? first : first & (0x7fu >> need);
        for (size_t i = 1; i < need; i++) {
                if ((text[i] & 0xc0) != 0x80)
                        return 0;
                value = value << 6 | (text[i] & 0x3fu);
        }
        if (value < least[need] || value > 0x10ffff || (value >= 0xd800 && value < 0xe000))
                return 0;
        *point = value;
        return need;
}

/* Steers instead of showing: never sent to a terminal as it is. */
static bool steers(uint32_t point)
{
        static const struct { uint32_t first, last; } ranges[] = {
                {0x00, 0x1f}, {0x7f, 0x9f}, {0xad, 0xad}, {0x61c, 0x61c}, {0x180e, 0x180e}, {0x200b, 0x200f}, {0x2028, 0x202e},
                {0x2060, 0x206f}, {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0xe0000, 0xe0fff},
        };

        for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
                if (point >= ranges[i].first && point <= ranges[i].last)
                        return true;
        return false;
}

struct out {
        char *at;
        size_t left; /* bytes that may still be written, the final NUL not counted */
};

/* All or nothing: an escape is never cut in the middle. */
static bool put(struct out *out, const char *bytes, size_t length)
{
        if (length > out->left)
                return false;
        memcpy(out->at, bytes, length);
        out->at += length;
        out->left -= length;
        return true;
}

static size_t escape_byte(char *buffer, unsigned char byte)
{
        static const char hex[] = "0123456789abcdef";

        memcpy(buffer, "\\x", 2);
        buffer[2] = hex[byte >> 4];
        buffer[3] = hex[byte & 15];
        return 4;
}

/* The next character of the text as the screen may show it: its bytes, and the columns they take. Returns the bytes of text used up. */
static size_t screen_piece(const unsigned char *text, size_t length, bool utf8, bool first, char piece[16], size_t *bytes, size_t *width)
{
        uint32_t point = 0;
        size_t used = decode(text, length, &point);

        if (used > 0 && !steers(point) && (point < 0x7f || utf8)) {
                int columns = point < 0x7f ? 1 : wcwidth((wchar_t)point);
                if (columns > 0 || (columns == 0 && !first)) { /* a combining mark must not grow on what stands before our text */
                        memcpy(piece, text, used);
                        *bytes = used;
                        *width = (size_t)columns;
                        return used;
                }
        }
        if (used == 0)
                used = 1;
        *bytes = 0;
        for (size_t i = 0; i < used; i++)
                *bytes += escape_byte(piece + *bytes, text[i]);
        *width = *bytes;
        return used;
}

size_t clean_screen(char *out, size_t size, const char *text, size_t length, bool utf8, size_t max_columns, size_t *columns)
{
        struct out sink = {out, size ? size - 1 : 0};
        size_t total = 0, used;

        for (size_t at = 0; at < length; at += used) {
                char piece[16];
                size_t bytes, width;

                used = screen_piece((const unsigned char *)text + at, length - at, utf8, at == 0, piece, &bytes, &width);
                if (width > max_columns - total || !put(&sink, piece, bytes))
                        break;
                total += width;
        }
        if (size)
                *sink.at = '\0';
        if (columns)
                *columns = total;
        return (size_t)(sink.at - out);
}

static size_t json_piece(const unsigned char *text, size_t length, char piece[16], size_t *bytes)
{
        uint32_t point = 0;
        size_t used = decode(text, length, &point);

        if (used == 0) {
                memcpy(piece, "\xef\xbf\xbd", 3); /* U+FFFD */
                *bytes = 3;
                return 1;
        }
        if (point == '"' || point == '\\') {
                piece[0] = '\\';
                piece[1] = (char)point;
                *bytes = 2;
        } else if (steers(point)) {
                if (point < 0x10000)
                        *bytes = (size_t)snprintf(piece, 16, "\\u%04x", (unsigned)point);
                else
                        *bytes = (size_t)snprintf(piece, 16, "\\u%04x\\u%04x", 0xd800u + ((point - 0x10000) >> 10),
                                                  0xdc00u + (point & 0x3ff));
        } else {
                memcpy(piece, text, used);
                *bytes = used;
        }
        return used;
}

size_t clean_json(char *out, size_t size, const char *text, size_t length)
{
        struct out sink = {out, size ? size - 1 : 0};
        size_t used;

        for (size_t at = 0; at < length; at += used) {
                char piece[16];
                size_t bytes;

                used = json_piece((const unsigned char *)text + at, length - at, piece, &bytes);
                if (!put(&sink, piece, bytes))
                        break;
        }
        if (size)
                *sink.at = '\0';
        return (size_t)(sink.at - out);
}

/* Line ends and tabs stay (RFC 4180 allows them between quotes); everything else that steers, and bad bytes, become \xNN. */
static size_t csv_piece(const unsigned char *text, size_t length, char piece[16], size_t *bytes)
{
        uint32_t point = 0;
        size_t used = decode(text, length, &point);

        if (used == 1 && point == '"') {
                memcpy(piece, "\"\"", 2);
                *bytes = 2;
        } else if (used > 0 && (!steers(point) || point == '\n' || point == '\r' || point == '\t')) {
                memcpy(piece, text, used);
                *bytes = used;
        } else {
                used = used ? used : 1;
                *bytes = 0;
                for (size_t i = 0; i < used; i++)
                        *bytes += escape_byte(piece + *bytes, text[i]);
        }
        return used;
}

static bool csv_needs_quotes(const char *text, size_t length)
{
        if (length > 0 && (text[0] == ' ' || text[length - 1] == ' '))
                return true;
        for (size_t i = 0; i < length; i++)
                if (strchr("\",\r\n\t", text[i]) && text[i] != '\0')
                        return true;
        return false;
}

size_t clean_csv(char *out, size_t size, const char *text, size_t length)
{
        struct out sink = {out, size ? size - 1 : 0};
        bool runs = length > 0 && text[0] != '\0' && strchr("=+-@\t\r", text[0]);
        bool quotes = csv_needs_quotes(text, length);
        size_t used;

        if (quotes && sink.left < 2)
                quotes = runs = false, length = 0; /* no room for a whole cell */
        if (quotes) {
                put(&sink, "\"", 1);
                sink.left--; /* kept for the closing quote */
        }
        if (runs && !put(&sink, "'", 1))
                length = 0;
        for (size_t at = 0; at < length; at += used) {
                char piece[16];
                size_t bytes;

                used = csv_piece((const unsigned char *)text + at, length - at, piece, &bytes);
                if (!put(&sink, piece, bytes))
                        break;
        }
        if (quotes) {
                sink.left++;
                put(&sink, "\"", 1);
        }
        if (size)
                *sink.at = '\0';
        return (size_t)(sink.at - out);
}

/* ---- Markdown and HTML ------------------------------------------------------------------------------------------------------------ */

enum { PIECE = 24 }; /* four bytes of a character that is not shown, five signs each */

/* One of HTML's own characters as an entity; 0: it is none. */
static size_t entity(uint32_t point, char piece[PIECE])
{
        static const struct { char c; const char *name; } entities[] = {
                {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"},
        };

        for (size_t i = 0; i < sizeof entities / sizeof *entities; i++)
                if (point == (uint32_t)entities[i].c)
                        return (size_t)snprintf(piece, PIECE, "%s", entities[i].name);
        return 0;
}

/* Bytes that are no text, or steer: shown by their numbers. The backslash itself may need one before it. */
static size_t escape_bytes(const unsigned char *text, size_t used, const char *before, char piece[PIECE])
{
        size_t bytes = 0;

        for (size_t i = 0; i < used; i++) {
                bytes += (size_t)snprintf(piece + bytes, PIECE - bytes, "%s", before);
                bytes += escape_byte(piece + bytes, text[i]);
        }
        return bytes;
}

static size_t html_piece(const unsigned char *text, size_t length, char piece[PIECE], size_t *bytes)
{
        uint32_t point = 0;
        size_t used = decode(text, length, &point);

        if (used == 0 || steers(point)) {
                used = used ? used : 1;
                *bytes = escape_bytes(text, used, "", piece);
        } else if ((*bytes = entity(point, piece)) == 0) {
                memcpy(piece, text, used);
                *bytes = used;
        }
        return used;
}

/* Signs that begin a list, a line or a heading where a line begins: "- ", "---", "==". A number's own sign does not. */
static bool opens(const unsigned char *text, size_t length)
{
        return strchr("-+=", text[0]) && (length == 1 || text[1] == ' ' || text[1] == '\t' || text[1] == text[0]);
}

/* Addresses become links without any mark-up around them: their signs are written as entities. */
static size_t markdown_piece(const unsigned char *text, size_t length, bool first, char piece[PIECE], size_t *bytes)
{
        uint32_t point = 0;
        size_t used = decode(text, length, &point);

        if (used == 0 || steers(point)) {
                used = used ? used : 1;
                *bytes = escape_bytes(text, used, "\\", piece);
        } else if (point == '@' || (point == ':' && length > 2 && text[1] == '/' && text[2] == '/')) {
                *bytes = (size_t)snprintf(piece, PIECE, "&#%u;", (unsigned)point);
        } else if (length >= 4 && (text[0] | 0x20) == 'w' && (text[1] | 0x20) == 'w' && (text[2] | 0x20) == 'w' && text[3] == '.') {
                *bytes = (size_t)snprintf(piece, PIECE, "%.3s&#46;", (const char *)text);
                used = 4;
        } else if (point < 0x80 && (strchr("\\`*_{}[]|~#$", (int)point) || (first && opens(text, length)))) {
                piece[0] = '\\';
                piece[1] = (char)point;
                *bytes = 2;
        } else if ((*bytes = entity(point, piece)) == 0) {
                memcpy(piece, text, used);
                *bytes = used;
        }
        return used;
}

size_t clean_markdown(char *out, size_t size, const char *text, size_t length)
{
        struct out sink = {out, size ? size - 1 : 0};
        size_t used;

        for (size_t at = 0; at < length; at += used) {
                char piece[PIECE];
                size_t bytes;

                used = markdown_piece((const unsigned char *)text + at, length - at, at == 0, piece, &bytes);
                if (!put(&sink, piece, bytes))
                        break;
        }
        if (size)
                *sink.at = '\0';
        return (size_t)(sink.at - out);
}

size_t clean_html(char *out, size_t size, const char *text, size_t length)
{
        struct out sink = {out, size ? size - 1 : 0};
        size_t used;

        for (size_t at = 0; at < length; at += used) {
                char piece[PIECE];
                size_t bytes;

                used = html_piece((const unsigned char *)text + at, length - at, piece, &bytes);
                if (!put(&sink, piece, bytes))
                        break;
        }
        if (size)
                *sink.at = '\0';
        return (size_t)(sink.at - out);
}
