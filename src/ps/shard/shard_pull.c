/* SPDX-License-Identifier: Apache-2.0 */
/* shard_pull.c - requests that wait for a step: pulls, save, load. They are answered at once if
 * that step is applied, otherwise kept until then. Rows are looked up when the request arrives,
 * since the thread has time then. */
#include "ps/shard/shard_internal.h"

/* --- memory of an answer until it is sent --- */

struct reply {
    struct pd_pool *pool;
    struct ps_shared_values *values; /* lent values; NULL: the values were gathered into data */
    uint8_t head[8];                 /* section 0 */
    uint8_t pad[64 - 2 * sizeof(void *) - 8];
    float data[];
};

static struct reply *reply_new(const struct ps_shard *s, size_t floats) {
    struct reply *r = pd_pool_get(s->opts.pool, sizeof *r + floats * sizeof r->data[0]);
    if (r) {
        r->pool = s->opts.pool;
        r->values = NULL;
    }
    return r;
}

static void reply_release(void *arg) {
    struct reply *r = arg;
    ps_shared_values_drop(r->values);
    pd_pool_put(r->pool, r);
}

static void reply_send(struct ps_shard *s, uint32_t trainer, const struct wire_frame *f,
                       struct reply *r, const float *v, size_t n) {
    struct ps_body b = shard_body(s);
    ps_put_pulled(&b,
                  &(struct ps_msg_pulled){.applied = s->barrier.step, .values = v, .n_values = n});
    struct iovec io[3] = {{memcpy(r->head, b.sec[0], sizeof r->head), b.len[0]},
                          {NULL, 0},
                          {(void *)(uintptr_t)b.sec[2], b.len[2]}};
    s->ops.answer(s->arg, trainer, f->type, f->req, io, 3, reply_release, r);
}

/* --- dense --- */

/* Reads a PS_PULL_DENSE and checks that every named parameter has a segment here. */
static int get_pull_dense(const struct ps_shard *s, const struct wire_frame *f,
                          struct ps_msg_pull_dense *m, struct pd_err *err) {
    const struct ps_body b = ps_body_of(f);
    if (ps_get_pull_dense(&b, m, err))
        return PD_EPROTO;
    if (m->n > (uint64_t)PS_PARAMS_MAX * s->params.planes)
        return pd_fail(err, PD_EPROTO, "PS_PULL_DENSE of %u parameters", m->n);
    for (uint32_t i = 0; i < m->n; i++)
        if (!s->params.segs || m->parameters[i] >= params_n_planes(&s->params) ||
            !params_seg(&s->params, m->parameters[i])->count)
            return pd_fail(err, PD_EPROTO, "PS_PULL_DENSE: no parameter %u here", m->parameters[i]);
    return 0;
}

/* Returns 1 if the segments are adjacent in memory. They are then sent from there without being
 * gathered. */
static int contiguous(const struct ps_shard *s, const struct ps_msg_pull_dense *p,
                      const float **from, uint64_t *floats) {
    uint64_t end = 0;
    int one = 1;
    *floats = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        const uint32_t id = p->parameters[i];
        const struct ps_seg *g = params_seg(&s->params, id);
        one &= id < s->params.decl.n_dense && (i == 0 || g->off == end);
        if (i == 0)
            *from = s->params.values->w + g->off;
        end = g->off + ps_seg_padded(g->count);
        *floats += ps_seg_padded(g->count);
    }
    return one;
}

static int answer_dense(struct ps_shard *s, uint32_t trainer, const struct wire_frame *f,
                        struct pd_err *err) {
    struct ps_msg_pull_dense p;
    int rc = get_pull_dense(s, f, &p, err);
    if (rc)
        return rc;
    const float *from = NULL;
    uint64_t floats;
    int lend = contiguous(s, &p, &from, &floats);
    struct reply *r = reply_new(s, lend ? 0 : floats);
    if (!r)
        return pd_fail(err, PD_ENOMEM, "no memory for an answer");
    if (lend) {
        r->values = floats ? ps_shared_values_lend(s->params.values) : NULL;
    } else {
        float *to = r->data;
        for (uint32_t i = 0; i < p.n; i++) {
            const uint32_t id = p.parameters[i];
            memcpy(to, ps_params_plane(&s->params, id),
                   ps_seg_padded(params_seg(&s->params, id)->count) * sizeof *to);
            to += ps_seg_padded(params_seg(&s->params, id)->count);
        }
        from = r->data;
    }
    reply_send(s, trainer, f, r, from, floats);
    return 0;
}

