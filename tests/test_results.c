/*
 * Results in the output of benchmarks: the tools' own output, as they printed it, gives the numbers that stand in it and no others.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tui/results.h"

static struct results scan(const char *text)
{
        struct results results = { 0 };
        assert_int_equal(results_scan(&results, text, strlen(text), NULL, 0), 0);
        return results;
}

static const struct result *find(const struct results *results, const char *name)
{
        for (size_t i = 0; i < results->count; i++)
                if (strcmp(results->items[i].name, name) == 0)
                        return &results->items[i];
        return NULL;
}

static void is(const struct results *results, const char *tool, const char *name, double value, const char *unit, enum result_rule rule)
{
        const struct result *found = find(results, name);
        if (found == NULL)
                fail_msg("no result \"%s\"", name);
        assert_string_equal(found->tool, tool);
        assert_string_equal(found->unit, unit);
        assert_int_equal(found->rule, rule);
        assert_true(fabs(found->value - value) <= 1e-9 * fabs(value));
}

static void redis_quiet(void **state)
{
        struct results r = scan(" \rSET: rps=0.0 (overall: -nan) avg_msec=-nan (overall: -nan)\r        \rSET: rps=77836.7 (overall: "
                "77527.8)\r     "
                "\rSET: 77821.02 requests per second, p50=0.327 msec                    \n"
                "GET: 75187.97 requests per second, p50=0.319 msec\n\n");
        assert_int_equal(r.count, 4);
        is(&r, "redis-benchmark", "SET", 77821.02, "r/s", RESULT_SUM);
        is(&r, "redis-benchmark", "SET p50", 0.327, "ms", RESULT_RANGE);
        is(&r, "redis-benchmark", "GET", 75187.97, "r/s", RESULT_SUM);
        assert_true(strncmp(find(&r, "SET")->line, "SET: 77821.02 requests", 22) == 0);
        results_fini(&r);
        r = scan("SET: 91166.00 requests per second\n"); /* before 6.2 */
        assert_int_equal(r.count, 1);
        results_fini(&r);
}

static void redis_long(void **state)
{
        struct results r = scan("====== LPUSH (needed to benchmark LRANGE) ======\n  20000 requests completed in 0.22 seconds\n"
                "  50 parallel clients\n"
                "\nLatency by percentile distribution:\n50.000% <= 0.287 milliseconds (cumulative count 10662)\n\nSummary:\n"
                "  throughput summary: 89686.09 requests per second\n  latency summary (msec):\n"
                "          avg       min       p50       p95       p99       max\n"
                "        0.302     0.072     0.287     0.471     0.703     1.815\n");
        assert_int_equal(r.count, 7);
        is(&r, "redis-benchmark", "LPUSH (needed to benchmark LRANGE)", 89686.09, "r/s", RESULT_SUM);
        is(&r, "redis-benchmark", "LPUSH (needed to benchmark LRANGE) p99", 0.703, "ms", RESULT_RANGE);
        results_fini(&r);
        r = scan("====== SET ======\n  100000 requests completed in 1.10 seconds\n99.9% <= 1 milliseconds\n"
                "91166.00 requests per second\n\n");
        is(&r, "redis-benchmark", "SET", 91166.00, "r/s", RESULT_SUM);
        results_fini(&r);
        r = scan("\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\"p95_latency_ms\","
                "\"p99_latency_ms\",\"max_latency_ms\"\n"
                "\"SET\",\"102564.11\",\"0.277\",\"0.080\",\"0.271\",\"0.399\",\"0.487\",\"0.799\"\n");
        assert_int_equal(r.count, 7);
        is(&r, "redis-benchmark", "SET avg", 0.277, "ms", RESULT_RANGE);
        is(&r, "redis-benchmark", "SET min", 0.080, "ms", RESULT_RANGE);
        is(&r, "redis-benchmark", "SET p95", 0.399, "ms", RESULT_RANGE);
        results_fini(&r);
}

