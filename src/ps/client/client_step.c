/* SPDX-License-Identifier: Apache-2.0 */
/* client_step.c - pulls, pushes and the end of a step. */
#include "math/row_copy.h"
#include "ps/client/client_internal.h"
#include "ps/plan/sum_tree.h"

/* --- reused memory --- */

static void rows_put(struct ps_client *c, struct rows *r) {
    if (!r || --r->refs)
        return;
    r->next = c->free_rows;
    c->free_rows = r;
}

static struct rows *rows_new(struct ps_client *c, size_t n, size_t n_threads) {
    struct rows *r = c->free_rows;
    if (r)
        c->free_rows = r->next;
    else if (!(r = pd_calloc(1, sizeof *r)))
        return NULL;
    r->refs = 1;
    r->n = n;
    r->list = 0;
    r->out = NULL;
    if (n > r->cap || !r->keys) {
        free(r->keys);
        free(r->pos);
        r->cap = n + n / 4 + 16;
        r->keys = pd_alloc64(r->cap * sizeof *r->keys);
        r->pos = pd_alloc64(r->cap * sizeof *r->pos);
    }
    if (n_threads + 1 > r->cap_threads) {
        free(r->begin);
        r->cap_threads = n_threads + 1;
        r->begin = pd_calloc(r->cap_threads, sizeof *r->begin);
    }
    if (r->keys && r->pos && r->begin)
        return r;
    free(r->keys);
    free(r->pos);
    free(r->begin);
    free(r);
    return NULL;
}

static struct outgoing *out_new(struct ps_client *c, size_t floats) {
    struct outgoing *o = c->free_out;
    if (o)
        c->free_out = o->next;
    else if (!(o = pd_calloc(1, sizeof *o)))
        return NULL;
    o->c = c;
    o->rows = NULL;
    if (floats > o->cap) {
        free(o->data);
        o->cap = floats + floats / 4;
        o->data = pd_alloc64(o->cap * sizeof *o->data);
        if (!o->data) {
            free(o);
            return NULL;
        }
    }
    c->n_out++;
    return o;
}

static void out_release(void *arg) {
    struct outgoing *o = arg;
    struct ps_client *c = o->c;
    rows_put(c, o->rows);
    o->next = c->free_out;
    c->free_out = o;
    c->n_out--;
}

void client_forget_pull(struct ps_client *c, uint16_t type, void *arg) {
    struct dense_batch *b = type == WIRE_PS_PULL_DENSE ? arg : NULL;
    if (type == WIRE_PS_PULL_ROWS)
        rows_put(c, arg);
    if (b && !--b->refs)
        free(b);
}

void client_step_release(struct ps_client *c) {
    for (uint32_t i = 0; c->last && i < c->decl.n_sparse * 2; i++)
        rows_put(c, c->last[i]);
    for (size_t i = 0; i < c->n_requests; i++) /* requests without an answer */
        if (c->requests[i].id)
            client_forget_pull(c, c->requests[i].type, c->requests[i].arg);
    while (c->free_rows) {
        struct rows *r = c->free_rows;
        c->free_rows = r->next;
        free(r->keys);
        free(r->pos);
        free(r->begin);
        free(r);
    }
    while (c->free_out) {
        struct outgoing *o = c->free_out;
        c->free_out = o->next;
        free(o->data);
        free(o);
    }
    while (c->later) {
        struct pull_later *q = c->later;
        c->later = q->next;
        free(q);
    }
    free(c->last);
    free(c->parts);
    free(c->queued);
}

/* --- dense pulls: queued pulls are sent together --- */

/* `id` is plane * n_dense + parameter. All planes of a parameter have the same segments. */
static const struct ps_seg *thread_segment(const struct ps_client *c, uint32_t id,
                                           uint32_t thread) {
    return &c->segs[(size_t)(id % c->decl.n_dense) * c->n_dense + thread];
}

