/* SPDX-License-Identifier: Apache-2.0 */
/* index.c - see index.h. */
#include "ps/table/index.h"

#include "math/hash.h"
#include "ps/table/dirty_rows.h"
#include "thread/page_memory.h"

enum {
    FIRST_BITS = 6,
    SEGMENT_BITS = 15,
    MAX_DEPTH = 17, /* 17 + 15 bits of the hash's upper half */
    AHEAD = 24,
    LOT = 256,
    LOAD_LEAST = 144,
    LOAD_SPREAD = 48,    /* of 256: a segment's limit is a load of 56 to 75 % */
    ARENA_SEGMENTS = 16, /* 6 MiB, a multiple of a huge page */
};

/* a slot with row PS_ROW_NONE is empty */
struct segment {
    struct ps_index_entry *slots;
    uint32_t mask, used, limit; /* limit: the segment is full when used reaches it */
    uint32_t depth;             /* number of leading directory bits that its keys share */
};

struct arena {
    struct arena *next;
    char *mem;
    uint32_t used;
};

struct ps_index {
    struct segment **dir; /* [1 << depth] */
    uint32_t depth;
    uint64_t n;
    struct arena *arenas;
    struct ps_index_entry *spare; /* scratch memory for splitting a segment */
    uint64_t ones, zeros;         /* bits that are 1, or 0, in any key ever put */
    uint64_t bytes;
};

static const size_t SEGMENT_BYTES = sizeof(struct ps_index_entry) << SEGMENT_BITS;

/* `prefix`: a 1 bit, then the directory bits of the segment. */
static uint32_t prefix_limit(uint32_t slots, uint64_t prefix) {
    uint64_t load = LOAD_LEAST + pd_mix64(prefix) % LOAD_SPREAD;
    return (uint32_t)((uint64_t)slots * load / 256);
}

static size_t directory_index(const struct ps_index *x, uint64_t h) {
    return x->depth ? h >> (64 - x->depth) : 0;
}

static void clear(struct ps_index_entry *s, size_t n) { memset(s, 0xff, n * sizeof *s); }

/* Returns the slots of a full-sized segment, from huge pages. */
static struct ps_index_entry *new_slots(struct ps_index *x) {
    struct arena *a = x->arenas;
    if (!a || a->used == ARENA_SEGMENTS) {
        a = pd_calloc(1, sizeof *a);
        if (!a)
            return NULL;
        a->mem = pd_huge_page_map(ARENA_SEGMENTS * SEGMENT_BYTES);
        if (!a->mem) {
            free(a);
            return NULL;
        }
        a->next = x->arenas;
        x->arenas = a;
    }
    x->bytes += SEGMENT_BYTES;
    return (struct ps_index_entry *)(void *)(a->mem + a->used++ * SEGMENT_BYTES);
}

int ps_index_new(struct ps_index **out) {
    struct ps_index *x = pd_calloc(1, sizeof *x);
    struct segment *s = pd_calloc(1, sizeof *s);
    if (x)
        x->dir = pd_calloc(1, sizeof(struct segment *));
    if (s)
        s->slots = pd_malloc(sizeof(struct ps_index_entry) << FIRST_BITS);
    if (!x || !s || !x->dir || !s->slots) {
        if (s)
            free(s->slots);
        free(s);
        if (x)
            free(x->dir);
        free(x);
        return PD_ENOMEM;
    }
    s->mask = (1u << FIRST_BITS) - 1;
    s->limit = prefix_limit(1u << FIRST_BITS, 1);
    clear(s->slots, 1u << FIRST_BITS);
    x->bytes = sizeof(struct ps_index_entry) << FIRST_BITS;
    x->dir[0] = s;
    *out = x;
    return 0;
}

void ps_index_free(struct ps_index *x) {
    if (!x)
        return;
    for (size_t i = 0; i < (size_t)1 << x->depth; i++) {
        struct segment *s = x->dir[i];
        if (i && x->dir[i - 1] == s)
            continue; /* the directory entries of a segment are adjacent */
        if (s->mask != (1u << SEGMENT_BITS) - 1)
            free(s->slots);
    }
    struct segment *last = NULL;
    for (size_t i = 0; i < (size_t)1 << x->depth; i++)
        if (x->dir[i] != last) {
            free(last);
            last = x->dir[i];
        }
    free(last);
    while (x->arenas) {
        struct arena *a = x->arenas;
        x->arenas = a->next;
        pd_huge_page_unmap(a->mem, ARENA_SEGMENTS * SEGMENT_BYTES);
        free(a);
    }
    free(x->spare);
    free(x->dir);
    free(x);
}

