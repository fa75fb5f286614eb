/* index.c - see index.h. */
#include "ps/index.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/hash.h"
#include "base/huge.h"

enum {
    FIRST_BITS = 6, SEGMENT_BITS = 15, MAX_DEPTH = 17, /* 17 + 15 bits of the hash's upper half */
    AHEAD = 24,
    LOAD_LEAST = 144, LOAD_SPREAD = 48, /* of 256: a segment is full at 56 to 75 % */
    ARENA_SEGMENTS = 16,                /* 6 MiB, a multiple of a huge page */
};

/* Unaligned keys cost nothing on the processors that this runs on, and a quarter of the memory is saved. */
struct slot {
    uint64_t key;
    uint32_t row; /* PS_ROW_NONE: empty */
} __attribute__((packed, aligned(4)));

struct segment {
    struct slot *slots;
    uint32_t mask, used, limit; /* limit: full */
    uint32_t depth;             /* directory bits that lead here */
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
    struct slot *spare; /* of one segment, for splitting */
    uint64_t bytes;
};

static const size_t SEGMENT_BYTES = sizeof(struct slot) << SEGMENT_BITS;

/* `prefix`: a one and the bits of the directory that lead here. */
static uint32_t limit_of(uint32_t slots, uint64_t prefix) {
    uint64_t load = LOAD_LEAST + pd_mix64(prefix) % LOAD_SPREAD;
    return (uint32_t)((uint64_t)slots * load / 256);
}

static size_t dir_of(const struct ps_index *x, uint64_t h) { return x->depth ? h >> (64 - x->depth) : 0; }

static void clear(struct slot *s, size_t n) { memset(s, 0xff, n * sizeof *s); }

/* A full-sized segment's slots, out of huge pages. */
static struct slot *take_slots(struct ps_index *x) {
    struct arena *a = x->arenas;
    if (!a || a->used == ARENA_SEGMENTS) {
        a = pd_calloc(1, sizeof *a);
        if (!a)
            return NULL;
        a->mem = pd_huge_map(ARENA_SEGMENTS * SEGMENT_BYTES);
        if (!a->mem) {
            free(a);
            return NULL;
        }
        a->next = x->arenas;
        x->arenas = a;
    }
    x->bytes += SEGMENT_BYTES;
    return (struct slot *)(void *)(a->mem + a->used++ * SEGMENT_BYTES);
}

int ps_index_new(struct ps_index **out) {
    struct ps_index *x = pd_calloc(1, sizeof *x);
    struct segment *s = pd_calloc(1, sizeof *s);
    if (x)
        x->dir = pd_calloc(1, sizeof(struct segment *));
    if (s)
        s->slots = pd_malloc(sizeof(struct slot) << FIRST_BITS);
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
    s->limit = limit_of(1u << FIRST_BITS, 1);
    clear(s->slots, 1u << FIRST_BITS);
    x->bytes = sizeof(struct slot) << FIRST_BITS;
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
            continue; /* entries of one segment lie together */
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
        pd_huge_unmap(a->mem, ARENA_SEGMENTS * SEGMENT_BYTES);
        free(a);
    }
    free(x->spare);
    free(x->dir);
    free(x);
}

/* The slot that holds the key, or the empty one where it belongs. */
static struct slot *probe(const struct segment *s, uint64_t h, uint64_t key) {
    for (uint32_t i = (uint32_t)(h >> 32) & s->mask;; i = (i + 1) & s->mask) {
        struct slot *q = &s->slots[i];
        if (q->row == PS_ROW_NONE || q->key == key)
            return q;
    }
}

void ps_index_find(const struct ps_index *x, const uint64_t *keys, size_t n, uint32_t *rows, size_t *first_missing) {
    *first_missing = n;
    for (size_t i = 0; i < n; i++) {
        if (i + AHEAD < n) {
            uint64_t h = pd_mix64(keys[i + AHEAD]);
            const struct segment *s = x->dir[dir_of(x, h)];
            __builtin_prefetch(&s->slots[(uint32_t)(h >> 32) & s->mask]);
        }
        uint64_t h = pd_mix64(keys[i]);
        rows[i] = probe(x->dir[dir_of(x, h)], h, keys[i])->row;
        if (rows[i] == PS_ROW_NONE && *first_missing == n)
            *first_missing = i;
    }
}

static void reinsert(const struct slot *from, size_t n, struct segment *s) {
    for (size_t i = 0; i < n; i++)
        if (from[i].row != PS_ROW_NONE)
            *probe(s, pd_mix64(from[i].key), from[i].key) = from[i];
}

