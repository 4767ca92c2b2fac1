/*
 * The key table made from tui/keys.def, and the one-line editor.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "tui/keys.h"

const struct key_info key_table[] = {
#define KEY(code, label, action, words) {code, label, ACTION_##action, words},
#include "tui/keys.def"
#undef KEY
};
const size_t key_count = sizeof key_table / sizeof key_table[0];

enum action key_action(int code)
{
        for (size_t i = 0; i < key_count; i++)
                if (key_table[i].code == code)
                        return key_table[i].action;
        return ACTION_NONE;
}

void prompt_open(struct prompt *p, enum action purpose, const char *text)
{
        memset(p, 0, sizeof *p);
        p->open = true;
        p->purpose = purpose;
        snprintf(p->text, sizeof p->text, "%s", text);
        p->length = strlen(p->text);
}

static void append(struct prompt *p, uint32_t ch)
{
        char bytes[4];
        size_t count = ch < 0x80 ? 1 : ch < 0x800 ? 2 : ch < 0x10000 ? 3 : 4;
        if (p->length + count >= sizeof p->text)
                return;
        if (count == 1) {
                bytes[0] = (char)ch;
        } else {
                for (size_t i = count - 1; i > 0; i--, ch >>= 6)
                        bytes[i] = (char)(0x80 | (ch & 0x3f));
                bytes[0] = (char)((0xf00u >> count & 0xffu) | ch);
        }
        memcpy(p->text + p->length, bytes, count);
        p->length += count;
        p->text[p->length] = '\0';
}

enum prompt_result prompt_key(struct prompt *p, int code)
{
        if (code == KEYCODE_ENTER || code == '\n' || code == '\r') {
                p->open = false;
                return PROMPT_DONE;
        }
        if (code == 27 || code == 3) {
                p->open = false;
                return PROMPT_CANCEL;
        }
        if (code == KEYCODE_BACKSPACE || code == 8 || code == 127) {
                while (p->length > 0 && ((unsigned char)p->text[--p->length] & 0xc0) == 0x80)
                        ;
                p->text[p->length] = '\0';
        } else if (code == 21) {
                p->length = 0;
                p->text[0] = '\0';
        } else if (code >= 0x20 && code < KEYCODE_UP && (code < 0x7f || code >= 0xa0) && (code < 0xd800 || code > 0xdfff)) {
                append(p, (uint32_t)code);
        }
        return PROMPT_MORE;
}
