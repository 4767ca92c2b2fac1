/*
 * watopd's settings. Contract: config.h.
 *
 * inih splits lines into names and values; it is fed through a reader of ours that counts lines, because inih tells the number of the
 * first bad line only, and that takes leading blanks away, because inih would read an indented line as a continuation.
 */
#include "daemon/config.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <ini.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sample/ring.h"

#define ALL_SCOPES ((SCOPE_BIT(SCOPE_COUNT) - 1) & ~SCOPES_TRACED)
/* Scopes that cost little. Threads and control groups are read while somebody asks for them (leases). */
#define DEFAULT_SCOPES (ALL_SCOPES & ~(SCOPE_BIT(SCOPE_THREAD) | SCOPE_BIT(SCOPE_CGROUP)))

void config_default(struct config *config)
{
        *config = (struct config){
                .interval_ns = UINT64_C(1000000000),
                .ring_size = RING_DEFAULT_SIZE,
                .scopes = DEFAULT_SCOPES,
                .cmdline = CMDLINE_FULL,
                .log_file = UINT64_C(256) << 20,
                .log_total = UINT64_C(2) << 30,
                .log_keep_ns = 14 * UINT64_C(86400000000000),
                .bpf = true,
        };
}

/* A positive decimal number with an optional fraction; no sign, no exponent, no locale. Moves *text behind it. */
static int read_number(const char **text, double *number)
{
        const char *at = *text;
        double value = 0, unit = 1;
        unsigned digits = 0;

        for (; isdigit((unsigned char)*at); at++, digits++)
                value = value * 10 + (*at - '0');
        if (*at == '.')
                for (at++; isdigit((unsigned char)*at); at++, digits++) {
                        unit /= 10;
                        value += (*at - '0') * unit;
                }
        if (digits == 0 || digits > 20)
                return -EINVAL;
        *text = at;
        *number = value;
        return 0;
}

int config_interval(const char *text, uint64_t *ns)
{
        static const struct { const char *unit; double ns; } units[] = {
                { "", 1e9 }, { "ms", 1e6 }, { "s", 1e9 }, { "m", 60e9 }, { "h", 3600e9 },
        };
        double number;

        if (read_number(&text, &number) < 0)
                return -EINVAL;
        for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
                if (strcmp(text, units[i].unit) != 0)
                        continue;
                double value = round(number * units[i].ns);
                if (value < (double)CONFIG_INTERVAL_MIN || value > (double)CONFIG_INTERVAL_MAX)
                        return -ERANGE;
                *ns = (uint64_t)value;
                return 0;
        }
        return -EINVAL;
}

static int read_size(const char *text, double least, double most, uint64_t *bytes)
{
        static const char units[] = "KMG";
        double number, factor = 1;

        if (read_number(&text, &number) < 0)
                return -EINVAL;
        if (*text != '\0') {
                const char *unit = strchr(units, toupper((unsigned char)*text));
                if (unit == NULL || (text[1] != '\0' && strcasecmp(text + 1, "iB") != 0))
                        return -EINVAL;
                for (ptrdiff_t i = 0; i <= unit - units; i++)
                        factor *= 1024;
        }
        if (number * factor < least || number * factor > most)
                return -ERANGE;
        *bytes = (uint64_t)(number * factor);
        return 0;
}

int config_size(const char *text, uint64_t *bytes)
{
        return read_size(text, (double)RING_MIN_SIZE, (double)RING_MAX_SIZE, bytes);
}

int config_log_size(const char *text, uint64_t *bytes)
{
        return read_size(text, 0x1p20, 0x1p40, bytes);
}

int config_age(const char *text, uint64_t *ns)
{
        static const struct { const char *unit; double hours; } units[] = { { "h", 1 }, { "d", 24 }, { "w", 168 } };
        double number;

        if (read_number(&text, &number) < 0)
                return -EINVAL;
        for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
                if (strcmp(text, units[i].unit) != 0)
                        continue;
                if (number * units[i].hours < 1 || number * units[i].hours > 3650 * 24)
                        return -ERANGE;
                *ns = (uint64_t)(number * units[i].hours * 3600e9);
                return 0;
        }
        return -EINVAL;
}

int config_log(const char *text, char *folder)
{
        size_t length = strlen(text);

        if (length >= CONFIG_PATH || (length > 0 && *text != '/'))
                return -EINVAL;
        memcpy(folder, text, length + 1);
        return 0;
}

static uint32_t scope_by_name(const char *name, size_t length)
{
        for (int s = 0; s < SCOPE_COUNT; s++)
                if (strlen(scopes[s].name) == length && memcmp(scopes[s].name, name, length) == 0)
                        return SCOPE_BIT(s);
        if (length == 3 && memcmp(name, "all", 3) == 0)
                return ALL_SCOPES;
        if (length == 7 && memcmp(name, "default", 7) == 0)
                return DEFAULT_SCOPES;
        return 0;
}

