/* SPDX-License-Identifier: Apache-2.0 */
/* shard_step.c - contributions to a step as they arrive: checked, identified, and kept in their
 * frames. */
#include "ps/shard/shard_internal.h"

/* --- a member's memory --- */

static void contribution_release(const struct ps_shard *s, struct contribution *c) {
    for (size_t k = 0; k < c->n_frames; k++)
        wire_frame_free(c->frames[k]);
    free(c->frames);
    free(c->dense);
    for (uint32_t t = 0; c->tables && t < s->params.decl.n_sparse; t++) {
        free(c->tables[t].list.rows);
        free(c->tables[t].list.keys);
    }
    free(c->tables);
    memset(c, 0, sizeof *c);
}

void shard_member_release(struct ps_shard *s, struct shard_member *m) {
    for (uint32_t i = 0; m->ring && i < SHARD_RING; i++) {
        for (uint32_t k = 0; k < m->ring[i].cap_parts; k++)
            contribution_release(s, &m->ring[i].parts[k]);
        free(m->ring[i].parts);
    }
    free(m->ring);
    for (uint32_t t = 0; m->known && t < s->params.decl.n_sparse * SHARD_LISTS; t++) {
        free(m->known[t].list.rows);
        free(m->known[t].list.keys);
    }
    free(m->known);
    for (uint32_t i = 0; m->answers && i < SHARD_ANSWERS; i++)
        free(m->answers[i].data);
    free(m->answers);
    pd_buf_release(&m->note[0].text);
    pd_buf_release(&m->note[1].text);
    while (m->n_reduces)
        free(m->reduces[(m->first_reduce + --m->n_reduces) % SHARD_REDUCES].v);
    memset(m, 0, sizeof *m);
}

int shard_member_init(struct ps_shard *s, struct shard_member *m) {
    m->ring = pd_calloc(SHARD_RING, sizeof *m->ring);
    m->known = pd_calloc((size_t)s->params.decl.n_sparse * SHARD_LISTS, sizeof *m->known);
    m->answers = pd_calloc(SHARD_ANSWERS, sizeof *m->answers);
    pd_buf_init(&m->note[0].text);
    pd_buf_init(&m->note[1].text);
    if (m->ring && m->known && m->answers)
        return 0;
    shard_member_release(s, m);
    return PD_ENOMEM;
}

void shard_step_clear(struct ps_shard *s, struct member_step *p) {
    for (uint32_t k = 0; k < p->n_parts; k++) {
        struct contribution *c = &p->parts[k];
        for (size_t i = 0; i < c->n_frames; i++)
            wire_frame_free(c->frames[i]);
        c->n_frames = c->n_copied = 0;
        memset(c->stats, 0, sizeof c->stats);
        memset(c->dense, 0, params_n_planes(&s->params) * sizeof *c->dense);
        for (uint32_t t = 0; t < s->params.decl.n_sparse; t++)
            c->tables[t].pushed = 0;
    }
    p->n_parts = 0;
    p->n_stats = 0;
    p->n_samples = 0;
}

/* Makes room for one more empty contribution after the n_parts in use. */
static int room_for_part(const struct ps_shard *s, struct member_step *p) {
    if (p->n_parts < p->cap_parts)
        return 0;
    struct contribution *more = pd_realloc(p->parts, (p->cap_parts + 1) * sizeof *more);
    if (!more)
        return PD_ENOMEM;
    p->parts = more;
    struct contribution *c = &more[p->cap_parts];
    memset(c, 0, sizeof *c);
    c->dense = pd_calloc(params_n_planes(&s->params), sizeof *c->dense);
    c->tables = pd_calloc(s->params.decl.n_sparse, sizeof *c->tables);
    if (!c->dense || !c->tables) {
        contribution_release(s, c);
        return PD_ENOMEM;
    }
    p->cap_parts++;
    return 0;
}

/* Sets *out to the contribution of exactly these streams to the current step. If there is none, an
 * empty one is added in the order of streams, which moves the contributions found before.
 * Overlapping streams are an error. */
