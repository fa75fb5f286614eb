/* SPDX-License-Identifier: Apache-2.0 */
/* snapshot.c - see snapshot.h.
 *
 * Correctness depends on this order. The owner writes the copy, then the bit, then the row. The
 * reader reads the row, then the bit, then possibly the copy. A reader that saw any new value of
 * the row therefore sees the bit.
 *
 * The reader's reads of a row race with the owner's writes on purpose, so they are relaxed atomic
 * reads. ThreadSanitizer cannot know that a torn result is discarded, so it is disabled for these
 * functions. */
#include "ps/table/snapshot.h"

#include "ps/table/table_internal.h"
#include "thread/page_memory.h"
#include "thread/run_later.h"

enum {
    AHEAD = 24,      /* rows that are prefetched */
    PIECE = 256,     /* rows that are read before their bits are tested */
    AHEAD_COPY = 12, /* copies that are prefetched */
    GROUP = 4,       /* rows whose copies are in one list */
    CHUNK = 2 << 20,
};

#ifdef __SANITIZE_THREAD__
#define FENCE(order) \
    atomic_signal_fence(order) /* the sanitizer supports no other fence; x86-64 keeps the order */
#else
#define FENCE(order) atomic_thread_fence(order)
#endif
#define READER __attribute__((no_sanitize("thread")))

/* A copy: this header, then the row's floats. If the table's rows do not age, `seen` and
 * `unused_too` are absent. */
struct copy {
    uint32_t row, next; /* number of the next copy of the row's group, plus one; 0: none */
    uint32_t step, unused;
    struct ps_row_seen seen;
    uint32_t unused_too; /* aligns the floats to 8 bytes */
};

struct ps_snapshot {
    struct ps_snapshot *next;
    struct ps_table *table;
    struct slab *slabs; /* the list at the beginning; the table's own list moves when it grows */
    uint64_t n;         /* number of rows at the beginning */
    _Atomic uint64_t *kept;  /* bit r: row r has a copy */
    _Atomic uint32_t *group; /* number of the newest copy of each group of rows, plus one */
    char **chunks; /* room for n copies, allocated as needed. Chunks are mapped, so that all memory
                      is given back; a small table has one chunk from malloc */
    size_t head_bytes, copy_bytes, chunk_bytes;
    uint32_t per_chunk, n_copies;
    atomic_int failed;
};

/* Small pages: the owner needs as long to clear a huge page as for a whole step, on a virtual
 * machine ten times as long. */
static char *new_chunk(const struct ps_snapshot *c) {
    return c->chunk_bytes < CHUNK ? pd_malloc(c->chunk_bytes) : pd_page_map(c->chunk_bytes);
}

static void drop_chunk(const struct ps_snapshot *c, char *chunk) {
    if (c->chunk_bytes < CHUNK)
        free(chunk);
    else
        pd_page_unmap(chunk, c->chunk_bytes);
}

int ps_snapshot_begin(struct ps_snapshot **out, struct ps_table *t) {
    struct ps_snapshot *c = pd_calloc(1, sizeof *c);
    if (!c)
        return PD_ENOMEM;
    c->n = t->n_used;
    c->head_bytes = t->ageing ? sizeof(struct copy) : offsetof(struct copy, seen);
    c->copy_bytes = c->head_bytes + t->width * sizeof(float);
    c->chunk_bytes = c->n * c->copy_bytes;
    if (c->chunk_bytes >= CHUNK)
        c->chunk_bytes = (c->copy_bytes + CHUNK - 1) / CHUNK * CHUNK;
    c->per_chunk = c->n ? (uint32_t)(c->chunk_bytes / c->copy_bytes) : 1;
    c->slabs = pd_malloc(t->n_slabs * sizeof *c->slabs);
    c->kept = pd_calloc(c->n / 64 + 1, sizeof *c->kept);
    c->group = pd_calloc(c->n / GROUP + 1, sizeof *c->group);
    c->chunks = pd_calloc(c->n / c->per_chunk + 1, sizeof *c->chunks);
    c->table = t;
    t->refs++;
    c->next = t->cuts;
    t->cuts = c;
    if (!c->slabs || !c->kept || !c->group || !c->chunks) {
        ps_snapshot_end(c);
        return PD_ENOMEM;
    }
    if (t->n_slabs)
        memcpy(c->slabs, t->slabs, t->n_slabs * sizeof *c->slabs);
    *out = c;
    return 0;
}

static void free_memory(void *arg) {
    struct ps_snapshot *c = arg;
    for (uint64_t i = 0; c->chunks && i * c->per_chunk < c->n_copies; i++)
        drop_chunk(c, c->chunks[i]);
    free(c->chunks);
    free((void *)c->group);
    free((void *)c->kept);
    free(c->slabs);
    free(c);
}

