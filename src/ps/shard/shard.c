/* SPDX-License-Identifier: Apache-2.0 */
/* shard.c - members, the barrier and the messages around it. See shard.h. */
#include "ps/shard/shard_internal.h"

#include "base/memory_use.h"

enum { ANSWER_ROOM = 1024 /* every answer of a fixed size fits */ };

int ps_shard_new(struct ps_shard **out, const struct ps_shard_opts *opts,
                 const struct ps_shard_ops *ops, void *arg) {
    struct ps_shard *s = pd_calloc(1, sizeof *s);
    if (!s)
        return PD_ENOMEM;
    s->opts = *opts;
    s->ops = *ops;
    s->arg = arg;
    size_t n = opts->n_trainers;
    s->params.log = opts->log;
    s->params.pool = opts->pool;
    s->params.crew = opts->crew;
    s->params.lends = opts->lends;
    pd_buf_init(&s->head);
    if (shard_barrier_init(&s->barrier, opts->n_trainers) ||
        shard_scratch_room(&s->params.scratch, n) || pd_buf_reserve(&s->head, ANSWER_ROOM)) {
        ps_shard_free(s);
        return PD_ENOMEM;
    }
    *out = s;
    return 0;
}

void ps_shard_free(struct ps_shard *s) {
    if (!s)
        return;
    shard_savings_release(s);
    if (s->saves.staged)
        pd_rm_tree(s->saves.staged, NULL);
    free(s->saves.staged);
    for (uint32_t i = 0; s->barrier.members && i < s->opts.n_trainers; i++)
        shard_member_release(s, &s->barrier.members[i]);
    for (size_t i = 0; i < s->barrier.n_waiting; i++)
        wire_frame_free(s->barrier.waiting[i].f);
    shard_forget_reduced(s);
    shard_queue_release(s);
    free(s->barrier.reduced);
    shard_delta_drop(s);
    ps_params_release(&s->params);
    shard_scratch_release(&s->params.scratch);
    free(s->barrier.members);
    free(s->barrier.order);
    free(s->barrier.waiting);
    pd_buf_release(&s->head);
    free(s);
}

const struct net_region *ps_shard_region(const struct ps_shard *s) { return s->params.region; }

/* --- declaration --- */

static int check_declare(const struct ps_shard *s, const struct ps_declare_sender *d,
                         const struct ps_declaration *job, struct pd_err *err) {
    if (job->n_trainers != s->opts.n_trainers)
        return pd_fail(err, PD_ECONF,
                       "the trainer counts %u trainers, this server was started for %u "
                       "(num_gradient_servers)",
                       job->n_trainers, s->opts.n_trainers);
    uint32_t threads = d->kind == PS_KIND_SPARSE ? job->n_sparse_threads : job->n_dense_threads;
    if (d->kind != s->opts.kind || d->thread >= threads)
        return pd_fail(err, PD_EPROTO, "declared as thread %u of %u, kind %u; this is kind %u",
                       d->thread, threads, d->kind, s->opts.kind);
    if (d->stream_lo >= d->stream_hi || d->stream_hi > job->n_streams)
        return pd_fail(err, PD_ECONF, "streams %u to %u of %u", d->stream_lo, d->stream_hi,
                       job->n_streams);
    for (uint32_t i = 0; i < s->barrier.n_joined; i++) {
        const struct shard_member *o = &s->barrier.members[s->barrier.order[i]];
        if (d->stream_lo < o->streams.hi && o->streams.lo < d->stream_hi)
            return pd_fail(err, PD_ECONF, "streams %u-%u overlap those of trainer %u (%s), %u-%u",
                           d->stream_lo, d->stream_hi - 1, s->barrier.order[i], o->addr,
                           o->streams.lo, o->streams.hi - 1);
    }
    if (!s->params.declared)
        return 0;
    if (d->thread != s->params.thread)
        return pd_fail(err, PD_ECONF, "the list of pservers differs: thread %u here, %u for others",
                       d->thread, s->params.thread);
    return ps_declaration_same(&s->params.decl, job, err);
}