static int find_contribution(const struct ps_shard *s, const struct shard_member *m,
                             struct ps_range r, struct contribution **out, struct pd_err *err) {
    struct member_step *p = shard_barrier_step_of(m, m->step);
    uint32_t at = 0;
    while (at < p->n_parts && p->parts[at].streams.hi <= r.lo)
        at++;
    if (at < p->n_parts && p->parts[at].streams.lo == r.lo && p->parts[at].streams.hi == r.hi) {
        *out = &p->parts[at];
        return 0;
    }
    if (at < p->n_parts && p->parts[at].streams.lo < r.hi)
        return pd_fail(
            err, PD_EPROTO,
            "a contribution of streams %u-%u to step %llu overlaps the one of streams %u-%u", r.lo,
            r.hi - 1, (unsigned long long)m->step, p->parts[at].streams.lo,
            p->parts[at].streams.hi - 1);
    if (p->n_parts == PS_PARTS_MAX)
        return pd_fail(err, PD_EPROTO, "more than %d contributions to step %llu", PS_PARTS_MAX,
                       (unsigned long long)m->step);
    if (room_for_part(s, p))
        return pd_fail(err, PD_ENOMEM, "no memory for a push");
    struct contribution c = p->parts[p->n_parts];
    memmove(&p->parts[at + 1], &p->parts[at], (p->n_parts - at) * sizeof c);
    c.streams = r;
    p->parts[at] = c;
    p->n_parts++;
    *out = &p->parts[at];
    return 0;
}

static int keep_frame(struct contribution *c, struct wire_frame **f) {
    if (pd_grow(c->frames, c->cap_frames, c->n_frames + 1))
        return PD_ENOMEM;
    c->frames[c->n_frames++] = *f;
    *f = NULL;
    return 0;
}

/* Copies n bytes at p into a frame of the contribution. NULL: no memory. */
static const void *copy_to_frame(struct ps_shard *s, struct contribution *c, const void *p,
                                 size_t n) {
    enum { SPACE = 192 };
    _Static_assert(sizeof(struct wire_frame) <= SPACE, "the copy is stored after the frame");
    struct wire_frame *f = pd_pool_get(s->opts.pool, SPACE + n);
    if (!f)
        return NULL;
    *f = (struct wire_frame){.pool = s->opts.pool};
    uint8_t *copy = memcpy((uint8_t *)f + SPACE, p, n);
    if (!keep_frame(c, &f))
        return copy;
    wire_frame_free(f);
    return NULL;
}

static int copy_contribution(struct ps_shard *s, struct contribution *c) {
    if (c->n_copied == c->n_frames)
        return 0;
    for (uint32_t i = 0; i < params_n_planes(&s->params); i++)
        if (c->dense[i] &&
            !(c->dense[i] = copy_to_frame(s, c, c->dense[i],
                                          params_seg(&s->params, i)->count * sizeof(float))))
            return PD_ENOMEM;
    for (uint32_t t = 0; t < s->params.decl.n_sparse; t++) {
        struct row_push *p = &c->tables[t];
        if (p->pushed &&
            !(p->grad = copy_to_frame(s, c, p->grad,
                                      p->list.n * params_width(&s->params, t) * sizeof(float))))
            return PD_ENOMEM;
    }
    c->n_copied = c->n_frames;
    return 0;
}

int ps_shard_copy_pushes(struct ps_shard *s) {
    int rc = 0;
    for (uint32_t i = 0; i < s->barrier.n_joined && !rc; i++) {
        const struct shard_member *m = &s->barrier.members[s->barrier.order[i]];
        struct member_step *p = shard_barrier_step_of(m, m->step);
        for (uint32_t k = 0; k < p->n_parts && !rc; k++)
            rc = copy_contribution(s, &p->parts[k]);
    }
    return rc;
}

/* --- incoming contributions --- */

struct push_id {
    uint64_t epoch, step;
    struct ps_range streams;
};
#define PUSH_ID(m) ((struct push_id){(m).epoch, (m).step, {(m).stream_lo, (m).stream_hi}})

/* Checks the fields with which every push begins. Returns 0: the push is for the trainer's current
 * step; 1: the push is stale, drop it; or PD_EPROTO. */
