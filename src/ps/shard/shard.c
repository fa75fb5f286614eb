/* shard.c - members, the barrier and the messages around it. See shard.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/fs.h"
#include "math/rng.h"
#include "ps/plan/initial.h"
#include "ps/shard/shard_int.h"

enum { ANSWER_ROOM = 1024 /* every answer of a fixed size fits */ };
enum { VALUES_MOST = 4 /* copies of the dense values in the region: in use, in a save, and still being read */ };

int shard_room(void *array, size_t *cap, size_t n, size_t size) {
    void **a = array;
    if (n <= *cap)
        return 0;
    size_t want = *cap ? *cap : 16;
    while (want < n)
        want *= 2;
    void *p = pd_realloc(*a, want * size);
    if (!p)
        return PD_ENOMEM;
    *a = p;
    *cap = want;
    return 0;
}

int ps_shard_new(struct ps_shard **out, const struct ps_shard_opts *opts, const struct ps_shard_ops *ops, void *arg) {
    struct ps_shard *s = pd_calloc(1, sizeof *s);
    if (!s)
        return PD_ENOMEM;
    s->opts = *opts;
    s->ops = *ops;
    s->arg = arg;
    size_t n = opts->n_trainers;
    s->members = pd_calloc(n, sizeof *s->members);
    s->order = pd_calloc(n, sizeof *s->order);
    pd_buf_init(&s->head);
    if (!s->members || !s->order || shard_room_parts(s, n) || pd_buf_reserve(&s->head, ANSWER_ROOM)) {
        ps_shard_free(s);
        return PD_ENOMEM;
    }
    *out = s;
    return 0;
}

static void drop_declaration(struct ps_shard *s) {
    shard_chain_drop(s);
    free(s->changed);
    s->changed = NULL;
    for (uint32_t i = 0; s->tables && i < s->job.n_sparse; i++)
        ps_table_free(s->tables[i]);
    for (uint32_t i = 0; s->decays && i < s->job.n_sparse; i++)
        ps_decay_release(&s->decays[i]);
    for (uint32_t i = 0; s->lives && i < s->job.n_sparse; i++)
        ps_life_release(&s->lives[i]);
    free(s->tables);
    free(s->decays);
    free(s->lives);
    s->decays = NULL;
    s->lives = NULL;
    free(s->segs);
    ps_values_drop(s->values);
    net_region_free(s->region);
    s->region = NULL;
    free(s->state);
    s->tables = NULL;
    s->segs = NULL;
    s->values = NULL;
    s->state = NULL;
    s->n_values = 0;
    ps_job_release(&s->job);
    s->declared = 0;
}

void ps_shard_free(struct ps_shard *s) {
    if (!s)
        return;
    shard_savings_release(s);
    if (s->staged)
        pd_rm_tree(s->staged, NULL);
    free(s->staged);
    for (uint32_t i = 0; s->members && i < s->opts.n_trainers; i++)
        shard_member_release(s, &s->members[i]);
    for (size_t i = 0; i < s->n_waiting; i++)
        wire_frame_free(s->waiting[i].f);
    shard_forget_reduced(s);
    shard_tasks_release(s);
    free(s->reduced);
    drop_declaration(s);
    free(s->members);
    free(s->order);
    free(s->ranges);
    free(s->sub);
    free(s->from);
    free(s->plan);
    free(s->val);
    free(s->parts);
    free(s->tmp);
    free(s->touched);
    free(s->nodes);
    free(s->scratch.rows);
    free(s->waiting);
    pd_buf_release(&s->head);
    free(s);
}

const struct net_region *ps_shard_region(const struct ps_shard *s) { return s->region; }

/* --- declaration --- */

void shard_initial_dense(struct ps_shard *s, uint32_t id) {
    const struct ps_dense *d = &s->job.dense[id];
    ps_initial(pd_rng_key(s->job.seed, PD_RNG_INIT, ps_name_hash(d->name), 0), 1, s->segs[id].first, d->mean, d->std, shard_w(s, id),
               s->segs[id].count);
}

float *shard_plane(const struct ps_shard *s, uint32_t i) {
    const uint32_t id = i % s->job.n_dense, plane = i / s->job.n_dense;
    return plane ? s->state + (plane - 1) * s->n_values + s->segs[id].off : shard_w(s, id);
}

