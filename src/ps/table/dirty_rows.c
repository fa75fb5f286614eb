/* SPDX-License-Identifier: Apache-2.0 */
/* dirty_rows.c - see dirty_rows.h. */
#include "ps/table/dirty_rows.h"

int ps_dirty_rows_begin(struct ps_dirty_rows *c, uint64_t n_rows) {
    c->bits = pd_calloc(n_rows / 64 + 1, sizeof *c->bits);
    c->n = c->bits ? n_rows : 0;
    return c->bits ? 0 : PD_ENOMEM;
}

void ps_dirty_rows_release(struct ps_dirty_rows *c) {
    free(c->bits);
    *c = (struct ps_dirty_rows){0};
}

uint64_t ps_dirty_rows_count(const struct ps_dirty_rows *c, uint64_t n_rows) {
    uint64_t n = n_rows - c->n;
    for (uint64_t i = 0; i < (c->n + 63) / 64; i++)
        n += (uint64_t)__builtin_popcountll(c->bits[i]);
    return n;
}
