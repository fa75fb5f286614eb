/* client_ctl.c - what happens between steps: the pass barrier, reductions, save, load, farewell. */
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "model/model.h"
#include "ps/client_int.h"

static int ready_for(struct ps_client *c, const char *what) {
    if (c->err.code)
        return c->err.code;
    if (!c->started)
        return client_fail(c, PD_EUSAGE, "%s before ps_start", what);
    return client_flush(c);
}

/* --- pass --- */

static int done_pass(struct ps_client *c, struct request *r, const struct answer *a, struct pd_err *err) {
    struct pd_rd rd;
    (void)r;
    pd_rd_init(&rd, a->sec[0], a->len[0]);
    uint64_t step = pd_get_u64(&rd), pass = pd_get_u64(&rd);
    if (!pd_rd_done(&rd) || pass != c->pass + 1 || step < c->step || (c->pass_answers && step != c->pass_step))
        return pd_fail(err, PD_EPROTO, "ends pass %llu at step %llu, others at %llu", (unsigned long long)pass,
                       (unsigned long long)step, (unsigned long long)c->pass_step);
    c->pass_step = step;
    c->pass_answers++;
    a->link->applied = step;
    c->n_calls--;
    return 0;
}

int ps_pass_end(struct ps_client *c) {
    if (ready_for(c, "ps_pass_end") || (c->geo && geo_pass_end(c)))
        return c->err.code;
    c->pass_answers = 0;
    for (uint32_t i = 0; i < c->n_links && !c->err.code; i++) {
        if (c->pass < c->links[i]->from_pass) { /* it is over there; that thread's step is the first of the next */
            c->pass_step = c->links[i]->from_step;
            c->pass_answers++;
            continue;
        }
        pd_buf_clear(&c->head);
        pd_put_u64(&c->head, c->links[i]->epoch);
        pd_put_u64(&c->head, c->step);
        pd_put_u64(&c->head, c->pass);
        client_call(c, c->links[i], WIRE_PS_PASS_END, done_pass, NULL, 0);
    }
    if (client_wait(c, client_calls_done, "the end of the pass"))
        return c->err.code;
    c->step = c->first_step = c->pass_step;
    c->pass++;
    if (c->geo)
        geo_forget(c);
    return 0;
}

/* --- reduction --- */

static int done_reduce(struct ps_client *c, struct request *r, const struct answer *a, struct pd_err *err) {
    struct reducing *q = r->arg;
    (void)c;
    if (a->len[0] != q->n * sizeof q->v[0])
        return pd_fail(err, PD_EPROTO, "a malformed answer");
    if (q->n)
        memcpy(q->v, a->sec[0], a->len[0]);
    q->done = 1;
    return 0;
}

int ps_reduce_start(struct ps_client *c, const double *v, size_t n) {
    if (ready_for(c, "ps_reduce"))
        return c->err.code;
    if (n > PS_REDUCE_MAX)
        return client_fail(c, PD_EUSAGE, "ps_reduce of %zu numbers, at most %d", n, PS_REDUCE_MAX);
    struct reducing *q = pd_malloc(sizeof *q + n * sizeof q->v[0]);
    pd_buf_clear(&c->head);
    pd_put_u32(&c->head, (uint32_t)n);
    pd_put_u32(&c->head, 0);
    pd_put(&c->head, v, n * sizeof *v);
    if (!q || c->head.failed) {
        free(q);
        return client_fail(c, PD_ENOMEM, "no memory for a reduction");
    }
    *q = (struct reducing){.n = n};
    *c->last_reduction = q;
    c->last_reduction = &q->next;
    c->n_repeated -= c->n_repeated > 0;
    struct net_sec sec = {c->head.data, c->head.len};
    return client_request(c, c->dense[0], WIRE_PS_REDUCE, &sec, 1, done_reduce, q, 0, NULL, NULL);
}

/* The oldest one leaves the list. */
static int collect(struct ps_client *c, double *v, size_t n) {
    struct reducing *q = c->reductions;
    if (q->n != n)
        return client_fail(c, PD_EUSAGE, "ps_reduce_done of %zu numbers; %zu were started", n, q->n);
    if (n)
        memcpy(v, q->v, n * sizeof *v);
    c->reductions = q->next;
    if (!c->reductions)
        c->last_reduction = &c->reductions;
    free(q);
    return 1;
}