static int check_push(struct ps_shard *s, uint32_t trainer, const char *what,
                      const struct push_id *id, struct pd_err *err) {
    const struct shard_member *m = &s->barrier.members[trainer];
    const uint64_t epoch = id->epoch, step = id->step;
    const uint32_t lo = id->streams.lo, hi = id->streams.hi;
    if (epoch != s->opts.epoch || lo >= hi || lo < m->streams.lo || hi > m->streams.hi)
        return pd_fail(err, PD_EPROTO,
                       "%s for epoch %llu, streams %u to %u; here epoch %llu, streams %u to %u",
                       what, (unsigned long long)epoch, lo, hi, (unsigned long long)s->opts.epoch,
                       m->streams.lo, m->streams.hi);
    if (step < m->step) {
        s->stats.stale++;
        return 1;
    }
    if (step > m->step || !m->in_pass)
        return pd_fail(err, PD_EPROTO, "%s for step %llu; this trainer is at step %llu%s", what,
                       (unsigned long long)step, (unsigned long long)m->step,
                       m->in_pass ? "" : " and has ended the pass");
    if (s->params.rule->barrier && step - s->barrier.step >= SHARD_AHEAD)
        return pd_fail(err, PD_EPROTO, "%s for step %llu while step %llu is not complete", what,
                       (unsigned long long)step, (unsigned long long)s->barrier.step);
    return 0;
}

/* check_push, then finds the contribution of the push; *c NULL: the push is stale. */
static int begin_push(struct ps_shard *s, uint32_t trainer, const char *what, struct push_id id,
                      struct contribution **c, struct pd_err *err) {
    int rc = check_push(s, trainer, what, &id, err);
    *c = NULL;
    return rc ? (rc < 0 ? rc : 0)
              : find_contribution(s, &s->barrier.members[trainer], id.streams, c, err);
}

/* set 0: only checks the segments; 1: records them. *fresh counts the segments that are not
 * repeated. */
static int read_dense(struct ps_shard *s, struct contribution *c, const struct ps_msg_push_dense *m,
                      int set, uint32_t *fresh, struct pd_err *err) {
    const uint32_t n = m->n;
    uint64_t at = 0, have = m->n_values;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t id = m->segments[i].parameter;
        const uint64_t count = m->segments[i].count;
        if (!s->params.segs || id >= params_n_planes(&s->params))
            return pd_fail(err, PD_EPROTO, "PS_PUSH_DENSE: no parameter %u here", id);
        if (count != params_seg(&s->params, id)->count || count == 0 || at > have ||
            count > have - at)
            return pd_fail(err, PD_EPROTO,
                           "PS_PUSH_DENSE: %llu values for parameter '%s', which has %llu here",
                           (unsigned long long)count, params_dense_name(&s->params, id),
                           (unsigned long long)params_seg(&s->params, id)->count);
        if (!set && s->params.decl.on_nan == PS_NAN_REFUSE && !ps_all_finite(m->values + at, count))
            return pd_fail(
                err, PD_ENUM,
                "PS_PUSH_DENSE: the gradient of parameter '%s' is not a finite number (reject_nan)",
                params_dense_name(&s->params, id));
        if (set && c->dense[id])
            s->stats.duplicates++;
        else if (set) {
            c->dense[id] = m->values + at;
            ++*fresh;
        }
        at += i + 1 < n ? ps_seg_padded(count) : count;
    }
    if (n && at != have)
        return pd_fail(err, PD_EPROTO, "PS_PUSH_DENSE: %zu values, %llu described", m->n_values,
                       (unsigned long long)at);
    return 0;
}

int shard_push_dense(struct ps_shard *s, uint32_t trainer, struct wire_frame **f,
                     struct pd_err *err) {
    struct contribution *c;
    const struct ps_body b = ps_body_of(*f);
    struct ps_msg_push_dense m;
    int rc = ps_get_push_dense(&b, &m, err);
    if (!rc)
        rc = begin_push(s, trainer, "PS_PUSH_DENSE", PUSH_ID(m), &c, err);
    if (rc || !c)
        return rc;
    uint32_t fresh = 0;
    rc = read_dense(s, c, &m, 0, &fresh, err); /* checks everything before it records anything */
    if (rc)
        return rc;
    if (pd_grow(c->frames, c->cap_frames, c->n_frames + 1))
        return pd_fail(err, PD_ENOMEM, "no memory for a push");
    (void)read_dense(s, c, &m, 1, &fresh, err);
    return fresh ? keep_frame(c, f) : 0;
}

