/* SPDX-License-Identifier: Apache-2.0 */
/* spans.c - see spans.h. */
#include "base/spans.h"

enum { VERSION = 1, SPARE = 1024 };

struct pd_span_ring {
    struct pd_spans *all;
    struct pd_span_ring *next;
    char name[24];
    atomic_int ended;
    _Atomic uint64_t n; /* spans so far */
    struct pd_span {
        const char *name;
        uint64_t began_ns, ended_ns;
    } v[PD_SPANS_MAX];
};

struct pd_spans {
    _Atomic(struct pd_span_ring *) first;
    atomic_uint n_without; /* threads without memory for a ring */
    atomic_int closed;     /* nothing is recorded any more */
};

_Thread_local struct pd_span_ring *pd_span_ring;

struct pd_spans *pd_spans_new(void) {
    return pd_calloc(1, sizeof(struct pd_spans));
}

void pd_spans_free(struct pd_spans *s) {
    for (struct pd_span_ring *r = s ? atomic_load(&s->first) : NULL; r; r = r->next)
        if (!atomic_load(&r->ended))
            return; /* a thread that was abandoned, of a process that ends */
    for (struct pd_span_ring *r = s ? atomic_load(&s->first) : NULL, *next; r; r = next) {
        next = r->next;
        free(r);
    }
    free(s);
}

void pd_spans_thread(struct pd_spans *s, const char *name) {
    struct pd_span_ring *r = s ? pd_calloc(1, sizeof *r) : NULL;
    if (s && !r)
        atomic_fetch_add(&s->n_without, 1);
    if (!r)
        return;
    r->all = s;
    pd_fmt(r->name, sizeof r->name, "%.20s", name);
    r->next = atomic_load(&s->first);
    while (!atomic_compare_exchange_weak(&s->first, &r->next, r))
        ;
    pd_span_ring = r;
}

void pd_spans_thread_end(void) {
    if (pd_span_ring)
        atomic_store(&pd_span_ring->ended, 1);
    pd_span_ring = NULL;
}

struct pd_spans *pd_spans_here(void) {
    return pd_span_ring ? pd_span_ring->all : NULL;
}

void pd_span_add(const char *name, uint64_t began_ns, uint64_t ended_ns) {
    struct pd_span_ring *r = pd_span_ring;
    if (!r || atomic_load_explicit(&r->all->closed, memory_order_relaxed))
        return;
    const uint64_t n = atomic_load_explicit(&r->n, memory_order_relaxed);
    r->v[n % PD_SPANS_MAX] = (struct pd_span){name, began_ns, ended_ns};
    atomic_store_explicit(&r->n, n + 1, memory_order_release);
}

/* --- the file --- */

/* The spans of a ring that are written: those before `n`, at most PD_SPANS_MAX. A thread that still
 * runs may overwrite the oldest ones, until it sees that nothing is recorded any more. */
static uint64_t n_kept(const struct pd_span_ring *r, uint64_t n) {
    const uint64_t most = PD_SPANS_MAX - (atomic_load(&r->ended) ? 0 : SPARE);
    return n < most ? n : most;
}

static void write_ring(FILE *f, const struct pd_span_ring *r) {
    const uint64_t n = atomic_load_explicit(&r->n, memory_order_acquire), kept = n_kept(r, n);
    fprintf(f, "{\"thread\":\"%s\",\"kept\":%" PRIu64 ",\"dropped\":%" PRIu64 "}\n", r->name, kept,
            n - kept);
    for (uint64_t i = n - kept; i < n; i++) {
        const struct pd_span *s = &r->v[i % PD_SPANS_MAX];
        fprintf(f, "[\"%s\",%" PRIu64 ",%" PRIu64 "]\n", s->name, s->began_ns,
                s->ended_ns - s->began_ns);
    }
}

static uint64_t first_ns(const struct pd_span_ring *r) {
    const uint64_t n = atomic_load_explicit(&r->n, memory_order_acquire), kept = n_kept(r, n);
    uint64_t first = UINT64_MAX;
    for (uint64_t i = n - kept; i < n; i++)
        first = r->v[i % PD_SPANS_MAX].began_ns < first ? r->v[i % PD_SPANS_MAX].began_ns : first;
    return first;
}

int pd_spans_write(struct pd_spans *s, const char *path, const struct pd_spans_of *of,
                   struct pd_err *err) {
    const unsigned busy = atomic_load(&s->n_without);
    uint64_t begin = UINT64_MAX;
    char new[PATH_MAX], boot[PD_BOOT_ID];
    if (pd_fmt(new, sizeof new, "%s.new", path))
        return pd_fail(err, PD_EIO, "%s: the path is too long", path);
    atomic_store(&s->closed, 1);
    for (struct pd_span_ring *r = atomic_load(&s->first); r; r = r->next) {
        const uint64_t first = first_ns(r);
        begin = first < begin ? first : begin;
    }
    pd_boot_id(boot);
    const int fd = open(new, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
    if (!f) {
        pd_fail_errno(err, PD_EIO, errno, "%s", path);
        pd_close(fd);
        return err->code;
    }
    fprintf(f,
            "{\"version\":%d,\"role\":\"%s\",\"rank\":%" PRId64 ",\"node\":%" PRId64
            ",\"begin_ns\":%" PRIu64 ",\"busy\":%u,\"boot\":\"%s\"}\n",
            VERSION, of->role, of->rank, of->node, begin == UINT64_MAX ? 0 : begin, busy, boot);
    for (struct pd_span_ring *r = atomic_load(&s->first); r; r = r->next)
        write_ring(f, r);
    const int failed = ferror(f);
    if (fclose(f) || failed || rename(new, path))
        return pd_fail_errno(err, PD_EIO, errno, "%s", path);
    return 0;
}