const float *ps_shard_dense(const struct ps_shard *s, uint32_t id) {
    return s->params.segs && id < s->params.decl.n_dense &&
                   s->params.segs[id].count == s->params.decl.dense[id].n
               ? params_w(&s->params, id)
               : NULL;
}

/* --- rows --- */

static int get_pull_rows(const struct wire_frame *f, struct ps_msg_pull_rows *m,
                         struct pd_err *err) {
    const struct ps_body b = ps_body_of(f);
    return ps_get_pull_rows(&b, m, err);
}

struct known_list *shard_known(struct shard_member *m, uint32_t table, uint32_t id) {
    struct known_list *k = &m->known[table * SHARD_LISTS];
    for (uint32_t i = 0; id && i < SHARD_LISTS; i++)
        if (k[i].id == id)
            return &k[i];
    return NULL;
}

/* Returns the place for a new list: the list with the same number if the pull is repeated, a free
 * place, or the place of the older list. Numbers grow. */
static struct known_list *place_for(struct shard_member *m, uint32_t table, uint32_t id) {
    struct known_list *k = &m->known[table * SHARD_LISTS], *old = shard_known(m, table, id);
    for (uint32_t i = 0; i < SHARD_LISTS && !old; i++)
        if (!k[i].id)
            old = &k[i];
    return old ? old : (int32_t)(k[0].id - k[1].id) < 0 ? &k[0] : &k[1];
}

/* Looks up the rows of a pull. If the pull creates rows and has a list number, the rows become a
 * known list of the member, which its push can name. */
static int look_up(struct ps_shard *s, uint32_t trainer, const struct wire_frame *f,
                   struct pd_err *err) {
    struct ps_msg_pull_rows p;
    int rc = get_pull_rows(f, &p, err);
    if (!rc)
        rc = shard_keys(s, "PS_PULL_ROWS", p.table, p.n, p.keys, p.n_keys, err);
    if (rc || !p.create)
        return rc;
    struct known_list *k = p.list ? place_for(&s->barrier.members[trainer], p.table, p.list) : NULL;
    struct row_list *list = k ? &k->list : &s->params.scratch.rows;
    const uint64_t *keys = p.keys;
    const int life = s->params.policies[p.table].active;
    if (k)
        k->id = 0;
    if (pd_grow(list->rows, list->cap, p.n) || (k && shard_list_keep_keys(list, keys, p.n)) ||
        ps_table_find(s->params.tables[p.table], keys, p.n, !life, list->rows))
        return ps_params_no_rows(&s->params, p.table, err);
    list->n = p.n;
    if (k)
        k->id = p.list;
    return 0;
}

static int answer_rows(struct ps_shard *s, uint32_t trainer, const struct wire_frame *f,
                       struct pd_err *err) {
    struct ps_msg_pull_rows p;
    int rc = get_pull_rows(f, &p, err);
    if (rc)
        return rc;
    struct ps_table *t = s->params.tables[p.table];
    const uint64_t *keys = p.keys;
    const int life = s->params.policies[p.table].active;
    struct known_list *k =
        p.create ? shard_known(&s->barrier.members[trainer], p.table, p.list) : NULL;
    const uint32_t *rows = k ? k->list.rows : NULL;
    if (k && life && shard_list_look_again(t, &k->list))
        return ps_params_no_rows(&s->params, p.table, err);
    if (!k || k->list.n != p.n) {
        if (pd_grow(s->params.scratch.rows.rows, s->params.scratch.rows.cap, p.n) ||
            ps_table_find(t, keys, p.n, p.create && !life, s->params.scratch.rows.rows))
            return ps_params_no_rows(&s->params, p.table, err);
        rows = s->params.scratch.rows.rows;
    }
    size_t floats = p.n * params_width(&s->params, p.table);
    float *to = s->ops.place ? s->ops.place(s->arg, f->req, floats) : NULL;
    struct reply *r = reply_new(s, to ? 0 : floats);
    if (!r)
        return pd_fail(err, PD_ENOMEM, "no memory for an answer");
    to = to ? to : r->data;
    if (s->params.planes > 1)
        ps_table_gather_all(t, keys, rows, p.n, to);
    else
        ps_params_gather(&s->params, p.table, keys, rows, p.n, to);
    reply_send(s, trainer, f, r, to, floats);
    return 0;
}

/* --- waiting --- */

