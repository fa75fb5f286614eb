/* table.c - see table.h. */
#include "ps/table.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/fault.h"
#include "base/hash.h"
#include "base/rng.h"

/* The first slabs are small, for tables that are; the others have 2 to 4 MiB of huge pages: a row is then one miss, not two. */
enum { SMALL_SLAB = 64 << 10, N_SMALL = 16, HUGE_PAGE = 2 << 20, FIRST_SLOTS = 64, AHEAD_SLOT = 48, AHEAD_ROW = 24 };

struct slot {
    uint64_t key;
    uint32_t row; /* PS_ROW_NONE: empty */
    uint32_t pad;
};

/* What is looked up together lies together; what the step needs per row lies beside the rows, not in them. */
struct slab {
    float *rows;
    uint64_t *keys;
    uint32_t *marks;
    size_t mapped; /* bytes, when rows are mapped and not allocated */
};

struct ps_table {
    uint32_t dim, width; /* width: floats from one row to the next */
    float mean, std;
    uint64_t seed, name_hash;
    struct slot *slots;
    uint32_t slot_bits;
    uint32_t small_shift, large_shift; /* rows per slab as a power of two */
    uint32_t n_small_rows;             /* in the N_SMALL first slabs */
    struct slab *slabs;
    size_t n_slabs, cap_slabs;
    uint64_t n_rows, cap_rows; /* cap_rows: in the slabs there are */
};

uint64_t ps_name_hash(const char *name) { return XXH3_64bits(name, strlen(name)); }

static struct slot *new_slots(uint32_t bits) {
    size_t bytes = sizeof(struct slot) << bits;
    struct slot *s = bytes < HUGE_PAGE ? pd_alloc64(bytes) : pd_fault("alloc") ? NULL : aligned_alloc(HUGE_PAGE, bytes);
    if (s && bytes >= HUGE_PAGE)
        (void)madvise(s, bytes, MADV_HUGEPAGE);
    if (s)
        memset(s, 0xff, bytes);
    return s;
}

int ps_table_new(struct ps_table **out, const struct ps_table_opts *opts) {
    struct ps_table *t = pd_calloc(1, sizeof *t);
    if (!t)
        return PD_ENOMEM;
    t->dim = opts->dim;
    t->width = (opts->dim * (1 + opts->state) + 15) / 16 * 16;
    t->mean = opts->mean;
    t->std = opts->std;
    t->seed = opts->seed;
    t->name_hash = ps_name_hash(opts->name);
    size_t row_bytes = t->width * sizeof(float);
    while (row_bytes << (t->small_shift + 1) <= SMALL_SLAB)
        t->small_shift++;
    t->large_shift = t->small_shift;
    while (row_bytes << t->large_shift < HUGE_PAGE)
        t->large_shift++;
    t->n_small_rows = (uint32_t)N_SMALL << t->small_shift;
    for (t->slot_bits = 1; 1 << t->slot_bits < FIRST_SLOTS;)
        t->slot_bits++;
    t->slots = new_slots(t->slot_bits);
    if (!t->slots) {
        free(t);
        return PD_ENOMEM;
    }
    *out = t;
    return 0;
}

static void free_slab(struct slab *s) {
    if (s->mapped)
        munmap(s->rows, s->mapped);
    else
        free(s->rows);
    free(s->keys);
    free(s->marks);
}

void ps_table_free(struct ps_table *t) {
    if (!t)
        return;
    for (size_t i = 0; i < t->n_slabs; i++)
        free_slab(&t->slabs[i]);
    free(t->slabs);
    free(t->slots);
    free(t);
}

static size_t home(const struct ps_table *t, uint64_t key) { return pd_mix64(key) >> (64 - t->slot_bits); }

