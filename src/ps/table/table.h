/* SPDX-License-Identifier: Apache-2.0 */
/* table.h - one server thread's part of a sparse table: rows of `dim` floats and their optimizer
 * state, keyed by 64 bits.
 *
 *     index (index.h): key -> row number
 *     slabs: rows of weights then state, each row 16-byte aligned, 64 where its size allows; beside
 *            them the owner's notes of each row
 *
 * Slabs never move, so a row number and its address stay valid for the life of the table.
 *
 * Memory per row: values and state rounded up to 16 bytes, 8 bytes of struct ps_row_note, 20 to 30
 * bytes of index. If the table's rows age, 20 bytes of struct ps_row_seen are added, which count as
 * state. The place of a removed row is used for the next new row.
 *
 * A row's first value is a pure function of (seed, table name, key): normal numbers of
 * pd_rng_key(seed, PD_RNG_INIT, XXH3_64(name), key), times std plus mean. So the creator and the
 * time of creation do not matter, nor whether the row was ever created. */
#pragma once

#include "ps/table/index.h"

/* The owner's data per row; initially zeros. */
struct ps_row_note {
    uint32_t mark; /* scratch; must be set back to zero after use */
    uint32_t step; /* the last update that touched the row, plus one */
};

/* Counts of a row, in tables whose rows age (ps/table/row_policy.h); initially zeros. Today's shows
 * and clicks are whole numbers, so their sum does not depend on the order of addition. */
struct ps_row_seen {
    float show, click;      /* decayed counts up to the last day's end */
    uint32_t shows, clicks; /* counts since the last day's end */
    uint32_t unseen;        /* number of days' ends since the row was last shown */
};

struct ps_table_opts {
    const char *name;
    uint32_t dim;   /* at least 1 */
    uint32_t state; /* floats of optimizer state per value */
    uint64_t seed;
    float mean, std;
    int ageing; /* 1: each row has a struct ps_row_seen */
};

struct ps_table;
int ps_table_new(struct ps_table **out, const struct ps_table_opts *opts);
void ps_table_free(struct ps_table *t);

/* Sets rows[] to the row numbers of n keys in any order. Missing rows are created, or PS_ROW_NONE
 * if create is 0. Returns 0, or PD_ENOMEM; rows created until then remain, which is harmless. */
int ps_table_find(struct ps_table *t, const uint64_t *keys, size_t n, int create, uint32_t *rows);

/* Copies the weights of n rows to out[n * dim]. The row PS_ROW_NONE reads as the key's initial
 * value. */
void ps_table_gather(const struct ps_table *t, const uint64_t *keys, const uint32_t *rows, size_t n,
                     float *out);
/* Weights and state. */
void ps_table_gather_all(const struct ps_table *t, const uint64_t *keys, const uint32_t *rows,
                         size_t n, float *out);

/* Dim weights, then state * dim floats. */
const float *ps_table_row(const struct ps_table *t, uint32_t row);
/* Returns the row for writing. Must be called before any change of its values, of its note's step
 * or of its counts: a snapshot may need the row as it is (snapshot.h). */
float *ps_table_change(struct ps_table *t, uint32_t row);
/* The same for n rows. */
void ps_table_change_rows(struct ps_table *t, const uint32_t *rows, size_t n, float **out);
void ps_table_prefetch(const struct ps_table *t, uint32_t row); /* for a later write */
struct ps_row_note *ps_table_note(const struct ps_table *t, uint32_t row);
/* The notes of n rows, NULL for PS_ROW_NONE. They are prefetched for writing. */
void ps_table_notes(const struct ps_table *t, const uint32_t *rows, size_t n,
                    struct ps_row_note **out);
struct ps_row_seen *ps_table_seen(const struct ps_table *t, uint32_t row); /* only with ageing */
/* The row must exist; its number will be used again. */
void ps_table_remove(struct ps_table *t, uint64_t key);
/* Calls `each` for every row in the order of row numbers. `each` must not create or remove rows. */
void ps_table_each(struct ps_table *t, void (*each)(void *arg, uint32_t row), void *arg);
/* All row numbers, also of removed rows, are below. */
uint64_t ps_table_places(const struct ps_table *t);
uint64_t ps_table_rows(const struct ps_table *t);
uint32_t ps_table_dim(const struct ps_table *t);
uint64_t ps_table_bytes(const struct ps_table *t); /* memory in use */

/* For rows created from now on. */
void ps_table_set_initial(struct ps_table *t, float mean, float std);

/* ps_index_list_heaps of the table's index. */
uint64_t ps_table_list(const struct ps_table *t, const struct ps_dirty_rows *only,
                       struct ps_index_entry *rows, uint64_t cap, struct ps_index_heaps *heaps);
/* Lists all rows by ascending key in an array that the caller frees. Returns 0 or PD_ENOMEM. */
int ps_table_sorted(const struct ps_table *t, struct ps_index_entry **rows);

uint64_t ps_name_hash(const char *name); /* XXH3_64 with seed 0 */
