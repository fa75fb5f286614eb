/* shard_apply.c - a step is complete: its contributions are reduced in the fixed tree, divided, given to the optimizer, once. */
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/fault.h"
#include "ps/shard/shard_int.h"

enum { CREW_LEAST = 1 << 15 }; /* values of a parameter that are worth waking threads for */

/* n values of a sum are applied; average: as a running mean. 0: they are not finite, and the job rejects that. */
static int apply_values(const struct ps_shard *s, const struct ps_optim_args *a, float average, float *w, float *state, size_t stride,
                        const float *sum, size_t n) {
    if (s->job.on_nan && !ps_all_finite(sum, n))
        return 0;
    if (average > 0)
        ps_optim_average(average, a->n_samples, w, sum, n);
    else
        ps_optim_apply(s->by, a, w, state, stride, sum, n);
    return 1;
}

/* By chunks. */
int shard_reduce_and_apply(struct ps_shard *s, uint32_t m, const struct ps_optim_args *a, float average, float *w, float *state,
                           size_t stride, uint64_t count) {
    for (uint64_t at = 0; at < count; at += SHARD_CHUNK) {
        size_t n = count - at < SHARD_CHUNK ? count - at : SHARD_CHUNK;
        for (uint32_t i = 0; i < m; i++)
            s->val[i] = s->from[i] + at;
        const float *sum = ps_tree_sum_f32(s->plan, m, s->val, s->tmp, n);
        if (!apply_values(s, a, average, w + at, state + at, stride, sum, n))
            return 0;
    }
    return 1;
}

/* Names the parameter, and the streams that a first such number came from; of a sum that only overflowed, none. */
static int not_finite(const struct ps_shard *s, int is_table, uint32_t id, uint32_t n_parts, struct pd_err *err) {
    const char *what = is_table ? "table" : "parameter", *name = is_table ? s->job.sparse[id].name : shard_dense_name(s, id);
    for (uint32_t i = 0; i < n_parts; i++) {
        const struct contribution *c = s->parts[i];
        const float *v = is_table ? c->tables[id].grad : c->dense[id];
        size_t n = is_table ? c->tables[id].list.n * shard_width(s, id) : shard_seg(s, id)->count;
        if ((is_table ? c->tables[id].here : v != NULL) && !ps_all_finite(v, n))
            return pd_fail(err, PD_ENUM, "the gradient of %s '%s' is not a finite number in step %llu; it came from streams %u-%u "
                           "(stop_on_nan)", what, name, (unsigned long long)s->step, s->ranges[i].lo, s->ranges[i].hi - 1);
    }
    return pd_fail(err, PD_ENUM, "the gradient of %s '%s' is not a finite number in step %llu (stop_on_nan)", what, name,
                   (unsigned long long)s->step);
}

/* Differences are added as they are: plain descent against them, at rate 1. */
static void set_rates(const struct ps_shard *s, struct ps_optim_args *a, float rate, float factor, float l1, float l2) {
    a->lr = s->rule->adds ? -1 : rate * factor;
    a->l1 = s->rule->adds ? 0 : l1;
    a->l2 = s->rule->adds ? 0 : l2;
}

/* Parameters that are large and have one contribution each: a slice of each for every thread of the crew, all in one run. */
struct slices {
    const struct ps_shard *s;
    const struct contribution *from;
    const struct ps_optim_args *a;
    float rate;
    atomic_int bad; /* one whose gradient is not finite, and the job rejects that: its number + 1 */
};

static int is_for_crew(const struct ps_shard *s, uint32_t id, uint32_t n_parts) {
    return s->opts.crew.run && n_parts == 1 && s->parts[0]->dense[id] && shard_seg(s, id)->count >= CREW_LEAST;
}

/* Its arguments; 0: it stays as it is. */
static int set_dense_rates(const struct ps_shard *s, uint32_t id, struct ps_optim_args *a, float rate, float *average) {
    const struct ps_dense *d = &s->job.dense[id % s->job.n_dense];
    *average = s->rule->adds ? 0 : d->average;
    set_rates(s, a, rate, d->lr_factor, d->l1, d->l2);
    return d->lr_factor != 0;
}