/* Returns the slot of the key, or the empty slot where it belongs. */
static struct ps_index_entry *probe(const struct segment *s, uint64_t h, uint64_t key) {
    for (uint32_t i = (uint32_t)(h >> 32) & s->mask;; i = (i + 1) & s->mask) {
        struct ps_index_entry *q = &s->slots[i];
        if (q->row == PS_ROW_NONE || q->key == key)
            return q;
    }
}

void ps_index_find(const struct ps_index *x, const uint64_t *keys, size_t n, uint32_t *rows,
                   size_t *first_missing) {
    *first_missing = n;
    for (size_t i = 0; i < n; i++) {
        if (i + AHEAD < n) {
            uint64_t h = pd_mix64(keys[i + AHEAD]);
            const struct segment *s = x->dir[directory_index(x, h)];
            __builtin_prefetch(&s->slots[(uint32_t)(h >> 32) & s->mask]);
        }
        uint64_t h = pd_mix64(keys[i]);
        rows[i] = probe(x->dir[directory_index(x, h)], h, keys[i])->row;
        if (rows[i] == PS_ROW_NONE && *first_missing == n)
            *first_missing = i;
    }
}

static void reinsert(const struct ps_index_entry *from, size_t n, struct segment *s) {
    for (size_t i = 0; i < n; i++)
        if (from[i].row != PS_ROW_NONE)
            *probe(s, pd_mix64(from[i].key), from[i].key) = from[i];
}

/* Doubles the slots of the only segment, which is not of full size yet. */
static int grow_first(struct ps_index *x) {
    struct segment *s = x->dir[0];
    uint32_t n = s->mask + 1;
    struct ps_index_entry *old = s->slots, *fresh = 2 * n == 1u << SEGMENT_BITS
                                                        ? new_slots(x)
                                                        : pd_malloc(2 * (size_t)n * sizeof *fresh);
    if (!fresh)
        return PD_ENOMEM;
    if (2 * n < 1u << SEGMENT_BITS)
        x->bytes += 2 * (size_t)n * sizeof *fresh;
    s->slots = fresh;
    s->mask = 2 * n - 1;
    s->limit = prefix_limit(2 * n, 1);
    clear(fresh, 2 * (size_t)n);
    reinsert(old, n, s);
    free(old);
    x->bytes -= (size_t)n * sizeof *old;
    return 0;
}

static int grow_dir(struct ps_index *x) {
    size_t n = (size_t)1 << x->depth;
    struct segment **d = x->depth == MAX_DEPTH ? NULL : pd_malloc(2 * n * sizeof(struct segment *));
    if (!d)
        return PD_ENOMEM;
    for (size_t i = 0; i < n; i++)
        d[2 * i] = d[2 * i + 1] = x->dir[i];
    free(x->dir);
    x->dir = d;
    x->depth++;
    return 0;
}

/* Splits the segment of hash h: a new segment gets half of its directory entries and their keys. */
static int split(struct ps_index *x, uint64_t h) {
    struct segment *s = x->dir[directory_index(x, h)];
    if (!x->spare && !(x->spare = pd_malloc(SEGMENT_BYTES)))
        return PD_ENOMEM;
    if (s->depth == x->depth && grow_dir(x))
        return PD_ENOMEM;
    struct segment *t = pd_calloc(1, sizeof *t);
    if (!t || !(t->slots = new_slots(x))) {
        free(t);
        return PD_ENOMEM;
    }
    uint32_t n = s->mask + 1;
    uint64_t prefix =
        s->depth ? h >> (64 - s->depth) : 0; /* prefix of s; the halves have 2p and 2p + 1 */
    t->mask = s->mask;
    t->depth = ++s->depth;
    s->limit = prefix_limit(n, (uint64_t)1 << s->depth | prefix << 1);
    t->limit = prefix_limit(n, (uint64_t)1 << s->depth | prefix << 1 | 1);
    size_t span = (size_t)1 << (x->depth - s->depth), first = (size_t)(prefix << 1 | 1) * span;
    for (size_t i = 0; i < span; i++)
        x->dir[first + i] = t;
    memcpy(x->spare, s->slots, SEGMENT_BYTES);
    clear(s->slots, n);
    clear(t->slots, n);
    s->used = t->used = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct ps_index_entry *q = &x->spare[i];
        if (q->row == PS_ROW_NONE)
            continue;
        uint64_t hq = pd_mix64(q->key);
        struct segment *to = hq >> (64 - s->depth) & 1 ? t : s;
        *probe(to, hq, q->key) = *q;
        to->used++;
    }
    return 0;
}

int ps_index_put(struct ps_index *x, uint64_t key, uint32_t row) {
    uint64_t h = pd_mix64(key);
    struct segment *s = x->dir[directory_index(x, h)];
    while (s->used >= s->limit) {
        if (s->mask + 1 < 1u << SEGMENT_BITS ? grow_first(x) : split(x, h))
            return PD_ENOMEM;
        s = x->dir[directory_index(x, h)];
    }
    *probe(s, h, key) = (struct ps_index_entry){key, row};
    s->used++;
    x->n++;
    x->ones |= key;
    x->zeros |= ~key;
    return 0;
}