static int check_keys(const struct ps_shard *s, const uint64_t *keys, uint64_t n,
                      struct pd_err *err) {
    uint32_t threads = s->params.decl.n_sparse_threads;
    for (uint64_t i = 0; i < n; i++) {
        if (i && keys[i] <= keys[i - 1])
            return pd_fail(err, PD_EPROTO, "keys are not sorted and unique at %llu",
                           (unsigned long long)i);
        if (ps_row_thread(keys[i], threads) != s->params.thread)
            return pd_fail(err, PD_EPROTO, "key %llu belongs to another server thread",
                           (unsigned long long)keys[i]);
    }
    return 0;
}

int shard_keys(const struct ps_shard *s, const char *what, uint32_t table, uint64_t n,
               const uint64_t *keys, size_t n_keys, struct pd_err *err) {
    if (!s->params.tables || table >= s->params.decl.n_sparse)
        return pd_fail(err, PD_EPROTO, "%s: no table %u here", what, table);
    if (n >= PS_ROW_NONE || n_keys != n)
        return pd_fail(err, PD_EPROTO, "%s: %llu keys announced, %zu there", what,
                       (unsigned long long)n, n_keys);
    return check_keys(s, keys, n, err);
}

/* Sets p->list to the rows of the push: a list of an earlier pull by its number, or keys that are
 * looked up here. */
static int push_keys(struct ps_shard *s, struct shard_member *m, const struct ps_msg_push_rows *q,
                     struct row_push *p, struct pd_err *err) {
    const uint32_t table = q->table, list = q->list;
    const uint64_t n = q->n;
    if (list) {
        struct known_list *k = shard_known(m, table, list);
        if (!k || k->list.n != n || q->n_keys)
            return pd_fail(err, PD_EPROTO, "PS_PUSH_ROWS: key list %u of %llu keys is not known",
                           list, (unsigned long long)n);
        struct row_list mine = p->list;
        p->list = k->list;
        k->list = mine;
        k->id = 0;
        return 0;
    }
    const uint64_t *keys = q->keys;
    int rc = shard_keys(s, "PS_PUSH_ROWS", table, n, keys, q->n_keys, err);
    if (rc)
        return rc;
    const int life = s->params.policies[table].active;
    if (pd_grow(p->list.rows, p->list.cap, n) || shard_list_keep_keys(&p->list, keys, n) ||
        ps_table_find(s->params.tables[table], keys, n, !life, p->list.rows))
        return ps_params_no_rows(&s->params, table, err);
    p->list.n = n;
    return 0;
}

/* Checks u32 shows and u32 clicks of each key: no more clicks than shows. */
static int check_seen(const uint32_t *seen, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (seen[2 * i + 1] > seen[2 * i])
            return PD_EPROTO;
    return 0;
}

