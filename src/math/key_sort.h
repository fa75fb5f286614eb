/* SPDX-License-Identifier: Apache-2.0 */
/* key_sort.h - sorts 64-bit keys with a payload. The radix sort is stable: equal keys keep their
 * order, so sums over equal keys always have the same bits. Linear time; a digit that all keys
 * share costs one check. */
#pragma once

struct pd_sort_key {
    uint64_t key;
    uint32_t a, b; /* payload of the caller: the origin of the key */
};

/* Sort (*v)[0..n) by key. *spare has room for n elements. The result is in *v; the function may
 * swap *v and *spare. */
void pd_key_sort(struct pd_sort_key **v, struct pd_sort_key **spare, size_t n);
