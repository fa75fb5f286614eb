/* SPDX-License-Identifier: Apache-2.0 */
/* index_sort.c - see index.h: sorts entries by ascending key. */
#include "ps/table/index.h"

enum { FEW = 48, CACHED = 4096 /* entries: 48 KB */ };

static void sort_few(struct ps_index_entry *e, uint64_t n) {
    for (uint64_t i = 1; i < n; i++) {
        const struct ps_index_entry x = e[i];
        uint64_t k = i;
        for (; k && e[k - 1].key > x.key; k--)
            e[k] = e[k - 1];
        e[k] = x;
    }
}

/* Distributes the entries into about n heaps in a second array; then only neighbours are out of
 * order and insertion sort is fast. Returns 0, with e unchanged, if a heap would be larger than
 * FEW. */
static int sort_in_cache(struct ps_index_entry *e, uint32_t n, int high) {
    struct ps_index_entry aside[CACHED];
    uint16_t at[CACHED] = {0};
    const int bits = 32 - __builtin_clz(n - 1), shift = high >= bits ? high - bits + 1 : 0;
    const uint32_t mask = (1u << bits) - 1;
    uint32_t sum = 0, most = 0;
    for (uint32_t i = 0; i < n; i++)
        at[e[i].key >> shift & mask]++;
    for (uint32_t h = 0; h <= mask; h++) {
        const uint16_t k = at[h];
        most = k > most ? k : most;
        at[h] = (uint16_t)sum;
        sum += k;
    }
    if (most > FEW)
        return 0;
    for (uint32_t i = 0; i < n; i++)
        aside[at[e[i].key >> shift & mask]++] = e[i];
    memcpy(e, aside, n * sizeof *e);
    sort_few(e, n);
    return 1;
}

/* Distributes the entries into 256 heaps by the highest byte in which keys differ, exchanging them
 * in place, then sorts each heap in the same way. The heaps soon fit into the cache. Source: P.
 * McIlroy, K. Bostic, M. D. McIlroy, "Engineering radix sort", Computing Systems 6(1), 1993
 * (American flag sort). */
void ps_index_sort_entries(struct ps_index_entry *e, uint64_t n) {
    enum { HEAPS = 256 };
    uint64_t differ = 0, at[HEAPS] = {0}, end[HEAPS], sum = 0;
    if (n <= FEW) {
        sort_few(e, n);
        return;
    }
    for (uint64_t i = 1; i < n; i++)
        differ |= e[i].key ^ e[0].key;
    if (!differ)
        return;
    const int high = 63 - __builtin_clzll(differ), shift = high > 7 ? high - 7 : 0;
    if (n <= CACHED && sort_in_cache(e, (uint32_t)n, high))
        return;
    for (uint64_t i = 0; i < n; i++)
        at[e[i].key >> shift & (HEAPS - 1)]++;
    for (int h = 0; h < HEAPS; h++) {
        const uint64_t k = at[h];
        at[h] = sum;
        end[h] = sum += k;
    }
    for (int h = 0; h < HEAPS; h++)
        while (at[h] < end[h]) {
            struct ps_index_entry x = e[at[h]];
            for (uint64_t to; (to = x.key >> shift & (HEAPS - 1)) != (uint64_t)h;) {
                const struct ps_index_entry y = e[at[to]];
                e[at[to]++] = x;
                x = y;
            }
            e[at[h]++] = x;
        }
    for (int h = 0; shift && h < HEAPS; h++) {
        const uint64_t from = h ? end[h - 1] : 0;
        ps_index_sort_entries(e + from, end[h] - from);
    }
}

void ps_index_sort_heap(struct ps_index_entry *e, const struct ps_index_heaps *heaps, uint32_t h,
                        uint64_t *from, uint64_t *to) {
    *from = h ? heaps->end[h - 1] : 0;
    *to = heaps->end[h];
    ps_index_sort_entries(e + *from, *to - *from);
}
