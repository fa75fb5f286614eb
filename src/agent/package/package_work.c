/* SPDX-License-Identifier: Apache-2.0 */
/* package_work.c - one turn of work of a package, on a thread of the pool. It checks and writes
 * records, continues the assembling, and answers takers. See package.h. */
#include "agent/package/package.h"
#include "pack/packed_program.h"

enum { STEP_MS = 20 };

/* --- the cache of received records: a record for a taker is not encoded again --- */

static void cache_drop(struct package_work *w, struct package_cached *c) {
    w->cache_bytes -= c->n;
    free(c->record);
    *c = (struct package_cached){0};
}

static void cache_put(struct package_work *w, const struct object_record *r) {
    size_t n = OBJECT_HEADER + r->stored_len;
    uint8_t *copy = pd_malloc(n);
    if (!copy)
        return; /* the object is read from the tree instead */
    memcpy(copy, r->stored - OBJECT_HEADER, n);
    for (size_t k = 0; k < PACKAGE_CACHE && w->cache_bytes + n > PACKAGE_CACHE_BYTES; k++)
        cache_drop(w, &w->cache[(w->cache_next + k) % PACKAGE_CACHE]);
    struct package_cached *c = &w->cache[w->cache_next++ % PACKAGE_CACHE];
    cache_drop(w, c);
    *c = (struct package_cached){r->id, copy, n};
    w->cache_bytes += n;
}

static const struct package_cached *cache_find(const struct package_work *w,
                                               const struct object_id *id) {
    for (size_t i = 0; i < PACKAGE_CACHE; i++)
        if (w->cache[i].n && object_same(&w->cache[i].id, id))
            return &w->cache[i];
    return NULL;
}

/* --- takers --- */

static void wake_takers(struct package_work *w, const struct object_id *id) {
    for (size_t k = 0; k < w->n_takers; k++) {
        struct package_taker *t = w->takers[k];
        for (size_t i = 0; i < t->n_waiting; i++)
            if (object_same(&t->waiting[i], id)) {
                memmove(&t->waiting[i], &t->waiting[i + 1],
                        (--t->n_waiting - i) * sizeof *t->waiting);
                t->ready[t->n_ready++] = *id;
                break;
            }
    }
}

static void take_need(struct package_work *w, struct package_input *in) {
    struct package_taker *t = in->taker;
    size_t n = in->n / OBJECT_ID, from = 0, k, j;
    (void)w;
    if (!t->ready) {
        t->ready = pd_calloc(PACKAGE_NEED_MAX, sizeof *t->ready);
        t->waiting = pd_calloc(PACKAGE_NEED_MAX, sizeof *t->waiting);
    }
    if (!t->ready || !t->waiting)
        pd_oom(&t->err, "a package");
    else if (in->n % OBJECT_ID || t->n_ready + t->n_waiting + n > PACKAGE_NEED_MAX)
        pd_fail(&t->err, PD_EPROTO, "the other node asks for more than %d objects at once",
                PACKAGE_NEED_MAX);
    for (; !t->err.code && from < n; from++) {
        struct object_id id;
        memcpy(id.b, in->p + from * OBJECT_ID, OBJECT_ID);
        for (k = 0; k < t->n_ready && !object_same(&t->ready[k], &id); k++)
            ;
        for (j = 0; j < t->n_waiting && !object_same(&t->waiting[j], &id); j++)
            ;
        /* After a change of sources an id may come twice. */
        if (k == t->n_ready && j == t->n_waiting)
            t->ready[t->n_ready++] = id;
    }
}

/* Appends the object's record to t->out. 1: done. 0: the object is not on this node. PD_E*: out of
 * memory. */
static int append_object(struct package_work *w, struct package_taker *t,
                         const struct object_id *id) {
    uint8_t *buf = w->buf;
    uint32_t n;
    const struct package_cached *c = cache_find(w, id);
    if (c) {
        pd_put(&t->out, c->record, c->n);
        return t->out.failed ? PD_ENOMEM : 1;
    }
    if (w->a ? !assemble_read(w->a, id, buf, &n) : !(w->st && store_find(w->st, id, buf, &n)))
        return 0;
    int rc = object_encode(w->codec, id, buf, n, &t->out);
    return rc ? rc : 1;
}

static void answer_taker(struct package_work *w, struct package_taker *t) {
    size_t i = 0;
    if (!w->a && !w->finished && t->n_ready + t->n_waiting)
        pd_fail(&t->err, PD_EFAIL, "this node could not complete the package: %.400s", w->err.msg);
    for (; i < t->n_ready && t->out.len < t->room && t->out.len < PACKAGE_OUT && !t->err.code;
         i++) {
        size_t before = t->out.len;
        int rc = append_object(w, t, &t->ready[i]);
        if (rc < 0)
            pd_fail(&t->err, rc, "out of memory");
        else if (rc)
            w->served += t->out.len - before;
        else if (!w->a || w->finished)
            pd_fail(&t->err, PD_ENOENT, "this node no longer has an object of the package");
        else
            t->waiting[t->n_waiting++] = t->ready[i];
    }
    if (i) {
        t->n_ready -= i;
        memmove(t->ready, t->ready + i, t->n_ready * sizeof *t->ready);
    }
    w->more |= t->n_ready && t->room > t->out.len && !t->err.code;
}