static void memtier(void **state)
{
        struct results r = scan("ALL STATS\n"
        "============================================================================================================================\n"
        "Type         Ops/sec     Hits/sec   Misses/sec    Avg. Latency     p50 Latency     p99 Latency   p99.9 Latency       KB/sec \n"
        "----------------------------------------------------------------------------------------------------------------------------\n"
        "Sets         9147.02          ---          ---         1.98812         1.83900         4.57500         7.42300       704.48 \n"
        "Gets        91380.07       100.50     91279.57         1.98700         1.83900         4.54300         7.42300      3561.34 \n"
        "Totals     100527.09       100.50     91279.57         1.98710         1.83900         4.54300         7.42300      4265.82 \n");
        is(&r, "memtier_benchmark", "Totals Ops/sec", 100527.09, "/s", RESULT_SUM);
        is(&r, "memtier_benchmark", "Totals p99.9 Latency", 7.423, "ms", RESULT_RANGE);
        is(&r, "memtier_benchmark", "Sets KB/sec", 704.48, "/s", RESULT_SUM);
        assert_null(find(&r, "Sets Hits/sec"));
        results_fini(&r);
}

static void fio_text(void **state)
{
        struct results r = scan("j: (g=0): rw=randrw, bs=(R) 4096B-4096B, (W) 4096B-4096B, ioengine=psync, iodepth=1\n"
                "j: (groupid=0, jobs=2): err= 0: pid=18608: Mon Nov 30 19:06:05 2026\n"
                "  read: IOPS=30.1k, BW=118MiB/s (123MB/s)(118MiB/1001msec)\n"
                "    clat (nsec): min=402, max=3995.6k, avg=52524.10, stdev=72991.62\n"
                "     lat (nsec): min=427, max=3995.6k, avg=52597.10, stdev=73016.78\n"
                "    clat percentiles (nsec):\n     |  1.00th=[    812],  5.00th=[    980], 10.00th=[   1064],\n"
                "     | 50.00th=[  22400], 95.00th=[ 146432],\n     | 99.00th=[ 207872], 99.50th=[ 246784], 99.90th=[ 509952],\n"
                "   bw (  KiB/s): min=117696, max=117696, per=97.64%, avg=117696.00, stdev= 0.00, samples=2\n"
                "  write: IOPS=303, BW=1214KiB/s (1243kB/s)(119MiB/1001msec); 0 zone resets\n"
                "Disk stats (read/write):\n  vda: ios=13263/5095, merge=0/4, ticks=1163/2932, in_queue=4095, util=69.33%\n");
        is(&r, "fio", "j read IOPS", 30100, "/s", RESULT_SUM);
        is(&r, "fio", "j read BW", 118, "MiB/s", RESULT_SUM);
        is(&r, "fio", "j read clat avg", 0.0525241, "ms", RESULT_RANGE);
        is(&r, "fio", "j read clat p50", 0.0224, "ms", RESULT_RANGE);
        is(&r, "fio", "j read clat p99.9", 0.509952, "ms", RESULT_RANGE);
        is(&r, "fio", "j write IOPS", 303, "/s", RESULT_SUM);
        is(&r, "fio", "j write BW", 1214.0 / 1024, "MiB/s", RESULT_SUM);
        is(&r, "fio", "vda ios write", 5095, "", RESULT_MAX);
        is(&r, "fio", "vda util", 69.33, "%", RESULT_MAX);
        results_fini(&r);
}

