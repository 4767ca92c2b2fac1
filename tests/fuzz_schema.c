/*
 * The schema block of a stranger's ring. What is accepted must be usable: every mapped slot exists and is of the scope it is mapped to.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sample/sample.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t fuzz_seed(unsigned number, uint8_t *buffer, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct schema schema;
        char *copy = malloc(size ? size : 1); /* of the exact size, so that a read past the end is seen */

        if (!copy)
                return 0;
        memcpy(copy, data, size);
        int answer = schema_read(&schema, copy, size);
        free(copy);
        if (answer < 0)
                return 0;
        for (int s = 0; s < 32; s++) {
                if (schema.scope[s] < -1 || schema.scope[s] >= SCOPE_COUNT || (schema.text[s] & ~schema.slots[s]))
                        abort();
                for (int i = 0; i < ROW_SLOTS; i++) {
                        int metric = schema.metric[s][i];

                        if (metric == METRIC_NONE)
                                continue;
                        if (metric < 0 || metric >= METRIC_COUNT || (int)metrics[metric].scope != schema.scope[s])
                                abort();
                        if (((schema.text[s] >> i) & 1) != (metrics[metric].kind == KIND_TEXT) || !((schema.slots[s] >> i) & 1))
                                abort();
                }
        }
        return 0;
}

size_t fuzz_seed(unsigned number, uint8_t *buffer, size_t size)
{
        static const char *const blocks[] = {
                "watop schema 1\nscope 0 cpu\nslot 0 cpu.user time ns\nslot 63 cpu.idle time ns more words\n",
                ("watop schema 1\nscope 31 moon\nslot 0 moon.name text text\nscope 2 disk\n"
                 "slot 0 disk.name text text\nslot 1 disk.reads counter count\n"),
                "watop schema 1\nremark this is from a newer one\nscope 0 fact\nslot 5 fact.value text text\n",
        };

        if (number == 3)
                return schema_write((char *)buffer, size);
        if (number > 3 || strlen(blocks[number]) > size)
                return 0;
        memcpy(buffer, blocks[number], strlen(blocks[number]));
        return strlen(blocks[number]);
}
