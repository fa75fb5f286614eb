/* cut.c - see cut.h.
 *
 * The order that all depends on: the owner writes the copy, then the bit, then the row; the reader reads the row, then the bit, then
 * maybe the copy. If anything it read of the row was new, it sees the bit. Its reads of a row race with the owner's writes on purpose, and
 * are relaxed atomic ones for it; ThreadSanitizer, which can't know that the outcome is thrown away, does not look at these functions.
 */
#include "ps/cut.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/huge.h"
#include "ps/table_int.h"

enum { AHEAD = 24 };

#ifdef __SANITIZE_THREAD__
#define FENCE(order) atomic_signal_fence(order) /* it knows no others; this is for x86-64, where the order is kept */
#else
#define FENCE(order) atomic_thread_fence(order)
#endif
#define READER __attribute__((no_sanitize("thread")))

/* A copy: the row's floats, then what the owner keeps beside it. */
struct beside {
    uint32_t step;
    struct ps_row_seen seen;
};

struct ps_cut {
    struct ps_cut *next;
    struct ps_table *table;
    struct slab *slabs; /* as they were: the table's list moves when it grows */
    uint64_t n;         /* row numbers there were */
    _Atomic uint64_t *kept;
    uint32_t *place;    /* [n] of a kept row's copy */
    char **chunks;      /* for n copies, made as they are needed; mapped, so that all of it is given back, but for a small table's one */
    size_t copy_bytes, chunk_bytes;
    uint32_t per_chunk, n_copies;
    atomic_int failed;
};

static char *new_chunk(const struct ps_cut *c) {
    if (c->chunk_bytes < PD_HUGE_PAGE)
        return pd_malloc(c->chunk_bytes);
    char *p = pd_huge_map(c->chunk_bytes);
    if (p)
        pd_huge_not_inherited(p, c->chunk_bytes);
    return p;
}

static void drop_chunk(const struct ps_cut *c, char *chunk) {
    if (c->chunk_bytes < PD_HUGE_PAGE)
        free(chunk);
    else
        pd_huge_unmap(chunk, c->chunk_bytes);
}

int ps_cut_begin(struct ps_cut **out, struct ps_table *t) {
    struct ps_cut *c = pd_calloc(1, sizeof *c);
    if (!c)
        return PD_ENOMEM;
    c->n = t->n_used;
    c->copy_bytes = t->width * sizeof(float) + sizeof(struct beside);
    c->chunk_bytes = c->n * c->copy_bytes;
    if (c->chunk_bytes >= PD_HUGE_PAGE)
        c->chunk_bytes = (c->copy_bytes + PD_HUGE_PAGE - 1) / PD_HUGE_PAGE * PD_HUGE_PAGE;
    c->per_chunk = c->n ? (uint32_t)(c->chunk_bytes / c->copy_bytes) : 1;
    c->slabs = pd_malloc(t->n_slabs * sizeof *c->slabs);
    c->kept = pd_calloc(c->n / 64 + 1, sizeof *c->kept);
    c->place = pd_calloc(c->n, sizeof *c->place);
    c->chunks = pd_calloc(c->n / c->per_chunk + 1, sizeof *c->chunks);
    c->table = t;
    t->refs++;
    c->next = t->cuts;
    t->cuts = c;
    if (!c->slabs || !c->kept || !c->place || !c->chunks) {
        ps_cut_end(c);
        return PD_ENOMEM;
    }
    if (t->n_slabs)
        memcpy(c->slabs, t->slabs, t->n_slabs * sizeof *c->slabs);
    *out = c;
    return 0;
}

void ps_cut_end(struct ps_cut *c) {
    if (!c)
        return;
    struct ps_cut **at = &c->table->cuts;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    ps_table_free(c->table);
    for (uint64_t i = 0; c->chunks && i * c->per_chunk < c->n_copies; i++)
        drop_chunk(c, c->chunks[i]);
    free(c->chunks);
    free(c->place);
    free((void *)c->kept);
    free(c->slabs);
    free(c);
}

int ps_cut_whole(const struct ps_cut *c) { return !atomic_load(&c->failed); }

uint64_t ps_cut_bytes(const struct ps_cut *c) { return ((uint64_t)c->n_copies + c->per_chunk - 1) / c->per_chunk * c->chunk_bytes; }

/* --- the owner --- */

static char *copy_at(const struct ps_cut *c, uint32_t place) { return c->chunks[place / c->per_chunk] + place % c->per_chunk * c->copy_bytes; }