/* The first of them in the order of parameters, whichever thread finds it first. */
static void note_bad(struct slices *p, uint32_t id) {
    int seen = atomic_load(&p->bad);
    while ((!seen || (int)id + 1 < seen) && !atomic_compare_exchange_weak(&p->bad, &seen, (int)id + 1))
        ;
}

static void apply_slices(void *arg, uint32_t index, uint32_t n_slices) {
    struct slices *p = arg;
    const struct ps_shard *s = p->s;
    struct ps_optim_args a = *p->a;
    float average;
    for (uint32_t id = 0; id < shard_n_planes(s); id++) {
        if (!is_for_crew(s, id, 1) || !set_dense_rates(s, id, &a, p->rate, &average))
            continue;
        const struct ps_seg *seg = shard_seg(s, id);
        float *w = shard_plane(s, id), *state = s->state + seg->off;
        uint64_t chunks = (seg->count + SHARD_CHUNK - 1) / SHARD_CHUNK, end = chunks * (index + 1) / n_slices * SHARD_CHUNK;
        end = end < seg->count ? end : seg->count;
        for (uint64_t at = chunks * index / n_slices * SHARD_CHUNK; at < end; at += SHARD_CHUNK) {
            size_t n = end - at < SHARD_CHUNK ? end - at : SHARD_CHUNK;
            if (!apply_values(s, &a, average, w + at, state + at, s->n_values, p->from->dense[id] + at, n)) {
                note_bad(p, id);
                return;
            }
        }
    }
}

static int apply_by_crew(struct ps_shard *s, const struct ps_optim_args *a, float rate, struct pd_err *err) {
    struct slices p = {.s = s, .from = s->parts[0], .a = a, .rate = rate};
    s->opts.crew.run(s->opts.crew.crew, apply_slices, &p);
    int bad = atomic_load(&p.bad);
    return bad ? not_finite(s, 0, (uint32_t)bad - 1, 1, err) : 0;
}

static int apply_dense(struct ps_shard *s, uint32_t id, uint32_t n_parts, struct ps_optim_args *a, float rate,
                       struct pd_err *err) {
    const struct ps_seg *seg = shard_seg(s, id);
    uint32_t m = 0;
    float average;
    for (uint32_t i = 0; i < n_parts; i++)
        if (s->parts[i]->dense[id]) {
            s->sub[m] = s->ranges[i];
            s->from[m++] = s->parts[i]->dense[id];
        }
    if (!m || !set_dense_rates(s, id, a, rate, &average))
        return 0;
    ps_tree_plan(s->sub, m, s->job.n_streams, s->plan);
    if (shard_reduce_and_apply(s, m, a, average, shard_plane(s, id), s->state + seg->off, s->n_values, seg->count))
        return 0;
    return not_finite(s, 0, id, n_parts, err);
}

/* All dense parameters, the large ones by the crew. */
static int apply_all_dense(struct ps_shard *s, uint32_t n_parts, struct ps_optim_args *a, float rate, struct pd_err *err) {
    uint32_t n_crew = 0;
    int rc = 0;
    for (uint32_t i = 0; i < shard_n_planes(s) && !rc; i++)
        if (is_for_crew(s, i, n_parts))
            n_crew++;
        else
            rc = apply_dense(s, i, n_parts, a, rate, err);
    return rc || !n_crew ? rc : apply_by_crew(s, a, rate, err);
}

struct catching_up {
    struct ps_table *table;
    const struct ps_decay *d;
};

static void catch_up(void *arg, uint32_t row) {
    const struct catching_up *c = arg;
    float *w = ps_table_change(c->table, row);
    struct ps_row_note *note = ps_table_note(c->table, row);
    ps_decay_catch_up(c->d, note->step, w, ps_table_dim(c->table));
    note->step = 1; /* of the history that begins anew */
}