void ps_snapshot_end(struct ps_snapshot *c) {
    if (!c)
        return;
    struct ps_snapshot **at = &c->table->cuts;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    ps_table_free(c->table);
    if (c->n_copies && c->chunk_bytes >= CHUNK)
        pd_run_later(free_memory,
                     c); /* unmapping takes 0.1 ms per chunk, which would delay the owner */
    else
        free_memory(c);
}

int ps_snapshot_whole(const struct ps_snapshot *c) { return !atomic_load(&c->failed); }

uint64_t ps_snapshot_bytes(const struct ps_snapshot *c) {
    return ((uint64_t)c->n_copies + c->per_chunk - 1) / c->per_chunk * c->chunk_bytes;
}

/* --- the owner --- */

static void keep(struct ps_snapshot *c, uint32_t row) {
    _Atomic uint64_t *word = &c->kept[row / 64];
    const uint64_t bits = atomic_load_explicit(word, memory_order_relaxed), bit = UINT64_C(1)
                                                                                  << row % 64;
    if (bits & bit)
        return;
    const struct ps_table *t = c->table;
    char **chunk = &c->chunks[c->n_copies / c->per_chunk];
    _Atomic uint32_t *group = &c->group[row / GROUP];
    size_t i;
    if (!*chunk && !(*chunk = new_chunk(c))) {
        atomic_store(&c->failed, 1);
        FENCE(memory_order_release);
        return;
    }
    const struct slab *s = slab_in(t, t->slabs, row, &i);
    char *to = *chunk + c->n_copies % c->per_chunk * c->copy_bytes;
    struct copy head = {.row = row,
                        .next = atomic_load_explicit(group, memory_order_relaxed),
                        .step = s->notes[i].step};
    if (s->seen)
        head.seen = s->seen[i];
    memcpy(to, &head, c->head_bytes);
    memcpy(to + c->head_bytes, s->rows + i * t->width, t->width * sizeof(float));
    atomic_store_explicit(group, ++c->n_copies, memory_order_release);
    atomic_store_explicit(word, bits | bit, memory_order_release);
    FENCE(memory_order_release);
}

void table_keep(struct ps_table *t, uint32_t row) {
    for (struct ps_snapshot *c = t->cuts; c; c = c->next)
        if (row < c->n)
            keep(c, row);
}

void table_keep_soon(const struct ps_table *t, uint32_t row) {
    size_t i;
    const struct slab *s = slab_in(t, t->slabs, row, &i);
    __builtin_prefetch(&s->notes[i]);
    if (s->seen)
        __builtin_prefetch(&s->seen[i]);
    for (const struct ps_snapshot *c = t->cuts; c; c = c->next)
        if (row < c->n) {
            __builtin_prefetch(&c->kept[row / 64], 1);
            __builtin_prefetch(&c->group[row / GROUP], 1);
        }
}

/* --- the reader --- */

/* The reader calls only functions of this section: ThreadSanitizer would check any other function.
 */
static READER inline void read_words(void *out, const void *from, size_t n_words) {
    uint32_t *to = out;
    const uint32_t *p = from;
    for (size_t k = 0; k < n_words; k++)
        to[k] = __atomic_load_n(&p[k], __ATOMIC_RELAXED);
}

/* Like read_words with 8 bytes at a time. `from` is a multiple of 8 bytes. */
static READER inline void read_pairs(void *out, const void *from, size_t n_words) {
    const uint64_t *p = from;
    for (size_t k = 0; k < n_words / 2; k++) {
        const uint64_t v = __atomic_load_n(&p[k], __ATOMIC_RELAXED);
        __builtin_memcpy((char *)out + 8 * k, &v, sizeof v);
    }
}

/* Copy number `i`, counted from 1. */
static READER inline const struct copy *copy_at(const struct ps_snapshot *c, uint32_t i) {
    return (const struct copy *)(const void *)(c->chunks[(i - 1) / c->per_chunk] +
                                               (i - 1) % c->per_chunk * c->copy_bytes);
}

static READER inline int is_kept(const struct ps_snapshot *c, uint32_t row) {
    return atomic_load_explicit(&c->kept[row / 64], memory_order_acquire) >> row % 64 & 1;
}

static READER inline const struct copy *last_of_group(const struct ps_snapshot *c, uint32_t row) {
    return copy_at(c, atomic_load_explicit(&c->group[row / GROUP], memory_order_acquire));
}

/* The copy of a row whose bit is set. */
static READER inline const struct copy *find_copy(const struct ps_snapshot *c, uint32_t row) {
    const struct copy *k = last_of_group(c, row);
    while (k->row != row)
        k = copy_at(c, k->next);
    return k;
}