int client_pull_dense(struct ps_client *c, int id, float *out) {
    if (c->err.code)
        return c->err.code;
    if (pd_grow(c->queued, c->cap_queued, c->n_queued + 1))
        return client_fail(c, PD_ENOMEM, "no memory for a pull");
    c->queued[c->n_queued++] = (struct dense_pull){(uint32_t)id, out};
    return 0;
}

/* Reads the answer to a pull and checks its step. */
static int get_pulled(struct ps_client *c, const struct answer *a, struct ps_msg_pulled *m,
                      struct pd_err *err) {
    if (ps_get_pulled(&a->body, m, err))
        return err->code;
    if (m->applied < a->link->applied)
        return pd_fail(err, PD_EPROTO, "a malformed answer");
    a->link->applied = m->applied;
    c->n_pulls--;
    return 0;
}

static int done_dense(struct ps_client *c, struct pending_request *r, const struct answer *a,
                      struct pd_err *err) {
    struct dense_batch *b = r->arg;
    const struct server_link *l = a->link;
    struct ps_msg_pulled m;
    uint64_t at = 0;
    int rc = get_pulled(c, a, &m, err);
    for (size_t i = 0; i < b->n && !rc; i++) {
        const struct ps_seg *g = thread_segment(c, b->pull[i].id, l->thread);
        if (!g->count)
            continue;
        if (ps_seg_padded(g->count) > m.n_values - at)
            rc = pd_fail(err, PD_EPROTO, "an answer of %zu values is too short", m.n_values);
        else
            memcpy(b->pull[i].out + g->first, m.values + at, g->count * sizeof *m.values);
        at += ps_seg_padded(g->count);
    }
    if (!rc && at != m.n_values)
        rc = pd_fail(err, PD_EPROTO, "an answer of %zu values is too long", m.n_values);
    if (!--b->refs)
        free(b);
    return rc;
}

int client_flush(struct ps_client *c) {
    if (!c->n_queued || c->err.code)
        return c->err.code;
    struct dense_batch *b =
        pd_malloc(sizeof *b + c->n_queued * (sizeof b->pull[0] + sizeof(uint32_t)));
    if (!b)
        return client_fail(c, PD_ENOMEM, "no memory for a pull");
    uint32_t *ids = (uint32_t *)(void *)&b->pull[c->n_queued];
    b->refs = 1;
    b->n = c->n_queued;
    memcpy(b->pull, c->queued, b->n * sizeof b->pull[0]);
    c->n_queued = 0;
    for (uint32_t t = 0; t < c->n_dense && !c->err.code; t++) {
        struct ps_msg_pull_dense m = {.after = c->step, .parameters = ids};
        struct ps_body body = client_body(c);
        for (size_t i = 0; i < b->n; i++)
            if (thread_segment(c, b->pull[i].id, t)->count)
                ids[m.n++] = b->pull[i].id;
        if (!m.n)
            continue;
        ps_put_pull_dense(&body, &m);
        b->refs++;
        c->n_pulls++;
        if (client_ask(c, c->dense[t], WIRE_PS_PULL_DENSE, &body, done_dense, b, 0))
            break; /* the client has failed; ps_client_free releases outstanding requests */
    }
    if (!--b->refs)
        free(b);
    return c->err.code;
}

/* --- rows --- */

/* Splits the keys by server thread; each part is ascending. Returns -1 if the keys are not
 * ascending. */
static int split_keys(const struct ps_client *c, struct rows *r, const uint64_t *keys) {
    uint32_t n_threads = c->n_sparse;
    size_t n = r->n;
    for (size_t i = 1; i < n; i++)
        if (keys[i] <= keys[i - 1])
            return -1;
    memset(r->begin, 0, (n_threads + 1) * sizeof *r->begin);
    if (n_threads == 1) {
        r->begin[1] = n;
        memcpy(r->keys, keys, n * sizeof *keys);
        return 0;
    }
    for (size_t i = 0; i < n; i++)
        r->begin[ps_row_thread(keys[i], n_threads) + 1]++;
    for (uint32_t t = 0; t < n_threads; t++)
        r->begin[t + 1] += r->begin[t];
    for (size_t i = 0; i < n; i++) { /* here begin[t] counts up to the end of part t; afterwards all
                                        are shifted by one */
        size_t at = r->begin[ps_row_thread(keys[i], n_threads)]++;
        r->keys[at] = keys[i];
        r->pos[at] = (uint32_t)i;
    }
    for (uint32_t t = n_threads; t > 0; t--)
        r->begin[t] = r->begin[t - 1];
    r->begin[0] = 0;
    return 0;
}

