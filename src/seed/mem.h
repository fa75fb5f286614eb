/* SPDX-License-Identifier: Apache-2.0 */
/* mem.h - memory functions without a libc. */
#pragma once

#include <stddef.h>
#include <stdint.h>

static inline void mem_copy(void *to, const void *from, size_t n) {
    uint8_t *t = to;
    const uint8_t *f = from;
    for (; n; n--)
        *t++ = *f++;
}

static inline void mem_zero(void *to, size_t n) {
    for (uint8_t *t = to; n; n--)
        *t++ = 0;
}

/* 1: the bytes are equal. Constant time. */
static inline int mem_same(const void *a, const void *b, size_t n) {
    const uint8_t *x = a, *y = b;
    uint8_t differ = 0;
    for (; n; n--)
        differ |= (uint8_t)(*x++ ^ *y++);
    return !differ;
}