static void fio_json(void **state)
{
        struct results r = scan("fio: a warning before\n{\n \"fio version\" : \"fio-3.33\",\n"
                " \"jobs\" : [ { \"jobname\" : \"j\", \"read\" : { \"total_ios\" : 5,"
                " \"iops\" : 12090.909091, \"bw_bytes\" : 49524363, \"clat_ns\" : { \"mean\" : 81041.8, "
                "\"percentile\" : { \"99.000000\" : 164864 } } },"
                " \"write\" : { \"total_ios\" : 0, \"iops\" : 0 } } ],\n \"disk_util\" : [ { \"name\" : \"vda\", \"read_ios\" : 10759, "
                "\"util\" : 67.0 } ]\n}\n"
                "SET: 5.00 requests per second\n");
        is(&r, "fio", "j read IOPS", 12090.909091, "/s", RESULT_SUM);
        is(&r, "fio", "j read clat p99", 0.164864, "ms", RESULT_RANGE);
        is(&r, "fio", "vda ios read", 10759, "", RESULT_MAX);
        assert_null(find(&r, "j write IOPS"));
        assert_non_null(find(&r, "SET")); /* what follows the object is read too */
        results_fini(&r);
        r = scan("{\"fio version\": 1, \"jobs\": [null, 3, {\"jobname\": 7, \"read\": []}], \"disk_util\": {}}\n{\"a\": [}\n");
        assert_int_equal(r.count, 0);
        results_fini(&r);
}

static void others(void **state)
{
        struct results r = scan("File operations:\n    reads/s:                      49097.08\n    writes/s:                     32732.05\n"
                "    fsyncs/s:                     1638.20\n\nThroughput:\n    read, MiB/s:                  767.14\n"
                "    written, MiB/s:               511.44\n\n"
                "Latency (ms):\n         min:                                    0.00\n"
                "         avg:                                    0.01\n"
                "         max:                                    6.51\n         95th percentile:                        0.12\n"
                "         sum:                                  973.10\n\nThreads fairness:\n"
                "    events (avg/stddev):           83659.0000/1.50\n");
        is(&r, "sysbench", "reads", 49097.08, "/s", RESULT_SUM);
        is(&r, "sysbench", "written", 511.44, "MiB/s", RESULT_SUM);
        is(&r, "sysbench", "latency max", 6.51, "ms", RESULT_RANGE);
        is(&r, "sysbench", "latency p95", 0.12, "ms", RESULT_RANGE);
        for (size_t i = 0; i < r.count; i++)
                assert_null(strstr(r.items[i].name, "fairness")); /* no unit, and nothing that is compared */
        results_fini(&r);
        r = scan("Total operations: 51282 ( 5127.35 per second)\n\n50.08 MiB transferred (4858.31 MiB/sec)\n");
        is(&r, "sysbench", "operations", 5127.35, "/s", RESULT_SUM);
        is(&r, "sysbench", "transferred", 4858.31, "MiB/s", RESULT_SUM);
        results_fini(&r);
        r = scan("    transactions:                        4228   (211.31 per sec.)\n"
                "    queries:                             84560  (4226.20 per sec.)\n");
        is(&r, "sysbench", "transactions", 211.31, "/s", RESULT_SUM);
        results_fini(&r);
        r = scan("latency average = 0.806 ms\nlatency stddev = 0.101 ms\ninitial connection time = 2.1 ms\n"
                "tps = 1240.123456 (without initial connection time)\n"
                "tps = 85.1 (including connections establishing)\n");
        assert_int_equal(r.count, 3);
        is(&r, "pgbench", "tps", 1240.123456, "/s", RESULT_SUM);
        results_fini(&r);
        r = scan("  Thread Stats   Avg      Stdev     Max   +/- Stdev\n    Latency   635.91us    0.89ms  12.92ms   93.69%\n"
                "    Req/Sec    56.20k     8.07k   62.00k    86.54%\n"
                "  Latency Distribution\n     50%  250.00us\n     99%    4.12ms\n  22464657 requests in 30.00s, 17.76GB read\n"
                "Requests/sec: 748868.53\nTransfer/sec:    606.33MB\n");
        is(&r, "wrk", "requests", 748868.53, "r/s", RESULT_SUM);
        is(&r, "wrk", "transfer", 606.33, "MiB/s", RESULT_SUM);
        is(&r, "wrk", "latency avg", 0.63591, "ms", RESULT_RANGE);
        is(&r, "wrk", "latency p99", 4.12, "ms", RESULT_RANGE);
        results_fini(&r);
        r = scan("36283875328 bytes (36 GB, 34 GiB) copied, 1 s, 36.3 GB/s\r72580333568 bytes (73 GB, 68 GiB) copied, 2 s, 36.3 GB/s\n"
                "100+0 records in\n100+0 records out\n104857600 bytes (105 MB, 100 MiB) copied, 0.5 s, 210 MB/s\n");
        assert_int_equal(r.count, 1); /* progress is no result */
        is(&r, "dd", "copied", 209.7152, "MB/s", RESULT_SUM);
        results_fini(&r);
}

