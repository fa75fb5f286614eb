/* table_int.h - a table's inside, shared by table.c and snapshot.c. */
#ifndef PD_PS_TABLE_INT_H
#define PD_PS_TABLE_INT_H

#include "ps/table/table.h"

/* The first slabs are small, for tables that are; the others have 2 to 4 MiB of huge pages. */
enum { TABLE_N_SMALL = 16, TABLE_LINE = 64 };

/* What the step needs per row lies beside the rows, not in them. */
struct slab {
    float *rows;
    struct ps_row_note *notes;
    struct ps_row_seen *seen; /* NULL: rows do not age */
    size_t mapped;            /* bytes, when all three are one mapping */
};

struct ps_table {
    uint32_t dim, all, width; /* all: with the state; width: floats from one row to the next */
    float mean, std;
    uint64_t seed, name_hash;
    struct ps_index *index;
    uint32_t small_shift, large_shift; /* rows per slab as a power of two */
    uint32_t n_small_rows;             /* in the TABLE_N_SMALL first slabs */
    struct slab *slabs;
    size_t n_slabs, cap_slabs;
    uint64_t n_rows, n_used,
        cap_rows;      /* n_used: places that have been a row's; cap_rows: in the slabs there are */
    uint32_t free_row; /* PS_ROW_NONE, or a place whose row was removed; its note.step leads to the
                          next one */
    int ageing;
    uint64_t bytes; /* of the slabs */
    uint32_t refs;  /* the owner's, and one of each cut */
    struct ps_snapshot *cuts;
};

/* Which of the table's slabs, or of a copy of that list, has the row, and where in it. */
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

/* snapshot.c: called before the row changes; copies it aside for every snapshot. */
void table_keep(struct ps_table *t, uint32_t row);
/* Prefetches the memory that table_keep needs. */
void table_keep_soon(const struct ps_table *t, uint32_t row);

#endif
