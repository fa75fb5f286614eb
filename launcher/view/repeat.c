/* repeat.c - see repeat.h: a queue in the order of coming, and a hash table over it. */
#include "launcher/view/repeat.h"

#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/err.h"
#include "base/fault.h"

enum { N_BUCKETS = 4096 };

struct entry {
    struct entry *next, *chain; /* in the queue; in the bucket, older ones behind */
    struct repeat_line line;
    uint64_t hash, due_ms;
    unsigned *who, cap;
    char text[];
};

struct repeat {
    repeat_on_line fn;
    void *arg;
    struct entry *first, **last, *bucket[N_BUCKETS];
    size_t bytes;
};

struct repeat *repeat_new(repeat_on_line fn, void *arg) {
    struct repeat *r = pd_calloc(1, sizeof *r);
    if (r) {
        r->fn = fn;
        r->arg = arg;
        r->last = &r->first;
    }
    return r;
}

static void drop_first(struct repeat *r) {
    struct entry *e = r->first, **p = &r->bucket[e->hash % N_BUCKETS];
    while (*p != e)
        p = &(*p)->chain;
    *p = e->chain;
    r->first = e->next;
    if (!r->first)
        r->last = &r->first;
    r->bytes -= sizeof *e + e->line.n;
    free(e->who);
    free(e);
}

void repeat_free(struct repeat *r) {
    if (!r)
        return;
    while (r->first)
        drop_first(r);
    free(r);
}

static int has(const struct entry *e, unsigned one) {
    for (unsigned i = 0; i < e->line.n_who; i++)
        if (e->who[i] == one)
            return 1;
    return 0;
}

static int add_one(struct entry *e, unsigned one) {
    if (e->line.n_who == e->cap) {
        unsigned cap = e->cap ? 2 * e->cap : 4;
        unsigned *v = pd_realloc(e->who, cap * sizeof *v);
        if (!v)
            return PD_ENOMEM;
        e->who = v;
        e->cap = cap;
    }
    e->who[e->line.n_who++] = one;
    e->line.who = e->who;
    return 0;
}

static int same(const struct entry *e, uint64_t hash, const struct repeat_line *l) {
    return e->hash == hash && e->line.group == l->group && e->line.n == l->n && !memcmp(e->text, l->text, l->n);
}

/* The oldest of those that say the same and lack this one: everybody's k-th "x" belongs to the k-th entry. So those that have
 * it are older than those that lack it, and who says "x" a thousand times meets only the newest. */
static struct entry *find(const struct repeat *r, uint64_t hash, const struct repeat_line *l) {
    struct entry *found = NULL;
    for (struct entry *e = r->bucket[hash % N_BUCKETS]; e; e = e->chain)
        if (same(e, hash, l)) {
            if (has(e, l->who[0]))
                break;
            found = e;
        }
    return found;
}

static void emit_first(struct repeat *r) {
    r->fn(r->arg, &r->first->line);
    drop_first(r);
}

int repeat_add(struct repeat *r, const struct repeat_line *l, uint64_t now_ms) {
    uint64_t hash = XXH3_64bits_withSeed(l->text, l->n, l->group);
    while (r->first && (l->time_us > r->first->line.time_us + REPEAT_SPAN_US || r->bytes > REPEAT_MAX_BYTES))
        emit_first(r);
    struct entry *e = find(r, hash, l);
    if (e)
        return add_one(e, l->who[0]);
    e = pd_calloc(1, sizeof *e + l->n);
    if (!e)
        return PD_ENOMEM;
    e->line = *l;
    e->line.n_who = 0;
    e->line.text = e->text;
    memcpy(e->text, l->text, l->n);
    e->hash = hash;
    e->due_ms = now_ms + REPEAT_SPAN_MS;
    if (add_one(e, l->who[0])) {
        free(e);
        return PD_ENOMEM;
    }
    e->chain = r->bucket[hash % N_BUCKETS];
    r->bucket[hash % N_BUCKETS] = e;
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
