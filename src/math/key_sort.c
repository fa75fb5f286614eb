/* SPDX-License-Identifier: Apache-2.0 */
/* key_sort.c - radix sort by digits of 11 bits, lowest first. Digits that are equal in all keys are
 * skipped. */
#include "math/key_sort.h"

enum { BITS = 11, SIZE = 1 << BITS };

void pd_key_sort(struct pd_sort_key **v, struct pd_sort_key **spare, size_t n) {
    uint64_t differ = 0;
    for (size_t i = 1; i < n; i++)
        differ |= (*v)[i].key ^ (*v)[0].key;
    for (int shift = 0; shift < 64; shift += BITS) {
        size_t at[SIZE] = {0}, sum = 0;
        struct pd_sort_key *from = *v, *to = *spare;
        if (!(differ >> shift & (SIZE - 1)))
            continue;
        for (size_t i = 0; i < n; i++)
            at[from[i].key >> shift & (SIZE - 1)]++;
        for (int d = 0; d < SIZE; d++) {
            size_t k = at[d];
            at[d] = sum;
            sum += k;
        }
        for (size_t i = 0; i < n; i++)
            to[at[from[i].key >> shift & (SIZE - 1)]++] = from[i];
        *v = to;
        *spare = from;
    }
}
