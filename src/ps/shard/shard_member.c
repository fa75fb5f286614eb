/* SPDX-License-Identifier: Apache-2.0 */
/* shard_member.c - members that lose their connection, come back, are lost for good, or are started
 * again.
 *
 *     attached ──connection breaks──▶ detached ──the same process comes back──▶ attached
 *                                        │
 *                                        ├─ not in time ─▶ lost: the job fails, or continues
 *                                        └─ on_trainer_lost = wait: another process replaces it
 *
 * The replacement begins at the step that the lost process had not ended. It runs the pass from its
 * beginning: it receives the reductions since then once more, and announces its end of the pass
 * again. */
#include "ps/shard/shard_internal.h"

enum { REDUCED_MAX = 1024, REDUCED_BYTES = 64 << 20 };

/* --- reductions that a restarted trainer repeats --- */

void shard_keep_reduced(struct ps_shard *s, const double *sum, uint32_t n) {
    if (s->opts.on_lost != PS_LOST_WAIT || s->barrier.reduced_full)
        return;
    double *v = NULL;
    if (s->barrier.n_reduced == REDUCED_MAX ||
        (s->barrier.reduced_bytes += n * sizeof *v) > REDUCED_BYTES ||
        pd_grow(s->barrier.reduced, s->barrier.cap_reduced, s->barrier.n_reduced + 1) ||
        !(v = pd_malloc((n + 1) * sizeof *v))) {
        s->barrier.reduced_full = 1;
        return;
    }
    if (n)
        memcpy(v, sum, n * sizeof *v);
    s->barrier.reduced[s->barrier.n_reduced++] = (struct reduced){n, v};
}

void shard_forget_reduced(struct ps_shard *s) {
    for (uint32_t i = 0; i < s->barrier.n_reduced; i++)
        free(s->barrier.reduced[i].v);
    s->barrier.n_reduced = 0;
    s->barrier.reduced_bytes = 0;
    s->barrier.reduced_full = 0;
    for (uint32_t i = 0; i < s->barrier.n_joined; i++)
        s->barrier.members[s->barrier.order[i]].n_replayed = 0;
}

int shard_reduce_again(struct ps_shard *s, uint32_t trainer, uint32_t n, uint64_t req,
                       struct pd_err *err) {
    struct shard_member *m = &s->barrier.members[trainer];
    const struct reduced *r = &s->barrier.reduced[m->n_replayed];
    if (r->n != n)
        return pd_fail(err, PD_EPROTO,
                       "was started again and reduces %u numbers where it reduced %u before", n,
                       r->n);
    struct ps_body b = shard_body(s);
    ps_put_reduced(&b, &(struct ps_msg_reduced){.sums = r->v, .n_sums = n});
    if (shard_answer_kept(s, trainer, WIRE_PS_REDUCE, req, &b))
        return pd_fail(err, PD_ENOMEM, "no memory for a reduction");
    m->n_replayed++;
    return 0;
}

/* --- members --- */

/* Drops all that the member had begun and not ended. Steps that it has ended stay. */
static void drop_unfinished(struct ps_shard *s, uint32_t trainer) {
    struct shard_member *m = &s->barrier.members[trainer];
    shard_step_clear(s, shard_barrier_step_of(m, m->step));
    shard_forget_waiting(s, trainer);
    shard_queue_give_back(s, trainer);
    while (m->n_reduces)
        free(m->reduces[(m->first_reduce + --m->n_reduces) % SHARD_REDUCES].v);
    for (uint32_t t = 0; t < s->params.decl.n_sparse * SHARD_LISTS; t++)
        m->known[t].id = 0;
}