static int answer_declare(struct ps_shard *s, uint32_t trainer, const struct wire_frame *f,
                          struct pd_err *err) {
    const struct shard_member *m = &s->barrier.members[trainer];
    const struct ps_msg_declared a = {
        .epoch = s->opts.epoch,
        .step = m->step,
        .pass = s->barrier.pass,
        .last_id = m->last_req,
        .pass_step = s->barrier.pass_step,
        .resumed = m->resumed,
        .n_repeated = m->resumed ? s->barrier.n_reduced : 0,
        .pass_ms = shard_barrier_pass_ms(&s->barrier),
        .last_pass_ms = s->barrier.last_pass_ms,
        .this_pass = m->in_this,
        .last_pass = m->in_last,
    };
    struct ps_body b = shard_body(s);
    ps_put_declared(&b, &a);
    return shard_answer(s, trainer, f, &b, err);
}

static int on_declare(struct ps_shard *s, uint32_t trainer, const char *addr, struct wire_frame *f,
                      struct pd_err *err) {
    struct ps_declare_sender d;
    struct ps_declaration job;
    struct shard_member *m = &s->barrier.members[trainer];
    (void)pd_fault("ps.declare");
    int rc = ps_declaration_get(f->sec[0], f->len[0], &d, &job, err);
    if (rc)
        return rc;
    int back = shard_comes_back(s, trainer, addr, &d, &job, err);
    if (back) {
        ps_declaration_release(&job);
        return back < 0 ? back : answer_declare(s, trainer, f, err);
    }
    rc = check_declare(s, &d, &job, err);
    if (!rc && !s->params.declared)
        rc = ps_params_declare(&s->params, &job, s->opts.kind, d.thread, err);
    ps_declaration_release(&job);
    if (!rc && shard_member_init(s, m))
        rc = pd_fail(err, PD_ENOMEM, "no memory for a trainer");
    if (rc)
        return rc;
    m->state = MEMBER_JOINED;
    m->incarnation = d.incarnation;
    m->in_pass = 1;
    m->attached = 1;
    m->step = s->barrier.step;
    snprintf(m->addr, sizeof m->addr, "%s", addr);
    shard_barrier_join(&s->barrier, trainer, (struct ps_range){d.stream_lo, d.stream_hi});
    s->stats.progress++;
    return answer_declare(s, trainer, f, err);
}

/* --- pass barrier, reduction, farewell --- */

static int on_pass_end(struct ps_shard *s, uint32_t trainer, struct wire_frame *f,
                       struct pd_err *err) {
    struct shard_member *m = &s->barrier.members[trainer];
    const struct ps_body b = ps_body_of(f);
    struct ps_msg_pass_end e;
    if (ps_get_pass_end(&b, &e, err))
        return PD_EPROTO;
    if (e.epoch != s->opts.epoch || (!m->in_pass && m->pass_req) || e.step != m->step ||
        e.pass != s->barrier.pass)
        return pd_fail(err, PD_EPROTO,
                       "PS_PASS_END of pass %llu at step %llu does not fit: pass %llu, step %llu",
                       (unsigned long long)e.pass, (unsigned long long)e.step,
                       (unsigned long long)s->barrier.pass, (unsigned long long)m->step);
    if (shard_barrier_step_of(m, m->step)->n_parts)
        return pd_fail(err, PD_EPROTO, "PS_PASS_END while step %llu has pushes without PS_STEP_END",
                       (unsigned long long)m->step);
    shard_queue_give_back(s, trainer);
    m->in_pass = 0;
    m->pass_req = f->req;
    return 0;
}

static int on_reduce(struct ps_shard *s, uint32_t trainer, struct wire_frame *f,
                     struct pd_err *err) {
    struct shard_member *m = &s->barrier.members[trainer];
    const struct ps_body b = ps_body_of(f);
    struct ps_msg_reduce r;
    if (ps_get_reduce(&b, &r, err))
        return PD_EPROTO;
    const uint32_t n = r.n;
    if (m->n_replayed < s->barrier.n_reduced)
        return shard_reduce_again(s, trainer, n, f->req, err);
    if (m->n_reduces == SHARD_REDUCES)
        return pd_fail(err, PD_EPROTO, "more than %d reductions under way", SHARD_REDUCES);
    for (uint32_t i = 0; i < s->barrier.n_joined; i++) {
        const struct shard_member *o = &s->barrier.members[s->barrier.order[i]];
        uint32_t at = (o->first_reduce + m->n_reduces) % SHARD_REDUCES;
        if (o != m && o->n_reduces > m->n_reduces && o->reduces[at].n != n)
            return pd_fail(err, PD_EPROTO, "reduces %u numbers where trainer %u reduces %u", n,
                           s->barrier.order[i], o->reduces[at].n);
    }
    double *v = pd_malloc((size_t)n * sizeof *v);
    if (!v)
        return pd_fail(err, PD_ENOMEM, "no memory for a reduction");
    if (n)
        memcpy(v, r.values, (size_t)n * sizeof *v);
    m->reduces[(m->first_reduce + m->n_reduces++) % SHARD_REDUCES] =
        (struct reduction){f->req, n, v};
    return 0;
}