/* All words of a list: the scopes they name; where one names none, that word. */
static const char *read_scopes(const char *text, uint32_t *found, size_t *length)
{
        *found = 0;
        for (;; text += *length) {
                text += strspn(text, ", \t");
                *length = strcspn(text, ", \t");
                if (*length == 0)
                        return NULL;
                uint32_t bit = scope_by_name(text, *length);
                if (bit == 0)
                        return text;
                *found |= bit;
        }
}

const char *config_bad_scope(const char *text, size_t *length)
{
        uint32_t found;

        return read_scopes(text, &found, length);
}

int config_scopes(const char *text, uint32_t *mask)
{
        uint32_t found;
        size_t length;

        if (read_scopes(text, &found, &length) != NULL || (found & ~SCOPES_TRACED) == 0)
                return -EINVAL; /* of scopes that are only traced nothing would be left, and 0 means "not given" */
        *mask = found & ~SCOPES_TRACED;
        return 0;
}

int config_cmdline(const char *text, enum cmdline_policy *policy)
{
        static const char *const names[] = { [CMDLINE_NONE] = "none", [CMDLINE_NAME] = "name", [CMDLINE_FULL] = "full" };

        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
                if (strcmp(text, names[i]) == 0) {
                        *policy = (enum cmdline_policy)i;
                        return 0;
                }
        return -EINVAL;
}

int config_bpf(const char *text, bool *bpf)
{
        if (strcmp(text, "auto") != 0 && strcmp(text, "off") != 0)
                return -EINVAL;
        *bpf = *text == 'a';
        return 0;
}

struct load {
        FILE *file;
        unsigned line;    /* of the line that inih has now, from 1 */
        int bad;
        struct config *config;
        config_complain *complain;
        void *arg;
};

static void complain(struct load *load, const char *what, const char *word)
{
        char why[160];

        load->bad++;
        snprintf(why, sizeof why, "%s: %.80s", what, word);
        for (char *at = why; *at != '\0'; at++)
                if (!isprint((unsigned char)*at))
                        *at = '?';
        if (load->complain != NULL)
                load->complain(load->arg, load->line, why);
}

/* What inih would refuse: it names only the first such line, so they are found here. */
static bool line_is_wrong(const char *text)
{
        if (*text == '\0' || *text == ';' || *text == '#')
                return false;
        if (*text == '[')
                return strchr(text, ']') == NULL;
        return strpbrk(text, "=:") == NULL;
}

/* ini_reader: one line, as fgets. Lines that are too long or no settings at all are named here and given to inih as empty ones. */
static char *read_line(char *buffer, int size, void *arg)
{
        struct load *load = arg;
        int length = 0, byte;
        bool too_long = false;

        while ((byte = getc(load->file)) != EOF && byte != '\n') {
                if (length == 0 && isspace(byte))
                        continue;
                if (length < size - 2)
                        buffer[length++] = byte == '\0' ? '?' : (char)byte;
                else
                        too_long = true;
        }
        if (byte == EOF && length == 0)
                return NULL;
        load->line++;
        buffer[length] = '\0';
        if (load->line == 1 && strncmp(buffer, "\xef\xbb\xbf", 3) == 0)
                memmove(buffer, buffer + 3, (size_t)length - 3 + 1);
        if (too_long)
                complain(load, "line is too long", "it is left out");
        else if (line_is_wrong(buffer))
                complain(load, "not a setting (NAME = VALUE)", buffer);
        else
                return buffer;
        buffer[0] = '\0';
        return buffer;
}

enum setting {
        SET_INTERVAL, SET_RING_SIZE, SET_SCOPES, SET_CMDLINE, SET_BPF, SET_LOG, SET_LOG_FILE, SET_LOG_TOTAL, SET_LOG_KEEP, SETTINGS
};

static const struct {
        const char *name, *wrong, *out_of_range;
} settings[SETTINGS] = {
        [SET_INTERVAL] = { "interval", "interval is not like 250ms, 1s, 1m or 1h", "interval is not within 10ms and 1h" },
        [SET_RING_SIZE] = { "ring_size", "ring_size is not like 64M", "ring_size is not within 1M and 16G" },
        [SET_SCOPES] = { "scopes", "scopes are not names of scopes (watop metrics lists them)", NULL },
        [SET_CMDLINE] = { "cmdline", "cmdline is not none, name or full", NULL },
        [SET_BPF] = { "bpf", "bpf is not auto or off", NULL },
        [SET_LOG] = { "log", "log is not the absolute path of a folder", NULL },
        [SET_LOG_FILE] = { "log_file", "log_file is not like 256M", "log_file is not within 1M and 1024G" },
        [SET_LOG_TOTAL] = { "log_total", "log_total is not like 2G", "log_total is not within 1M and 1024G" },
        [SET_LOG_KEEP] = { "log_keep", "log_keep is not like 12h, 14d or 4w", "log_keep is not within 1h and 3650d" },
};

