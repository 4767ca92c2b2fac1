#pragma once
/*
 * Keys and what they do, from tui/keys.def; and the one-line editor behind / f and d.
 */
#include <stdbool.h>
#include <stddef.h>

enum key_code { /* beyond Unicode, so that any typed character is its own code */
        KEYCODE_NONE = 0,
        KEYCODE_UP = 0x110000, KEYCODE_DOWN, KEYCODE_LEFT, KEYCODE_RIGHT, KEYCODE_PAGE_UP, KEYCODE_PAGE_DOWN, KEYCODE_HOME, KEYCODE_END,
        KEYCODE_BACKSPACE, KEYCODE_ENTER, KEYCODE_BACKTAB, KEYCODE_F1,
};

enum action {
        ACTION_NONE, ACTION_QUIT, ACTION_HELP, ACTION_WHY, ACTION_NEXT_PANEL, ACTION_PREVIOUS_PANEL, ACTION_PANEL_CPU, ACTION_PANEL_DISK,
        ACTION_PANEL_TASK, ACTION_UP, ACTION_DOWN, ACTION_ESCAPE, ACTION_LEFT, ACTION_RIGHT, ACTION_PAGE_UP, ACTION_PAGE_DOWN, ACTION_HOME,
        ACTION_END, ACTION_SORT, ACTION_REVERSE, ACTION_SORT_CPU, ACTION_SORT_MEMORY, ACTION_SEARCH, ACTION_SEARCH_NEXT, ACTION_FILTER,
        ACTION_THREADS, ACTION_IDLE, ACTION_COMMAND, ACTION_PAUSE, ACTION_SLOWER, ACTION_FASTER, ACTION_INTERVAL, ACTION_REDRAW,
        ACTION_DETAIL, ACTION_IOWAIT, ACTION_EARLIER, ACTION_LATER, ACTION_BEGIN, ACTION_NEWEST, ACTION_MARK_BEFORE, ACTION_MARK_NEXT,
        ACTION_PLAY_SLOWER,
        ACTION_PLAY_FASTER, ACTION_GO_TO, ACTION_LATENCY,
        ACTION_COUNT,
};

struct key_info {
        int code;
        const char *label;
        enum action action;
        const char *words;
};

extern const struct key_info key_table[];
extern const size_t key_count;
/* What a key does; ACTION_NONE when it has no meaning. */
enum action key_action(int code);

struct prompt {
        bool open;
        enum action purpose;  /* ACTION_SEARCH, ACTION_FILTER, ACTION_INTERVAL or ACTION_GO_TO */
        char text[64];        /* UTF-8 */
        size_t length;
};
enum prompt_result { PROMPT_MORE, PROMPT_DONE, PROMPT_CANCEL };
void prompt_open(struct prompt *, enum action purpose, const char *text);
/* One key: Enter ends, Esc cancels (the text is then what it was worth), Backspace takes the last character, Ctrl-U all. */
enum prompt_result prompt_key(struct prompt *, int code);