/* Sums the oldest reduction of all members in the tree over streams and answers all of them.
 * Returns 1, 0: a member's part is missing, or PD_ENOMEM. */
static int reduce_once(struct ps_shard *s) {
    double **vs =
        (double **)(void *)
            s->params.scratch.val; /* scratch.val is reused as an array of pointers to double */
    uint32_t k = 0;
    for (uint32_t i = 0; i < s->barrier.n_joined; i++) {
        const struct shard_member *m = &s->barrier.members[s->barrier.order[i]];
        if (m->state == MEMBER_JOINED && !m->n_reduces)
            return 0;
        k += m->state == MEMBER_JOINED;
    }
    if (!k)
        return 0;
    k = 0;
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->barrier.n_joined; i++) {
        struct shard_member *m = &s->barrier.members[s->barrier.order[i]];
        if (m->state != MEMBER_JOINED)
            continue;
        n = m->reduces[m->first_reduce].n;
        s->params.scratch.ranges[k] = m->streams;
        vs[k++] = m->reduces[m->first_reduce].v;
    }
    ps_sum_tree_plan(s->params.scratch.ranges, k, s->params.decl.n_streams, s->params.scratch.plan);
    ps_sum_tree_sum_f64(s->params.scratch.plan, k, vs, n);
    const double *sum = vs[0];
    struct ps_body b = shard_body(s);
    ps_put_reduced(&b, &(struct ps_msg_reduced){.sums = sum, .n_sums = n});
    if (s->head.failed)
        return PD_ENOMEM;
    shard_keep_reduced(s, sum, n);
    for (uint32_t i = 0; i < s->barrier.n_joined; i++) {
        struct shard_member *m = &s->barrier.members[s->barrier.order[i]];
        if (m->state != MEMBER_JOINED)
            continue;
        shard_answer_kept(s, s->barrier.order[i], WIRE_PS_REDUCE, m->reduces[m->first_reduce].req,
                          &b);
    }
    for (uint32_t i = 0; i < s->barrier.n_joined; i++) {
        struct shard_member *m = &s->barrier.members[s->barrier.order[i]];
        if (m->state != MEMBER_JOINED)
            continue;
        free(m->reduces[m->first_reduce].v);
        m->first_reduce = (m->first_reduce + 1) % SHARD_REDUCES;
        m->n_reduces--;
        m->n_replayed = s->barrier.n_reduced;
    }
    s->stats.progress++;
    return 1;
}

static int on_bye(struct ps_shard *s, uint32_t trainer, struct wire_frame *f, struct pd_err *err) {
    struct ps_body b = ps_body_of(f);
    struct ps_msg_empty m;
    if (ps_get_empty(&b, &m, err))
        return PD_EPROTO;
    shard_queue_give_back(s, trainer);
    s->barrier.members[trainer].state = MEMBER_LEFT;
    s->barrier.members[trainer].in_pass = 0;
    s->barrier.n_left++;
    s->barrier.n_byes++;
    b = shard_body(s);
    ps_put_empty(&b, &m);
    return shard_answer_kept(s, trainer, f->type, f->req, &b);
}

/* --- the barrier --- */

