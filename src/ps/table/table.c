/* SPDX-License-Identifier: Apache-2.0 */
/* table.c - see table.h. */
#include "ps/table/table.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/memory_use.h"
#include "math/rng.h"
#include "math/row_copy.h"
#include "ps/plan/initial.h"
#include "ps/table/table_internal.h"
#include "thread/page_memory.h"

enum { SMALL_SLAB = 64 << 10, AHEAD_ROW = 24, ROW_ALIGN = 4 };

uint64_t ps_name_hash(const char *name) { return XXH3_64bits(name, strlen(name)); }

int ps_table_new(struct ps_table **out, const struct ps_table_opts *opts) {
    struct ps_table *t = pd_calloc(1, sizeof *t);
    if (!t)
        return PD_ENOMEM;
    t->dim = opts->dim;
    t->all = opts->dim * (1 + opts->state);
    t->width = (t->all + ROW_ALIGN - 1) / ROW_ALIGN * ROW_ALIGN;
    t->mean = opts->mean;
    t->std = opts->std;
    t->ageing = opts->ageing;
    t->refs = 1;
    t->free_row = PS_ROW_NONE;
    t->seed = opts->seed;
    t->name_hash = ps_name_hash(opts->name);
    size_t row_bytes = t->width * sizeof(float);
    while (row_bytes << (t->small_shift + 1) <= SMALL_SLAB)
        t->small_shift++;
    t->large_shift = t->small_shift;
    while (row_bytes << t->large_shift < PD_HUGE_PAGE)
        t->large_shift++;
    t->n_small_rows = (uint32_t)TABLE_N_SMALL << t->small_shift;
    if (ps_index_new(&t->index)) {
        free(t);
        return PD_ENOMEM;
    }
    *out = t;
    return 0;
}

static void free_slab(struct slab *s) {
    if (s->mapped) {
        pd_huge_page_unmap(s->rows, s->mapped);
        return;
    }
    free(s->rows);
    free(s->notes);
    free(s->seen);
}

/* The slab is excluded from forked children, which do not need it (snapshot.h); otherwise its pages
 * would be copied while a child lives. */
static int map_slab(struct slab *s, size_t n, size_t row_bytes, size_t bytes, int ageing) {
    char *p = pd_huge_page_map(bytes);
    if (!p)
        return PD_ENOMEM;
    pd_huge_page_no_fork(p, bytes);
    *s = (struct slab){.rows = (float *)(void *)p,
                       .notes = (struct ps_row_note *)(void *)(p + row_bytes),
                       .mapped = bytes};
    if (ageing)
        s->seen = (struct ps_row_seen *)(void *)(s->notes + n);
    return 0;
}

static int alloc_slab(struct slab *s, size_t n, size_t row_bytes, int ageing) {
    if (row_bytes >= PD_HUGE_PAGE && !pd_memory_fits((double)row_bytes))
        return PD_ENOMEM;
    *s = (struct slab){.rows = pd_alloc64(row_bytes), .notes = pd_calloc(n, sizeof *s->notes)};
    s->seen = ageing ? pd_calloc(n, sizeof *s->seen) : NULL;
    if (s->rows && s->notes && (s->seen || !ageing))
        return 0;
    free_slab(s);
    return PD_ENOMEM;
}

void ps_table_free(struct ps_table *t) {
    if (!t || --t->refs)
        return;
    for (size_t i = 0; i < t->n_slabs; i++)
        free_slab(&t->slabs[i]);
    free(t->slabs);
    ps_index_free(t->index);
    free(t);
}

static int add_slab(struct ps_table *t) {
    if (pd_grow(t->slabs, t->cap_slabs, t->n_slabs + 1))
        return PD_ENOMEM;
    const int large = t->n_slabs >= TABLE_N_SMALL;
    const size_t n = (size_t)1 << (large ? t->large_shift : t->small_shift), page = 64 << 10;
    const size_t row_bytes = (n * t->width * sizeof(float) + page - 1) / page * page;
    const size_t beside =
        n * (sizeof(struct ps_row_note) + (t->ageing ? sizeof(struct ps_row_seen) : 0));
    struct slab *s = &t->slabs[t->n_slabs];
    if (large ? map_slab(s, n, row_bytes, row_bytes + (beside + page - 1) / page * page, t->ageing)
              : alloc_slab(s, n, row_bytes, t->ageing))
        return PD_ENOMEM;
    t->n_slabs++;
    t->cap_rows += n;
    t->bytes += row_bytes + beside;
    return 0;
}