/* The table's history has become long: every row is brought up to date, so that it can be forgotten. Rare, and some ten ns a row. */
static void forget_history(struct ps_shard *s, uint32_t id) {
    struct ps_decay *d = &s->decays[id];
    struct catching_up c = {s->tables[id], d};
    ps_table_each(c.table, catch_up, &c);
    ps_decay_begin_anew(d);
    pd_debug(s->opts.log, "table '%s': the decay of rows begins anew after update %llu", s->job.sparse[id].name, (unsigned long long)s->updates);
}

static int apply_table(struct ps_shard *s, uint32_t id, uint32_t n_parts, struct ps_optim_args *a, float rate,
                       struct pd_err *err) {
    const struct ps_sparse *t = &s->job.sparse[id];
    int here = 0, rc;
    for (uint32_t i = 0; i < n_parts; i++)
        here |= s->parts[i]->tables[id].here;
    if (t->lr_factor == 0)
        return 0;
    set_rates(s, a, rate, t->lr_factor, t->l1, t->l2);
    if (here && s->lives[id].active && shard_admit(s, id, n_parts))
        return pd_fail(err, PD_ENOMEM, "no memory for rows of table '%s'", t->name);
    if (here && (rc = shard_apply_rows(s, id, n_parts, a)))
        return rc == PD_ENUM ? not_finite(s, 1, id, n_parts, err)
                             : pd_fail(err, rc, "no memory to apply step %llu", (unsigned long long)s->step);
    if (ps_decay_update(&s->decays[id], (double)a->lr))
        return pd_fail(err, PD_ENOMEM, "no memory to apply step %llu", (unsigned long long)s->step);
    if (ps_decay_is_long(&s->decays[id]))
        forget_history(s, id);
    return 0;
}

/* The sums of the numbers of a step, to a trainer that has sent p->n_stats of them. */
static void answer_step(struct ps_shard *s, uint32_t trainer, const struct member_step *p, uint64_t step, uint64_t n_samples,
                        const double *sums) {
    const struct ps_msg_step_sums m = {.step = step, .n_samples = n_samples, .sums = sums, .n_sums = p->n_stats};
    struct ps_body b = shard_body(s);
    ps_put_step_sums(&b, &m);
    shard_answer_kept(s, trainer, WIRE_PS_STEP_END, p->req, &b);
}

/* The sums of the numbers that came with the step go to those who asked for them. */
static void answer_stats(struct ps_shard *s, uint32_t n_parts, uint64_t n_samples) {
    double **v = (double **)(void *)s->val; /* scratch of pointers */
    if (!n_parts)
        return;
    for (uint32_t i = 0; i < n_parts; i++)
        v[i] = s->parts[i]->stats;
    ps_tree_plan(s->ranges, n_parts, s->job.n_streams, s->plan);
    ps_tree_sum_f64(s->plan, n_parts, v, PS_STATS_MAX);
    for (uint32_t k = 0; k < s->n_joined; k++) {
        const struct member *m = &s->members[s->order[k]];
        const struct member_step *p = shard_step_of(m, s->step);
        if (m->step > s->step && p->n_stats && m->state == MEMBER_JOINED)
            answer_step(s, s->order[k], p, s->step, n_samples, v[0]);
    }
}

/* The n contributions at s->parts, of the streams at s->ranges and in their order, are one update. */
static int apply_parts(struct ps_shard *s, uint32_t n, uint64_t n_samples, struct pd_err *err) {
    int rc = 0;
    if (!n_samples)
        return 0;
    if (shard_room(&s->tmp, &s->cap_tmp, (size_t)n * SHARD_CHUNK, sizeof *s->tmp) || (s->values && ps_values_own(&s->values)))
        return pd_fail(err, PD_ENOMEM, "no memory to apply step %llu", (unsigned long long)s->step);
    const struct ps_schedule_at at = {.step = s->updates, .samples = s->samples, .pass = s->pass};
    const float rate = (float)ps_learning_rate(&s->job.optim, &at);
    struct ps_optim_args a;
    ps_optim_args_init(&a, &s->job.optim, 0, s->updates + 1);
    ps_optim_args_samples(&a, s->rule->adds ? 1 : (float)n_samples);
    if (s->rule->adds)
        a.clip = INFINITY;
    if (s->segs)
        rc = apply_all_dense(s, n, &a, rate, err);
    for (uint32_t i = 0; s->tables && i < s->job.n_sparse && !rc; i++)
        rc = apply_table(s, i, n, &a, rate, err);
    s->updates++;
    s->samples += n_samples;
    return rc;
}