/* All members have left the pass: answers them, and all are in the next pass. */
static void end_pass(struct ps_shard *s) {
    shard_queue_end_pass(s);
    s->barrier.pass++;
    s->barrier.pass_step = s->barrier.step;
    s->barrier.last_pass_ms = shard_barrier_pass_ms(&s->barrier);
    s->barrier.pass_began_ns = 0;
    for (uint32_t i = 0; i < s->barrier.n_joined; i++) {
        struct shard_member *m = &s->barrier.members[s->barrier.order[i]];
        m->in_last = m->in_this;
        m->in_this = (struct ps_pass_sums){0};
    }
    shard_forget_reduced(s);
    s->stats.progress++;
    struct pd_buf rows = {0};
    for (uint32_t i = 0; i < s->params.decl.n_sparse; i++)
        pd_put_u64(&rows, s->params.tables ? ps_table_rows(s->params.tables[i]) : 0);
    const struct ps_msg_pass_ended ended = {.step = s->barrier.step,
                                            .pass = s->barrier.pass,
                                            .given = s->barrier.pass_given,
                                            .dropped = s->barrier.pass_lagged,
                                            .memory = pd_peak_memory(),
                                            .n_tables = rows.failed ? 0 : s->params.decl.n_sparse,
                                            .rows = rows.data};
    struct ps_body b = shard_body(s);
    ps_put_pass_ended(&b, &ended);
    pd_buf_release(&rows);
    s->barrier.pass_given = s->barrier.pass_lagged = 0;
    for (uint32_t i = 0; i < s->barrier.n_joined; i++) {
        struct shard_member *m = &s->barrier.members[s->barrier.order[i]];
        if (m->state != MEMBER_JOINED)
            continue;
        m->in_pass = 1;
        m->step = s->barrier.step;
        shard_answer_kept(s, s->barrier.order[i], WIRE_PS_PASS_END, m->pass_req, &b);
        m->pass_req = 0;
    }
}

int shard_advance(struct ps_shard *s, struct pd_err *err) {
    if (s->params.declared && !s->params.rule->barrier &&
        s->barrier.n_waiting) /* a pull may wait for a step of its own member */
        shard_answer_waiting(s);
    shard_queue_hand_out(s);
    if (!shard_barrier_is_complete(&s->barrier))
        return 0;
    int reduced;
    while ((reduced = reduce_once(s)) > 0) {
    }
    if (reduced < 0)
        return pd_fail(err, reduced, "no memory for a reduction");
    if (!s->params.rule->barrier && shard_barrier_slowest(&s->barrier) > s->barrier.step) {
        s->barrier.step = shard_barrier_slowest(&s->barrier);
        s->stats.progress++;
        shard_answer_waiting(s);
    }
    while (s->params.rule->barrier && shard_barrier_step_ready(&s->barrier)) {
        int rc = shard_apply(s, err);
        if (rc)
            return rc;
        s->barrier.step++;
        s->stats.steps++;
        s->stats.progress++;
        (void)pd_fault("ps.step");
        shard_answer_waiting(s);
    }
    if (shard_barrier_pass_over(&s->barrier))
        end_pass(s);
    return 0;
}

static int handle_request(struct ps_shard *s, uint32_t trainer, struct wire_frame **f,
                          struct pd_err *err) {
    switch ((*f)->type) {
    case WIRE_PS_PUSH_DENSE:
        return shard_push_dense(s, trainer, f, err);
    case WIRE_PS_PUSH_ROWS:
        return shard_push_rows(s, trainer, f, err);
    case WIRE_PS_STEP_END:
        return shard_step_end(s, trainer, f, err);
    case WIRE_PS_PULL_DENSE:
    case WIRE_PS_PULL_ROWS:
    case WIRE_PS_SAVE:
    case WIRE_PS_COMMIT:
    case WIRE_PS_DAY_END:
    case WIRE_PS_LOAD:
        return shard_pull(s, trainer, f, err);
    case WIRE_PS_TASK:
        return shard_queue_request(s, trainer, *f, err);
    case WIRE_PS_NOTE:
        return shard_note(s, trainer, *f, err);
    case WIRE_PS_MODELS:
    case WIRE_PS_VERIFY:
    case WIRE_PS_READ:
    case WIRE_PS_STORE:
    case WIRE_PS_REMOVE:
    case WIRE_PS_LINK:
        return shard_models(s, trainer, *f, err);
    case WIRE_PS_PASS_END:
        return on_pass_end(s, trainer, *f, err);
    case WIRE_PS_REDUCE:
        return on_reduce(s, trainer, *f, err);
    case WIRE_PS_BYE:
        return on_bye(s, trainer, *f, err);
    default:
        return pd_fail(err, PD_EPROTO, "unexpected message 0x%x", (*f)->type);
    }
}