/* Of a list of scopes only the word that is wrong. */
static void complain_scopes(struct load *load, const char *value)
{
        char word[81];
        size_t length;
        const char *bad = config_bad_scope(value, &length);

        if (bad == NULL) {
                complain(load, settings[SET_SCOPES].wrong, value);
                return;
        }
        snprintf(word, sizeof word, "%.*s", length < sizeof word ? (int)length : (int)sizeof word - 1, bad);
        complain(load, "scopes: there is no scope of this name (watop metrics lists them)", word);
}

static int set_value(struct config *config, enum setting setting, const char *value)
{
        switch (setting) {
        case SET_INTERVAL: return config_interval(value, &config->interval_ns);
        case SET_RING_SIZE: return config_size(value, &config->ring_size);
        case SET_SCOPES: return config_scopes(value, &config->scopes);
        case SET_CMDLINE: return config_cmdline(value, &config->cmdline);
        case SET_BPF: return config_bpf(value, &config->bpf);
        case SET_LOG: return config_log(value, config->log);
        case SET_LOG_FILE: return config_log_size(value, &config->log_file);
        case SET_LOG_TOTAL: return config_log_size(value, &config->log_total);
        case SET_LOG_KEEP: return config_age(value, &config->log_keep_ns);
        case SETTINGS: break;
        }
        return -EINVAL;
}

/* ini_handler. Always 1, "handled": bad lines are named by us. */
static int take_setting(void *arg, const char *section, const char *name, const char *value)
{
        struct load *load = arg;

        if (*section != '\0' && strcmp(section, "watopd") != 0) {
                complain(load, "unknown section", section);
                return 1;
        }
        for (int i = 0; i < SETTINGS; i++) {
                if (strcmp(name, settings[i].name) != 0)
                        continue;
                load->config->mentioned |= 1u << i;
                int r = set_value(load->config, (enum setting)i, value);
                if (r < 0 && i == SET_SCOPES)
                        complain_scopes(load, value);
                else if (r < 0)
                        complain(load, r == -ERANGE && settings[i].out_of_range ? settings[i].out_of_range : settings[i].wrong, value);
                return 1;
        }
        complain(load, "unknown setting", name);
        return 1;
}

int config_load(const char *path, struct config *config, config_complain *tell, void *arg)
{
        struct load load = { .config = config, .complain = tell, .arg = arg };
        struct stat st;

        /* O_NONBLOCK: a FIFO in its place must not hang the daemon. */
        int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        if (fd < 0)
                return -errno;
        int r = fstat(fd, &st) < 0 ? -errno : S_ISREG(st.st_mode) ? 0 : -EINVAL;
        if (r == 0 && (load.file = fdopen(fd, "r")) == NULL)
                r = -errno;
        if (r < 0) {
                close(fd);
                return r;
        }
        r = ini_parse_stream(read_line, &load, take_setting, &load);
        /* -2: inih could not allocate. A positive number is a bad line that our own check let through: it counts as one. */
        if (r > 0 && load.bad == 0) {
                load.line = (unsigned)r;
                complain(&load, "not a setting", "it is left out");
        }
        bool failed = ferror(load.file) != 0;
        fclose(load.file);
        if (failed)
                return -EIO;
        return r < 0 ? -ENOMEM : load.bad;
}

int config_reload(const char *path, struct config *config, const struct config *base, config_complain *tell, void *arg)
{
        struct config next = *config;

        next.mentioned = 0;
        int bad = config_load(path, &next, tell, arg);
        if (bad < 0)
                return bad;
        if (!(next.mentioned & 1u << SET_INTERVAL))
                next.interval_ns = base->interval_ns;
        if (!(next.mentioned & 1u << SET_RING_SIZE))
                next.ring_size = base->ring_size;
        if (!(next.mentioned & 1u << SET_SCOPES))
                next.scopes = base->scopes;
        if (!(next.mentioned & 1u << SET_CMDLINE))
                next.cmdline = base->cmdline;
        if (!(next.mentioned & 1u << SET_BPF))
                next.bpf = base->bpf;
        if (!(next.mentioned & 1u << SET_LOG))
                memcpy(next.log, base->log, sizeof next.log);
        if (!(next.mentioned & 1u << SET_LOG_FILE))
                next.log_file = base->log_file;
        if (!(next.mentioned & 1u << SET_LOG_TOTAL))
                next.log_total = base->log_total;
        if (!(next.mentioned & 1u << SET_LOG_KEEP))
                next.log_keep_ns = base->log_keep_ns;
        *config = next;
        return bad;
}