/* The slot that holds the key, or the empty one where it belongs. */
static struct slot *probe(const struct ps_table *t, uint64_t key) {
    size_t mask = ((size_t)1 << t->slot_bits) - 1;
    for (size_t i = home(t, key);; i = (i + 1) & mask) {
        struct slot *s = &t->slots[i];
        if (s->row == PS_ROW_NONE || s->key == key)
            return s;
    }
}

/* Old and new slots are in the order of the same hash, so both are walked from front to back. */
static int grow_index(struct ps_table *t) {
    struct slot *old = t->slots, *fresh = new_slots(t->slot_bits + 1);
    if (!fresh)
        return PD_ENOMEM;
    size_t n = (size_t)1 << t->slot_bits++;
    t->slots = fresh;
    for (size_t i = 0; i < n; i++)
        if (old[i].row != PS_ROW_NONE)
            *probe(t, old[i].key) = old[i];
    free(old);
    return 0;
}

/* `bytes` that begin at a huge page: more is mapped, and what is too much is given back. */
static void *map_huge(size_t bytes) {
    if (pd_fault("alloc"))
        return NULL;
    char *p = mmap(NULL, bytes + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    size_t before = HUGE_PAGE - (uintptr_t)p % HUGE_PAGE;
    munmap(p, before);
    if (before < HUGE_PAGE)
        munmap(p + before + bytes, HUGE_PAGE - before);
    (void)madvise(p + before, bytes, MADV_HUGEPAGE); /* a kernel without them is only slower */
    return p + before;
}

static int add_slab(struct ps_table *t) {
    if (t->n_slabs == t->cap_slabs) {
        size_t cap = t->cap_slabs ? 2 * t->cap_slabs : 16;
        struct slab *p = pd_realloc(t->slabs, cap * sizeof *p);
        if (!p)
            return PD_ENOMEM;
        t->slabs = p;
        t->cap_slabs = cap;
    }
    int large = t->n_slabs >= N_SMALL;
    size_t n = (size_t)1 << (large ? t->large_shift : t->small_shift), page = 64 << 10;
    size_t bytes = (n * t->width * sizeof(float) + page - 1) / page * page;
    struct slab s = {.mapped = large ? bytes : 0};
    s.rows = large ? map_huge(bytes) : pd_alloc64(bytes);
    s.keys = pd_malloc(n * sizeof *s.keys);
    s.marks = pd_calloc(n, sizeof *s.marks);
    if (!s.rows || !s.keys || !s.marks) {
        if (!s.rows)
            s.mapped = 0;
        free_slab(&s);
        return PD_ENOMEM;
    }
    t->slabs[t->n_slabs++] = s;
    t->cap_rows += n;
    return 0;
}

static inline const struct slab *slab_of(const struct ps_table *t, uint32_t row, size_t *in) {
    if (row < t->n_small_rows) {
        *in = row & (((uint32_t)1 << t->small_shift) - 1);
        return &t->slabs[row >> t->small_shift];
    }
    row -= t->n_small_rows;
    *in = row & (((uint32_t)1 << t->large_shift) - 1);
    return &t->slabs[N_SMALL + (row >> t->large_shift)];
}

static inline float *row_of(const struct ps_table *t, uint32_t row) {
    size_t i;
    const struct slab *s = slab_of(t, row, &i);
    return s->rows + i * t->width;
}

float *ps_table_row(const struct ps_table *t, uint32_t row) { return row_of(t, row); }

uint32_t *ps_table_mark(const struct ps_table *t, uint32_t row) {
    size_t i;
    const struct slab *s = slab_of(t, row, &i);
    return &s->marks[i];
}

uint64_t ps_table_key(const struct ps_table *t, uint32_t row) {
    size_t i;
    const struct slab *s = slab_of(t, row, &i);
    return s->keys[i];
}

/* Every cache line of weights and state, up to a kilobyte: the hardware goes on by itself then. */
void ps_table_prefetch(const struct ps_table *t, uint32_t row) {
    const char *p = (const char *)row_of(t, row);
    size_t bytes = t->width * sizeof(float) < 1024 ? t->width * sizeof(float) : 1024;
    for (size_t k = 0; k < bytes; k += 64)
        __builtin_prefetch(p + k, 1);
}

uint64_t ps_table_rows(const struct ps_table *t) { return t->n_rows; }
uint32_t ps_table_dim(const struct ps_table *t) { return t->dim; }

void ps_table_set_initial(struct ps_table *t, float mean, float std) {
    t->mean = mean;
    t->std = std;
}

void ps_table_initial(const struct ps_table *t, uint64_t key, float *out) {
    if (t->std != 0)
        pd_rng_normal(pd_rng_key(t->seed, PD_RNG_INIT, t->name_hash, key), 0, out, t->dim);
    else
        memset(out, 0, t->dim * sizeof *out);
    for (uint32_t i = 0; i < t->dim; i++)
        out[i] = t->mean + t->std * out[i];
}

static int create_row(struct ps_table *t, uint64_t key, uint32_t *row) {
    if (t->n_rows >= PS_ROW_NONE)
        return PD_ENOMEM;
    if (t->n_rows == t->cap_rows && add_slab(t))
        return PD_ENOMEM;
    if (t->n_rows >= ((uint64_t)5 << t->slot_bits) / 8 && grow_index(t))
        return PD_ENOMEM;
    *row = (uint32_t)t->n_rows++;
    *probe(t, key) = (struct slot){.key = key, .row = *row};
    size_t i;
    const struct slab *s = slab_of(t, *row, &i);
    s->keys[i] = key;
    float *w = s->rows + i * t->width;
    ps_table_initial(t, key, w);
    memset(w + t->dim, 0, (t->width - t->dim) * sizeof *w);
    return 0;
}

int ps_table_find(struct ps_table *t, const uint64_t *keys, size_t n, int create, uint32_t *rows) {
    for (size_t i = 0; i < n; i++) {
        if (i + AHEAD_SLOT < n)
            __builtin_prefetch(&t->slots[home(t, keys[i + AHEAD_SLOT])]);
        const struct slot *s = probe(t, keys[i]);
        rows[i] = s->row;
        if (s->row == PS_ROW_NONE && create && create_row(t, keys[i], &rows[i]))
            return PD_ENOMEM;
    }
    return 0;
}

void ps_table_gather(const struct ps_table *t, const uint64_t *keys, const uint32_t *rows, size_t n, float *out) {
    size_t bytes = t->dim * sizeof(float);
    for (size_t i = 0; i < n; i++, out += t->dim) {
        if (i + AHEAD_ROW < n && rows[i + AHEAD_ROW] != PS_ROW_NONE) {
            const char *p = (const char *)row_of(t, rows[i + AHEAD_ROW]);
            for (size_t k = 0; k < bytes && k < 512; k += 64)
                __builtin_prefetch(p + k);
        }
        if (rows[i] == PS_ROW_NONE)
            ps_table_initial(t, keys[i], out);
        else
            memcpy(out, row_of(t, rows[i]), bytes);
    }
}

struct order {
    uint64_t key;
    uint32_t row;
};

static int by_key(const void *a, const void *b) {
    const struct order *x = a, *y = b;
    return x->key < y->key ? -1 : x->key > y->key;
}

int ps_table_sorted(const struct ps_table *t, uint32_t **rows) {
    struct order *o = pd_malloc(t->n_rows * sizeof *o);
    uint32_t *r = pd_malloc(t->n_rows * sizeof *r);
    if (!o || !r) {
        free(o);
        free(r);
        return PD_ENOMEM;
    }
    for (uint32_t i = 0; i < t->n_rows; i++)
        o[i] = (struct order){ps_table_key(t, i), i};
    qsort(o, t->n_rows, sizeof *o, by_key);
    for (uint32_t i = 0; i < t->n_rows; i++)
        r[i] = o[i].row;
    free(o);
    *rows = r;
    return 0;
}