/* The row's copy or NULL. With a copy, the caller discards the values read from the row before. */
static READER inline const struct copy *copy_of(const struct ps_snapshot *c, uint32_t row) {
    FENCE(memory_order_acquire);
    return is_kept(c, row) ? find_copy(c, row) : NULL;
}

static READER inline void fetch_lines(const float *p, size_t lines) {
    for (size_t k = 0; k < lines && k < 8; k++)
        __builtin_prefetch(p + k * TABLE_LINE / sizeof *p);
}

struct snapshot_piece {
    const struct ps_index_entry *rows;
    size_t n, left;
    uint32_t first, count;
    size_t lines;
    int pairs; /* read two numbers at a time: rows begin at multiples of 16 bytes */
};

static READER inline void read_numbers(const struct snapshot_piece *p, float *out,
                                       const float *row) {
    if (p->pairs)
        read_pairs(out, row + p->first, p->count);
    else
        read_words(out, row + p->first, p->count);
}

static READER inline void read_as_they_stand(const struct ps_snapshot *c,
                                             const struct snapshot_piece *p, float *out) {
    const struct ps_table *t = c->table;
    size_t at;
    for (size_t i = 0; i < p->n; i++, out += p->count) {
        if (i + AHEAD < p->left) {
            const struct slab *s = slab_in(t, c->slabs, p->rows[i + AHEAD].row, &at);
            fetch_lines(s->rows + at * t->width + p->first, p->lines);
        }
        const struct slab *s = slab_in(t, c->slabs, p->rows[i].row, &at);
        read_numbers(p, out, s->rows + at * t->width);
    }
}

/* Each copy costs three dependent cache misses, so the first two are prefetched. */
static READER inline void read_copies(const struct ps_snapshot *c, const struct snapshot_piece *p,
                                      const uint16_t *which, size_t n, float *out) {
    const struct ps_index_entry *rows = p->rows;
    for (size_t i = 0; i < n && i < AHEAD_COPY; i++)
        __builtin_prefetch((const void *)&c->group[rows[which[i]].row / GROUP]);
    for (size_t i = 0; i < n + AHEAD_COPY; i++) { /* i: index of the copy that is prefetched */
        if (i + AHEAD_COPY < n)
            __builtin_prefetch((const void *)&c->group[rows[which[i + AHEAD_COPY]].row / GROUP]);
        if (i < n)
            fetch_lines((const float *)(const void *)last_of_group(c, rows[which[i]].row),
                        p->lines + 1);
        if (i >= AHEAD_COPY) {
            const size_t k = which[i - AHEAD_COPY];
            const struct copy *copy = find_copy(c, rows[k].row);
            read_numbers(p, out + k * p->count,
                         (const float *)(const void *)((const char *)copy + c->head_bytes));
        }
    }
}

static READER void read_piece(const struct ps_snapshot *c, const struct snapshot_piece *p,
                              float *out) {
    uint16_t which[PIECE];
    size_t n = 0;
    read_as_they_stand(c, p, out);
    FENCE(memory_order_acquire);
    for (size_t i = 0; i < p->n; i++) { /* without a branch, which would be mispredicted */
        which[n] = (uint16_t)i;
        n += (size_t)is_kept(c, p->rows[i].row);
    }
    read_copies(c, p, which, n, out);
}

READER void ps_snapshot_read(const struct ps_snapshot *c, const struct ps_index_entry *rows,
                             size_t n, size_t left, uint32_t first, uint32_t count, float *out) {
    struct snapshot_piece p = {.first = first,
                               .count = count,
                               .lines = (count * sizeof *out + TABLE_LINE - 1) / TABLE_LINE,
                               .pairs = first % 2 == 0 && count % 2 == 0};
    for (size_t i = 0; i < n; i += p.n, out += p.n * count) {
        p.rows = rows + i;
        p.left = left - i;
        p.n = n - i < PIECE ? n - i : PIECE;
        read_piece(c, &p, out);
    }
}

READER uint32_t ps_snapshot_step(const struct ps_snapshot *c, uint32_t row) {
    uint32_t step;
    size_t at;
    const struct slab *s = slab_in(c->table, c->slabs, row, &at);
    read_words(&step, &s->notes[at].step, 1);
    const struct copy *copy = copy_of(c, row);
    return copy ? copy->step : step;
}

READER void ps_snapshot_seen(const struct ps_snapshot *c, uint32_t row, struct ps_row_seen *seen) {
    static const struct ps_row_seen nothing;
    size_t at;
    const struct slab *s = slab_in(c->table, c->slabs, row, &at);
    read_words(seen, s->seen ? &s->seen[at] : &nothing, sizeof *seen / 4);
    const struct copy *copy = s->seen ? copy_of(c, row) : NULL;
    if (copy)
        read_words(seen, &copy->seen, sizeof *seen / 4);
}
