/* SPDX-License-Identifier: Apache-2.0 */
/* table_internal.h - the private part of a table, shared by table.c and snapshot.c. */
#pragma once

#include "ps/table/table.h"

/* The first TABLE_N_SMALL slabs are small, for small tables. The others have 2 to 4 MiB of huge
 * pages. */
enum { TABLE_N_SMALL = 16, TABLE_LINE = 64 };

/* Per-row data that a step needs lies beside the rows, not in them. */
struct slab {
    float *rows;
    struct ps_row_note *notes;
    struct ps_row_seen *seen; /* NULL: rows do not age */
    size_t mapped;            /* bytes if rows, notes and seen are one mapping; else 0 */
};

struct ps_table {
    uint32_t dim, all,
        width; /* all: floats with the state; width: floats from one row to the next */
    float mean, std;
    uint64_t seed, name_hash;
    struct ps_index *index;
    uint32_t small_shift, large_shift; /* rows per slab as a power of two */
    uint32_t n_small_rows;             /* in the first TABLE_N_SMALL slabs */
    struct slab *slabs;
    size_t n_slabs, cap_slabs;
    uint64_t n_rows, n_used,
        cap_rows;      /* n_used: places used at least once; cap_rows: places in all slabs */
    uint32_t free_row; /* first place of a removed row, or PS_ROW_NONE; note.step of that place is
                          the next one */
    int ageing;
    uint64_t bytes; /* of the slabs */
    uint32_t refs;  /* one for the owner, one for each snapshot */
    struct ps_snapshot *cuts;
};

/* Returns the slab of a row and sets *in to its index there. `slabs` is the table's list or a copy
 * of it. */
static inline const struct slab *slab_in(const struct ps_table *t, const struct slab *slabs,
                                         uint32_t row, size_t *in) {
    if (row < t->n_small_rows) {
        *in = row & (((uint32_t)1 << t->small_shift) - 1);
        return &slabs[row >> t->small_shift];
    }
    row -= t->n_small_rows;
    *in = row & (((uint32_t)1 << t->large_shift) - 1);
    return &slabs[TABLE_N_SMALL + (row >> t->large_shift)];
}

/* snapshot.c: called before the row changes; copies it for every snapshot. */
void table_keep(struct ps_table *t, uint32_t row);
/* Prefetches the memory that table_keep needs. */
void table_keep_soon(const struct ps_table *t, uint32_t row);