static struct rows *make_rows(struct ps_client *c, int table, size_t n, const uint64_t *keys) {
    struct rows *r = n < UINT32_MAX ? rows_new(c, n, c->n_sparse) : NULL;
    if (!r) {
        client_fail(c, PD_ENOMEM, "no memory for %zu rows", n);
        return NULL;
    }
    r->dim = c->decl.sparse[table].dim * c->planes;
    if (!split_keys(c, r, keys))
        return r;
    rows_put(c, r);
    client_fail(c, PD_EUSAGE, "table '%s': keys must be ascending, each once",
                c->decl.sparse[table].name);
    return NULL;
}

static int done_rows(struct ps_client *c, struct pending_request *r, const struct answer *a,
                     struct pd_err *err) {
    struct rows *q = r->arg;
    size_t lo = q->begin[r->index], n = q->begin[r->index + 1] - lo, dim = q->dim;
    struct ps_msg_pulled m;
    int rc = get_pulled(c, a, &m, err);
    const float *from = m.values;
    if (!rc && m.n_values != n * dim)
        rc = pd_fail(err, PD_EPROTO, "%zu values for %zu rows of %zu floats", m.n_values, n, dim);
    if (!rc && c->n_sparse == 1 && from != q->out)
        memcpy(q->out, from, n * dim * sizeof *from);
    else if (!rc && c->n_sparse > 1)
        for (size_t j = 0; j < n; j++)
            pd_row_copy(q->out + q->pos[lo + j] * dim, from + j * dim, dim);
    rows_put(c, q);
    return rc;
}

float *client_rows_place(void *arg, uint64_t req, size_t floats) {
    const struct ps_client *c = arg;
    const size_t i = req & 0xffffff;
    if (i >= c->n_requests || c->requests[i].id != req || c->requests[i].type != WIRE_PS_PULL_ROWS)
        return NULL;
    const struct rows *q = c->requests[i].arg;
    return q->n * q->dim == floats ? q->out : NULL;
}

/* ahead 1: the values after the current step; 0: the values before it. */
static int pull_rows(struct ps_client *c, int table, size_t n, const uint64_t *keys, float *out,
                     enum ps_pull_mode mode, uint32_t ahead) {
    if (client_flush(c))
        return c->err.code;
    struct rows *r = n ? make_rows(c, table, n, keys) : NULL;
    if (!r)
        return c->err.code;
    r->out = out;
    if (mode == PS_CREATE) {
        c->next_list += c->next_list + 1 ? 1 : 2; /* 0 means none */
        r->list = c->next_list;
        struct rows **last = &c->last[2 * table];
        rows_put(c, last[0]);
        last[0] = last[1];
        last[1] = r;
        r->refs++;
    }
    for (uint32_t t = 0; t < c->n_sparse && !c->err.code; t++) {
        size_t k = r->begin[t + 1] - r->begin[t];
        if (!k)
            continue;
        const struct ps_msg_pull_rows m = {.after = c->step + ahead,
                                           .table = (uint32_t)table,
                                           .create = mode == PS_CREATE,
                                           .list = r->list,
                                           .n = k,
                                           .keys = r->keys + r->begin[t],
                                           .n_keys = k};
        struct ps_body b = client_body(c);
        ps_put_pull_rows(&b, &m);
        struct outgoing *o = out_new(c, 0); /* keeps the keys with the request */
        if (!o) {
            client_fail(c, PD_ENOMEM, "no memory for a pull");
            break;
        }
        o->rows = r;
        c->n_pulls++;
        c->n_pulls_ahead += ahead;
        c->n_out_ahead += ahead;
        r->refs += 2;
        client_request(c, c->sparse[t], WIRE_PS_PULL_ROWS, &b, done_rows, r, t, out_release, o);
    }
    rows_put(c, r);
    return c->err.code;
}