static inline const struct slab *row_slab(const struct ps_table *t, uint32_t row, size_t *in) {
    return slab_in(t, t->slabs, row, in);
}

static inline float *row_values(const struct ps_table *t, uint32_t row) {
    size_t i;
    const struct slab *s = row_slab(t, row, &i);
    return s->rows + i * t->width;
}

const float *ps_table_row(const struct ps_table *t, uint32_t row) { return row_values(t, row); }

float *ps_table_change(struct ps_table *t, uint32_t row) {
    if (t->cuts)
        table_keep(t, row);
    return row_values(t, row);
}

void ps_table_change_rows(struct ps_table *t, const uint32_t *rows, size_t n, float **out) {
    for (size_t i = 0; t->cuts && i < n; i++)
        table_keep(t, rows[i]);
    for (size_t i = 0; i < n; i++)
        out[i] = row_values(t, rows[i]);
}

struct ps_row_note *ps_table_note(const struct ps_table *t, uint32_t row) {
    size_t i;
    const struct slab *s = row_slab(t, row, &i);
    return &s->notes[i];
}

void ps_table_notes(const struct ps_table *t, const uint32_t *rows, size_t n,
                    struct ps_row_note **out) {
    for (size_t i = 0, in; i < n; i++) {
        out[i] = rows[i] == PS_ROW_NONE ? NULL : &row_slab(t, rows[i], &in)->notes[in];
        __builtin_prefetch(out[i], 1);
    }
}

struct ps_row_seen *ps_table_seen(const struct ps_table *t, uint32_t row) {
    size_t i;
    const struct slab *s = row_slab(t, row, &i);
    return &s->seen[i];
}

/* Prefetches the cache lines of weights and state, at most a kilobyte: the hardware prefetches the
 * rest. */
void ps_table_prefetch(const struct ps_table *t, uint32_t row) {
    if (t->cuts)
        table_keep_soon(t, row);
    const char *p = (const char *)row_values(t, row);
    size_t bytes = t->width * sizeof(float) < 1024 ? t->width * sizeof(float) : 1024,
           in = (uintptr_t)p % TABLE_LINE;
    for (size_t k = 0; k < in + bytes; k += TABLE_LINE)
        __builtin_prefetch(p - in + k, 1);
}

uint64_t ps_table_places(const struct ps_table *t) { return t->n_used; }
uint64_t ps_table_rows(const struct ps_table *t) { return t->n_rows; }
uint32_t ps_table_dim(const struct ps_table *t) { return t->dim; }
uint64_t ps_table_bytes(const struct ps_table *t) { return t->bytes + ps_index_bytes(t->index); }

void ps_table_set_initial(struct ps_table *t, float mean, float std) {
    t->mean = mean;
    t->std = std;
}

static void initial_row(const struct ps_table *t, uint64_t key, float *out) {
    ps_initial(pd_rng_key(t->seed, PD_RNG_INIT, t->name_hash, key), 0, 0, t->mean, t->std, out,
               t->dim);
}

/* Uses the place of a removed row if there is one. */
static int create_row(struct ps_table *t, uint64_t key, uint32_t *row) {
    int again = t->free_row != PS_ROW_NONE;
    if (!again && (t->n_used >= PS_ROW_NONE || (t->n_used == t->cap_rows && add_slab(t))))
        return PD_ENOMEM;
    *row = again ? t->free_row : (uint32_t)t->n_used;
    if (ps_index_put(t->index, key, *row))
        return PD_ENOMEM;
    float *w = ps_table_change(t, *row);
    if (again) {
        struct ps_row_note *note = ps_table_note(t, *row);
        t->free_row = note->step;
        memset(note, 0, sizeof *note);
        if (t->ageing)
            memset(ps_table_seen(t, *row), 0, sizeof(struct ps_row_seen));
    } else {
        t->n_used++;
    }
    t->n_rows++;
    initial_row(t, key, w);
    memset(w + t->dim, 0, (t->width - t->dim) * sizeof *w);
    return 0;
}

