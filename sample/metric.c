/*
 * Descriptors made from metrics.def, and the value of a column between two samples.
 *
 * All formulas are rows of the table; the code below knows the operations, never the metrics. Sums of several terms skip a term that this
 * kernel does not have (discards before 4.18) but become absent when a term was reset, so that no half-true sum is shown.
 */
#include "sample/metric.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "sample/state.h"

/* ---- the table, as arrays --------------------------------------------------------------------------------------------------- */

const struct metric_info metrics[METRIC_COUNT] = {
#define SCOPE_BEGIN(...)
#define METRIC(SCOPE, ID, name, kind, unit, wrap, source, text) \
        [SCOPE##_##ID] = {name, SCOPE_##SCOPE, KIND_##kind, UNIT_##unit, wrap, source, text},
#define SCOPE_END(ID)
#define BOUNDS(...)
#define VIEW(...)
#define COLUMN(...)
#include "sample/metrics.def"
#undef SCOPE_BEGIN
#undef METRIC
#undef SCOPE_END
};

const struct scope_info scopes[SCOPE_COUNT] = {
#define SCOPE_BEGIN(ID, name, key, text, born) [SCOPE_##ID] = {name, key, text, ID##_FIRST, ID##_END - ID##_FIRST, born},
#define METRIC(...)
#define SCOPE_END(ID)
#include "sample/metrics.def"
};

#undef SCOPE_BEGIN
#undef SCOPE_END
#define SCOPE_BEGIN(...)
#define SCOPE_END(ID) _Static_assert(ID##_END - ID##_FIRST <= ROW_SLOTS, #ID " has more slots than a row");
#include "sample/metrics.def"
#undef SCOPE_END
#define SCOPE_END(ID)

#undef COLUMN
#define NUM(...) {__VA_ARGS__}
#define DEN(...) {__VA_ARGS__}
static const struct column columns[] = {
#define COLUMN(VIEW, head, op, num, den, scale, width, decimals, rank, flags, text) \
        {VIEW_##VIEW, head, OP_##op, num, den, scale, width, decimals, rank, flags, text},
#include "sample/metrics.def"
#undef COLUMN
#define COLUMN(...)
};
enum { COLUMN_COUNT = sizeof columns / sizeof columns[0] };

static const struct bounds {
        short shown, low, high;
} bounds[] = {
#undef BOUNDS
#define BOUNDS(shown, low, high) {shown, low, high},
#include "sample/metrics.def"
#undef BOUNDS
#define BOUNDS(...)
};

static const struct {
        const char *name, *key_head, *text;
        enum scope scope;
} view_rows[VIEW_COUNT] = {
#undef VIEW
#define VIEW(ID, SCOPE, name, key, text) [VIEW_##ID] = {name, key, text, SCOPE_##SCOPE},
#include "sample/metrics.def"
};

/* Columns of one view are neighbours in the table, so a view is a slice of the array. */

const struct view_info *metric_view(enum view_id id)
{
        static struct view_info views[VIEW_COUNT];
        static bool made;

        if (!__atomic_load_n(&made, __ATOMIC_ACQUIRE)) {
                /* Two threads that come here at once write the same values. */
                for (size_t v = 0; v < VIEW_COUNT; v++) {
                        size_t first = 0, count = 0;
                        while (first < COLUMN_COUNT && columns[first].view != (enum view_id)v)
                                first++;
                        while (first + count < COLUMN_COUNT && columns[first + count].view == (enum view_id)v)
                                count++;
                        views[v] = (struct view_info){view_rows[v].name, view_rows[v].key_head, view_rows[v].text, view_rows[v].scope,
                                                      &columns[first < COLUMN_COUNT ? first : 0], count};
                }
                __atomic_store_n(&made, true, __ATOMIC_RELEASE);
        }
        return &views[id];
}

const struct column *metric_column(enum view_id id, const char *head)
{
        const struct view_info *view = metric_view(id);

        for (size_t i = 0; i < view->count; i++)
                if (strcmp(view->columns[i].head, head) == 0)
                        return &view->columns[i];
        return NULL;
}

int metric_find(const char *name)
{
        for (int i = 1; i < METRIC_COUNT; i++)
                if (metrics[i].name && strcmp(metrics[i].name, name) == 0)
                        return i;
        return METRIC_NONE;
}

const char *metric_kind_name(enum metric_kind kind)
{
        static const char *const names[] = {
                [KIND_COUNTER] = "counter", [KIND_TIME] = "time", [KIND_GAUGE] = "gauge", [KIND_CODE] = "code", [KIND_TEXT] = "text"};
        return names[kind];
}

const char *metric_unit_name(enum metric_unit unit)
{
        static const char *const names[] = {
                [UNIT_COUNT] = "count", [UNIT_NS] = "ns", [UNIT_BYTES] = "bytes", [UNIT_CENTI] = "1/100", [UNIT_CODE] = "code",
                [UNIT_LETTER] = "letter", [UNIT_SIGNED] = "signed", [UNIT_TEXT] = "text"};
        return names[unit];
}

/* ---- sums over the terms of a column ------------------------------------------------------------------------------------------- */

static double level_of(int metric, uint64_t raw)
{
        return metrics[metric].unit == UNIT_SIGNED ? (double)(int64_t)raw : (double)raw;
}

/* Sum of deltas. False: the first term, or a reset one, has no delta. */
static bool sum_deltas(const struct state_row *row, const short *terms, double *sum, unsigned *flags)
{
        *sum = 0;
        for (size_t i = 0; i < COLUMN_TERMS && terms[i] != METRIC_NONE; i++) {
                int id = terms[i] < 0 ? -terms[i] : terms[i];
                double delta = 0;
                switch (state_delta(row, id, &delta)) {
                case DELTA_OK: break;
                case DELTA_CLAMPED: *flags |= VALUE_CLAMPED; break;
                case DELTA_UNWRAPPED: *flags |= VALUE_UNWRAPPED; break;
                case DELTA_RESET: *flags |= VALUE_RESET; return false;
                default:
                        if (i == 0)
                                return false;
                        continue;
                }
                *sum += terms[i] < 0 ? -delta : delta;
        }
        return terms[0] != METRIC_NONE;
}

/* Sum of the levels that are present. False: none is. */
static bool sum_levels(const struct state_row *row, const short *terms, double *sum)
{
        bool any = false;

        *sum = 0;
        for (size_t i = 0; row && i < COLUMN_TERMS && terms[i] != METRIC_NONE; i++) {
                uint64_t raw;
                if (!state_now(row, terms[i], &raw))
                        continue;
                *sum += level_of(terms[i], raw);
                any = true;
        }
        return any;
}

static const struct bounds *bounds_of(const struct column *column)
{
        if (column->num[1] != METRIC_NONE)
                return NULL;
        for (size_t i = 0; i < sizeof bounds / sizeof bounds[0]; i++)
                if (bounds[i].shown == column->num[0])
                        return &bounds[i];
        return NULL;
}

/* What one row gives a column before it is divided and scaled; rows can be added up. */
struct parts {
        double num, low, high, den;
        unsigned flags;
};

static bool parts_of(const struct state_row *row, const struct column *column, struct parts *parts)
{
        const struct bounds *bound = bounds_of(column);

        *parts = (struct parts){0};
        if (!sum_deltas(row, column->num, &parts->num, &parts->flags))
                return false;
        parts->low = parts->high = parts->num;
        if (bound) {
                const short low[COLUMN_TERMS] = {bound->low}, high[COLUMN_TERMS] = {bound->high};
                double value;
                if (sum_deltas(row, low, &value, &parts->flags) && value < parts->low)
                        parts->low = value;
                if (sum_deltas(row, high, &value, &parts->flags) && value > parts->high)
                        parts->high = value;
        }
        if (column->op == OP_RATIO && !sum_deltas(row, column->den, &parts->den, &parts->flags))
                return false;
        if (column->op == OP_RATE) {
                parts->den = state_row_seconds(row);
                if (!(parts->den > 0))
                        return false;
        }
        if (column->op == OP_DELTA)
                parts->den = 1;
        return true;
}

/*
 * Which mark the shown number needs, from its bounds. Bounds nearer than half a point, or a hundredth of the number, need none: the
 * kernel's clock ticks are no finer (two ticks in a second are two points).
 */
enum value_mark metric_mark(double number, double low, double high)
{
        double tolerance = number * 0.01 > 0.5 ? number * 0.01 : 0.5;
        bool under = number - low > tolerance, over = high - number > tolerance;

        if (under && over)
                return MARK_ESTIMATE;
        if (under)
                return MARK_AT_MOST;
        if (!over)
                return MARK_EXACT;
        return number > tolerance ? MARK_AT_LEAST : MARK_ESTIMATE; /* "at least 0" would say nothing */
}

static struct value value_of(const struct column *column, const struct parts *parts)
{
        struct value value = {.flags = parts->flags};
        double factor;

        if (parts->den > 0) {
                factor = column->scale / parts->den;
        } else if (column->op == OP_RATIO && (column->flags & COL_ZERO) && parts->den == 0) {
                factor = 0;
        } else {
                return value;
        }
        value.kind = VALUE_NUMBER;
        value.number = parts->num * factor;
        value.low = parts->low * factor;
        value.high = parts->high * factor;
        if (value.number < 0) { /* user minus guest can be a clock tick below 0 */
                value.flags |= VALUE_CLAMPED;
                value.number = value.low = value.high = 0;
        }
        value.mark = metric_mark(value.number, value.low, value.high);
        return value;
}

static struct value number_value(double number)
{
        return (struct value){.kind = VALUE_NUMBER, .number = number, .low = number, .high = number};
}

static struct value letter_value(uint64_t code)
{
        static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
        const char *at = code < 128 && code ? strchr(letters, (int)code) : NULL;

        if (!at)
                return (struct value){.kind = VALUE_ABSENT};
        return (struct value){.kind = VALUE_TEXT, .text = at, .length = 1};
}

struct value metric_value(const struct state *state, const struct state_row *row, const struct column *column)
{
        struct value absent = {.kind = VALUE_ABSENT};
        struct parts parts;
        double sum, total;
        uint64_t raw;

        if (column->num[0] == METRIC_NONE)
                return absent;
        switch (column->op) {
        case OP_RATE:
        case OP_RATIO:
        case OP_DELTA:
                if (!row->has_base || !(state_row_seconds(row) > 0)) /* no interval yet: not even 0 of 0 */
                        return absent;
                if (!parts_of(row, column, &parts))
                        return (struct value){.kind = VALUE_ABSENT, .flags = parts.flags};
                return value_of(column, &parts);
        case OP_LAST:
                return sum_levels(row, column->num, &sum) ? number_value(sum * column->scale) : absent;
        case OP_SHARE:
                if (!sum_levels(row, column->num, &sum))
                        return absent;
                if (!sum_levels(state_one(state, metrics[column->den[0]].scope), column->den, &total) || !(total > 0))
                        return absent;
                return number_value(sum / total * column->scale);
        case OP_AGE:
                if (!state_now(row, column->num[0], &raw))
                        return absent;
                sum = (double)state_info(state).boot_ns - (double)raw;
                return number_value(sum > 0 ? sum * column->scale : 0);
        case OP_LETTER:
                return state_now(row, column->num[0], &raw) ? letter_value(raw) : absent;
        case OP_NAME: {
                struct value value = {.kind = VALUE_TEXT};
                value.text = state_text(state, row, column->num[0], &value.length);
                return value.text ? value : absent;
        }
        case OP_WORD:
                return absent;
        }
        return absent;
}

struct value metric_value_all(const struct state *state, const struct column *column, bool (*keep)(const struct state_row *, void *),
        void *arg)
{
        enum scope scope = metric_view(column->view)->scope;
        struct parts sum = {0};
        bool any = false;

        if (column->op != OP_RATIO)
                return metric_value_sum(state, column, keep, arg);
        for (size_t i = 0, n = state_count(state, scope); i < n; i++) {
                const struct state_row *row = state_at(state, scope, i);
                struct parts parts;
                if (row->gone || !row->has_base || (keep && !keep(row, arg)) || !parts_of(row, column, &parts))
                        continue;
                sum.num += parts.num;
                sum.low += parts.low;
                sum.high += parts.high;
                sum.den += parts.den;
                sum.flags |= parts.flags;
                any = true;
        }
        return any ? value_of(column, &sum) : (struct value){.kind = VALUE_ABSENT};
}

struct value metric_value_sum(const struct state *state, const struct column *column, bool (*keep)(const struct state_row *, void *),
        void *arg)
{
        enum scope scope = metric_view(column->view)->scope;
        struct value sum = {.kind = VALUE_ABSENT};

        for (size_t i = 0, n = state_count(state, scope); i < n; i++) {
                const struct state_row *row = state_at(state, scope, i);
                if (row->gone || (keep && !keep(row, arg)))
                        continue;
                struct value value = metric_value(state, row, column);
                if (value.kind != VALUE_NUMBER)
                        continue;
                sum.kind = VALUE_NUMBER;
                sum.number += value.number;
                sum.low += value.low;
                sum.high += value.high;
                sum.flags |= value.flags;
        }
        if (sum.kind == VALUE_NUMBER)
                sum.mark = metric_mark(sum.number, sum.low, sum.high);
        return sum;
}

/* ---- text of a value ---------------------------------------------------------------------------------------------------------------- */

/* A number with a fixed count of decimals. Tables of thousands of cells spend most of their time here, and printf's exact way is ten times
 * slower; this one rounds the scaled number, so that an exact half may fall the other way. No locale has a say. */
static size_t print_fixed(char *buffer, size_t size, unsigned decimals, double number)
{
        static const double scales[] = {1, 10, 100, 1000, 1e4, 1e5, 1e6};
        char digits[24];
        size_t count = 0, length = 0;
        unsigned long long left = (unsigned long long)rint(fabs(number) * scales[decimals]);
        bool negative = number < 0 && left > 0;

        do
                digits[count++] = (char)('0' + left % 10);
        while ((left /= 10) > 0 || count <= decimals);
        if (size < count + 3)
                return 0;
        if (negative)
                buffer[length++] = '-';
        while (count > 0) {
                if (count == decimals)
                        buffer[length++] = '.';
                buffer[length++] = digits[--count];
        }
        buffer[length] = '\0';
        return length;
}

/* snprintf follows LC_NUMERIC; whatever the locale made of the point becomes a point again. */
static size_t print_precise(char *buffer, size_t size, int precision, double number)
{
        int written = snprintf(buffer, size, "%.*g", precision, number);
        if (written < 0 || size == 0)
                return 0;
        size_t length = (size_t)written < size ? (size_t)written : size - 1;
        for (size_t i = 0; i < length; i++)
                if (!strchr("0123456789eE+-.infa", buffer[i]))
                        buffer[i] = '.';
        return length;
}

static size_t put(char *buffer, size_t size, const char *text, size_t length)
{
        if (size == 0)
                return 0;
        if (length > size - 1)
                length = size - 1;
        memcpy(buffer, text, length);
        buffer[length] = '\0';
        return length;
}

size_t value_format(char *buffer, size_t size, const struct value *value, unsigned decimals)
{
        char text[48];
        size_t length = 0;

        if (value->kind == VALUE_TEXT)
                return put(buffer, size, value->text, value->length);
        if (value->kind == VALUE_ABSENT || !isfinite(value->number))
                return put(buffer, size, "-", 1);
        if (value->mark == MARK_AT_MOST || value->mark == MARK_AT_LEAST)
                text[length++] = value->mark == MARK_AT_MOST ? '<' : '>';
        unsigned places = decimals > 6 ? 6 : decimals;
        if (fabs(value->number) < 1e12)
                length += print_fixed(text + length, sizeof text - length - 1, places, value->number);
        else
                length += print_precise(text + length, sizeof text - length - 1, 15, value->number);
        if (value->mark == MARK_ESTIMATE)
                text[length++] = '~';
        return put(buffer, size, text, length);
}

size_t value_exact(char *buffer, size_t size, const struct value *value, const char *absent)
{
        char text[48];
        size_t length = 0;

        if (value->kind == VALUE_TEXT)
                return put(buffer, size, value->text, value->length);
        if (value->kind == VALUE_ABSENT || !isfinite(value->number))
                return put(buffer, size, absent, strlen(absent));
        double number = value->number == 0 ? 0 : value->number;
        for (int precision = 15; precision <= 17; precision++) { /* the shortest that reads back as the same number */
                length = print_precise(text, sizeof text, precision, number);
                double back;
                if (sscanf(text, "%lf", &back) == 1 && back == number)
                        break;
        }
        return put(buffer, size, text, length);
}

int value_compare(const struct value *left, const struct value *right)
{
        if (left->kind != right->kind || left->kind == VALUE_ABSENT)
                return (left->kind == VALUE_ABSENT) - (right->kind == VALUE_ABSENT);
        if (left->kind == VALUE_NUMBER)
                return left->number > right->number ? -1 : left->number < right->number;
        size_t shorter = left->length < right->length ? left->length : right->length;
        int order = memcmp(left->text, right->text, shorter);
        if (order == 0)
                order = left->length < right->length ? -1 : left->length > right->length;
        return order;
}
