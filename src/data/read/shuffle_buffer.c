/* SPDX-License-Identifier: Apache-2.0 */
/* shuffle_buffer.c - see shuffle_buffer.h. */
#include "data/read/shuffle_buffer.h"

int data_shuffle_buffer_add(struct data_shuffle_buffer *h, const void *p, size_t n,
                            struct pd_err *err) {
    if (pd_grow(h->line, h->cap, h->n + 1))
        return pd_fail(err, PD_ENOMEM, "out of memory to hold more than %llu lines",
                       (unsigned long long)h->n);
    h->line[h->n] = (struct data_buffered_line){h->text.len, (uint32_t)n};
    pd_put(&h->text, p, n);
    if (h->text.failed)
        return pd_fail(err, PD_ENOMEM, "out of memory to hold more than %zu bytes", h->text.len);
    h->n++;
    return 0;
}

void data_shuffle_buffer_shuffle(struct data_shuffle_buffer *h, struct pd_rng_key key) {
    for (uint64_t i = h->n; i > 1; i--) {
        uint64_t j = pd_rng_below(key, 0, i, i);
        struct data_buffered_line t = h->line[i - 1];
        h->line[i - 1] = h->line[j];
        h->line[j] = t;
    }
}

void data_shuffle_buffer_release(struct data_shuffle_buffer *h) {
    pd_buf_release(&h->text);
    free(h->line);
    memset(h, 0, sizeof *h);
}
