#pragma once
/*
 * Text from strangers, made harmless for each place it goes to: process names, command lines, device and group names, marks.
 * All write at most size bytes, always NUL-terminate, and return the length written.
 */
#include <stdbool.h>
#include <stddef.h>

/* Screen and text tables: control, C1, DEL, escapes and invalid UTF-8 become \xNN; with utf8 false everything above 0x7e too. Columns of
 * the result, as wcwidth counts them, go to *columns if not NULL; at most max_columns are used. */
size_t clean_screen(char *out, size_t size, const char *text, size_t length, bool utf8, size_t max_columns, size_t *columns);
/* JSON string contents without the quotes: \uXXXX escapes, invalid bytes become U+FFFD. */
size_t clean_json(char *out, size_t size, const char *text, size_t length);
/* One CSV cell, quoted as RFC 4180 where needed; a cell that a spreadsheet would run (= + - @ tab CR first) gets a ' before it. Numbers do
 * not come here. */
size_t clean_csv(char *out, size_t size, const char *text, size_t length);
/* Markdown text or a table's cell: what Markdown or HTML would act on is escaped with a backslash or as an entity, what steers becomes
 * \xNN. */
size_t clean_markdown(char *out, size_t size, const char *text, size_t length);
/* Text or an attribute's value (between double quotes) of HTML: & < > " ' become entities, what steers and invalid UTF-8 becomes \xNN. */
size_t clean_html(char *out, size_t size, const char *text, size_t length);
