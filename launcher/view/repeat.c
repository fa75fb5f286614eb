/* SPDX-License-Identifier: Apache-2.0 */
/* repeat.c - see repeat.h: a queue in the order of arrival, and a hash table over it.
 *
 * The k-th "x" of each source belongs to the k-th entry of "x". So of the entries with equal text,
 * those that have a source are older than those that lack it. The next entry for a source is the
 * newer neighbour of its last entry, which `recent` remembers. Without `recent`, a process that
 * says "x" 100,000 times would search 100,000 entries each time. */
#include "launcher/view/repeat.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { N_BUCKETS = 4096, N_RECENT = 8192 };

struct repeat_entry {
    /* next: in the queue; chain: in the bucket, newer entries behind */
    struct repeat_entry *next, *chain;
    struct repeat_entry *newer; /* the next newer entry with the same text */
    struct repeat_line line;
    uint64_t hash, due_ms, seq;
    unsigned *sources, cap;
    char text[];
};

/* The last entry that `source` was added to. It is gone if its seq is below the first entry's. */
struct recent {
    struct repeat_entry *e;
    uint64_t seq;
    unsigned source;
};

struct repeat {
    repeat_on_line fn;
    void *arg;
    struct repeat_entry *first, **last, *bucket[N_BUCKETS], *bucket_last[N_BUCKETS];
    struct recent recent[N_RECENT];
    uint64_t n_seq, span_ms;
    size_t bytes;
};

struct repeat *repeat_new(repeat_on_line fn, void *arg) {
    struct repeat *r = pd_calloc(1, sizeof *r);
    if (r) {
        r->fn = fn;
        r->arg = arg;
        r->last = &r->first;
        r->span_ms = REPEAT_SPAN_MS;
    }
    return r;
}

void repeat_wait(struct repeat *r, uint64_t span_ms) { r->span_ms = span_ms; }

static void drop_first(struct repeat *r) {
    struct repeat_entry *e = r->first; /* also the oldest entry of its bucket */
    size_t b = e->hash % N_BUCKETS;
    r->bucket[b] = e->chain;
    if (!e->chain)
        r->bucket_last[b] = NULL;
    r->first = e->next;
    if (!r->first)
        r->last = &r->first;
    r->bytes -= sizeof *e + e->line.n;
    free(e->sources);
    free(e);
}

void repeat_free(struct repeat *r) {
    if (!r)
        return;
    while (r->first)
        drop_first(r);
    free(r);
}

static int has(const struct repeat_entry *e, unsigned one) {
    for (unsigned i = 0; i < e->line.n_sources; i++)
        if (e->sources[i] == one)
            return 1;
    return 0;
}

static int add_one(struct repeat_entry *e, unsigned one) {
    if (e->line.n_sources == e->cap) {
        unsigned cap = e->cap ? 2 * e->cap : 4;
        unsigned *v = pd_realloc(e->sources, cap * sizeof *v);
        if (!v)
            return PD_ENOMEM;
        e->sources = v;
        e->cap = cap;
    }
    e->sources[e->line.n_sources++] = one;
    e->line.sources = e->sources;
    return 0;
}

static int same(const struct repeat_entry *e, uint64_t hash, const struct repeat_line *l) {
    return e->hash == hash && e->line.group == l->group && e->line.n == l->n &&
           !memcmp(e->text, l->text, l->n);
}

static struct recent *recent_of(struct repeat *r, uint64_t hash, unsigned source) {
    return &r->recent[(hash ^ source * UINT64_C(0x9e3779b97f4a7c15)) % N_RECENT];
}

/* The oldest entry with this text that lacks this source. *newest: the last with this text. */
static struct repeat_entry *find(struct repeat *r, uint64_t hash, const struct repeat_line *l,
                                 struct repeat_entry **newest) {
    const struct recent *c = recent_of(r, hash, l->sources[0]);
    *newest = NULL;
    if (c->e && r->first && c->seq >= r->first->seq && c->source == l->sources[0] &&
        same(c->e, hash, l)) {
        *newest = c->e; /* true only if there is no newer entry */
        return c->e->newer;
    }
    for (struct repeat_entry *e = r->bucket[hash % N_BUCKETS]; e; e = e->chain)
        if (same(e, hash, l)) {
            if (!has(e, l->sources[0]))
                return e;
            *newest = e;
        }
    return NULL;
}

static int add_to(struct repeat *r, struct repeat_entry *e, unsigned one) {
    if (add_one(e, one))
        return PD_ENOMEM;
    *recent_of(r, e->hash, one) = (struct recent){e, e->seq, one};
    return 0;
}

static void emit_first(struct repeat *r) {
    r->fn(r->arg, &r->first->line);
    drop_first(r);
}

int repeat_add(struct repeat *r, const struct repeat_line *l, uint64_t now_ms) {
    uint64_t hash = XXH3_64bits_withSeed(l->text, l->n, l->group);
    while (r->first &&
           (l->time_us > r->first->line.time_us + r->span_ms * 1000 || r->bytes > REPEAT_MAX_BYTES))
        emit_first(r);
    struct repeat_entry *newest, *e = find(r, hash, l, &newest);
    if (e)
        return add_to(r, e, l->sources[0]);
    e = pd_calloc(1, sizeof *e + l->n);
    if (!e)
        return PD_ENOMEM;
    e->line = *l;
    e->line.n_sources = 0;
    e->line.text = e->text;
    memcpy(e->text, l->text, l->n);
    e->hash = hash;
    e->due_ms = now_ms + r->span_ms;
    e->seq = r->n_seq++;
    if (add_to(r, e, l->sources[0])) {
        free(e);
        return PD_ENOMEM;
    }
    if (newest)
        newest->newer = e;
    size_t b = hash % N_BUCKETS;
    *(r->bucket[b] ? &r->bucket_last[b]->chain : &r->bucket[b]) = e;
    r->bucket_last[b] = e;
    *r->last = e;
    r->last = &e->next;
    r->bytes += sizeof *e + l->n;
    return 0;
}

uint64_t repeat_flush(struct repeat *r, int all, uint64_t now_ms) {
    while (r->first && (all || r->first->due_ms <= now_ms))
        emit_first(r);
    return r->first ? r->first->due_ms - now_ms : UINT64_MAX;
}