int client_pull_rows(struct ps_client *c, int table, size_t n, const uint64_t *keys, float *out,
                     enum ps_pull_mode mode) {
    return pull_rows(c, table, n, keys, out, mode, 0);
}

/* Pulls rows for the next step. A local shard would keep the caller's memory, and under geo this
 * trainer computes the values itself: both pull at the end of the step instead. */
int client_pull_rows_next(struct ps_client *c, int table, size_t n, const uint64_t *keys,
                          float *out) {
    if (!c->shard && !c->geo)
        return pull_rows(c, table, n, keys, out, PS_CREATE, 1);
    struct pull_later *q = pd_malloc(sizeof *q + n * sizeof q->keys[0]);
    if (!q)
        return client_fail(c, PD_ENOMEM, "no memory for a pull");
    *q = (struct pull_later){.next = c->later, .table = table, .n = n, .out = out};
    memcpy(q->keys, keys, n * sizeof *keys);
    c->later = q;
    return 0;
}

static int pulls_done(const struct ps_client *c) { return c->n_pulls <= c->n_pulls_ahead; }
static int buffers_free(const struct ps_client *c) {
    return c->n_pulls <= c->n_pulls_ahead && c->n_out <= c->n_out_ahead;
}

int client_wait_pulls(struct ps_client *c) {
    if (c->shard && !c->err.code && ps_shard_copy_pushes(c->shard))
        return client_fail(c, PD_ENOMEM, "no memory to copy the pushed gradients");
    return client_flush(c) || client_ask_taken(c) ? c->err.code
                                                  : client_wait(c, buffers_free, "the parameters");
}

/* --- pushes --- */

/* The streams of the current contribution. */
static struct ps_range streams_of_push(const struct ps_client *c) {
    const struct step_part *p = c->n_parts ? &c->parts[c->n_parts - 1] : NULL;
    return p ? (struct ps_range){p->lo, p->hi}
             : (struct ps_range){c->opts.stream_lo, c->opts.stream_hi};
}

static int send_push(struct ps_client *c, struct server_link *l, uint16_t type, struct outgoing *o,
                     const struct ps_body *b) {
    return client_request(c, l, type, b, NULL, NULL, 0, out_release, o);
}

int client_push_dense(struct ps_client *c, int id, const float *grad) {
    if (client_flush(c) || client_receive(c))
        return c->err.code;
    const struct ps_range of = streams_of_push(c);
    for (uint32_t t = 0; t < c->n_dense && !c->err.code; t++) {
        const struct ps_seg *g = thread_segment(c, (uint32_t)id, t);
        if (!g->count || c->step < c->dense[t]->from_step)
            continue;
        struct outgoing *o = out_new(c, 0);
        if (!o)
            return client_fail(c, PD_ENOMEM, "no memory for a push");
        const struct ps_segment_head segment = {.parameter = (uint32_t)id, .count = g->count};
        const struct ps_msg_push_dense m = {.epoch = c->dense[t]->epoch,
                                            .step = c->step,
                                            .stream_lo = of.lo,
                                            .stream_hi = of.hi,
                                            .n = 1,
                                            .segments = &segment,
                                            .values = grad + g->first,
                                            .n_values = g->count};
        struct ps_body b = client_body(c);
        ps_put_push_dense(&b, &m);
        send_push(c, c->dense[t], WIRE_PS_PUSH_DENSE, o, &b);
    }
    return c->err.code;
}