void ps_table_remove(struct ps_table *t, uint64_t key) {
    const uint32_t row = *ps_index_at(t->index, key);
    ps_index_remove(t->index, key);
    (void)ps_table_change(t, row);
    ps_table_note(t, row)->step = t->free_row;
    t->free_row = row;
    t->n_rows--;
}

/* Places of removed rows are marked first, so that the loop skips them. */
void ps_table_each(struct ps_table *t, void (*each)(void *arg, uint32_t row), void *arg) {
    for (uint32_t i = t->free_row; i != PS_ROW_NONE; i = ps_table_note(t, i)->step)
        ps_table_note(t, i)->mark = 1;
    for (uint32_t i = 0; i < t->n_used; i++) {
        struct ps_row_note *note = ps_table_note(t, i);
        if (note->mark)
            note->mark = 0;
        else
            each(arg, i);
    }
}

int ps_table_find(struct ps_table *t, const uint64_t *keys, size_t n, int create, uint32_t *rows) {
    size_t i, ignored;
    ps_index_find(t->index, keys, n, rows, &i);
    for (; create && i < n; i++) {
        if (rows[i] != PS_ROW_NONE)
            continue;
        /* Keys may contain this key twice. */
        ps_index_find(t->index, &keys[i], 1, &rows[i], &ignored);
        if (rows[i] == PS_ROW_NONE && create_row(t, keys[i], &rows[i]))
            return PD_ENOMEM;
    }
    return 0;
}

/* Copies the first `width` floats of each row. A missing row reads as its initial values, then
 * zeros. */
static void gather(const struct ps_table *t, const uint64_t *keys, const uint32_t *rows, size_t n,
                   size_t width, float *out) {
    const size_t bytes = width * sizeof(float);
    for (size_t i = 0; i < n; i++, out += width) {
        if (i + AHEAD_ROW < n && rows[i + AHEAD_ROW] != PS_ROW_NONE) {
            const char *p = (const char *)row_values(t, rows[i + AHEAD_ROW]);
            size_t in = (uintptr_t)p % TABLE_LINE;
            for (size_t k = 0; k < in + bytes && k < 512; k += TABLE_LINE)
                __builtin_prefetch(p - in + k);
        }
        if (rows[i] != PS_ROW_NONE) {
            pd_row_copy(out, row_values(t, rows[i]), width);
            continue;
        }
        initial_row(t, keys[i], out);
        memset(out + t->dim, 0, bytes - t->dim * sizeof *out);
    }
}

void ps_table_gather(const struct ps_table *t, const uint64_t *keys, const uint32_t *rows, size_t n,
                     float *out) {
    gather(t, keys, rows, n, t->dim, out);
}

void ps_table_gather_all(const struct ps_table *t, const uint64_t *keys, const uint32_t *rows,
                         size_t n, float *out) {
    gather(t, keys, rows, n, t->all, out);
}

uint64_t ps_table_list(const struct ps_table *t, const struct ps_dirty_rows *only,
                       struct ps_index_entry *rows, uint64_t cap, struct ps_index_heaps *heaps) {
    return ps_index_list_heaps(t->index, only, rows, cap, heaps);
}

int ps_table_sorted(const struct ps_table *t, struct ps_index_entry **rows) {
    struct ps_index_entry *e = pd_malloc(t->n_rows * sizeof *e);
    struct ps_index_heaps *heaps = pd_malloc(sizeof *heaps);
    uint64_t from, to;
    if (!e || !heaps) {
        free(e);
        free(heaps);
        return PD_ENOMEM;
    }
    ps_table_list(t, NULL, e, t->n_rows, heaps);
    for (uint32_t h = 0; h < PS_INDEX_HEAPS; h++)
        ps_index_sort_heap(e, heaps, h, &from, &to);
    free(heaps);
    *rows = e;
    return 0;
}