static int make_dense(struct ps_shard *s) {
    uint32_t n = s->job.n_dense, threads = s->job.n_dense_threads;
    uint64_t *counts = pd_calloc(n, sizeof *counts);
    struct ps_seg *all = pd_calloc((size_t)n * threads, sizeof *all);
    s->segs = pd_calloc(n, sizeof *s->segs);
    int rc = counts && all && s->segs ? 0 : PD_ENOMEM;
    for (uint32_t i = 0; i < n && !rc; i++)
        counts[i] = s->job.dense[i].n;
    if (!rc)
        rc = ps_layout_dense(n, counts, s->job.n_servers, threads, all);
    for (uint32_t i = 0; i < n && !rc; i++) {
        s->segs[i] = all[(size_t)i * threads + s->thread];
        s->n_values += ps_seg_padded(s->segs[i].count);
    }
    free(counts);
    free(all);
    if (rc || s->n_values > SIZE_MAX / sizeof(float) / (1 + s->optim->state))
        return PD_ENOMEM;
    /* Without a barrier somebody's update comes while others read, and would need a copy each time. Where there is no region it is slower. */
    if (s->opts.lends && s->rule->barrier && s->n_values)
        (void)net_region_new(&s->region, s->n_values * sizeof(float) * VALUES_MOST, NET_LENT_UNTIL_READ);
    s->values = ps_values_new(s->opts.pool, s->region, s->n_values);
    s->state = pd_alloc64(s->n_values * sizeof(float) * s->optim->state);
    if (!s->values || !s->state)
        return PD_ENOMEM;
    memset(s->values->w, 0, s->n_values * sizeof(float));
    memset(s->state, 0, s->n_values * sizeof(float) * s->optim->state);
    for (uint32_t i = 0; i < n; i++)
        shard_initial_dense(s, i);
    return 0;
}

static int make_tables(struct ps_shard *s) {
    int rc = 0;
    s->tables = pd_calloc(s->job.n_sparse, sizeof *s->tables);
    s->decays = pd_calloc(s->job.n_sparse, sizeof *s->decays);
    s->changed = pd_calloc(s->job.n_sparse, sizeof *s->changed);
    s->lives = pd_calloc(s->job.n_sparse, sizeof *s->lives);
    if (!s->tables || !s->decays || !s->changed || !s->lives)
        return PD_ENOMEM;
    for (uint32_t i = 0; i < s->job.n_sparse && !rc; i++) {
        const struct ps_sparse *t = &s->job.sparse[i];
        struct ps_table_opts o = {.name = t->name, .dim = t->dim, .state = s->optim->state, .seed = s->job.seed,
                                  .mean = t->mean, .std = t->std, .ageing = t->life.ageing > 0};
        int decays = t->lr_factor > 0 && !s->optim->own_l1 && !s->rule->adds;
        rc = ps_table_new(&s->tables[i], &o);
        if (!rc && decays)
            rc = ps_decay_init(&s->decays[i], t->l1, t->l2);
        if (!rc)
            rc = ps_life_init(&s->lives[i], &t->life, s->job.seed, t->name);
    }
    return rc;
}

/* The first declaration decides. On failure nothing is declared. */
static int declare(struct ps_shard *s, const struct ps_declare *d, struct ps_job *job, struct pd_err *err) {
    s->job = *job;
    ps_job_init(job);
    s->thread = d->thread;
    s->rule = ps_rule_find(s->job.update);
    s->planes = ps_job_planes(&s->job);
    s->by = ps_optim_find(s->rule->adds ? "sgd" : s->job.optim.name);
    s->optim = s->planes > 1 ? ps_optim_find(s->job.optim.name) : s->by;
    int rc = 0;
    if (s->opts.kind & PS_KIND_DENSE)
        rc = make_dense(s);
    if (!rc && s->opts.kind & PS_KIND_SPARSE)
        rc = make_tables(s);
    if (rc) {
        drop_declaration(s);
        return pd_fail(err, rc, "no memory for the declared parameters");
    }
    s->declared = 1;
    return 0;
}

