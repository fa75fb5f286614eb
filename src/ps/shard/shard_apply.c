/* SPDX-License-Identifier: Apache-2.0 */
/* shard_apply.c - applies a complete step, or without a barrier a contribution, and answers with
 * its sums. */
#include "base/spans.h"
#include "ps/shard/shard_internal.h"

/* Sends the sums of a step to a trainer that had sent p->n_stats numbers. */
static void answer_step(struct ps_shard *s, uint32_t trainer, const struct member_step *p,
                        uint64_t step, uint64_t n_samples, const double *sums) {
    const struct ps_msg_step_sums m = {
        .step = step, .n_samples = n_samples, .sums = sums, .n_sums = p->n_stats};
    struct ps_body b = shard_body(s);
    ps_put_step_sums(&b, &m);
    shard_answer_kept(s, trainer, WIRE_PS_STEP_END, p->req, &b);
}

/* Sums the numbers of the step and sends the sums to the members that sent numbers. */
static void answer_stats(struct ps_shard *s, uint32_t n_parts, uint64_t n_samples) {
    double **v =
        (double **)(void *)
            s->params.scratch.val; /* scratch.val is reused as an array of pointers to double */
    if (!n_parts)
        return;
    for (uint32_t i = 0; i < n_parts; i++)
        v[i] = s->params.scratch.parts[i]->stats;
    ps_sum_tree_plan(s->params.scratch.ranges, n_parts, s->params.decl.n_streams,
                     s->params.scratch.plan);
    ps_sum_tree_sum_f64(s->params.scratch.plan, n_parts, v, PS_STATS_MAX);
    for (uint32_t k = 0; k < s->barrier.n_joined; k++) {
        const struct shard_member *m = &s->barrier.members[s->barrier.order[k]];
        const struct member_step *p = shard_barrier_step_of(m, s->barrier.step);
        if (m->step > s->barrier.step && p->n_stats && m->state == MEMBER_JOINED)
            answer_step(s, s->barrier.order[k], p, s->barrier.step, n_samples, v[0]);
    }
}

/* Appends the member's contributions to the n contributions in the scratch. */
static int add_parts(struct ps_shard *s, struct member_step *p, uint32_t *n) {
    if (shard_scratch_room(&s->params.scratch, (size_t)*n + p->n_parts))
        return PD_ENOMEM;
    for (uint32_t i = 0; i < p->n_parts; i++, ++*n) {
        s->params.scratch.parts[*n] = &p->parts[i];
        s->params.scratch.ranges[*n] = p->parts[i].streams;
    }
    return 0;
}

static int apply_parts(struct ps_shard *s, uint32_t n, uint64_t n_samples, struct pd_err *err) {
    const uint64_t began = pd_span_begin();
    s->params.scratch.step = s->barrier.step;
    const int rc = ps_params_apply(&s->params, n, n_samples, s->barrier.pass, err);
    pd_span_end("apply", began);
    return rc;
}

int shard_apply(struct ps_shard *s, struct pd_err *err) {
    uint32_t n = 0;
    uint64_t n_samples = 0;
    int rc = 0;
    for (uint32_t k = 0; k < s->barrier.n_joined && !rc; k++) {
        const struct shard_member *m = &s->barrier.members[s->barrier.order[k]];
        if (m->step <= s->barrier.step)
            continue; /* it has left the pass before this step */
        n_samples += shard_barrier_step_of(m, s->barrier.step)->n_samples;
        rc = add_parts(s, shard_barrier_step_of(m, s->barrier.step), &n);
    }
    if (rc)
        return pd_fail(err, rc, "no memory to apply step %llu",
                       (unsigned long long)s->barrier.step);
    rc = apply_parts(s, n, n_samples, err);
    if (rc)
        return rc;
    answer_stats(s, n, n_samples);
    for (uint32_t k = 0; k < s->barrier.n_joined; k++)
        if (s->barrier.members[s->barrier.order[k]].step > s->barrier.step)
            shard_step_clear(s, shard_barrier_step_of(&s->barrier.members[s->barrier.order[k]],
                                                      s->barrier.step));
    return 0;
}

/* Sends the sums over all members since this member's last answer, so that without a barrier, too,
 * its report is about the whole job. */
static void answer_sums(struct ps_shard *s, struct shard_member *m, const struct member_step *p) {
    for (uint32_t k = 0; k < s->barrier.n_joined; k++) {
        struct shard_member *o = &s->barrier.members[s->barrier.order[k]];
        o->sum_samples += p->n_samples;
        for (uint32_t j = 0; j < p->n_parts; j++)
            for (uint32_t i = 0; i < PS_STATS_MAX; i++)
                o->sums[i] += p->parts[j].stats[i];
    }
    if (!p->n_stats)
        return;
    answer_step(s, (uint32_t)(m - s->barrier.members), p, m->step, m->sum_samples, m->sums);
    m->sum_samples = 0;
    memset(m->sums, 0, sizeof m->sums);
}

int shard_apply_one(struct ps_shard *s, struct shard_member *m, struct pd_err *err) {
    struct member_step *p = shard_barrier_step_of(m, m->step);
    uint32_t n = 0;
    uint64_t lag = m->has_pulled ? s->params.updates - m->updates_seen : 0;
    int late = s->params.rule->discards && s->params.decl.discard_ratio > 0 &&
               (double)lag > s->params.decl.discard_ratio * s->params.decl.n_trainers;
    s->stats.lagged += (uint64_t)late;
    s->barrier.pass_lagged += (uint64_t)late;
    s->barrier.pass_given++;
    if (add_parts(s, p, &n))
        return pd_fail(err, PD_ENOMEM, "no memory to apply step %llu", (unsigned long long)m->step);
    int rc = late ? 0 : apply_parts(s, n, p->n_samples, err);
    if (rc)
        return rc;
    answer_sums(s, m, p);
    shard_step_clear(s, p);
    m->has_pulled = 0;
    m->step++;
    s->stats.steps++;
    s->stats.progress++;
    (void)pd_fault("ps.step");
    return 0;
}
