/* SPDX-License-Identifier: Apache-2.0 */
/* shuffle_buffer.h - lines (or records) in memory, to be returned in another order. */
#pragma once

#include "math/rng.h"

struct data_shuffle_buffer { /* zeroed before first use */
    struct pd_buf text;
    struct data_buffered_line {
        uint64_t at;
        uint32_t n;
    } * line;
    size_t n, cap;
};

int data_shuffle_buffer_add(struct data_shuffle_buffer *h, const void *p, size_t n,
                            struct pd_err *err); /* copies; n < 2^32 */
/* Fisher-Yates shuffle; draw i depends on (key, i) only. */
void data_shuffle_buffer_shuffle(struct data_shuffle_buffer *h, struct pd_rng_key key);
/* Line i in the current order, valid until the next add. */
static inline const char *data_shuffle_buffer_get(const struct data_shuffle_buffer *h, uint64_t i,
                                                  size_t *n) {
    *n = h->line[i].n;
    return h->text.len ? (const char *)h->text.data + h->line[i].at : "";
}
void data_shuffle_buffer_release(struct data_shuffle_buffer *h);