static int check_declare(const struct ps_shard *s, const struct ps_declare *d, const struct ps_job *job,
                         struct pd_err *err) {
    if (job->n_trainers != s->opts.n_trainers)
        return pd_fail(err, PD_ECONF, "the trainer counts %u trainers, this server was started for %u "
                       "(num_gradient_servers)", job->n_trainers, s->opts.n_trainers);
    uint32_t threads = d->kind == PS_KIND_SPARSE ? job->n_sparse_threads : job->n_dense_threads;
    if (d->kind != s->opts.kind || d->thread >= threads)
        return pd_fail(err, PD_EPROTO, "declared as thread %u of %u, kind %u; this is kind %u", d->thread, threads,
                       d->kind, s->opts.kind);
    if (d->stream_lo >= d->stream_hi || d->stream_hi > job->n_streams)
        return pd_fail(err, PD_ECONF, "streams %u to %u of %u", d->stream_lo, d->stream_hi, job->n_streams);
    for (uint32_t i = 0; i < s->n_joined; i++) {
        const struct member *o = &s->members[s->order[i]];
        if (d->stream_lo < o->streams.hi && o->streams.lo < d->stream_hi)
            return pd_fail(err, PD_ECONF, "streams %u-%u overlap those of trainer %u (%s), %u-%u", d->stream_lo,
                           d->stream_hi - 1, s->order[i], o->addr, o->streams.lo, o->streams.hi - 1);
    }
    if (!s->declared)
        return 0;
    if (d->thread != s->thread)
        return pd_fail(err, PD_ECONF, "the list of pservers differs: thread %u here, %u for others", d->thread,
                       s->thread);
    return ps_job_same(&s->job, job, err);
}

static uint64_t pass_ms(const struct ps_shard *s) {
    return s->pass_began_ns ? (pd_mono_ns() - s->pass_began_ns) / 1000000u : 0;
}

static int answer_declare(struct ps_shard *s, uint32_t trainer, const struct wire_frame *f,
                          struct pd_err *err) {
    const struct member *m = &s->members[trainer];
    const struct ps_msg_declared a = {
        .epoch = s->opts.epoch,
        .step = m->step,
        .pass = s->pass,
        .last_id = m->last_req,
        .pass_step = s->pass_step,
        .resumed = m->resumed,
        .n_repeated = m->resumed ? s->n_reduced : 0,
        .pass_ms = pass_ms(s),
        .last_pass_ms = s->last_pass_ms,
        .this_pass = m->in_this,
        .last_pass = m->in_last,
    };
    struct ps_body b = shard_body(s);
    ps_put_declared(&b, &a);
    return shard_answer(s, trainer, f, &b, err);
}

static int on_declare(struct ps_shard *s, uint32_t trainer, const char *addr, struct wire_frame *f, struct pd_err *err) {
    struct ps_declare d;
    struct ps_job job;
    struct member *m = &s->members[trainer];
    (void)pd_fault("ps.declare");
    int rc = ps_job_get(f->sec[0], f->len[0], &d, &job, err);
    if (rc)
        return rc;
    int back = shard_comes_back(s, trainer, addr, &d, &job, err);
    if (back) {
        ps_job_release(&job);
        return back < 0 ? back : answer_declare(s, trainer, f, err);
    }
    rc = check_declare(s, &d, &job, err);
    if (!rc && !s->declared)
        rc = declare(s, &d, &job, err);
    ps_job_release(&job);
    if (!rc && shard_member_init(s, m))
        rc = pd_fail(err, PD_ENOMEM, "no memory for a trainer");
    if (rc)
        return rc;
    m->state = MEMBER_JOINED;
    m->streams = (struct ps_range){d.stream_lo, d.stream_hi};
    m->incarnation = d.incarnation;
    m->in_pass = 1;
    m->attached = 1;
    m->step = s->step;
    snprintf(m->addr, sizeof m->addr, "%s", addr);
    uint32_t at = s->n_joined++;
    while (at && s->members[s->order[at - 1]].streams.lo > d.stream_lo) {
        s->order[at] = s->order[at - 1];
        at--;
    }
    s->order[at] = trainer;
    s->stats.progress++;
    return answer_declare(s, trainer, f, err);
}

/* --- pass barrier, reduction, farewell --- */

static int on_pass_end(struct ps_shard *s, uint32_t trainer, struct wire_frame *f, struct pd_err *err) {
    struct member *m = &s->members[trainer];
    const struct ps_body b = ps_body_of(f);
    struct ps_msg_pass_end e;
    if (ps_get_pass_end(&b, &e, err))
        return PD_EPROTO;
    if (e.epoch != s->opts.epoch || (!m->in_pass && m->pass_req) || e.step != m->step || e.pass != s->pass)
        return pd_fail(err, PD_EPROTO, "PS_PASS_END of pass %llu at step %llu does not fit: pass %llu, step %llu",
                       (unsigned long long)e.pass, (unsigned long long)e.step, (unsigned long long)s->pass,
                       (unsigned long long)m->step);
    if (shard_step_of(m, m->step)->n_parts)
        return pd_fail(err, PD_EPROTO, "PS_PASS_END while step %llu has pushes without PS_STEP_END",
                       (unsigned long long)m->step);
    shard_task_back(s, trainer);
    m->in_pass = 0;
    m->pass_req = f->req;
    return 0;
}

