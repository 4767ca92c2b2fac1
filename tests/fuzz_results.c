/*
 * Fuzzer of the reader of benchmarks' output: whatever the bytes, results are finite, named and terminated, and lie inside the output.
 */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tui/results.h"

size_t fuzz_seed(unsigned number, uint8_t *buffer, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct results results = { 0 };
        char *exact = malloc(size + 1); /* so that a read beyond it is seen */

        if (exact == NULL)
                return 0;
        memcpy(exact, data, size);
        char *text = realloc(exact, size > 0 ? size : 1);
        if (results_scan(&results, text, size, NULL, 0) == 0)
                for (size_t i = 0; i < results.count; i++) {
                        const struct result *item = &results.items[i];
                        if (!isfinite(item->value) || item->offset >= size || memchr(item->name, '\0', sizeof item->name) == NULL ||
                            memchr(item->line, '\0', sizeof item->line) == NULL || item->tool == NULL)
                                abort();
                        results_sum(&results, 0, results.count, i, true);
                }
        results_fini(&results);
        free(text);
        return 0;
}

size_t fuzz_seed(unsigned number, uint8_t *buffer, size_t size)
{
        static const char *const seeds[] = {
                "SET: rps=0.0 (overall: -nan)\rSET: 77821.02 requests per second, p50=0.327 msec\n",
                "====== SET ======\n  throughput summary: 89686.09 requests per second\n  avg min p50 p95 p99 max\n"
                " 0.3 0.1 0.2 0.4 0.7 1.8\n",
                "Type         Ops/sec     p99 Latency       KB/sec \nTotals     100527.09         1.98710      4265.82 \n",
                "j: (groupid=0, jobs=2): err= 0\n  read: IOPS=30.1k, BW=118MiB/s (1)\n    clat percentiles (nsec):\n"
                "     | 99.00th=[ 207872], 99.90th=[ 5]\n",
                "{\"fio version\": \"3\", \"jobs\": [{\"jobname\": \"j\", \"read\": {\"total_ios\": 1, \"iops\": 2e3}}], "
                "\"disk_util\": [{\"name\": \"x\"}]}\n",
                "    reads/s:  1.5\nLatency (ms):\n         95th percentile:    0.12\n",
                "tps = 1.5 (without initial)\n1 bytes copied, 2 s, 3 B/s\nRequests/sec: 7.5\n",
        };

        if (number >= sizeof seeds / sizeof *seeds || size < 512)
                return 0;
        memcpy(buffer, seeds[number], strlen(seeds[number]));
        return strlen(seeds[number]);
}