/* --- the package --- */

/* Unpacks a packed worker. The packed file stays, because other nodes take it from this node. */
static int unpack(struct package_work *w) {
    int rc = *w->packed ? packed_program_unpack(w->packed, w->target, &w->err) : 0;
    if (rc == PD_EDATA)
        unlink(w->packed); /* otherwise the worker would never be sent again */
    return rc;
}

static void open_package(struct package_work *w) {
    w->begun = 1;
    if (!(w->codec = object_codec_new())) {
        pd_oom(&w->err, "a package");
        return;
    }
    const struct assemble_opts o = {.root = w->paths.root,
                                    .target = *w->packed ? w->packed : w->target,
                                    .lies_in = *w->lies_in ? w->lies_in : NULL,
                                    .single_file = w->kind == PACKAGE_WORKER,
                                    .keeps_rest = 1,
                                    .due = w->due,
                                    .durable =
                                        w->kind == PACKAGE_WORKER || w->kind == PACKAGE_DEPLOY};
    if (w->kind == PACKAGE_DATA && pd_fault("ds.data"))
        pd_fail(&w->err, PD_EIO, "injected");
    if (w->err.code || store_open(&w->st, w->paths.root, &w->err) || w->have)
        return;
    int rc = assemble_new(&w->a, w->st, &o, w->root, w->root_n, &w->err);
    if (rc == PD_EEXIST && w->kind != PACKAGE_WORKSPACE) { /* another session was faster */
        pd_err_clear(&w->err);
        w->have = w->finished = !unpack(w);
    }
}

/* Unchecked records of one or more messages: hashing many records at once is faster. */
struct batch {
    struct object_record r[OBJECT_BATCH];
    size_t n;
};

static void put_records(struct package_work *w, struct batch *b) {
    const uint8_t *raw[OBJECT_BATCH];
    size_t n = b->n;
    b->n = 0;
    if (!w->a || w->err.code || object_decode_all(w->codec, b->r, n, raw, &w->err))
        return;
    for (size_t i = 0; i < n; i++) {
        const struct object_record *r = &b->r[i];
        if (assemble_put(w->a, &r->id, raw[i], r->raw_len, &w->err))
            return;
        if (w->serves)
            cache_put(w, r);
        wake_takers(w, &r->id);
    }
}

static void take_records(struct package_work *w, const struct package_input *in, struct batch *b) {
    const uint8_t *p = in->p, *end = p + in->n;
    while (w->a && !w->err.code && object_next(&p, end, &b->r[b->n], &w->err) == 1)
        if (++b->n == OBJECT_BATCH)
            put_records(w, b);
}

static void go_on(struct package_work *w) {
    int rc = assemble_step(w->a, STEP_MS, &w->err);
    if (rc > 0)
        w->more = 1;
    if (rc >= 0) {
        w->n_need = assemble_need(w->a, w->need, PACKAGE_NEED_MAX);
        w->complete = assemble_complete(w->a);
    }
}

static void finish_package(struct package_work *w) {
    if (assemble_finish(w->a, &w->err) == PD_EEXIST && w->kind != PACKAGE_WORKSPACE) {
        pd_err_clear(&w->err); /* another session was faster: the same id means the same tree */
        assemble_free(w->a);
        w->a = NULL;
        store_close(w->st); /* the other session's catalog exists now */
        w->st = NULL;
        store_open(&w->st, w->paths.root, &w->err);
    }
    w->finished = !w->err.code && !unpack(w);
    if (w->finished && w->a && w->kind == PACKAGE_DATA)
        w->held = assemble_hold(w->a);
}

void package_work_turn(struct package_work *w) {
    struct batch b = {.n = 0};
    w->more = 0;
    w->n_need = 0;
    if (!w->begun)
        open_package(w);
    for (struct package_input *in = w->inputs; in; in = in->next) {
        if (in->what == PACKAGE_IN_RECORDS)
            take_records(w, in, &b);
        else if (in->what == PACKAGE_IN_NEED)
            take_need(w, in);
        else if (w->a)
            assemble_ask_again(w->a);
    }
    put_records(w, &b);
    if (w->a && !w->err.code && !w->finished && !w->complete)
        go_on(w);
    if (w->a)
        assemble_totals(w->a, &w->totals);
    if (w->finish && w->a && !w->err.code)
        finish_package(w);
    if ((w->err.code || w->give_up) && w->a && !w->finished) {
        assemble_free(w->a);
        w->a = NULL;
    }
    for (size_t k = 0; k < w->n_takers; k++)
        answer_taker(w, w->takers[k]);
    /* Applies store_limit and removes unused catalogs. Data files are not in their final place yet,
     * so their catalog would count as unused. */
    if (w->finish && w->finished && w->kind != PACKAGE_DATA)
        (void)store_clean(w->paths.root, w->store_limit, 0, NULL, NULL, NULL);
}

void package_work_end(struct package_work *w) {
    assemble_free(w->a);
    store_close(w->st);
    w->a = NULL;
    w->st = NULL;
}

void package_work_release(struct package_work *w) {
    if (w->held > 0)
        close(w->held);
    for (size_t i = 0; i < PACKAGE_CACHE; i++)
        free(w->cache[i].record);
    object_codec_free(w->codec);
    free(w->takers);
    free(w->root);
}
