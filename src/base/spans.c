/* SPDX-License-Identifier: Apache-2.0 */
/* spans.c - see spans.h. */
#include "base/spans.h"

enum { VERSION = 1 };

struct pd_span_ring {
    struct pd_spans *all;
    struct pd_span_ring *next;
    char name[24];
    atomic_int ended;
    uint64_t n; /* spans so far */
    struct pd_span {
        const char *name;
        uint64_t began_ns, ended_ns;
    } v[PD_SPANS_MAX];
};

struct pd_spans {
    _Atomic(struct pd_span_ring *) first;
    atomic_uint n_without; /* threads without memory for a ring */
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
    if (r)
        r->v[r->n++ % PD_SPANS_MAX] = (struct pd_span){name, began_ns, ended_ns};
}

/* --- the file --- */

static uint64_t n_kept(const struct pd_span_ring *r) {
    return r->n < PD_SPANS_MAX ? r->n : PD_SPANS_MAX;
}

static void write_ring(FILE *f, const struct pd_span_ring *r) {
    const uint64_t kept = n_kept(r);
    fprintf(f, "{\"thread\":\"%s\",\"kept\":%" PRIu64 ",\"dropped\":%" PRIu64 "}\n", r->name, kept,
            r->n - kept);
    for (uint64_t i = r->n - kept; i < r->n; i++) {
        const struct pd_span *s = &r->v[i % PD_SPANS_MAX];
        fprintf(f, "[\"%s\",%" PRIu64 ",%" PRIu64 "]\n", s->name, s->began_ns,
                s->ended_ns - s->began_ns);
    }
}

int pd_spans_write(struct pd_spans *s, const char *path, const struct pd_spans_of *of,
                   struct pd_err *err) {
    uint64_t begin = UINT64_MAX;
    unsigned busy = atomic_load(&s->n_without);
    for (struct pd_span_ring *r = atomic_load(&s->first); r; r = r->next) {
        const int ended = atomic_load(&r->ended);
        busy += !ended;
        for (uint64_t i = 0; ended && i < n_kept(r); i++)
            begin = r->v[i].began_ns < begin ? r->v[i].began_ns : begin;
    }
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
    if (!f) {
        pd_fail_errno(err, PD_EIO, errno, "%s", path);
        pd_close(fd);
        return err->code;
    }
    fprintf(f,
            "{\"version\":%d,\"role\":\"%s\",\"rank\":%" PRId64 ",\"node\":%" PRId64
            ",\"begin_ns\":%" PRIu64 ",\"busy\":%u}\n",
            VERSION, of->role, of->rank, of->node, begin == UINT64_MAX ? 0 : begin, busy);
    for (struct pd_span_ring *r = atomic_load(&s->first); r; r = r->next)
        if (atomic_load(&r->ended))
            write_ring(f, r);
    const int failed = ferror(f);
    if (fclose(f) || failed)
        return pd_fail_errno(err, PD_EIO, errno, "%s", path);
    return 0;
}
