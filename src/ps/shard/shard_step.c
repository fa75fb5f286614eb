/* shard_step.c - contributions to a step as they come in: checked, identified, kept in the frames they came in. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "ps/shard/shard_int.h"

/* --- a member's memory --- */

static void contribution_release(const struct ps_shard *s, struct contribution *c) {
    for (size_t k = 0; k < c->n_frames; k++)
        wire_frame_free(c->frames[k]);
    free(c->frames);
    free(c->dense);
    for (uint32_t t = 0; c->tables && t < s->job.n_sparse; t++) {
        free(c->tables[t].list.rows);
        free(c->tables[t].list.keys);
    }
    free(c->tables);
    memset(c, 0, sizeof *c);
}

void shard_member_release(struct ps_shard *s, struct member *m) {
    for (uint32_t i = 0; m->ring && i < SHARD_RING; i++) {
        for (uint32_t k = 0; k < m->ring[i].cap_parts; k++)
            contribution_release(s, &m->ring[i].parts[k]);
        free(m->ring[i].parts);
    }
    free(m->ring);
    for (uint32_t t = 0; m->known && t < s->job.n_sparse * SHARD_LISTS; t++) {
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

int shard_member_init(struct ps_shard *s, struct member *m) {
    m->ring = pd_calloc(SHARD_RING, sizeof *m->ring);
    m->known = pd_calloc((size_t)s->job.n_sparse * SHARD_LISTS, sizeof *m->known);
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
        c->n_frames = c->n_owned = 0;
        memset(c->stats, 0, sizeof c->stats);
        memset(c->dense, 0, shard_n_planes(s) * sizeof *c->dense);
        for (uint32_t t = 0; t < s->job.n_sparse; t++)
            c->tables[t].here = 0;
    }
    p->n_parts = 0;
    p->n_stats = 0;
    p->n_samples = 0;
}

/* Room for one more contribution, empty, behind the n_parts that are in use. */
static int room_for_part(const struct ps_shard *s, struct member_step *p) {
    if (p->n_parts < p->cap_parts)
        return 0;
    struct contribution *more = pd_realloc(p->parts, (p->cap_parts + 1) * sizeof *more);
    if (!more)
        return PD_ENOMEM;
    p->parts = more;
    struct contribution *c = &more[p->cap_parts];
    memset(c, 0, sizeof *c);
    c->dense = pd_calloc(shard_n_planes(s), sizeof *c->dense);
    c->tables = pd_calloc(s->job.n_sparse, sizeof *c->tables);
    if (!c->dense || !c->tables) {
        contribution_release(s, c);
        return PD_ENOMEM;
    }
    p->cap_parts++;
    return 0;
}

/* The contribution of exactly these streams to the step: the one that is there, or a new one in its place in the order. It
 * stays where it is until the next one is made. */
static int part_of(const struct ps_shard *s, const struct member *m, struct ps_range r, struct contribution **out,
                   struct pd_err *err) {
    struct member_step *p = shard_step_of(m, m->step);
    uint32_t at = 0;
    while (at < p->n_parts && p->parts[at].streams.hi <= r.lo)
        at++;
    if (at < p->n_parts && p->parts[at].streams.lo == r.lo && p->parts[at].streams.hi == r.hi) {
        *out = &p->parts[at];
        return 0;
    }
    if (at < p->n_parts && p->parts[at].streams.lo < r.hi)
        return pd_fail(err, PD_EPROTO, "a contribution of streams %u-%u to step %llu overlaps the one of streams %u-%u", r.lo,
                       r.hi - 1, (unsigned long long)m->step, p->parts[at].streams.lo, p->parts[at].streams.hi - 1);
    if (p->n_parts == PS_PARTS_MAX)
        return pd_fail(err, PD_EPROTO, "more than %d contributions to step %llu", PS_PARTS_MAX, (unsigned long long)m->step);
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
    if (shard_room(&c->frames, &c->cap_frames, c->n_frames + 1, sizeof *c->frames))
        return PD_ENOMEM;
    c->frames[c->n_frames++] = *f;
    *f = NULL;
    return 0;
}

/* A copy of n bytes at p, in a frame of the contribution. NULL: no memory. */
static const void *own(struct ps_shard *s, struct contribution *c, const void *p, size_t n) {
    enum { SPACE = 192 };
    _Static_assert(sizeof(struct wire_frame) <= SPACE, "the copy stands behind the frame");
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

static int own_contribution(struct ps_shard *s, struct contribution *c) {
    if (c->n_owned == c->n_frames)
        return 0;
    for (uint32_t i = 0; i < shard_n_planes(s); i++)
        if (c->dense[i] && !(c->dense[i] = own(s, c, c->dense[i], shard_seg(s, i)->count * sizeof(float))))
            return PD_ENOMEM;
    for (uint32_t t = 0; t < s->job.n_sparse; t++) {
        struct row_push *p = &c->tables[t];
        if (p->here && !(p->grad = own(s, c, p->grad, p->list.n * shard_width(s, t) * sizeof(float))))
            return PD_ENOMEM;
    }
    c->n_owned = c->n_frames;
    return 0;
}

int ps_shard_own_pushes(struct ps_shard *s) {
    int rc = 0;
    for (uint32_t i = 0; i < s->n_joined && !rc; i++) {
        const struct member *m = &s->members[s->order[i]];
        struct member_step *p = shard_step_of(m, m->step);
        for (uint32_t k = 0; k < p->n_parts && !rc; k++)
            rc = own_contribution(s, &p->parts[k]);
    }
    return rc;
}

/* --- contributions come in --- */

/* What every push begins with: whose it is. 0: go on, it is for the step that the trainer is at; 1: recognised as stale, drop it. */
static int identify(struct ps_shard *s, uint32_t trainer, const struct wire_frame *f, struct pd_rd *r, struct ps_range *streams,
                    struct pd_err *err) {
    struct member *m = &s->members[trainer];
    const char *what = wire_msg_name(f->type);
    uint64_t epoch = pd_get_u64(r), step = pd_get_u64(r);
    uint32_t lo = pd_get_u32(r), hi = pd_get_u32(r);
    *streams = (struct ps_range){lo, hi};
    if (r->failed)
        return pd_fail(err, PD_EPROTO, "%s of %zu bytes", what, f->len[0]);
    if (epoch != s->opts.epoch || lo >= hi || lo < m->streams.lo || hi > m->streams.hi)
        return pd_fail(err, PD_EPROTO, "%s for epoch %llu, streams %u to %u; here epoch %llu, streams %u to %u", what,
                       (unsigned long long)epoch, lo, hi, (unsigned long long)s->opts.epoch, m->streams.lo,
                       m->streams.hi);
    if (step < m->step) {
        s->stats.stale++;
        return 1;
    }
    if (step > m->step || !m->in_pass)
        return pd_fail(err, PD_EPROTO, "%s for step %llu; this trainer is at step %llu%s", what, (unsigned long long)step,
                       (unsigned long long)m->step, m->in_pass ? "" : " and has ended the pass");
    if (s->rule->barrier && step - s->step >= SHARD_AHEAD)
        return pd_fail(err, PD_EPROTO, "%s for step %llu while step %llu is not complete", what, (unsigned long long)step,
                       (unsigned long long)s->step);
    return 0;
}

/* The same from the beginning of the frame on, and the contribution that the push belongs to; NULL: it is stale. */
static int begin_push(struct ps_shard *s, uint32_t trainer, const struct wire_frame *f, struct pd_rd *r, struct contribution **c,
                      struct pd_err *err) {
    struct ps_range streams;
    pd_rd_init(r, f->sec[0], f->len[0]);
    int rc = identify(s, trainer, f, r, &streams, err);
    *c = NULL;
    return rc ? (rc < 0 ? rc : 0) : part_of(s, &s->members[trainer], streams, c, err);
}

/* sec 0: identity, u32 n, u32 0, n times {u32 id, u32 0, u64 count}; sec 2: the segments' values, each padded to 16. */
static int read_dense(struct ps_shard *s, struct contribution *c, const struct wire_frame *f, struct pd_rd *r,
                      int set, uint32_t *fresh, struct pd_err *err) {
    uint32_t n = pd_get_u32(r), zero = pd_get_u32(r);
    uint64_t at = 0, have = f->len[2] / sizeof(float);
    for (uint32_t i = 0; i < n && !r->failed; i++) {
        uint32_t id = pd_get_u32(r), z = pd_get_u32(r);
        uint64_t count = pd_get_u64(r);
        if (r->failed || z || !s->segs || id >= shard_n_planes(s))
            return pd_fail(err, PD_EPROTO, "PS_PUSH_DENSE: no parameter %u here", id);
        if (count != shard_seg(s, id)->count || count == 0 || at > have || count > have - at)
            return pd_fail(err, PD_EPROTO, "PS_PUSH_DENSE: %llu values for parameter '%s', which has %llu here",
                           (unsigned long long)count, shard_dense_name(s, id), (unsigned long long)shard_seg(s, id)->count);
        if (!set && s->job.on_nan == PS_NAN_REFUSE && !ps_all_finite((const float *)(const void *)f->sec[2] + at, count))
            return pd_fail(err, PD_ENUM, "PS_PUSH_DENSE: the gradient of parameter '%s' is not a finite number (reject_nan)",
                           shard_dense_name(s, id));
        if (set && c->dense[id])
            s->stats.duplicates++;
        else if (set) {
            c->dense[id] = (const float *)(const void *)f->sec[2] + at;
            ++*fresh;
        }
        at += i + 1 < n ? ps_seg_padded(count) : count;
    }
    if (zero || !pd_rd_done(r) || (n && at != have) || f->len[2] % sizeof(float))
        return pd_fail(err, PD_EPROTO, "PS_PUSH_DENSE: %zu bytes of values, %llu described", f->len[2],
                       (unsigned long long)(at * sizeof(float)));
    return 0;
}

int shard_push_dense(struct ps_shard *s, uint32_t trainer, struct wire_frame **f, struct pd_err *err) {
    struct contribution *c;
    struct pd_rd r;
    int rc = begin_push(s, trainer, *f, &r, &c, err);
    if (rc || !c)
        return rc;
    struct pd_rd again = r;
    uint32_t fresh = 0;
    rc = read_dense(s, c, *f, &r, 0, &fresh, err); /* first all of it is checked, then all of it counts */
    if (rc)
        return rc;
    if (shard_room(&c->frames, &c->cap_frames, c->n_frames + 1, sizeof *c->frames))
        return pd_fail(err, PD_ENOMEM, "no memory for a push");
    (void)read_dense(s, c, *f, &again, 1, &fresh, err);
    return fresh ? keep_frame(c, f) : 0;
}

static int check_keys(const struct ps_shard *s, const uint64_t *keys, uint64_t n, struct pd_err *err) {
    uint32_t threads = s->job.n_sparse_threads;
    for (uint64_t i = 0; i < n; i++) {
        if (i && keys[i] <= keys[i - 1])
            return pd_fail(err, PD_EPROTO, "keys are not sorted and unique at %llu", (unsigned long long)i);
        if (ps_row_thread(keys[i], threads) != s->thread)
            return pd_fail(err, PD_EPROTO, "key %llu belongs to another server thread", (unsigned long long)keys[i]);
    }
    return 0;
}

int shard_keys(const struct ps_shard *s, const struct wire_frame *f, uint32_t table, uint64_t n, struct pd_err *err) {
    if (!s->tables || table >= s->job.n_sparse)
        return pd_fail(err, PD_EPROTO, "%s: no table %u here", wire_msg_name(f->type), table);
    if (n >= PS_ROW_NONE || f->len[1] != n * sizeof(uint64_t))
        return pd_fail(err, PD_EPROTO, "%s: %llu keys in %zu bytes", wire_msg_name(f->type), (unsigned long long)n,
                       f->len[1]);
    return check_keys(s, (const uint64_t *)(const void *)f->sec[1], n, err);
}

/* Rows of the push into p->list: those of the last pull by its number, or looked up (and made) here. */
static int push_keys(struct ps_shard *s, struct member *m, const struct wire_frame *f, uint32_t table, uint32_t list,
                     uint64_t n, struct row_push *p, struct pd_err *err) {
    if (list) {
        struct known_list *k = shard_known(m, table, list);
        if (!k || k->list.n != n || f->len[1])
            return pd_fail(err, PD_EPROTO, "PS_PUSH_ROWS: key list %u of %llu keys is not known", list,
                           (unsigned long long)n);
        struct row_list mine = p->list;
        p->list = k->list;
        k->list = mine;
        k->id = 0;
        return 0;
    }
    int rc = shard_keys(s, f, table, n, err);
    if (rc)
        return rc;
    const uint64_t *keys = (const uint64_t *)(const void *)f->sec[1];
    const int life = s->lives[table].active;
    if (shard_room(&p->list.rows, &p->list.cap, n, sizeof *p->list.rows) || shard_keep_keys(&p->list, keys, n) ||
        ps_table_find(s->tables[table], keys, n, !life, p->list.rows))
        return pd_fail(err, PD_ENOMEM, "no memory for rows of table '%s'", s->job.sparse[table].name);
    p->list.n = n;
    return 0;
}

/* sec 0: identity, u32 table, u32 list, u64 n; sec 1: n keys, or nothing with a list; sec 2: n rows; sec 3, of a
 * table with a life of rows: n times {u32 shows, u32 clicks}. */
int shard_push_rows(struct ps_shard *s, uint32_t trainer, struct wire_frame **f, struct pd_err *err) {
    struct contribution *c;
    struct pd_rd r;
    int rc = begin_push(s, trainer, *f, &r, &c, err);
    if (rc || !c)
        return rc;
    uint32_t table = pd_get_u32(&r), list = pd_get_u32(&r);
    uint64_t n = pd_get_u64(&r);
    if (!pd_rd_done(&r) || !s->tables || table >= s->job.n_sparse)
        return pd_fail(err, PD_EPROTO, "PS_PUSH_ROWS: no table %u here", table);
    uint32_t dim = shard_width(s, table);
    if (n >= PS_ROW_NONE || (*f)->len[2] != n * dim * sizeof(float))
        return pd_fail(err, PD_EPROTO, "PS_PUSH_ROWS: %llu rows of %u floats in %zu bytes", (unsigned long long)n, dim,
                       (*f)->len[2]);
    const int life = s->lives[table].active;
    const uint32_t *seen = (const uint32_t *)(const void *)(*f)->sec[3];
    if ((*f)->len[3] != (life ? n * 2 * sizeof *seen : 0) || (life && shard_check_seen(seen, n)))
        return pd_fail(err, PD_EPROTO, "PS_PUSH_ROWS: shows and clicks of %llu rows of table '%s' in %zu bytes", (unsigned long long)n,
                       s->job.sparse[table].name, (*f)->len[3]);
    struct row_push *p = &c->tables[table];
    if (p->here) {
        s->stats.duplicates++;
        return 0;
    }
    const float *grad = (const float *)(const void *)(*f)->sec[2];
    if (s->job.on_nan == PS_NAN_REFUSE && !ps_all_finite(grad, n * dim))
        return pd_fail(err, PD_ENUM, "PS_PUSH_ROWS: the gradient of table '%s' is not a finite number (reject_nan)",
                       s->job.sparse[table].name);
    rc = push_keys(s, &s->members[trainer], *f, table, list, n, p, err);
    if (rc)
        return rc;
    if (keep_frame(c, f))
        return pd_fail(err, PD_ENOMEM, "no memory for a push");
    p->grad = grad;
    p->seen = seen;
    p->here = 1;
    return 0;
}

/* The numbers of one contribution; `streams` of it are among the member's. */
static int take_stats(struct ps_shard *s, const struct member *m, struct ps_range streams, struct pd_rd *r, uint32_t n,
                      struct pd_err *err) {
    struct contribution *c = NULL;
    if (r->failed || streams.lo >= streams.hi || streams.lo < m->streams.lo || streams.hi > m->streams.hi)
        return pd_fail(err, PD_EPROTO, "PS_STEP_END: numbers of streams %u to %u", streams.lo, streams.hi);
    int rc = part_of(s, m, streams, &c, err);
    for (uint32_t i = 0; i < n && !rc; i++)
        c->stats[i] = pd_get_f64(r);
    return rc;
}

/* Kept so that a replacement process can report the totals of the whole pass. */
static void add_to_pass(struct ps_shard *s, struct member *m, const struct member_step *p) {
    m->in_this.steps++;
    m->in_this.samples += p->n_samples;
    for (uint32_t j = 0; j < p->n_parts; j++)
        for (uint32_t i = 0; i < p->n_stats; i++)
            m->in_this.stats[i] += p->parts[j].stats[i];
    if (!s->pass_began_ns)
        s->pass_began_ns = pd_mono_ns();
}

/* sec 0: identity, u64 n_samples, u32 n, u32 parts, n doubles; with parts > 0: for each {u32 lo, u32 hi, n doubles}. */
int shard_step_end(struct ps_shard *s, uint32_t trainer, struct wire_frame **f, struct pd_err *err) {
    struct member *m = &s->members[trainer];
    struct ps_range streams;
    struct pd_rd r;
    pd_rd_init(&r, (*f)->sec[0], (*f)->len[0]);
    int rc = identify(s, trainer, *f, &r, &streams, err);
    if (rc)
        return rc < 0 ? rc : 0;
    uint64_t n_samples = pd_get_u64(&r);
    uint32_t n = pd_get_u32(&r), parts = pd_get_u32(&r);
    if (r.failed || n > PS_STATS_MAX || parts > PS_PARTS_MAX || n_samples >> 40 || streams.lo != m->streams.lo ||
        streams.hi != m->streams.hi)
        return pd_fail(err, PD_EPROTO, "PS_STEP_END of streams %u to %u: %llu samples, %u numbers of %u contributions", streams.lo,
                       streams.hi, (unsigned long long)n_samples, n, parts);
    if (n && !parts)
        rc = take_stats(s, m, streams, &r, n, err);
    for (uint32_t k = 0; k < parts && !rc; k++) {
        streams.lo = pd_get_u32(&r);
        streams.hi = pd_get_u32(&r);
        rc = take_stats(s, m, streams, &r, n, err);
    }
    if (rc)
        return rc;
    if (!pd_rd_done(&r))
        return pd_fail(err, PD_EPROTO, "PS_STEP_END of %zu bytes", (*f)->len[0]);
    struct member_step *p = shard_step_of(m, m->step);
    p->n_samples = n_samples;
    p->n_stats = n;
    p->req = (*f)->req;
    add_to_pass(s, m, p);
    if (!s->rule->barrier)
        return shard_apply_one(s, m, err);
    m->step++;
    return 0;
}
