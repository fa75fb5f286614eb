/* table.h - one server thread's part of a sparse table: rows of `dim` floats and their optimizer
 * state, keyed by 64 bits.
 *
 *     index (index.h): key -> row number
 *     slabs: rows of weights then state, each row 16-byte aligned, 64 where its size allows; beside
 *            them the owner's notes of each row
 *
 * Slabs never move, so a row number and its address stay valid for the life of the table.
 *
 * Memory per row: its values and state rounded up to 16 bytes, 8 bytes of struct ps_row_note, 20 to
 * 30 bytes of index; and of a table whose rows age 20 bytes of struct ps_row_seen, which count as
 * state. A row that is removed leaves its place to the next one.
 *
 * A row's first value is a pure function of (seed, table name, key): normal numbers of
 * pd_rng_key(seed, PD_RNG_INIT, XXH3_64(name), key), times std plus mean. So it does not matter who
 * creates a row, when, or whether it was ever created.
 */
#ifndef PD_PS_TABLE_H
#define PD_PS_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "ps/table/index.h"

/* What the owner keeps per row; zeros at first. */
struct ps_row_note {
    uint32_t mark; /* scratch: zero again after use */
    uint32_t step; /* the optimizer's: the update that touched the row last, plus one */
};

/* Of a table whose rows age (ps/table/row_policy.h); zeros at first. Today's shows and clicks are
 * whole numbers, so that their sum does not depend on the order in which they come. */
struct ps_row_seen {
    float show, click;      /* up to the last day's end, decayed */
    uint32_t shows, clicks; /* since then */
    uint32_t unseen;        /* days' ends since it was shown last */
};

struct ps_table_opts {
    const char *name;
    uint32_t dim;   /* at least 1 */
    uint32_t state; /* floats of optimizer state per value */
    uint64_t seed;
    float mean, std;
    int ageing; /* with a struct ps_row_seen for each row */
};

struct ps_table;
int ps_table_new(struct ps_table **out, const struct ps_table_opts *opts);
void ps_table_free(struct ps_table *t);

/* Row numbers of n keys (any order). Missing ones are made, or PS_ROW_NONE when create is 0.
 * PD_ENOMEM leaves the rows made so far, which is harmless. */
int ps_table_find(struct ps_table *t, const uint64_t *keys, size_t n, int create, uint32_t *rows);

/* Copy rows to out[n * dim]; PS_ROW_NONE reads as the key's initial value. */
void ps_table_gather(const struct ps_table *t, const uint64_t *keys, const uint32_t *rows, size_t n,
                     float *out);
void ps_table_gather_all(const struct ps_table *t, const uint64_t *keys, const uint32_t *rows,
                         size_t n, float *out); /* state too */

const float *ps_table_row(const struct ps_table *t,
                          uint32_t row); /* dim weights, then state * dim floats */
/* A row for writing: its values, the step of its note, or its counts. Must be called before any
 * such change, since a snapshot may need the row as it is (snapshot.h). */
float *ps_table_change(struct ps_table *t, uint32_t row);
void ps_table_change_rows(struct ps_table *t, const uint32_t *rows, size_t n,
                          float **out);                         /* of n rows */
void ps_table_prefetch(const struct ps_table *t, uint32_t row); /* for writing */
struct ps_row_note *ps_table_note(const struct ps_table *t, uint32_t row);
/* Of n rows, NULL for PS_ROW_NONE; they are fetched for writing. */
void ps_table_notes(const struct ps_table *t, const uint32_t *rows, size_t n,
                    struct ps_row_note **out);
struct ps_row_seen *ps_table_seen(const struct ps_table *t, uint32_t row); /* with ageing */
void ps_table_remove(struct ps_table *t,
                     uint64_t key); /* a row that is there; its number will be another's */
/* Every row there is, in the order of their places; `each` neither makes nor removes any. */
void ps_table_each(struct ps_table *t, void (*each)(void *arg, uint32_t row), void *arg);
uint64_t ps_table_places(
    const struct ps_table *t); /* row numbers are below: those of rows that were removed, too */
uint64_t ps_table_rows(const struct ps_table *t);
uint32_t ps_table_dim(const struct ps_table *t);
uint64_t ps_table_bytes(const struct ps_table *t); /* memory in use */

void ps_table_set_initial(struct ps_table *t, float mean,
                          float std); /* for rows made from now on */

/* ps_index_list_heaps of its rows. */
uint64_t ps_table_list(const struct ps_table *t, const struct ps_dirty_rows *only,
                       struct ps_index_entry *rows, uint64_t cap, struct ps_index_heaps *heaps);
/* All of them by ascending key, malloc'd. */
int ps_table_sorted(const struct ps_table *t, struct ps_index_entry **rows);

uint64_t ps_name_hash(const char *name); /* XXH3_64 with seed 0 */

#endif