int ps_reduce_done(struct ps_client *c, double *v, size_t n) {
    if (c->err.code)
        return c->err.code;
    if (!c->reductions)
        return client_fail(c, PD_EUSAGE, "ps_reduce_done without ps_reduce_start");
    if (!c->reductions->done && client_poll(c))
        return c->err.code;
    return c->reductions->done ? collect(c, v, n) : 0;
}

static int all_reduced(const struct ps_client *c) {
    for (const struct reducing *q = c->reductions; q; q = q->next)
        if (!q->done)
            return 0;
    return 1;
}

int ps_reduce(struct ps_client *c, double *v, size_t n) {
    if (c->reductions)
        return client_fail(c, PD_EUSAGE, "ps_reduce while one that was started is not collected");
    if (ps_reduce_start(c, v, n) || client_wait(c, all_reduced, "a reduction"))
        return c->err.code;
    int rc = collect(c, v, n);
    return rc < 0 ? rc : 0;
}

int ps_barrier(struct ps_client *c) { return ps_reduce(c, NULL, 0); }

/* --- save --- */

struct saving {
    struct model_manifest m;
    uint64_t *rows; /* [n_sparse] */
};

static int done_save(struct ps_client *c, struct request *r, const struct answer *a, struct pd_err *err) {
    struct saving *s = r->arg;
    struct model_part *p = &s->m.parts[r->index];
    struct pd_rd rd;
    pd_rd_init(&rd, a->sec[0], a->len[0]);
    pd_get_str(&rd, p->file, sizeof p->file);
    p->bytes = pd_get_u64(&rd);
    p->rows = pd_get_u64(&rd);
    const uint8_t *hash = pd_get(&rd, sizeof p->hash);
    if (hash)
        memcpy(p->hash, hash, sizeof p->hash);
    uint32_t n = pd_get_u32(&rd);
    for (uint32_t i = 0; i < n && i < c->job.n_sparse; i++)
        s->rows[i] += pd_get_u64(&rd);
    if (!pd_rd_done(&rd) || n != c->job.n_sparse)
        return pd_fail(err, PD_EPROTO, "a malformed answer");
    c->n_calls--;
    return 0;
}

static int ask_save(struct ps_client *c, const struct ps_save_opts *o, uint64_t tag, struct saving *s) {
    uint32_t k = 0;
    for (int sparse = 0; sparse < (c->shard ? 1 : 2); sparse++) {
        uint32_t n = sparse ? c->n_sparse : c->n_dense;
        for (uint32_t t = 0; t < n && !c->err.code; t++) {
            pd_buf_clear(&c->head);
            pd_put_u64(&c->head, c->step);
            pd_put_u64(&c->head, tag);
            pd_put_str(&c->head, o->dir);
            pd_put_str(&c->head, o->name);
            pd_put_u32(&c->head, o->create_rows != 0);
            client_call(c, sparse ? c->sparse[t] : c->dense[t], WIRE_PS_SAVE, done_save, s, k++);
        }
    }
    return client_wait(c, client_calls_done, "the saved parts");
}

static void describe(const struct ps_client *c, struct saving *s) {
    for (uint32_t i = 0; i < c->job.n_dense; i++) {
        struct model_param *p = &s->m.params[s->m.n_params++];
        p->kind = MODEL_DENSE;
        memcpy(p->name, c->job.dense[i].name, sizeof p->name);
        p->n_dims = c->job.dense[i].n_dims;
        memcpy(p->shape, c->job.dense[i].shape, sizeof p->shape);
    }
    for (uint32_t i = 0; i < c->job.n_sparse; i++) {
        struct model_param *p = &s->m.params[s->m.n_params++];
        p->kind = MODEL_TABLE;
        memcpy(p->name, c->job.sparse[i].name, sizeof p->name);
        p->dim = c->job.sparse[i].dim;
        p->n_rows = c->job.sparse[i].n_rows;
        p->rows = s->rows[i];
    }
}
_Static_assert((int)MODEL_DIMS_MAX == (int)PS_DIMS_MAX, "shapes are copied whole");