static int answer_request(struct ps_shard *s, uint32_t trainer, const struct wire_frame *f,
                          struct pd_err *err) {
    struct ps_body b = shard_body(s);
    int rc;
    struct ps_msg_pull_dense pd = {0};
    int values = f->type == WIRE_PS_PULL_ROWS ||
                 (f->type == WIRE_PS_PULL_DENSE && !get_pull_dense(s, f, &pd, err) && pd.n);
    if (values) {
        struct shard_member *m = &s->barrier.members[trainer];
        if (!m->has_pulled)
            m->updates_seen = s->params.updates;
        m->has_pulled = 1;
    }
    switch (f->type) {
    case WIRE_PS_PULL_DENSE:
        return answer_dense(s, trainer, f, err);
    case WIRE_PS_PULL_ROWS:
        return answer_rows(s, trainer, f, err);
    case WIRE_PS_SAVE:
        return shard_save(s, trainer, f, err);
    case WIRE_PS_COMMIT:
        rc = shard_commit(s, f, err);
        ps_put_empty(&b, &(struct ps_msg_empty){});
        break;
    case WIRE_PS_DAY_END:
        rc = shard_day_end(s, f, &b, err);
        break;
    default:
        rc = shard_load(s, f, &b, err);
        break;
    }
    if (!rc && shard_answer_kept(s, trainer, f->type, f->req, &b))
        rc = pd_fail(err, PD_ENOMEM, "no memory for an answer");
    return rc;
}

/* 1: the trainer has ended all steps before `after`, the rule's steps are applied, and ssp's
 * staleness allows it. */
static int may_answer(const struct ps_shard *s, uint32_t trainer, uint64_t after) {
    if (s->params.rule->barrier)
        return s->barrier.step >= after;
    return s->barrier.members[trainer].step >= after &&
           (!s->params.rule->bounded || after <= s->barrier.step + s->params.decl.staleness);
}

static int congested(const struct ps_shard *s, uint32_t trainer) {
    return s->ops.congested && s->ops.congested(s->arg, trainer);
}

static size_t n_waiting(const struct ps_shard *s, uint32_t trainer) {
    size_t n = 0;
    for (size_t i = 0; i < s->barrier.n_waiting; i++)
        n += s->barrier.waiting[i].trainer == trainer;
    return n;
}

int shard_pull(struct ps_shard *s, uint32_t trainer, struct wire_frame **f, struct pd_err *err) {
    const struct ps_body b = ps_body_of(*f);
    uint64_t after;
    struct ps_msg_pull_dense pd;
    int rc = 0;
    int ahead = (*f)->type == WIRE_PS_PULL_ROWS ||
                (*f)->type == WIRE_PS_PULL_DENSE; /* a pull may be for the member's current step */
    if (ps_get_after(&b, &after) || after > s->barrier.members[trainer].step + (uint64_t)ahead)
        return pd_fail(err, PD_EPROTO, "%s after step %llu; this trainer has ended %llu",
                       wire_msg_name((*f)->type), (unsigned long long)after,
                       (unsigned long long)s->barrier.members[trainer].step);
    if ((*f)->type == WIRE_PS_PULL_ROWS)
        rc = look_up(s, trainer, *f, err);
    else if ((*f)->type == WIRE_PS_PULL_DENSE)
        rc = get_pull_dense(s, *f, &pd, err);
    if (rc)
        return rc;
    if (may_answer(s, trainer, after) && !congested(s, trainer))
        return answer_request(s, trainer, *f, err);
    if (n_waiting(s, trainer) == SHARD_WAITING)
        return pd_fail(err, PD_EPROTO, "more than %d requests of this trainer wait in step %llu",
                       SHARD_WAITING, (unsigned long long)s->barrier.step);
    if (pd_grow(s->barrier.waiting, s->barrier.cap_waiting, s->barrier.n_waiting + 1))
        return pd_fail(err, PD_ENOMEM, "no memory for a waiting request");
    s->barrier.waiting[s->barrier.n_waiting++] = (struct waiting){trainer, after, *f};
    *f = NULL;
    return 0;
}

void shard_answer_waiting(struct ps_shard *s) {
    size_t kept = 0;
    for (size_t i = 0; i < s->barrier.n_waiting; i++) {
        struct waiting w = s->barrier.waiting[i];
        if (!may_answer(s, w.trainer, w.after) || congested(s, w.trainer)) {
            s->barrier.waiting[kept++] = w;
            continue;
        }
        struct pd_err err = {0};
        s->barrier.n_answering++;
        if (s->barrier.members[w.trainer].state == MEMBER_JOINED &&
            answer_request(s, w.trainer, w.f, &err))
            s->ops.fail(s->arg, w.trainer, w.f->type, w.f->req, &err);
        wire_frame_free(w.f);
    }
    s->barrier.n_waiting = kept;
    s->barrier.n_answering = 0;
}

void ps_shard_drained(struct ps_shard *s) { shard_answer_waiting(s); }