static int on_reduce(struct ps_shard *s, uint32_t trainer, struct wire_frame *f, struct pd_err *err) {
    struct member *m = &s->members[trainer];
    const struct ps_body b = ps_body_of(f);
    struct ps_msg_reduce r;
    if (ps_get_reduce(&b, &r, err))
        return PD_EPROTO;
    const uint32_t n = r.n;
    if (m->n_replayed < s->n_reduced)
        return shard_reduce_again(s, trainer, n, f->req, err);
    if (m->n_reduces == SHARD_REDUCES)
        return pd_fail(err, PD_EPROTO, "more than %d reductions under way", SHARD_REDUCES);
    for (uint32_t i = 0; i < s->n_joined; i++) {
        const struct member *o = &s->members[s->order[i]];
        uint32_t at = (o->first_reduce + m->n_reduces) % SHARD_REDUCES;
        if (o != m && o->n_reduces > m->n_reduces && o->reduces[at].n != n)
            return pd_fail(err, PD_EPROTO, "reduces %u numbers where trainer %u reduces %u", n, s->order[i],
                           o->reduces[at].n);
    }
    double *v = pd_malloc((size_t)n * sizeof *v);
    if (!v)
        return pd_fail(err, PD_ENOMEM, "no memory for a reduction");
    if (n)
        memcpy(v, r.values, (size_t)n * sizeof *v);
    m->reduces[(m->first_reduce + m->n_reduces++) % SHARD_REDUCES] = (struct reduction){f->req, n, v};
    return 0;
}

/* The oldest reduction of everybody: summed in the tree over streams, answered to all. 1; 0: somebody is missing; or PD_ENOMEM. */
static int reduce_once(struct ps_shard *s) {
    double **vs = (double **)(void *)s->val; /* scratch of pointers */
    uint32_t k = 0;
    for (uint32_t i = 0; i < s->n_joined; i++) {
        const struct member *m = &s->members[s->order[i]];
        if (m->state == MEMBER_JOINED && !m->n_reduces)
            return 0;
        k += m->state == MEMBER_JOINED;
    }
    if (!k)
        return 0;
    k = 0;
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n_joined; i++) {
        struct member *m = &s->members[s->order[i]];
        if (m->state != MEMBER_JOINED)
            continue;
        n = m->reduces[m->first_reduce].n;
        s->ranges[k] = m->streams;
        vs[k++] = m->reduces[m->first_reduce].v;
    }
    ps_tree_plan(s->ranges, k, s->job.n_streams, s->plan);
    ps_tree_sum_f64(s->plan, k, vs, n);
    const double *sum = vs[0];
    struct ps_body b = shard_body(s);
    ps_put_reduced(&b, &(struct ps_msg_reduced){.sums = sum, .n_sums = n});
    if (s->head.failed)
        return PD_ENOMEM;
    shard_keep_reduced(s, sum, n);
    for (uint32_t i = 0; i < s->n_joined; i++) {
        struct member *m = &s->members[s->order[i]];
        if (m->state != MEMBER_JOINED)
            continue;
        shard_answer_kept(s, s->order[i], WIRE_PS_REDUCE, m->reduces[m->first_reduce].req, &b);
    }
    for (uint32_t i = 0; i < s->n_joined; i++) {
        struct member *m = &s->members[s->order[i]];
        if (m->state != MEMBER_JOINED)
            continue;
        free(m->reduces[m->first_reduce].v);
        m->first_reduce = (m->first_reduce + 1) % SHARD_REDUCES;
        m->n_reduces--;
        m->n_replayed = s->n_reduced;
    }
    s->stats.progress++;
    return 1;
}

static int on_bye(struct ps_shard *s, uint32_t trainer, struct wire_frame *f, struct pd_err *err) {
    struct ps_body b = ps_body_of(f);
    struct ps_msg_empty m;
    if (ps_get_empty(&b, &m, err))
        return PD_EPROTO;
    shard_task_back(s, trainer);
    s->members[trainer].state = MEMBER_LEFT;
    s->members[trainer].in_pass = 0;
    s->n_left++;
    s->n_byes++;
    b = shard_body(s);
    ps_put_empty(&b, &m);
    return shard_answer_kept(s, trainer, f->type, f->req, &b);
}