/* Server after server, since they may share one folder: the first renames it, the others find it there. */
static int ask_commit(struct ps_client *c, const struct ps_save_opts *o, uint64_t tag, const struct pd_buf *text) {
    for (uint32_t i = 0; i < c->n_servers && !c->err.code; i++) {
        pd_buf_clear(&c->head);
        pd_put_u64(&c->head, c->step);
        pd_put_u64(&c->head, tag);
        pd_put_str(&c->head, o->dir);
        pd_put_str(&c->head, o->name);
        if (c->head.failed)
            return client_fail(c, PD_ENOMEM, "no memory for a request");
        struct net_sec sec[2] = {{c->head.data, c->head.len}, {text->data, text->len}};
        c->n_calls++;
        client_request(c, c->servers[i].links[0], WIRE_PS_COMMIT, sec, 2, client_done_nothing, NULL, 0, NULL, NULL);
        client_wait(c, client_calls_done, "the manifest");
    }
    return c->err.code;
}

int ps_save(struct ps_client *c, const struct ps_save_opts *o) {
    if (ready_for(c, "ps_save"))
        return c->err.code;
    struct saving s = {0};
    struct pd_buf text;
    struct pd_err err = {0};
    pd_buf_init(&text);
    s.m.step = c->step;
    s.m.pass = o->pass;
    s.m.n_parts = c->n_links;
    s.m.parts = pd_calloc(c->n_links, sizeof *s.m.parts);
    s.m.params = pd_calloc((size_t)c->job.n_dense + c->job.n_sparse, sizeof *s.m.params);
    s.m.config = pd_strdup(o->config ? o->config : "");
    s.rows = pd_calloc(c->job.n_sparse, sizeof *s.rows);
    uint64_t tag = c->incarnation + c->n_saves++;
    if (!s.m.parts || !s.m.params || !s.m.config || !s.rows)
        client_fail(c, PD_ENOMEM, "no memory to save");
    else if (!ask_save(c, o, tag, &s)) {
        describe(c, &s);
        if (model_manifest_write(&s.m, &text, &err))
            client_fail(c, err.code, "%s", err.msg);
        else
            ask_commit(c, o, tag, &text);
    }
    pd_buf_release(&text);
    model_manifest_release(&s.m);
    free(s.rows);
    return c->err.code;
}

/* --- load, farewell --- */

static int done_load(struct ps_client *c, struct request *r, const struct answer *a, struct pd_err *err) {
    if (a->len[0] != 16)
        return pd_fail(err, PD_EPROTO, "a malformed answer");
    return client_done_nothing(c, r, a, err);
}

int ps_load(struct ps_client *c, const char *folder, enum ps_missing missing) {
    if (ready_for(c, "ps_load"))
        return c->err.code;
    for (uint32_t i = 0; i < c->job.n_sparse; i++)
        if (c->last[i])
            c->last[i]->list = 0; /* the servers forget their key lists */
    for (uint32_t i = 0; i < c->n_links && !c->err.code; i++) {
        pd_buf_clear(&c->head);
        pd_put_u64(&c->head, c->step);
        pd_put_str(&c->head, folder);
        pd_put_u32(&c->head, (uint32_t)missing);
        client_call(c, c->links[i], WIRE_PS_LOAD, done_load, NULL, 0);
    }
    if (c->geo)
        geo_forget(c);
    return client_wait(c, client_calls_done, "the servers to load the model");
}

/* The server is told that its answer has come: it may forget this trainer, and end. */
static int done_bye(struct ps_client *c, struct request *r, const struct answer *a, struct pd_err *err) {
    struct link *l = a->link;
    l->left = 1;
    if (l->conn)
        net_send(l->conn, WIRE_PS_BYE, 0, r->id + 1, NULL, 0, NULL, NULL);
    return client_done_nothing(c, r, a, err);
}

int ps_bye(struct ps_client *c) {
    if (ready_for(c, "ps_bye"))
        return c->err.code;
    for (uint32_t i = 0; i < c->n_links && !c->err.code; i++) {
        pd_buf_clear(&c->head);
        client_call(c, c->links[i], WIRE_PS_BYE, done_bye, NULL, 0);
    }
    int rc = client_wait(c, client_calls_done, "the farewell");
    if (!rc)
        c->leaving = 1;
    return rc;
}

void ps_abandon(struct ps_client *c, const struct pd_err *why) { client_fail(c, why->code, "%s", why->msg); }
