/* dirty_rows.h - which rows of a table have changed since it was last saved, a bit each: what a
 * save of changes only writes. */
#ifndef PD_PS_DIRTY_ROWS_H
#define PD_PS_DIRTY_ROWS_H

#include <stdint.h>

struct ps_dirty_rows {
    uint64_t *bits; /* NULL: nobody watches */
    uint64_t n; /* row numbers there were when it began; later ones are new, and count as changed */
};

int ps_dirty_rows_begin(struct ps_dirty_rows *c,
                        uint64_t n_rows);            /* c is zeros or released; 0 or PD_ENOMEM */
void ps_dirty_rows_release(struct ps_dirty_rows *c); /* to zeros */
uint64_t ps_dirty_rows_count(const struct ps_dirty_rows *c,
                             uint64_t n_rows); /* of n_rows that there are now */

static inline int ps_dirty_rows_watched(const struct ps_dirty_rows *c) { return c->bits != 0; }

static inline void ps_dirty_rows_mark(struct ps_dirty_rows *c, uint32_t row) {
    if (row < c->n)
        c->bits[row / 64] |= UINT64_C(1) << row % 64;
}

static inline int ps_dirty_rows_has(const struct ps_dirty_rows *c, uint32_t row) {
    return row >= c->n || (c->bits[row / 64] >> row % 64 & 1);
}

#endif