/* --- the barrier --- */

static int step_ready(const struct ps_shard *s) {
    int any = 0;
    for (uint32_t i = 0; i < s->n_joined; i++) {
        const struct member *m = &s->members[s->order[i]];
        if (m->in_pass && m->step <= s->step)
            return 0;
        any |= m->step > s->step;
    }
    return any;
}

/* All are out of the pass and every step is applied: answer them, and all are in again. Who was started again has to say once more
 * that it is out. */
static int pass_over(struct ps_shard *s) {
    int any = 0;
    for (uint32_t i = 0; i < s->n_joined; i++) {
        const struct member *m = &s->members[s->order[i]];
        if (m->in_pass || m->step > s->step || (m->state == MEMBER_JOINED && !m->pass_req))
            return 0;
        any |= m->state == MEMBER_JOINED;
    }
    if (!any)
        return 0;
    shard_tasks_over(s);
    s->pass++;
    s->pass_step = s->step;
    s->last_pass_ms = pass_ms(s);
    s->pass_began_ns = 0;
    for (uint32_t i = 0; i < s->n_joined; i++) {
        struct member *m = &s->members[s->order[i]];
        m->in_last = m->in_this;
        m->in_this = (struct ps_pass_sums){0};
    }
    shard_forget_reduced(s);
    s->stats.progress++;
    const struct ps_msg_pass_ended ended = {.step = s->step, .pass = s->pass, .given = s->pass_given, .dropped = s->pass_lagged};
    struct ps_body b = shard_body(s);
    ps_put_pass_ended(&b, &ended);
    s->pass_given = s->pass_lagged = 0;
    for (uint32_t i = 0; i < s->n_joined; i++) {
        struct member *m = &s->members[s->order[i]];
        if (m->state != MEMBER_JOINED)
            continue;
        m->in_pass = 1;
        m->step = s->step;
        shard_answer_kept(s, s->order[i], WIRE_PS_PASS_END, m->pass_req, &b);
        m->pass_req = 0;
    }
    return 1;
}

uint64_t shard_furthest(const struct ps_shard *s) {
    uint64_t most = s->step;
    for (uint32_t i = 0; i < s->n_joined; i++)
        if (s->members[s->order[i]].step > most)
            most = s->members[s->order[i]].step;
    return most;
}

/* Without a barrier: the step that every member of the pass has reached, or once all are out, the last one of any. */
static uint64_t slowest(const struct ps_shard *s) {
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < s->n_joined; i++) {
        const struct member *m = &s->members[s->order[i]];
        if (m->in_pass && m->step < least)
            least = m->step;
    }
    return least == UINT64_MAX ? shard_furthest(s) : least;
}

int shard_advance(struct ps_shard *s, struct pd_err *err) {
    if (s->declared && !s->rule->barrier && s->n_waiting) /* a member's own step may be what its pull waits for */
        shard_answer_waiting(s);
    shard_hand_out(s);
    if (s->n_joined + s->n_absent < s->opts.n_trainers || !s->n_joined)
        return 0; /* somebody has never been here */
    int reduced;
    while ((reduced = reduce_once(s)) > 0) {
    }
    if (reduced < 0)
        return pd_fail(err, reduced, "no memory for a reduction");
    if (!s->rule->barrier && slowest(s) > s->step) {
        s->step = slowest(s);
        s->stats.progress++;
        shard_answer_waiting(s);
    }
    while (s->rule->barrier && step_ready(s)) {
        int rc = shard_apply(s, err);
        if (rc)
            return rc;
        s->step++;
        s->stats.steps++;
        s->stats.progress++;
        (void)pd_fault("ps.step");
        shard_answer_waiting(s);
    }
    pass_over(s);
    return 0;
}

static int take(struct ps_shard *s, uint32_t trainer, struct wire_frame **f, struct pd_err *err) {
    switch ((*f)->type) {
    case WIRE_PS_PUSH_DENSE: return shard_push_dense(s, trainer, f, err);
    case WIRE_PS_PUSH_ROWS: return shard_push_rows(s, trainer, f, err);
    case WIRE_PS_STEP_END: return shard_step_end(s, trainer, f, err);
    case WIRE_PS_PULL_DENSE:
    case WIRE_PS_PULL_ROWS:
    case WIRE_PS_SAVE:
    case WIRE_PS_COMMIT:
    case WIRE_PS_DAY_END:
    case WIRE_PS_LOAD: return shard_pull(s, trainer, f, err);
    case WIRE_PS_TASK: return shard_task(s, trainer, *f, err);
    case WIRE_PS_NOTE: return shard_note(s, trainer, *f, err);
    case WIRE_PS_MODELS:
    case WIRE_PS_VERIFY:
    case WIRE_PS_READ:
    case WIRE_PS_STORE:
    case WIRE_PS_REMOVE:
    case WIRE_PS_LINK: return shard_models(s, trainer, *f, err);
    case WIRE_PS_PASS_END: return on_pass_end(s, trainer, *f, err);
    case WIRE_PS_REDUCE: return on_reduce(s, trainer, *f, err);
    case WIRE_PS_BYE: return on_bye(s, trainer, *f, err);
    default: return pd_fail(err, PD_EPROTO, "unexpected message 0x%x", (*f)->type);
    }
}