static void keep(struct ps_cut *c, uint32_t row) {
    _Atomic uint64_t *word = &c->kept[row / 64];
    const uint64_t bits = atomic_load_explicit(word, memory_order_relaxed), bit = UINT64_C(1) << row % 64;
    if (bits & bit)
        return;
    const struct ps_table *t = c->table;
    char **chunk = &c->chunks[c->n_copies / c->per_chunk];
    size_t i;
    if (!*chunk && !(*chunk = new_chunk(c))) {
        atomic_store(&c->failed, 1);
        FENCE(memory_order_release);
        return;
    }
    const struct slab *s = slab_in(t, t->slabs, row, &i);
    char *to = copy_at(c, c->n_copies);
    struct beside beside = {.step = s->notes[i].step};
    if (s->seen)
        beside.seen = s->seen[i];
    memcpy(to, s->rows + i * t->width, t->width * sizeof(float));
    memcpy(to + t->width * sizeof(float), &beside, sizeof beside);
    c->place[row] = c->n_copies++;
    atomic_store_explicit(word, bits | bit, memory_order_release);
    FENCE(memory_order_release);
}

void table_keep(struct ps_table *t, uint32_t row) {
    for (struct ps_cut *c = t->cuts; c; c = c->next)
        if (row < c->n)
            keep(c, row);
}

/* --- the reader --- */

/* All in one function's reach: none of it calls anything that would be looked at. */
static READER inline void read_words(void *out, const void *from, size_t n_words) {
    uint32_t *to = out;
    const uint32_t *p = from;
    for (size_t k = 0; k < n_words; k++)
        to[k] = __atomic_load_n(&p[k], __ATOMIC_RELAXED);
}

/* Twice as much at a time; what is read begins at a multiple of 8 bytes. */
static READER inline void read_pairs(void *out, const void *from, size_t n_words) {
    const uint64_t *p = from;
    for (size_t k = 0; k < n_words / 2; k++) {
        const uint64_t v = __atomic_load_n(&p[k], __ATOMIC_RELAXED);
        __builtin_memcpy((char *)out + 8 * k, &v, sizeof v);
    }
}

static READER inline const char *copy_of(const struct ps_cut *c, uint32_t row) {
    FENCE(memory_order_acquire);
    if (!(atomic_load_explicit(&c->kept[row / 64], memory_order_acquire) >> row % 64 & 1))
        return NULL;
    const uint32_t place = c->place[row];
    return c->chunks[place / c->per_chunk] + place % c->per_chunk * c->copy_bytes;
}

READER void ps_cut_read(const struct ps_cut *c, const struct ps_index_entry *rows, size_t n, size_t left, uint32_t first, uint32_t count,
                        float *out) {
    const struct ps_table *t = c->table;
    const int pairs = first % 2 == 0 && count % 2 == 0; /* rows begin at multiples of 16 bytes */
    const size_t lines = (count * sizeof *out + TABLE_LINE - 1) / TABLE_LINE;
    size_t at;
    for (size_t i = 0; i < n; i++, out += count) {
        if (i + AHEAD < left) {
            const struct slab *s = slab_in(t, c->slabs, rows[i + AHEAD].row, &at);
            for (size_t k = 0; k < lines && k < 8; k++)
                __builtin_prefetch(s->rows + at * t->width + first + k * TABLE_LINE / sizeof *out);
        }
        const struct slab *s = slab_in(t, c->slabs, rows[i].row, &at);
        const float *row = s->rows + at * t->width + first;
        if (pairs)
            read_pairs(out, row, count);
        else
            read_words(out, row, count);
        const char *copy = copy_of(c, rows[i].row);
        if (copy)
            read_words(out, copy + first * sizeof *out, count);
    }
}

READER uint32_t ps_cut_step(const struct ps_cut *c, uint32_t row) {
    uint32_t step;
    size_t at;
    const struct slab *s = slab_in(c->table, c->slabs, row, &at);
    read_words(&step, &s->notes[at].step, 1);
    const char *copy = copy_of(c, row);
    if (copy)
        read_words(&step, copy + c->table->width * sizeof(float), 1);
    return step;
}

READER void ps_cut_seen(const struct ps_cut *c, uint32_t row, struct ps_row_seen *seen) {
    static const struct ps_row_seen nothing;
    size_t at;
    const struct slab *s = slab_in(c->table, c->slabs, row, &at);
    read_words(seen, s->seen ? &s->seen[at] : &nothing, sizeof *seen / 4);
    const char *copy = s->seen ? copy_of(c, row) : NULL;
    if (copy)
        read_words(seen, copy + c->table->width * sizeof(float) + sizeof(uint32_t), sizeof *seen / 4);
}