uint32_t *ps_index_at(struct ps_index *x, uint64_t key) {
    uint64_t h = pd_mix64(key);
    struct ps_index_entry *q = probe(x->dir[directory_index(x, h)], h, key);
    return q->row == PS_ROW_NONE ? NULL : &q->row;
}

/* Entries after the free slot move up, unless that would put them before their home slot. */
void ps_index_remove(struct ps_index *x, uint64_t key) {
    uint64_t h = pd_mix64(key);
    struct segment *s = x->dir[directory_index(x, h)];
    uint32_t free_at = (uint32_t)(probe(s, h, key) - s->slots);
    for (uint32_t i = (free_at + 1) & s->mask; s->slots[i].row != PS_ROW_NONE;
         i = (i + 1) & s->mask) {
        uint32_t home = (uint32_t)(pd_mix64(s->slots[i].key) >> 32) & s->mask;
        if (((i - home) & s->mask) < ((i - free_at) & s->mask))
            continue;
        s->slots[free_at] = s->slots[i];
        free_at = i;
    }
    clear(&s->slots[free_at], 1);
    s->used--;
    x->n--;
}

uint64_t ps_index_count(const struct ps_index *x) { return x->n; }

uint64_t ps_index_bytes(const struct ps_index *x) {
    return x->bytes + (x->spare ? SEGMENT_BYTES : 0) + (sizeof(struct segment *) << x->depth);
}

/* Iterates over the segments; NULL: no more. */
static const struct segment *next_segment(const struct ps_index *x, size_t *at) {
    const struct segment *before = *at ? x->dir[*at - 1] : NULL;
    while (*at < (size_t)1 << x->depth)
        if (x->dir[(*at)++] != before)
            return x->dir[*at - 1];
    return NULL;
}

void ps_index_list(const struct ps_index *x, struct ps_index_entry *out) {
    size_t at = 0;
    for (const struct segment *s; (s = next_segment(x, &at));)
        for (uint32_t k = 0; k <= s->mask; k++)
            if (s->slots[k].row != PS_ROW_NONE)
                *out++ = s->slots[k];
}

/* Copies the entries of the LOT slots from `from` on whose rows have changed (NULL: all). The loop
 * has no branch per slot, since a branch would be mispredicted half of the time. */
static size_t take_lot(const struct segment *s, uint32_t from, const struct ps_dirty_rows *only,
                       struct ps_index_entry *lot) {
    const struct ps_index_entry *e = s->slots + from;
    const uint32_t n_slots = s->mask + 1 - from < LOT ? s->mask + 1 - from : LOT;
    size_t n = 0, k = 0;
    for (uint32_t i = 0; i < n_slots; i++) {
        lot[n] = e[i];
        n += e[i].row != PS_ROW_NONE;
    }
    if (!only)
        return n;
    for (size_t i = 0; i < n; i++) {
        lot[k] = lot[i];
        k += ps_dirty_rows_has(only, lot[i].row) != 0;
    }
    return k;
}

/* Counts first, then places: the table is read twice. */
uint64_t ps_index_list_heaps(const struct ps_index *x, const struct ps_dirty_rows *only,
                             struct ps_index_entry *out, uint64_t cap,
                             struct ps_index_heaps *heaps) {
    const uint64_t differ = x->ones & x->zeros;
    const int high = differ ? 63 - __builtin_clzll(differ) : 0,
              shift = high > PS_INDEX_HEAP_BITS - 1 ? high - (PS_INDEX_HEAP_BITS - 1) : 0;
    uint64_t to[PS_INDEX_HEAPS] = {0}, sum = 0;
    struct ps_index_entry lot[LOT];
    size_t at = 0;
    for (const struct segment *s; (s = next_segment(x, &at));)
        for (uint32_t k = 0; k <= s->mask; k += LOT) {
            const size_t n = take_lot(s, k, only, lot);
            for (size_t i = 0; i < n; i++)
                to[lot[i].key >> shift & (PS_INDEX_HEAPS - 1)]++;
        }
    for (int h = 0; h < PS_INDEX_HEAPS; h++) {
        const uint64_t k = to[h];
        to[h] = sum;
        heaps->end[h] = sum += k;
    }
    if (sum > cap)
        return sum;
    at = 0;
    for (const struct segment *s; (s = next_segment(x, &at));)
        for (uint32_t k = 0; k <= s->mask; k += LOT) {
            const size_t n = take_lot(s, k, only, lot);
            for (size_t i = 0; i < n; i++)
                out[to[lot[i].key >> shift & (PS_INDEX_HEAPS - 1)]++] = lot[i];
        }
    return sum;
}