static int dispatch(struct ps_shard *s, uint32_t trainer, const char *addr, struct wire_frame **f, struct pd_err *err) {
    struct member *m = &s->members[trainer];
    const uint64_t req = (*f)->req;
    if ((*f)->type == WIRE_PS_DECLARE)
        return on_declare(s, trainer, addr, *f, err);
    if (m->state != MEMBER_ABSENT && req <= m->last_req)
        return shard_repeated(s, trainer, f, err);
    if (m->state == MEMBER_LEFT && (*f)->type == WIRE_PS_BYE) {
        m->knows = 1;
        return 0;
    }
    if (m->state != MEMBER_JOINED)
        return pd_fail(err, PD_EPROTO, "%s before PS_DECLARE or after PS_BYE", wire_msg_name((*f)->type));
    int rc = take(s, trainer, f, err);
    if (!rc)
        m->last_req = req;
    return rc;
}

int ps_shard_frame(struct ps_shard *s, uint32_t trainer, const char *addr, struct wire_frame *f, struct pd_err *err) {
    int rc = 0;
    if (s->failed.code)
        rc = pd_fail(err, s->failed.code, "%s", s->failed.msg);
    else if (trainer >= s->opts.n_trainers)
        rc = pd_fail(err, PD_ECONF, "trainer %u of a job with %u trainers (num_gradient_servers)", trainer,
                     s->opts.n_trainers);
    else if (f->flags)
        rc = pd_fail(err, PD_EPROTO, "%s with flags 0x%x", wire_msg_name(f->type), f->flags);
    else
        rc = dispatch(s, trainer, addr, &f, err);
    wire_frame_free(f);
    if (rc == PD_ENUM && s->job.on_nan == PS_NAN_STOP) /* without a barrier it comes up here, and ends the job all the same */
        ps_shard_fail(s, err);
    if (rc)
        return rc;
    struct pd_err e = {0};
    rc = shard_advance(s, &e);
    if (rc) {
        ps_shard_fail(s, &e);
        return pd_fail(err, rc, "%s", e.msg);
    }
    return 0;
}

/* --- the end --- */

int ps_shard_has_failed(const struct ps_shard *s) { return s->failed.code != 0; }

void ps_shard_fail(struct ps_shard *s, const struct pd_err *why) {
    if (s->failed.code)
        return;
    s->failed = *why;
    s->stats.progress++;
    for (size_t i = 0; i < s->n_waiting; i++) {
        struct waiting *w = &s->waiting[i];
        if (s->members[w->trainer].state == MEMBER_JOINED)
            s->ops.fail(s->arg, w->trainer, w->f->type, w->f->req, why);
        wire_frame_free(w->f);
    }
    s->n_waiting = 0;
    for (uint32_t i = 0; i < s->n_joined; i++) {
        struct member *m = &s->members[s->order[i]];
        if (m->state != MEMBER_JOINED)
            continue;
        if (m->task_req)
            s->ops.fail(s->arg, s->order[i], WIRE_PS_TASK, m->task_req, why);
        if (!m->in_pass && m->pass_req)
            s->ops.fail(s->arg, s->order[i], WIRE_PS_PASS_END, m->pass_req, why);
        for (uint32_t k = 0; k < m->n_reduces; k++)
            s->ops.fail(s->arg, s->order[i], WIRE_PS_REDUCE, m->reduces[(m->first_reduce + k) % SHARD_REDUCES].req, why);
    }
}

void ps_shard_stats(const struct ps_shard *s, struct ps_shard_stats *out) {
    *out = s->stats;
    out->rows = 0;
    for (uint32_t i = 0; s->tables && i < s->job.n_sparse; i++)
        out->rows += ps_table_rows(s->tables[i]);
}