int shard_room_parts(struct ps_shard *s, size_t n) {
    void *const arrays[] = {&s->ranges, &s->sub, &s->from, &s->plan, &s->val, &s->parts};
    const size_t sizes[] = {sizeof *s->ranges, sizeof *s->sub, sizeof *s->from, sizeof *s->plan, sizeof *s->val, sizeof *s->parts};
    size_t cap = s->cap_parts;
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) {
        cap = s->cap_parts;
        if (shard_room(arrays[i], &cap, n, sizes[i]))
            return PD_ENOMEM;
    }
    s->cap_parts = cap;
    return 0;
}

/* Append the member's contributions to the n at s->parts. */
static int add_parts(struct ps_shard *s, struct member_step *p, uint32_t *n) {
    if (shard_room_parts(s, (size_t)*n + p->n_parts))
        return PD_ENOMEM;
    for (uint32_t i = 0; i < p->n_parts; i++, ++*n) {
        s->parts[*n] = &p->parts[i];
        s->ranges[*n] = p->parts[i].streams;
    }
    return 0;
}

int shard_apply(struct ps_shard *s, struct pd_err *err) {
    uint32_t n = 0;
    uint64_t n_samples = 0;
    int rc = 0;
    for (uint32_t k = 0; k < s->n_joined && !rc; k++) {
        const struct member *m = &s->members[s->order[k]];
        if (m->step <= s->step)
            continue; /* has left the pass before this step */
        n_samples += shard_step_of(m, s->step)->n_samples;
        rc = add_parts(s, shard_step_of(m, s->step), &n);
    }
    if (rc)
        return pd_fail(err, rc, "no memory to apply step %llu", (unsigned long long)s->step);
    rc = apply_parts(s, n, n_samples, err);
    if (rc)
        return rc;
    answer_stats(s, n, n_samples);
    for (uint32_t k = 0; k < s->n_joined; k++)
        if (s->members[s->order[k]].step > s->step)
            shard_step_clear(s, shard_step_of(&s->members[s->order[k]], s->step));
    return 0;
}

/* Everybody's numbers since this member was told last: its report is then about the whole job here too. */
static void answer_sums(struct ps_shard *s, struct member *m, const struct member_step *p) {
    for (uint32_t k = 0; k < s->n_joined; k++) {
        struct member *o = &s->members[s->order[k]];
        o->sum_samples += p->n_samples;
        for (uint32_t j = 0; j < p->n_parts; j++)
            for (uint32_t i = 0; i < PS_STATS_MAX; i++)
                o->sums[i] += p->parts[j].stats[i];
    }
    if (!p->n_stats)
        return;
    answer_step(s, (uint32_t)(m - s->members), p, m->step, m->sum_samples, m->sums);
    m->sum_samples = 0;
    memset(m->sums, 0, sizeof m->sums);
}

int shard_apply_one(struct ps_shard *s, struct member *m, struct pd_err *err) {
    struct member_step *p = shard_step_of(m, m->step);
    uint32_t n = 0;
    uint64_t lag = m->has_pulled ? s->updates - m->updates_seen : 0;
    int late = s->rule->discards && s->job.discard_ratio > 0 && (double)lag > s->job.discard_ratio * s->job.n_trainers;
    s->stats.lagged += (uint64_t)late;
    s->pass_lagged += (uint64_t)late;
    s->pass_given++;
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