/* Whether these are the keys of an earlier pull whose list the servers still know. */
static int same_keys(const struct ps_client *c, const struct rows *r, size_t n,
                     const uint64_t *keys) {
    if (!r || !r->list || r->n != n)
        return 0;
    if (c->n_sparse == 1)
        return !memcmp(r->keys, keys, n * sizeof *keys);
    for (size_t j = 0; j < n; j++)
        if (r->keys[j] != keys[r->pos[j]])
            return 0;
    return 1;
}

/* Pushes one thread's part: from the caller's memory if there is only one thread, otherwise
 * gathered. If the table's rows come and go, a copy of `seen` stands behind the gathered rows
 * (NULL: one show each). */
static int push_part(struct ps_client *c, int table, struct rows *r, uint32_t t, const float *grad,
                     const uint32_t *seen) {
    size_t lo = r->begin[t], n = r->begin[t + 1] - lo, dim = r->dim,
           gathered = c->n_sparse == 1 ? 0 : n * dim;
    int life = pd_row_life_active(&c->decl.sparse[table].life);
    struct outgoing *o = out_new(c, gathered + (life ? 2 * n : 0));
    if (!o)
        return client_fail(c, PD_ENOMEM, "no memory for a push");
    o->rows = r;
    r->refs++;
    const float *from = grad;
    if (c->n_sparse > 1) {
        for (size_t j = 0; j < n; j++)
            pd_row_copy(o->data + j * dim, grad + r->pos[lo + j] * dim, dim);
        from = o->data;
    }
    uint32_t *to = life ? (uint32_t *)(void *)(o->data + gathered) : NULL;
    if (life)
        for (size_t j = 0; j < n; j++) {
            size_t at = c->n_sparse == 1 ? j : r->pos[lo + j];
            to[2 * j] = seen ? seen[2 * at] : 1;
            to[2 * j + 1] = seen ? seen[2 * at + 1] : 0;
        }
    const struct ps_range of = streams_of_push(c);
    const struct ps_msg_push_rows m = {.epoch = c->sparse[t]->epoch,
                                       .step = c->step,
                                       .stream_lo = of.lo,
                                       .stream_hi = of.hi,
                                       .table = (uint32_t)table,
                                       .list = r->list,
                                       .n = n,
                                       .keys = r->keys + lo,
                                       .n_keys = r->list ? 0 : n,
                                       .values = from,
                                       .n_values = n * dim,
                                       .seen = to,
                                       .n_seen = life ? 2 * n : 0};
    struct ps_body b = client_body(c);
    ps_put_push_rows(&b, &m);
    return send_push(c, c->sparse[t], WIRE_PS_PUSH_ROWS, o, &b);
}

int client_push_rows(struct ps_client *c, int table, size_t n, const uint64_t *keys,
                     const float *grad, const uint32_t *seen) {
    if (client_flush(c) || client_receive(c) || !n)
        return c->err.code;
    struct rows *const *of = &c->last[2 * table];
    struct rows *last = same_keys(c, of[0], n, keys)   ? of[0]
                        : same_keys(c, of[1], n, keys) ? of[1]
                                                       : NULL;
    struct rows *r = last ? last : make_rows(c, table, n, keys);
    if (!r)
        return c->err.code;
    for (uint32_t t = 0; t < c->n_sparse && !c->err.code; t++)
        if (r->begin[t + 1] > r->begin[t] && c->step >= c->sparse[t]->from_step)
            push_part(c, table, r, t, grad, seen);
    if (r == last)
        last->list = 0; /* a server keeps a list for one push */
    else
        rows_put(c, r);
    return c->err.code;
}

/* --- the end of a step --- */

void client_keep_sums(struct ps_client *c, const struct step_sums *s) {
    if (c->n_sums == CLIENT_STATS_KEPT) { /* no call collects them: drops the oldest */
        c->first_sum = (c->first_sum + 1) % CLIENT_STATS_KEPT;
        c->n_sums--;
        c->n_sums_asked--;
    }
    c->sums[(c->first_sum + c->n_sums++) % CLIENT_STATS_KEPT] = *s;
}

