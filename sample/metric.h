#pragma once
/*
 * Metrics: descriptors made from metrics.def, and the value of a column between two samples.
 *
 * Everything a reader needs to show a number without knowing which number it is. A metric's id is a compile-time constant
 * (CPU_USER, DISK_READS, ...); ids are dense per scope, so `id - scopes[s].first` is the slot in a row (0..63).
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum scope {
#define SCOPE_BEGIN(ID, name, key, text, born) SCOPE_##ID,
#define METRIC(...)
#define SCOPE_END(ID)
#define BOUNDS(...)
#define VIEW(...)
#define COLUMN(...)
#include "sample/metrics.def"
#undef SCOPE_BEGIN
#undef METRIC
#undef SCOPE_END
#undef VIEW
        SCOPE_COUNT,
};

enum metric {
        METRIC_NONE, /* 0 ends a list */
#define SCOPE_BEGIN(ID, name, key, text, born) ID##_FIRST, ID##_BEFORE = ID##_FIRST - 1,
#define METRIC(SCOPE, ID, ...) SCOPE##_##ID,
#define SCOPE_END(ID) ID##_END, ID##_AFTER = ID##_END - 1,
#define VIEW(...)
#include "sample/metrics.def"
#undef SCOPE_BEGIN
#undef METRIC
#undef SCOPE_END
#undef VIEW
        METRIC_COUNT,
};

enum view_id {
#define SCOPE_BEGIN(...)
#define METRIC(...)
#define SCOPE_END(ID)
#define VIEW(ID, SCOPE, name, key, text) VIEW_##ID,
#include "sample/metrics.def"
#undef SCOPE_BEGIN
#undef METRIC
#undef SCOPE_END
#undef VIEW
#undef COLUMN
#undef BOUNDS
        VIEW_COUNT,
};

#define SCOPE_BIT(s) (UINT32_C(1) << (s))
/* Scopes of block tracing, which costs something: only while somebody asks for them (a lease), never by settings. */
#define SCOPES_TRACED (SCOPE_BIT(SCOPE_STAGE) | SCOPE_BIT(SCOPE_LATENCY) | SCOPE_BIT(SCOPE_BIO) | SCOPE_BIT(SCOPE_SYNC))
#define ROW_SLOTS 64

enum metric_kind { KIND_COUNTER, KIND_TIME, KIND_GAUGE, KIND_CODE, KIND_TEXT };
enum metric_unit { UNIT_COUNT, UNIT_NS, UNIT_BYTES, UNIT_CENTI, UNIT_CODE, UNIT_LETTER, UNIT_SIGNED, UNIT_TEXT };

struct metric_info {
        const char *name;   /* dotted */
        enum scope scope;
        enum metric_kind kind;
        enum metric_unit unit;
        uint64_t wrap;      /* modulus in the metric's unit; 0 = does not wrap */
        const char *source; /* kernel file and field */
        const char *text;   /* one sentence */
};

struct scope_info {
        const char *name, *key, *text;
        int first, count;   /* ids first .. first+count-1 */
        int born;           /* metric with the row's boot time of birth, or METRIC_NONE */
};

enum column_op { OP_RATE, OP_RATIO, OP_DELTA, OP_LAST, OP_SHARE, OP_AGE, OP_LETTER, OP_NAME, OP_WORD };
enum column_flag {
        COL_ZERO = 1,     /* RATIO is 0, not absent, when the denominator is 0 */
        COL_LEFT = 2,     /* text, aligned left */
        COL_GROUP_U = 4, COL_GROUP_D = 8, COL_GROUP_R = 16, COL_GROUP_W = 32, /* pidstat's option that shows it */
        COL_GROUP_I = 128, /* ours: waits */
        COL_SCREEN = 64,  /* only on the live screen, in CSV and in JSON */
};

#define COLUMN_TERMS 8
struct column {
        enum view_id view;
        const char *head;
        enum column_op op;
        short num[COLUMN_TERMS], den[COLUMN_TERMS]; /* metric ids, negative = subtracted, 0 ends */
        double scale;
        unsigned char width, decimals, rank, flags;
        const char *text;
};

struct view_info {
        const char *name, *key_head, *text;
        enum scope scope;
        const struct column *columns; /* points into one array, in table order */
        size_t count;
};

extern const struct metric_info metrics[METRIC_COUNT];
extern const struct scope_info scopes[SCOPE_COUNT];

/* The view's description; never NULL. */
const struct view_info *metric_view(enum view_id);
/* Column of a view by its head, NULL when there is none. */
const struct column *metric_column(enum view_id, const char *head);
/* Metric id by dotted name, METRIC_NONE when there is none. */
int metric_find(const char *name);
/* Words for listings: "counter", "ns", ... */
const char *metric_kind_name(enum metric_kind);
const char *metric_unit_name(enum metric_unit);

static inline int metric_slot(int metric)
{
        return metric - scopes[metrics[metric].scope].first;
}

/* ---- values ---------------------------------------------------------------------------------------------------------- */

enum value_kind { VALUE_ABSENT, VALUE_NUMBER, VALUE_TEXT };
enum value_mark { /* what the shown number is: exact, estimate, at most, at least */
        MARK_EXACT, MARK_ESTIMATE, MARK_AT_MOST, MARK_AT_LEAST,
};
enum value_flag { VALUE_CLAMPED = 1, VALUE_UNWRAPPED = 2, VALUE_RESET = 4 };

struct value {
        enum value_kind kind;
        enum value_mark mark;
        unsigned flags;       /* value_flag */
        double number;        /* scaled */
        double low, high;     /* bounds, equal to number when the column has none */
        const char *text;     /* VALUE_TEXT: raw bytes of a stranger, valid until the state next changes */
        size_t length;
};

struct state;
struct state_row;

/* Value of a column for one row over the state's interval. OP_WORD gives VALUE_ABSENT: the view's own function finds it. */
struct value metric_value(const struct state *, const struct state_row *, const struct column *);
/* The same over several rows: ratio of summed deltas (RATIO), sums (all others). `all` and `total` rows come from this. */
struct value metric_value_all(const struct state *, const struct column *, bool (*keep)(const struct state_row *, void *), void *arg);

/* Sum over rows of each row's own value (the SUM row of the cpu table): absent when no row has one. */
struct value metric_value_sum(const struct state *, const struct column *, bool (*keep)(const struct state_row *, void *), void *arg);

/* The mark that a number between these bounds is shown with. */
enum value_mark metric_mark(double number, double low, double high);
/* Text of a value in at most `size` bytes, NUL-terminated, as the screen and tables show it: "-" absent, "<62.0", ">62.0",
 * "62.0~". Never uses the locale. Returns the length. */
size_t value_format(char *buffer, size_t size, const struct value *, unsigned decimals);
/* Full precision for CSV and JSON: "" or "null" when absent; round-trips a double. */
size_t value_exact(char *buffer, size_t size, const struct value *, const char *absent);
/* Order for sorting: absent last, numbers descending, text ascending. */
int value_compare(const struct value *, const struct value *);