static int dispatch(struct ps_shard *s, uint32_t trainer, const char *addr, struct wire_frame **f,
                    struct pd_err *err) {
    struct shard_member *m = &s->barrier.members[trainer];
    const uint64_t req = (*f)->req;
    if ((*f)->type == WIRE_PS_DECLARE)
        return on_declare(s, trainer, addr, *f, err);
    if (m->state != MEMBER_ABSENT && req <= m->last_req)
        return shard_repeated(s, trainer, f, err);
    if (m->state == MEMBER_LEFT && (*f)->type == WIRE_PS_BYE) {
        m->knows_bye = 1;
        return 0;
    }
    if (m->state != MEMBER_JOINED)
        return pd_fail(err, PD_EPROTO, "%s before PS_DECLARE or after PS_BYE",
                       wire_msg_name((*f)->type));
    int rc = handle_request(s, trainer, f, err);
    if (!rc)
        m->last_req = req;
    return rc;
}

/* The trainer that asked is not at fault. */
static int server_could_not_save(uint16_t type, int rc) {
    return (type == WIRE_PS_SAVE || type == WIRE_PS_COMMIT || type == WIRE_PS_STORE) &&
           (rc == PD_EIO || rc == PD_ENOSPC || rc == PD_ENOMEM);
}

int ps_shard_frame(struct ps_shard *s, uint32_t trainer, const char *addr, struct wire_frame *f,
                   struct pd_err *err) {
    const uint16_t type = f->type;
    int rc = 0;
    if (s->failed.code)
        rc = pd_err_copy(err, &s->failed);
    else if (trainer >= s->opts.n_trainers)
        rc = pd_fail(err, PD_ECONF, "trainer %u of a job with %u trainers (num_gradient_servers)",
                     trainer, s->opts.n_trainers);
    else if (f->flags)
        rc = pd_fail(err, PD_EPROTO, "%s with flags 0x%x", wire_msg_name(f->type), f->flags);
    else
        rc = dispatch(s, trainer, addr, &f, err);
    wire_frame_free(f);
    if (rc == PD_EPROTO || rc == PD_ECONF || rc == PD_EUSAGE || rc == PD_ENUM)
        ps_err_from_trainer(err, trainer, addr); /* it sent a wrong frame */
    /* Without a barrier the failed step ends the job here. */
    if ((rc == PD_ENUM && s->params.decl.on_nan == PS_NAN_STOP) || server_could_not_save(type, rc))
        ps_shard_fail(s, err);
    if (rc)
        return rc;
    struct pd_err e = {0};
    rc = shard_advance(s, &e);
    if (rc) {
        ps_shard_fail(s, &e);
        return pd_err_copy(err, &e);
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
    for (size_t i = 0; i < s->barrier.n_waiting; i++) {
        struct waiting *w = &s->barrier.waiting[i];
        if (s->barrier.members[w->trainer].state == MEMBER_JOINED)
            s->ops.fail(s->arg, w->trainer, w->f->type, w->f->req, why);
        wire_frame_free(w->f);
    }
    s->barrier.n_waiting = 0;
    for (uint32_t i = 0; i < s->barrier.n_joined; i++) {
        struct shard_member *m = &s->barrier.members[s->barrier.order[i]];
        if (m->state != MEMBER_JOINED)
            continue;
        if (m->task_req)
            s->ops.fail(s->arg, s->barrier.order[i], WIRE_PS_TASK, m->task_req, why);
        if (!m->in_pass && m->pass_req)
            s->ops.fail(s->arg, s->barrier.order[i], WIRE_PS_PASS_END, m->pass_req, why);
        for (uint32_t k = 0; k < m->n_reduces; k++)
            s->ops.fail(s->arg, s->barrier.order[i], WIRE_PS_REDUCE,
                        m->reduces[(m->first_reduce + k) % SHARD_REDUCES].req, why);
    }
}

void ps_shard_stats(const struct ps_shard *s, struct ps_shard_stats *out) {
    *out = s->stats;
    out->waiting = s->barrier.n_waiting;
    out->rows = 0;
    for (uint32_t i = 0; s->params.tables && i < s->params.decl.n_sparse; i++)
        out->rows += ps_table_rows(s->params.tables[i]);
}

const char *ps_shard_table(const struct ps_shard *s, uint32_t i, uint64_t *rows) {
    if (i >= s->params.decl.n_sparse)
        return NULL;
    *rows = s->params.tables ? ps_table_rows(s->params.tables[i]) : 0;
    return s->params.decl.sparse[i].name;
}