int shard_push_rows(struct ps_shard *s, uint32_t trainer, struct wire_frame **f,
                    struct pd_err *err) {
    struct contribution *c;
    const struct ps_body b = ps_body_of(*f);
    struct ps_msg_push_rows m;
    int rc = ps_get_push_rows(&b, &m, err);
    if (!rc)
        rc = begin_push(s, trainer, "PS_PUSH_ROWS", PUSH_ID(m), &c, err);
    if (rc || !c)
        return rc;
    const uint32_t table = m.table;
    const uint64_t n = m.n;
    if (!s->params.tables || table >= s->params.decl.n_sparse)
        return pd_fail(err, PD_EPROTO, "PS_PUSH_ROWS: no table %u here", table);
    uint32_t dim = params_width(&s->params, table);
    if (n >= PS_ROW_NONE || m.n_values != n * dim)
        return pd_fail(err, PD_EPROTO, "PS_PUSH_ROWS: %llu rows of %u floats in %zu floats",
                       (unsigned long long)n, dim, m.n_values);
    const int life = s->params.policies[table].active;
    const uint32_t *seen = m.seen;
    if (m.n_seen != (life ? n * 2 : 0) || (life && check_seen(seen, n)))
        return pd_fail(err, PD_EPROTO,
                       "PS_PUSH_ROWS: shows and clicks of %llu rows of table '%s' in %zu numbers",
                       (unsigned long long)n, s->params.decl.sparse[table].name, m.n_seen);
    struct row_push *p = &c->tables[table];
    if (p->pushed) {
        s->stats.duplicates++;
        return 0;
    }
    const float *grad = m.values;
    if (s->params.decl.on_nan == PS_NAN_REFUSE && !ps_all_finite(grad, n * dim))
        return pd_fail(
            err, PD_ENUM,
            "PS_PUSH_ROWS: the gradient of table '%s' is not a finite number (reject_nan)",
            s->params.decl.sparse[table].name);
    rc = push_keys(s, &s->barrier.members[trainer], &m, p, err);
    if (rc)
        return rc;
    if (keep_frame(c, f))
        return pd_fail(err, PD_ENOMEM, "no memory for a push");
    p->grad = grad;
    p->seen = seen;
    p->pushed = 1;
    return 0;
}

/* Sets the numbers of one contribution. `streams` must be among the member's. */
static int set_stats(struct ps_shard *s, const struct shard_member *m, struct ps_range streams,
                     const double *stats, uint32_t n, struct pd_err *err) {
    struct contribution *c = NULL;
    if (streams.lo >= streams.hi || streams.lo < m->streams.lo || streams.hi > m->streams.hi)
        return pd_fail(err, PD_EPROTO, "PS_STEP_END: numbers of streams %u to %u", streams.lo,
                       streams.hi);
    int rc = find_contribution(s, m, streams, &c, err);
    if (!rc && n)
        memcpy(c->stats, stats, n * sizeof *stats);
    return rc;
}

/* Kept so that a replacement process can report the totals of the whole pass. */
static void add_to_pass(struct ps_shard *s, struct shard_member *m, const struct member_step *p) {
    m->in_this.steps++;
    m->in_this.samples += p->n_samples;
    for (uint32_t j = 0; j < p->n_parts; j++)
        for (uint32_t i = 0; i < p->n_stats; i++)
            m->in_this.stats[i] += p->parts[j].stats[i];
    if (!s->barrier.pass_began_ns)
        s->barrier.pass_began_ns = pd_mono_ns();
}

int shard_step_end(struct ps_shard *s, uint32_t trainer, struct wire_frame **f,
                   struct pd_err *err) {
    struct shard_member *m = &s->barrier.members[trainer];
    const struct ps_body b = ps_body_of(*f);
    struct ps_msg_step_end e;
    int rc = ps_get_step_end(&b, &e, err);
    if (!rc)
        rc = check_push(s, trainer, "PS_STEP_END", &PUSH_ID(e), err);
    if (rc)
        return rc < 0 ? rc : 0;
    if (e.stream_lo != m->streams.lo || e.stream_hi != m->streams.hi)
        return pd_fail(err, PD_EPROTO,
                       "PS_STEP_END of streams %u to %u, which are not all of this trainer's",
                       e.stream_lo, e.stream_hi);
    if (e.n_stats && !e.n_parts)
        rc = set_stats(s, m, m->streams, e.words, e.n_stats, err);
    for (uint32_t k = 0; k < e.n_parts && !rc; k++) {
        const double *stats;
        const struct ps_step_part part = ps_step_part_get(&e, k, &stats);
        rc = set_stats(s, m, (struct ps_range){part.stream_lo, part.stream_hi}, stats, e.n_stats,
                       err);
    }
    if (rc)
        return rc;
    struct member_step *p = shard_barrier_step_of(m, m->step);
    p->n_samples = e.n_samples;
    p->n_stats = e.n_stats;
    p->req = (*f)->req;
    add_to_pass(s, m, p);
    if (!s->params.rule->barrier)
        return shard_apply_one(s, m, err);
    m->step++;
    return 0;
}