/* Puts another process in the place of the lost one. Returns 1 or an error. */
static int replace_process(struct ps_shard *s, uint32_t trainer, const struct ps_declare_sender *d,
                           const struct ps_declaration *job, struct pd_err *err) {
    struct shard_member *m = &s->barrier.members[trainer];
    if (d->stream_lo != m->streams.lo || d->stream_hi != m->streams.hi ||
        d->thread != s->params.thread || d->kind != s->opts.kind)
        return pd_fail(err, PD_ECONF,
                       "trainer %u is started again with streams %u-%u as thread %u; it had %u-%u "
                       "and thread %u",
                       trainer, d->stream_lo, d->stream_hi - 1, d->thread, m->streams.lo,
                       m->streams.hi - 1, s->params.thread);
    if (s->barrier.reduced_full)
        return pd_fail(err, PD_EFAIL,
                       "trainer %u cannot replace its lost process: there were too many "
                       "reductions since the pass began",
                       trainer);
    int rc = ps_declaration_same(&s->params.decl, job, err);
    if (rc)
        return rc;
    drop_unfinished(s, trainer);
    for (uint32_t i = 0; i < SHARD_ANSWERS; i++)
        m->answers[i].req = 0;
    for (uint32_t i = 0; i < SHARD_RING; i++)
        m->ring[i].n_stats = 0; /* the new process has not asked for the sums of these steps */
    m->incarnation = d->incarnation;
    m->last_req = m->pass_req = 0;
    m->n_replayed = 0;
    m->has_pulled = 0;
    m->lost = 0;
    m->resumed = 1;
    s->stats.progress++;
    pd_info(s->opts.log, "trainer %u was started again and continues in step %llu of pass %llu",
            trainer, (unsigned long long)m->step, (unsigned long long)s->barrier.pass + 1);
    return 1;
}

int shard_comes_back(struct ps_shard *s, uint32_t trainer, const char *addr,
                     const struct ps_declare_sender *d, const struct ps_declaration *job,
                     struct pd_err *err) {
    struct shard_member *m = &s->barrier.members[trainer];
    int same = m->state != MEMBER_ABSENT && m->incarnation == d->incarnation &&
               (!d->epoch || d->epoch == s->opts.epoch),
        rc = same;
    if (m->lost && (same || s->opts.on_lost == PS_LOST_CONTINUE))
        return pd_fail(err, PD_EGONE, "trainer %u was given up in step %llu%s", trainer,
                       (unsigned long long)m->step,
                       s->opts.on_lost == PS_LOST_CONTINUE ? ": the job continues without it" : "");
    if (!same && d->epoch)
        return pd_fail(err, d->epoch == s->opts.epoch ? PD_EGONE : PD_EFAIL,
                       "trainer %u comes back to a server that %s", trainer,
                       d->epoch == s->opts.epoch
                           ? "has given it up"
                           : "was started again and no longer has the parameters");
    if (!same && m->state == MEMBER_JOINED && !m->attached && s->opts.on_lost == PS_LOST_WAIT)
        rc = replace_process(s, trainer, d, job, err);
    else if (!same && m->state != MEMBER_ABSENT)
        return pd_fail(err, PD_EEXIST, "trainer %u %s (%s)", trainer,
                       m->state == MEMBER_LEFT ? "has already left" : "is already here", m->addr);
    if (rc <= 0)
        return rc;
    shard_forget_pulls(s, trainer);
    m->attached = 1;
    m->connection++;
    snprintf(m->addr, sizeof m->addr, "%s", addr);
    return 1;
}

int ps_shard_detach(struct ps_shard *s, uint32_t trainer) {
    if (trainer >= s->opts.n_trainers || s->barrier.members[trainer].state != MEMBER_JOINED)
        return 0;
    s->barrier.members[trainer].attached = 0;
    shard_forget_pulls(s, trainer);
    return 1;
}

int ps_shard_has_lost(const struct ps_shard *s, uint32_t trainer) {
    return trainer < s->opts.n_trainers && s->barrier.members[trainer].lost;
}

