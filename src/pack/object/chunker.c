/* SPDX-License-Identifier: Apache-2.0 */
/* chunker.c - see chunker.h. */
#include "pack/object/chunker.h"

#include "math/hash.h"
#include "pack/object/chunker_gear.h"

enum {
    KIB = 1024,
    LOG_SMALL = 14,
    LOG_LARGE = 16,
    LOG_HUGE = 17,
    NORMAL = 1,
    BUNDLE_REST = 32 * KIB
};
#define LARGE_FILE (UINT64_C(64) << 20)
#define HUGE_FILE (UINT64_C(4) << 30)
#define MANY_OBJECTS (UINT64_C(512) << 10)

/* The k highest bits. In a gear hash these depend on the last 64 bytes. */
static uint64_t high_bits(unsigned k) { return ~UINT64_C(0) << (64 - k); }

void chunker_init(struct chunker *c, uint64_t file_bytes, uint64_t tree_bytes) {
    unsigned k = file_bytes < LARGE_FILE  ? LOG_SMALL
                 : file_bytes < HUGE_FILE ? LOG_LARGE
                                          : LOG_HUGE;
    while (k < LOG_HUGE && tree_bytes >> k > MANY_OBJECTS)
        k++;
    c->mean = UINT32_C(1) << k;
    c->min = c->mean / 4;
    c->max = k >= LOG_LARGE ? 256 * KIB : 4 * c->mean;
    c->strict = high_bits(k + NORMAL);
    c->lax = high_bits(k - NORMAL);
}

size_t chunker_cut(const struct chunker *c, const uint8_t *p, size_t n) {
    if (n <= c->min)
        return n;
    size_t end = n < c->max ? n : c->max, middle = end < c->mean ? end : c->mean, i = c->min;
    uint64_t h = 0;
    /* Fill the window of the hash: the tested bits depend on the bytes before. */
    for (size_t k = i >= 64 ? i - 64 : 0; k < i; k++)
        h = (h << 1) + gear[p[k]];
    for (; i < middle; i++) {
        h = (h << 1) + gear[p[i]];
        if (!(h & c->strict))
            return i + 1;
    }
    for (; i < end; i++) {
        h = (h << 1) + gear[p[i]];
        if (!(h & c->lax))
            return i + 1;
    }
    return end;
}

int chunker_bundle_ends(const char *path, size_t path_len, size_t bundle_bytes,
                        uint64_t file_bytes) {
    if (bundle_bytes < CHUNKER_BUNDLE_MIN)
        return 0;
    uint64_t h = 1;
    for (size_t i = 0; i < path_len; i++)
        h = pd_mix64(h + (uint8_t)path[i]);
    return (h & 0xffff) < (file_bytes + 256) * 65536 / BUNDLE_REST;
}