static void nothing(void **state)
{
        struct results r = scan("p50\n requests per second\nSET: -nan requests per second\nSET: 1.2.3 requests per second\n"
                "read: IOPS=x, BW=y\n IOPS=\n{\n{}\nbytes copied, 0 s\n"
                "1 bytes copied, 0 s, inf\n      0.1 0.2 0.3 0.4 0.5 0.6\n     |  50.00th=[    5]\n");
        assert_int_equal(r.count, 0);
        results_fini(&r);
}

static void own_rules(void **state)
{
        static const char text[] = "took 12.5 s\nQPS: 100\nQPS: 50 or so\nQPS: none\n";
        struct result_own own[3];
        struct results r = { 0 };
        char why[128];

        assert_int_equal(result_own_init(&own[0], "time max: took ([0-9.]+) s", why, sizeof why), 0);
        assert_int_equal(result_own_init(&own[1], "queries: QPS: ([0-9]+)", why, sizeof why), 0);
        assert_int_equal(result_own_init(&own[2], "last word mean: ([0-9]+)$", why, sizeof why), 0);
        assert_string_equal(own[2].name, "last word");
        assert_int_equal(results_scan(&r, text, sizeof text - 1, own, 3), 0);
        is(&r, "", "time", 12.5, "", RESULT_MAX);
        size_t queries = (size_t)(find(&r, "queries") - r.items);
        struct result_sum sum = results_sum(&r, 0, r.count, queries, true);
        assert_int_equal(sum.count, 2);
        assert_true(sum.value == 150 && sum.least == 50 && sum.largest == 100);
        assert_true(results_sum(&r, 0, r.count, queries, false).value == 75);
        for (int i = 0; i < 3; i++)
                result_own_fini(&own[i]);
        results_fini(&r);
        assert_int_equal(result_own_init(&own[0], "no colon", why, sizeof why), -22);
        assert_int_equal(result_own_init(&own[0], "bad: (", why, sizeof why), -22);
        assert_int_equal(result_own_init(&own[0], "nog: rate", why, sizeof why), -22);
        assert_true(why[0] != '\0');
}

/* The first document's clients: rates add up to the cent, percentiles are never averaged. */
static void combined(void **state)
{
        struct results r = scan("SET: 41011.24 requests per second, p50=0.871 msec\nSET: 45201.10 requests per second, p50=0.879 msec\n"
                "SET: 44900.05 requests per second, p50=0.863 msec\n");
        struct result_sum sum = results_sum(&r, 0, r.count, 0, true), p50 = results_sum(&r, 0, r.count, 1, true);
        assert_true(fabs(sum.value - 131112.39) < 1e-6);
        assert_int_equal(sum.count, 3);
        assert_true(isnan(p50.value) && p50.least == 0.863 && p50.largest == 0.879);
        assert_false(results_again(&r, 0, r.count, 0));
        assert_true(results_again(&r, 0, r.count, 2));
        results_fini(&r);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(redis_quiet), cmocka_unit_test(redis_long), cmocka_unit_test(memtier), cmocka_unit_test(fio_text),
                cmocka_unit_test(fio_json), cmocka_unit_test(others), cmocka_unit_test(nothing), cmocka_unit_test(own_rules),
                cmocka_unit_test(combined),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