/* The job continues with the remaining members. */
static int continue_without(struct ps_shard *s, uint32_t trainer, const struct pd_err *why,
                            struct pd_err *err) {
    struct shard_member *m = &s->barrier.members[trainer];
    drop_unfinished(s, trainer);
    m->in_pass = 0;
    m->knows_bye = 1;
    if (s->barrier.n_left == s->opts.n_trainers && !s->barrier.n_byes)
        return pd_fail(err, PD_EFAIL, "%.800s; no trainer is left", why->msg);
    pd_warn(s->opts.log,
            "%s; its streams %u-%u are left out from here on (on_trainer_lost = continue)",
            why->msg, m->streams.lo, m->streams.hi - 1);
    return shard_advance(s, err);
}

/* The trainer never declared here, but was lost on another server thread. */
static int never_comes(struct ps_shard *s, uint32_t trainer, const struct pd_err *why,
                       struct pd_err *err) {
    struct shard_member *m = &s->barrier.members[trainer];
    struct pd_err e = {0};
    m->state = MEMBER_LEFT;
    m->lost = m->knows_bye = 1;
    s->barrier.n_left++;
    s->barrier.n_absent++;
    int rc = s->barrier.n_left == s->opts.n_trainers && !s->barrier.n_byes
                 ? pd_fail(&e, PD_EFAIL, "%.800s; no trainer is left", why->msg)
                 : shard_advance(s, &e);
    if (!rc)
        return 0;
    ps_shard_fail(s, &e);
    return pd_err_copy(err, &s->failed);
}

void ps_err_from_trainer(struct pd_err *err, uint32_t trainer, const char *addr) {
    const char *port = strrchr(addr, ':');
    pd_err_from(err, "trainer %u on %.*s", trainer,
                (int)(port ? (size_t)(port - addr) : strlen(addr)), addr);
}

int ps_shard_gone(struct ps_shard *s, uint32_t trainer, const struct pd_err *why,
                  struct pd_err *err) {
    struct shard_member *m = &s->barrier.members[trainer];
    if (trainer >= s->opts.n_trainers || m->state == MEMBER_LEFT || m->lost)
        return 0;
    if (m->state == MEMBER_ABSENT)
        return s->opts.on_lost == PS_LOST_CONTINUE ? never_comes(s, trainer, why, err) : 0;
    struct pd_err e = {0}, then = {0};
    m->lost = 1;
    m->attached = 0;
    shard_queue_give_back(s, trainer);
    s->stats.progress++;
    pd_fail(&e, PD_EFAIL, "trainer %u (%s) is gone in step %llu%s%s", trainer, m->addr,
            (unsigned long long)m->step, why && why->msg[0] ? ": " : "", why ? why->msg : "");
    if (why)
        pd_err_from(&e, "%s", why->from);
    ps_err_from_trainer(&e, trainer, m->addr);
    if (!s->failed.code && s->opts.on_lost == PS_LOST_WAIT) {
        pd_warn(s->opts.log, "%s; waiting until it is started again (on_trainer_lost = wait)",
                e.msg);
        shard_queue_hand_out(s);
        return 0;
    }
    m->state = MEMBER_LEFT; /* it gets no more answers */
    s->barrier.n_left++;
    if (!s->failed.code && s->opts.on_lost == PS_LOST_CONTINUE) {
        if (!continue_without(s, trainer, &e, &then))
            return 0;
        e = then;
    }
    ps_shard_fail(s, &e);
    return pd_err_copy(err, &s->failed);
}

int ps_shard_all_left(const struct ps_shard *s) { return s->barrier.n_left == s->opts.n_trainers; }

int ps_shard_all_known(const struct ps_shard *s) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->opts.n_trainers; i++)
        n += s->barrier.members[i].state == MEMBER_LEFT && s->barrier.members[i].knows_bye;
    return n == s->opts.n_trainers;
}

uint32_t ps_shard_absent(const struct ps_shard *s, char *text, size_t cap) {
    return shard_barrier_absent(&s->barrier, text, cap);
}

int ps_shard_waiting(const struct ps_shard *s, char *text, size_t cap) {
    return !s->failed.code && shard_barrier_waiting(&s->barrier, text, cap);
}
