/* SPDX-License-Identifier: Apache-2.0 */
/* dirty_rows.h - tracks which rows of a table have changed since the last save, one bit per row. A
 * delta save writes only these rows. */
#pragma once

struct ps_dirty_rows {
    uint64_t *bits; /* NULL: changes are not tracked */
    uint64_t n; /* number of rows at ps_dirty_rows_begin; rows with higher numbers are new and count
                   as changed */
};

/* *c is zeros or released. Returns 0 or PD_ENOMEM. */
int ps_dirty_rows_begin(struct ps_dirty_rows *c, uint64_t n_rows);
void ps_dirty_rows_release(struct ps_dirty_rows *c); /* frees the bits and sets *c to zeros */
/* Number of changed rows among the table's n_rows rows. */
uint64_t ps_dirty_rows_count(const struct ps_dirty_rows *c, uint64_t n_rows);

static inline int ps_dirty_rows_watched(const struct ps_dirty_rows *c) { return c->bits != 0; }

static inline void ps_dirty_rows_mark(struct ps_dirty_rows *c, uint32_t row) {
    if (row < c->n)
        c->bits[row / 64] |= UINT64_C(1) << row % 64;
}

static inline int ps_dirty_rows_has(const struct ps_dirty_rows *c, uint32_t row) {
    return row >= c->n || (c->bits[row / 64] >> row % 64 & 1);
}
