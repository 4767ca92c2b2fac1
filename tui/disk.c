/*
 * watop disk: iostat -x, what is in flight, and each device's state in a word; or sar's columns.
 *
 * Order: as the kernel lists them, partitions and stacked devices below the device they are on, indented in text. In text idle devices are
 * left out unless --all or named; a device with requests in flight is never idle, for one that hangs completes nothing.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sample/word.h"
#include "tui/device_order.h"
#include "tui/text.h"
#include "tui/verbs.h"

enum { NAMES = 64, DEPTH = 4 };

struct disk {
        enum view_id view;
        bool all, active_only, partitions;
        bool numbers;                 /* INTERVAL has come: no names any more */
        char *names[NAMES];           /* as given; resolved links of /dev */
        bool known[NAMES], told;
        size_t name_count;
        struct device_order order;    /* kept from report to report */
        size_t hidden;
};

static bool text_is(const struct state *state, const struct state_row *row, int metric, const char *name)
{
        size_t length;
        const char *text = state_text(state, row, metric, &length);

        return text && length == strlen(name) && memcmp(text, name, length) == 0;
}

/* ---- which devices ----------------------------------------------------------------------------------------------------------------- */

static bool named(struct disk *disk, const struct state *state, const struct state_row *row)
{
        static const int texts[] = {DISK_NAME, DISK_DM_NAME, DISK_BY_ID};
        bool any = false;

        for (size_t n = 0; n < disk->name_count; n++) {
                for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
                        if (text_is(state, row, texts[i], disk->names[n]))
                                any = disk->known[n] = true;
                }
        }
        return any;
}

static bool wanted(struct disk *disk, const struct state *state, const struct state_row *row, enum format format)
{
        if (disk->name_count > 0)
                return named(disk, state, row);
        if (device_kind(row) == 'p' && !disk->partitions)
                return false;
        if (disk->all || (format != FORMAT_TEXT && !disk->active_only) || !word_idle(row))
                return true;
        disk->hidden++;
        return false;
}

/* ---- rows --------------------------------------------------------------------------------------------------------------------------- */

static const struct view_info *view_of(const struct disk *disk)
{
        return metric_view(disk->view);
}

static void disk_columns(void *own, enum format format, struct table *table)
{
        const struct disk *disk = own;

        (void)format;
        table_column(table, view_of(disk)->key_head, 0, TABLE_LEFT | TABLE_STRING);
        text_columns(table, disk->view, NULL, NULL);
}

static struct value word(const struct state *state, const struct state_row *row, struct table *table)
{
        char text[48];

        word_device(state, row, text, sizeof text);
        if (strcmp(text, "-") == 0)
                return (struct value){.kind = VALUE_ABSENT};
        return table_copy(table, text);
}

static int put_device(struct disk *disk, const struct state *state, struct table *table, const struct state_row *row, unsigned depth)
{
        static const char blanks[DEPTH + 1] = "    ";
        const struct view_info *view = view_of(disk);
        struct table_cell *cells = table_row(table);
        size_t length = 0;

        if (!cells)
                return -ENOMEM;
        const char *name = state_text(state, row, DISK_NAME, &length);
        cells[0].value = table_text(name, length);
        cells[0].lead = blanks + DEPTH - (depth < DEPTH ? depth : DEPTH);
        for (size_t i = 0; i < view->count; i++)
                cells[1 + i].value = view->columns[i].op == OP_WORD ? word(state, row, table) : metric_value(state, row, &view->columns[i]);
        return 0;
}

/* A device, then whatever is on it; depth bounds the recursion. */
static int put_tree(struct disk *disk, const struct state *state, enum format format, struct table *table, int at, unsigned depth)
{
        struct device *device = &disk->order.devices[at];
        int r = 0;

        if (device->done)
                return 0;
        device->done = true;
        if (wanted(disk, state, device->row, format)) {
                r = put_device(disk, state, table, device->row, depth);
                depth++;
        }
        for (int child = device->child; r == 0 && depth < 16 && child != DEVICE_NONE; child = disk->order.devices[child].next)
                r = put_tree(disk, state, format, table, child, depth);
        return r;
}

static int tell_unknown(struct disk *disk)
{
        size_t known = 0;

        for (size_t i = 0; i < disk->name_count; i++) {
                known += disk->known[i];
                if (!disk->told && !disk->known[i])
                        options_say("disk", "no device is called '%s'", disk->names[i]);
        }
        bool none = disk->name_count > 0 && known == 0;
        disk->told = true;
        return none ? 1 : 0;
}

