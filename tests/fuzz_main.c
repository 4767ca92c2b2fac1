/*
 * A small driver for fuzzers where libFuzzer is not there: random mutations of the seeds that the target offers, for a stated number of
 * seconds, from a stated random seed, so that a failure can be repeated (--seed N --runs M). --write DIR only writes the seeds there, for
 * libFuzzer.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
/* Each target offers seeds by number: length written to buffer, 0 when there are no more. */
size_t fuzz_seed(unsigned number, uint8_t *buffer, size_t size);

enum { INPUT_MAX = 1 << 16 };

static uint64_t random_state;

static uint64_t random_next(void)
{
        random_state ^= random_state << 13;
        random_state ^= random_state >> 7;
        random_state ^= random_state << 17;
        return random_state;
}

static size_t mutate(uint8_t *data, size_t length)
{
        for (uint64_t n = random_next() % 8; n > 0; n--) {
                size_t at = length ? random_next() % length : 0;
                switch (random_next() % 6) {
                case 0: if (length) data[at] ^= (uint8_t)(1u << (random_next() % 8)); break;
                case 1: if (length) data[at] = (uint8_t)random_next(); break;
                case 2: if (length > 1) length = 1 + random_next() % (length - 1); break;
                case 3: if (length + 16 < INPUT_MAX) { memmove(data + at + 8, data + at, length - at); length += 8; } break;
                case 4: if (at + 8 <= length) { uint64_t v = random_next() % 2 ? UINT64_MAX : random_next() % 300;
                        memcpy(data + at, &v, 8); } break;
                default: if (at + 4 <= length) { uint32_t v = (uint32_t)random_next(); memcpy(data + at, &v, 4); } break;
                }
        }
        return length;
}

static int write_seeds(const char *folder)
{
        static uint8_t seed[INPUT_MAX];
        char path[512];
        size_t length;

        for (unsigned n = 0; (length = fuzz_seed(n, seed, sizeof seed)) > 0; n++) {
                snprintf(path, sizeof path, "%s/seed%u", folder, n);
                FILE *file = fopen(path, "wb");
                if (!file || fwrite(seed, 1, length, file) != length || fclose(file) != 0) {
                        perror(path);
                        return 1;
                }
        }
        return 0;
}

int main(int argc, char **argv)
{
        double seconds = 2;
        unsigned long runs = 0;
        uint64_t seed = 1;
        static uint8_t input[INPUT_MAX];

        for (int i = 1; i + 1 < argc; i += 2) {
                if (strcmp(argv[i], "--seconds") == 0) seconds = strtod(argv[i + 1], NULL);
                else if (strcmp(argv[i], "--seed") == 0) seed = strtoull(argv[i + 1], NULL, 10);
                else if (strcmp(argv[i], "--write") == 0) return write_seeds(argv[i + 1]);
                else if (strcmp(argv[i], "--runs") == 0) runs = strtoul(argv[i + 1], NULL, 10);
        }
        random_state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;

        unsigned seeds = 0;
        while (fuzz_seed(seeds, input, sizeof input) > 0)
                LLVMFuzzerTestOneInput(input, fuzz_seed(seeds++, input, sizeof input));

        struct timespec start, now;
        clock_gettime(CLOCK_MONOTONIC, &start);
        unsigned long count = 0;
        for (;; count++) {
                if (runs ? count >= runs : count % 64 == 0) {
                        clock_gettime(CLOCK_MONOTONIC, &now);
                        if (runs || (double)(now.tv_sec - start.tv_sec) + (double)(now.tv_nsec - start.tv_nsec) * 1e-9 > seconds)
                                break;
                }
                size_t length = seeds ? fuzz_seed((unsigned)(random_next() % seeds), input, sizeof input) : random_next() % 512;
                length = mutate(input, length);
                LLVMFuzzerTestOneInput(input, length);
        }
        printf("%lu inputs from %u seeds, random seed %llu\n", count, seeds, (unsigned long long)seed);
        return 0;
}
