/* keyed.h - sorting 64-bit keys that carry a place: a stable radix sort, so that equal keys stay in
 * the order they came in and sums over them have the same bits every time. Linear; bytes that all
 * keys share cost one look. */
#ifndef PD_BASE_KEYED_H
#define PD_BASE_KEYED_H

#include <stddef.h>
#include <stdint.h>

struct pd_keyed {
    uint64_t key;
    uint32_t a, b; /* the caller's: where the key came from */
};

/* Sorts (*v)[0..n) by key; *spare has room for as many. The result is in *v: the two may have
 * changed places. */
void pd_sort_keyed(struct pd_keyed **v, struct pd_keyed **spare, size_t n);

#endif