static int disk_rows(void *own, const struct state *state, enum format format, struct table *table)
{
        struct disk *disk = own;

        int r = device_order_make(&disk->order, state);
        disk->hidden = 0;
        for (size_t i = 0; r == 0 && i < disk->order.count; i++)
                if (disk->order.devices[i].parent == DEVICE_NONE)
                        r = put_tree(disk, state, format, table, (int)i, 0);
        for (size_t i = 0; r == 0 && i < disk->order.count; i++) /* those of a circle, or too deep */
                r = put_tree(disk, state, format, table, (int)i, 0);
        return r < 0 ? r : tell_unknown(disk);
}

static void disk_below(void *own, const struct state *state, FILE *out)
{
        const struct disk *disk = own;

        (void)state;
        if (disk->hidden > 0 && isatty(fileno(out))) /* for people; what reads a pipe wants rows only */
                fprintf(out, "(%zu idle not shown: --all)\n", disk->hidden);
}

static const struct text_view disk_view = {"disk", disk_columns, disk_rows, disk_below, NULL};

/* ---- the command --------------------------------------------------------------------------------------------------------------------- */

enum { CODE_ALL = OPTION_LONG, CODE_SAR, CODE_SAR_OLD };

static int disk_option(void *own, int code, const char *value)
{
        struct disk *disk = own;
        enum view_id view = code == 's' ? VIEW_SHORT : code == CODE_SAR ? VIEW_SAR : code == CODE_SAR_OLD ? VIEW_SAR_OLD : VIEW_DISK;

        (void)value;
        switch (code) {
        case CODE_ALL: disk->all = true; return 0;
        case 'z': disk->active_only = true; return 0;
        case 'p': disk->partitions = true; return 0;
        default:
                if (disk->view != VIEW_DISK && disk->view != view)
                        return options_error("disk", "-s, --sar and --sar-old exclude each other");
                disk->view = view;
                return 0;
        }
}

/* A name, unless it looks like a number. /dev/ is cut off after links (/dev/mapper, /dev/disk/by-id) have been followed. */
static int disk_argument(void *own, const char *value)
{
        struct disk *disk = own;
        char *name;

        if (disk->numbers || value[0] == '\0' || strchr("0123456789.", value[0])) {
                disk->numbers = true;
                return 1;
        }
        if (disk->name_count == NAMES)
                return options_error("disk", "more than %d device names", NAMES);
        name = strncmp(value, "/dev/", 5) == 0 ? realpath(value, NULL) : NULL;
        if (!name)
                name = strdup(value);
        if (!name)
                return options_error("disk", "out of memory");
        if (strncmp(name, "/dev/", 5) == 0)
                memmove(name, name + 5, strlen(name + 5) + 1);
        if (strncmp(name, "mapper/", 7) == 0) /* not there to follow (a captured machine): the device-mapper name */
                memmove(name, name + 7, strlen(name + 7) + 1);
        disk->names[disk->name_count++] = name;
        return 0;
}

static void disk_free(struct disk *disk)
{
        for (size_t i = 0; i < disk->name_count; i++)
                free(disk->names[i]);
        device_order_fini(&disk->order);
}

int disk_main(int argc, char **argv)
{
        static const struct option_entry entries[] = {
                {CODE_ALL, "all", NULL, "idle devices too"},
                {'z', NULL, NULL, "leave idle devices out of csv and json too"},
                {'p', "partitions", NULL, "partitions too"},
                {'s', "short", NULL, "the short form, as iostat -xs"},
                {CODE_SAR, "sar", NULL, "the columns of sar -d, sysstat 12.2 and later"},
                {CODE_SAR_OLD, "sar-old", NULL, "the columns of sar -d before (sectors, svctm)"},
                {0},
        };
        static struct disk disk = {.view = VIEW_DISK};
        const struct option_set set = {
                .verb = "disk", .synopsis = "[OPTION...] [DEVICE...] [INTERVAL [COUNT]]", .entries = entries, .option = disk_option,
                .argument = disk_argument, .own = &disk, .groups = OPTIONS_SOURCE | OPTIONS_LOG | OPTIONS_FORMAT | OPTIONS_TIMES,
                .text = "What each block device did: the columns of iostat -x, requests in flight (infl;\n"
                        "drv: those the driver holds), and its state in a word: quiet, light, busy,\n"
                        "queued, full, STUCK. %util is not capped. Idle devices are left out of text.\n"
                        "A DEVICE is always shown: sda, /dev/sda, or a link to it.",
        };
        struct options options;

        int r = options_parse(&set, argc, argv, &options);
        if (r != 0) {
                disk_free(&disk);
                return r > 0 ? 0 : 2;
        }
        options.attach.scopes = SCOPE_BIT(SCOPE_SYSTEM) | SCOPE_BIT(SCOPE_DISK);
        int status = text_run(&disk_view, &disk, &options);
        disk_free(&disk);
        return status;
}
