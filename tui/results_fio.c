/*
 * fio --output-format=json: the same results as from its text, from exact numbers. The parser is json-c's: the text is a stranger's.
 */
#include <json-c/json.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tui/results.h"

static bool number_at(struct json_object *object, const char *key, double *value)
{
        struct json_object *item;

        if (!json_object_object_get_ex(object, key, &item) ||
            !(json_object_is_type(item, json_type_double) || json_object_is_type(item, json_type_int)))
                return false;
        *value = json_object_get_double(item);
        return isfinite(*value);
}

static void add(struct results *results, const struct result *like, const char *suffix, double value, const char *unit,
        enum result_rule rule)
{
        struct result result = *like;

        result.value = value;
        result.rule = rule;
        snprintf(result.name, sizeof result.name, "%.40s %.20s", like->name, suffix);
        snprintf(result.unit, sizeof result.unit, "%s", unit);
        snprintf(result.line, sizeof result.line, "(JSON) %.60s: %.17g", result.name, value);
        results_add(results, &result);
}

static void direction(struct results *results, struct json_object *job, const char *job_name, const char *word, size_t offset)
{
        static const char *const percentiles[][2] = { { "50.000000", "clat p50" }, { "95.000000", "clat p95" }, { "99.000000", "clat p99" },
                { "99.900000", "clat p99.9" } };
        struct result like = { .tool = "fio", .offset = offset };
        struct json_object *side, *clat, *list;
        double value;

        if (!json_object_object_get_ex(job, word, &side) || !number_at(side, "total_ios", &value) || value == 0)
                return;
        snprintf(like.name, sizeof like.name, "%.30s %s", job_name, word);
        if (number_at(side, "iops", &value))
                add(results, &like, "IOPS", value, "/s", RESULT_SUM);
        if (number_at(side, "bw_bytes", &value))
                add(results, &like, "BW", value / 1048576, "MiB/s", RESULT_SUM);
        if (!json_object_object_get_ex(side, "clat_ns", &clat))
                return;
        if (number_at(clat, "mean", &value))
                add(results, &like, "clat avg", value / 1e6, "ms", RESULT_RANGE);
        if (!json_object_object_get_ex(clat, "percentile", &list))
                return;
        for (size_t i = 0; i < sizeof percentiles / sizeof *percentiles; i++)
                if (number_at(list, percentiles[i][0], &value))
                        add(results, &like, percentiles[i][1], value / 1e6, "ms", RESULT_RANGE);
}

static void disk(struct results *results, struct json_object *item, size_t offset)
{
        static const struct { const char *key, *name, *unit; } fields[] = { { "read_ios", "ios read", "" },
                { "write_ios", "ios write", "" },
                { "read_ticks", "ticks read", "ms" }, { "write_ticks", "ticks write", "ms" }, { "in_queue", "in_queue", "ms" },
                { "util", "util", "%" } };
        struct result like = { .tool = "fio", .offset = offset };
        struct json_object *name;
        double value;

        if (!json_object_object_get_ex(item, "name", &name) || !json_object_is_type(name, json_type_string))
                return;
        snprintf(like.name, sizeof like.name, "%.30s", json_object_get_string(name));
        for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
                if (number_at(item, fields[i].key, &value))
                        add(results, &like, fields[i].name, value, fields[i].unit, RESULT_MAX);
}

bool results_fio_json(struct results *results, const char *bytes, size_t length, size_t offset, size_t *used)
{
        struct json_tokener *tokener = json_tokener_new();
        struct json_object *root, *jobs, *item, *name;

        if (tokener == NULL)
                return false;
        size_t most = length < (size_t)1 << 30 ? length : (size_t)1 << 30;
        root = json_tokener_parse_ex(tokener, bytes, (int)most);
        *used = json_tokener_get_parse_end(tokener);
        json_tokener_free(tokener);
        if (root == NULL)
                return false;
        bool ours = json_object_is_type(root, json_type_object) && json_object_object_get_ex(root, "fio version", &item);
        if (ours && json_object_object_get_ex(root, "jobs", &jobs) && json_object_is_type(jobs, json_type_array))
                for (size_t i = 0; i < json_object_array_length(jobs); i++) {
                        item = json_object_array_get_idx(jobs, i);
                        const char *job = json_object_object_get_ex(item, "jobname", &name) && json_object_is_type(name, json_type_string) ?
                                json_object_get_string(name) : "job";
                        direction(results, item, job, "read", offset);
                        direction(results, item, job, "write", offset);
                        direction(results, item, job, "trim", offset);
                }
        if (ours && json_object_object_get_ex(root, "disk_util", &jobs) && json_object_is_type(jobs, json_type_array))
                for (size_t i = 0; i < json_object_array_length(jobs); i++)
                        disk(results, json_object_array_get_idx(jobs, i), offset);
        json_object_put(root);
        return ours && *used > 0;
}