static int done_sums(struct ps_client *c, struct pending_request *r, const struct answer *a,
                     struct pd_err *err) {
    struct ps_msg_step_sums m;
    if (ps_get_step_sums(&a->body, &m, err))
        return err->code;
    if (m.n_sums != r->index)
        return pd_fail(err, PD_EPROTO, "%u sums of %u numbers", m.n_sums, r->index);
    struct step_sums s = {.step = m.step, .n_samples = m.n_samples};
    memcpy(s.v, m.sums, m.n_sums * sizeof *m.sums);
    client_keep_sums(c, &s);
    return 0;
}

/* If no pull has reached a thread for some steps, waits until it is close, so that this trainer
 * does not run ahead of the barrier. */
static int bound_ahead(struct ps_client *c) {
    /* A shard in this process is never behind. */
    for (uint32_t i = c->shard ? c->n_links : 0; i < c->n_links && !c->err.code; i++) {
        struct server_link *l = c->links[i];
        if (c->step <= l->applied + CLIENT_AHEAD)
            continue;
        struct dense_batch *b = pd_calloc(1, sizeof *b); /* an empty pull */
        if (!b)
            return client_fail(c, PD_ENOMEM, "no memory for a pull");
        b->refs = 1;
        struct ps_body body = client_body(c);
        ps_put_pull_dense(&body, &(struct ps_msg_pull_dense){.after = c->step - CLIENT_AHEAD / 2});
        c->n_pulls++;
        client_ask(c, l, WIRE_PS_PULL_DENSE, &body, done_dense, b, 0);
        client_wait(c, pulls_done, "the barrier");
    }
    return c->err.code;
}

/* Writes the end of this step for one server thread, with n numbers per contribution. */
static void put_step_end(const struct ps_client *c, const struct server_link *l, uint64_t n_samples,
                         const double *stats, uint32_t n, struct ps_body *b) {
    double words[PS_PARTS_MAX * (1 + PS_STATS_MAX)];
    struct ps_msg_step_end m = {.epoch = l->epoch,
                                .step = c->step,
                                .stream_lo = c->opts.stream_lo,
                                .stream_hi = c->opts.stream_hi,
                                .n_samples = n_samples,
                                .n_stats = n,
                                .n_parts = n ? c->n_parts : 0,
                                .words = stats};
    for (uint32_t i = 0; i < m.n_parts; i++)
        ps_step_part_put(words, i, n, (struct ps_step_part){c->parts[i].lo, c->parts[i].hi},
                         c->parts[i].stats);
    if (m.n_parts)
        m.words = words;
    ps_put_step_end(b, &m);
}

/* Under a barrier, first waits for the pulls of this step: a lost answer is computed again, and the
 * values of this step are gone once it is applied. */
int client_step_end(struct ps_client *c, uint64_t n_samples, const double *stats, size_t n_stats) {
    if (client_flush(c) || (c->rule->barrier && client_wait(c, pulls_done, "the parameters")))
        return c->err.code;
    for (uint32_t i = 0; i < c->n_links && !c->err.code; i++) {
        struct server_link *l = c->links[i];
        size_t n = l == c->dense[0] ? n_stats : 0;
        if (c->step < l->from_step)
            continue;
        struct ps_body b = client_body(c);
        put_step_end(c, l, n_samples, stats, (uint32_t)n, &b);
        c->n_sums_asked += n > 0;
        (void)pd_fault("ps.step_end");
        client_ask(c, l, WIRE_PS_STEP_END, &b, n ? done_sums : NULL, NULL, (uint32_t)n);
        client_bound_sent(c, l);
    }
    c->step++;
    c->n_parts = 0;
    c->n_pulls_ahead = c->n_out_ahead = 0;
    return c->rule->barrier
               ? bound_ahead(c)
               : c->err.code; /* without a barrier the trainer cannot run ahead of it */
}