/* The only segment, not yet of full size, gets twice as many slots. */
static int grow_first(struct ps_index *x) {
    struct segment *s = x->dir[0];
    uint32_t n = s->mask + 1;
    struct slot *old = s->slots, *fresh = 2 * n == 1u << SEGMENT_BITS ? take_slots(x) : pd_malloc(2 * (size_t)n * sizeof *fresh);
    if (!fresh)
        return PD_ENOMEM;
    if (2 * n < 1u << SEGMENT_BITS)
        x->bytes += 2 * (size_t)n * sizeof *fresh;
    s->slots = fresh;
    s->mask = 2 * n - 1;
    s->limit = limit_of(2 * n, 1);
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

/* Half of the segment's entries of the directory lead to a new one, with half of its keys. */
static int split(struct ps_index *x, uint64_t h) {
    struct segment *s = x->dir[dir_of(x, h)];
    if (!x->spare && !(x->spare = pd_malloc(SEGMENT_BYTES)))
        return PD_ENOMEM;
    if (s->depth == x->depth && grow_dir(x))
        return PD_ENOMEM;
    struct segment *t = pd_calloc(1, sizeof *t);
    if (!t || !(t->slots = take_slots(x))) {
        free(t);
        return PD_ENOMEM;
    }
    uint32_t n = s->mask + 1;
    uint64_t prefix = s->depth ? h >> (64 - s->depth) : 0; /* of s; its halves are 2p and 2p + 1 */
    t->mask = s->mask;
    t->depth = ++s->depth;
    s->limit = limit_of(n, (uint64_t)1 << s->depth | prefix << 1);
    t->limit = limit_of(n, (uint64_t)1 << s->depth | prefix << 1 | 1);
    size_t span = (size_t)1 << (x->depth - s->depth), first = (size_t)(prefix << 1 | 1) * span;
    for (size_t i = 0; i < span; i++)
        x->dir[first + i] = t;
    memcpy(x->spare, s->slots, SEGMENT_BYTES);
    clear(s->slots, n);
    clear(t->slots, n);
    s->used = t->used = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct slot *q = &x->spare[i];
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
    struct segment *s = x->dir[dir_of(x, h)];
    while (s->used >= s->limit) {
        if (s->mask + 1 < 1u << SEGMENT_BITS ? grow_first(x) : split(x, h))
            return PD_ENOMEM;
        s = x->dir[dir_of(x, h)];
    }
    *probe(s, h, key) = (struct slot){key, row};
    s->used++;
    x->n++;
    return 0;
}

uint32_t *ps_index_at(struct ps_index *x, uint64_t key) {
    uint64_t h = pd_mix64(key);
    struct slot *q = probe(x->dir[dir_of(x, h)], h, key);
    return q->row == PS_ROW_NONE ? NULL : &q->row;
}

/* What stands behind the slot moves up where that brings it no further than its own place. */
void ps_index_remove(struct ps_index *x, uint64_t key) {
    uint64_t h = pd_mix64(key);
    struct segment *s = x->dir[dir_of(x, h)];
    uint32_t free_at = (uint32_t)(probe(s, h, key) - s->slots);
    for (uint32_t i = (free_at + 1) & s->mask; s->slots[i].row != PS_ROW_NONE; i = (i + 1) & s->mask) {
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

void ps_index_list(const struct ps_index *x, struct ps_index_entry *out) {
    for (size_t i = 0; i < (size_t)1 << x->depth; i++) {
        const struct segment *s = x->dir[i];
        if (i && x->dir[i - 1] == s)
            continue;
        for (uint32_t k = 0; k <= s->mask; k++)
            if (s->slots[k].row != PS_ROW_NONE)
                *out++ = (struct ps_index_entry){s->slots[k].key, s->slots[k].row};
    }
}

/* --- sorting --- */

static void sort_few(struct ps_index_entry *e, uint64_t n) {
    for (uint64_t i = 1; i < n; i++) {
        const struct ps_index_entry x = e[i];
        uint64_t k = i;
        for (; k && e[k - 1].key > x.key; k--)
            e[k] = e[k - 1];
        e[k] = x;
    }
}

/* Into 256 heaps by the highest byte in which keys differ, by exchanging in place, then each heap likewise: the heaps soon fit into the
 * cache. Source: P. McIlroy, K. Bostic, M. D. McIlroy, "Engineering radix sort", Computing Systems 6(1), 1993 (American flag sort). */
void ps_index_sort_entries(struct ps_index_entry *e, uint64_t n) {
    enum { FEW = 48, HEAPS = 256 };
    uint64_t differ = 0, at[HEAPS] = {0}, end[HEAPS], sum = 0;
    if (n <= FEW) {
        sort_few(e, n);
        return;
    }
    for (uint64_t i = 1; i < n; i++)
        differ |= e[i].key ^ e[0].key;
    if (!differ)
        return;
    const int high = 63 - __builtin_clzll(differ), shift = high > 7 ? high - 7 : 0;
    for (uint64_t i = 0; i < n; i++)
        at[e[i].key >> shift & (HEAPS - 1)]++;
    for (int h = 0; h < HEAPS; h++) {
        const uint64_t k = at[h];
        at[h] = sum;
        end[h] = sum += k;
    }
    for (int h = 0; h < HEAPS; h++)
        while (at[h] < end[h]) {
            struct ps_index_entry x = e[at[h]];
            for (uint64_t to; (to = x.key >> shift & (HEAPS - 1)) != (uint64_t)h;) {
                const struct ps_index_entry y = e[at[to]];
                e[at[to]++] = x;
                x = y;
            }
            e[at[h]++] = x;
        }
    for (int h = 0; shift && h < HEAPS; h++) {
        const uint64_t from = h ? end[h - 1] : 0;
        ps_index_sort_entries(e + from, end[h] - from);
    }
}
