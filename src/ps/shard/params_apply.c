/* SPDX-License-Identifier: Apache-2.0 */
/* params_apply.c - one update: its contributions are reduced in the fixed tree, divided, and given
 * to the optimizer once. */
#include "ps/shard/params.h"

enum { CREW_LEAST = 1 << 15 }; /* values of a parameter that are worth waking threads */

/* Applies n values of a sum. average > 0: the values are a running mean. Returns 1, or 0: a value
 * is not finite and the job rejects such values. */
static int apply_values(const struct ps_params *p, const struct ps_optim_args *a, float average,
                        float *w, float *state, size_t stride, const float *sum, size_t n) {
    if (p->decl.on_nan && !ps_all_finite(sum, n))
        return 0;
    if (average > 0)
        ps_optim_average(average, a->n_samples, w, sum, n);
    else
        ps_optim_apply(p->apply_optim, a, w, state, stride, sum, n);
    return 1;
}

/* Works in chunks of PARAMS_CHUNK values, which stay in the cache. */
int ps_params_reduce_and_apply(struct ps_params *p, uint32_t m, const struct ps_optim_args *a,
                               float average, float *w, float *state, size_t stride,
                               uint64_t count) {
    for (uint64_t at = 0; at < count; at += PARAMS_CHUNK) {
        size_t n = count - at < PARAMS_CHUNK ? count - at : PARAMS_CHUNK;
        for (uint32_t i = 0; i < m; i++)
            p->scratch.val[i] = p->scratch.from[i] + at;
        const float *sum =
            ps_sum_tree_sum_f32(p->scratch.plan, m, p->scratch.val, p->scratch.tmp, n);
        /* The only contribution may be in memory that its trainer still can change. */
        if (m == 1 && p->decl.on_nan)
            sum = memcpy(p->scratch.tmp, sum, n * sizeof *sum);
        if (!apply_values(p, a, average, w + at, state + at, stride, sum, n))
            return 0;
    }
    return 1;
}

/* Fails with the name of the parameter and the streams of the first gradient that is not finite. If
 * only the sum overflowed, no streams are named. */
static int not_finite(const struct ps_params *p, int is_table, uint32_t id, uint32_t n_parts,
                      struct pd_err *err) {
    const char *what = is_table ? "table" : "parameter",
               *name = is_table ? p->decl.sparse[id].name : params_dense_name(p, id);
    for (uint32_t i = 0; i < n_parts; i++) {
        const struct contribution *c = p->scratch.parts[i];
        const float *v = is_table ? c->tables[id].grad : c->dense[id];
        size_t n = is_table ? c->tables[id].list.n * params_width(p, id) : params_seg(p, id)->count;
        if ((is_table ? c->tables[id].pushed : v != NULL) && !ps_all_finite(v, n))
            return pd_fail(err, PD_ENUM,
                           "the gradient of %s '%s' is not a finite number in step %llu; it came "
                           "from streams %u-%u "
                           "(stop_on_nan)",
                           what, name, (unsigned long long)p->scratch.step, p->scratch.ranges[i].lo,
                           p->scratch.ranges[i].hi - 1);
    }
    return pd_fail(err, PD_ENUM,
                   "the gradient of %s '%s' is not a finite number in step %llu (stop_on_nan)",
                   what, name, (unsigned long long)p->scratch.step);
}

/* A rule that adds (geo) adds differences as they are: plain descent with rate -1, without l1 and
 * l2. */
static void set_rates(const struct ps_params *p, struct ps_optim_args *a, float rate, float factor,
                      float l1, float l2) {
    a->lr = p->rule->adds ? -1 : rate * factor;
    a->l1 = p->rule->adds ? 0 : l1;
    a->l2 = p->rule->adds ? 0 : l2;
}

/* Large parameters with one contribution each: every thread of the crew updates a slice of each
 * parameter, all in one run. */
struct slices {
    const struct ps_params *p;
    const struct contribution *from;
    const struct ps_optim_args *a;
    float rate;
    atomic_int bad; /* number + 1 of the first parameter with a rejected gradient that is not
                       finite; 0: none */
};

static int is_for_crew(const struct ps_params *p, uint32_t id, uint32_t n_parts) {
    return p->crew.run && n_parts == 1 && p->scratch.parts[0]->dense[id] &&
           params_seg(p, id)->count >= CREW_LEAST;
}

/* Sets the arguments for a parameter. Returns 0 if the parameter never changes. */
static int set_dense_rates(const struct ps_params *p, uint32_t id, struct ps_optim_args *a,
                           float rate, float *average) {
    const struct ps_dense *d = &p->decl.dense[id % p->decl.n_dense];
    *average = p->rule->adds ? 0 : d->average;
    set_rates(p, a, rate, d->lr_factor, d->l1, d->l2);
    return d->lr_factor != 0;
}

/* Keeps the lowest parameter number, so that the result does not depend on the threads' timing. */
static void note_bad(struct slices *all, uint32_t id) {
    int seen = atomic_load(&all->bad);
    while ((!seen || (int)id + 1 < seen) &&
           !atomic_compare_exchange_weak(&all->bad, &seen, (int)id + 1))
        ;
}

static void apply_slices(void *arg, uint32_t index, uint32_t n_slices) {
    struct slices *all = arg;
    const struct ps_params *p = all->p;
    struct ps_optim_args a = *all->a;
    float average;
    for (uint32_t id = 0; id < params_n_planes(p); id++) {
        if (!is_for_crew(p, id, 1) || !set_dense_rates(p, id, &a, all->rate, &average))
            continue;
        const struct ps_seg *seg = params_seg(p, id);
        float *w = ps_params_plane(p, id), *state = p->state + seg->off;
        uint64_t chunks = (seg->count + PARAMS_CHUNK - 1) / PARAMS_CHUNK,
                 end = chunks * (index + 1) / n_slices * PARAMS_CHUNK;
        end = end < seg->count ? end : seg->count;
        for (uint64_t at = chunks * index / n_slices * PARAMS_CHUNK; at < end; at += PARAMS_CHUNK) {
            size_t n = end - at < PARAMS_CHUNK ? end - at : PARAMS_CHUNK;
            if (!apply_values(p, &a, average, w + at, state + at, p->n_values,
                              all->from->dense[id] + at, n)) {
                note_bad(all, id);
                return;
            }
        }
    }
}

static int apply_by_crew(struct ps_params *p, const struct ps_optim_args *a, float rate,
                         struct pd_err *err) {
    struct slices all = {.p = p, .from = p->scratch.parts[0], .a = a, .rate = rate};
    p->crew.run(p->crew.workers, apply_slices, &all);
    int bad = atomic_load(&all.bad);
    return bad ? not_finite(p, 0, (uint32_t)bad - 1, 1, err) : 0;
}

static int apply_dense(struct ps_params *p, uint32_t id, uint32_t n_parts, struct ps_optim_args *a,
                       float rate, struct pd_err *err) {
    const struct ps_seg *seg = params_seg(p, id);
    uint32_t m = 0;
    float average;
    for (uint32_t i = 0; i < n_parts; i++)
        if (p->scratch.parts[i]->dense[id]) {
            p->scratch.sub[m] = p->scratch.ranges[i];
            p->scratch.from[m++] = p->scratch.parts[i]->dense[id];
        }
    if (!m || !set_dense_rates(p, id, a, rate, &average))
        return 0;
    ps_sum_tree_plan(p->scratch.sub, m, p->decl.n_streams, p->scratch.plan);
    if (ps_params_reduce_and_apply(p, m, a, average, ps_params_plane(p, id), p->state + seg->off,
                                   p->n_values, seg->count))
        return 0;
    return not_finite(p, 0, id, n_parts, err);
}

/* Applies all dense parameters. The crew updates the large ones last. */
static int apply_all_dense(struct ps_params *p, uint32_t n_parts, struct ps_optim_args *a,
                           float rate, struct pd_err *err) {
    uint32_t n_crew = 0;
    int rc = 0;
    for (uint32_t i = 0; i < params_n_planes(p) && !rc; i++)
        if (is_for_crew(p, i, n_parts))
            n_crew++;
        else
            rc = apply_dense(p, i, n_parts, a, rate, err);
    return rc || !n_crew ? rc : apply_by_crew(p, a, rate, err);
}

struct catching_up {
    struct ps_table *table;
    const struct ps_lazy_decay *d;
};

static void catch_up(void *arg, uint32_t row) {
    const struct catching_up *c = arg;
    float *w = ps_table_change(c->table, row);
    struct ps_row_note *note = ps_table_note(c->table, row);
    ps_lazy_decay_catch_up(c->d, note->step, w, ps_table_dim(c->table));
    note->step = 1; /* in the history that begins anew */
}

/* Brings every row of the table up to date and begins its history anew, once the history is long.
 * This is rare and takes some ten ns per row. */
static void forget_history(struct ps_params *p, uint32_t id) {
    struct ps_lazy_decay *d = &p->decays[id];
    struct catching_up c = {p->tables[id], d};
    ps_table_each(c.table, catch_up, &c);
    ps_lazy_decay_begin_anew(d);
    pd_debug(p->log, "table '%s': the decay of rows begins anew after update %llu",
             p->decl.sparse[id].name, (unsigned long long)p->updates);
}

static int apply_table(struct ps_params *p, uint32_t id, uint32_t n_parts, struct ps_optim_args *a,
                       float rate, struct pd_err *err) {
    const struct ps_sparse *t = &p->decl.sparse[id];
    int here = 0, rc;
    for (uint32_t i = 0; i < n_parts; i++)
        here |= p->scratch.parts[i]->tables[id].pushed;
    if (t->lr_factor == 0)
        return 0;
    set_rates(p, a, rate, t->lr_factor, t->l1, t->l2);
    if (here && p->policies[id].active && ps_params_admit(p, id, n_parts))
        return ps_params_no_rows(p, id, err);
    if (here && (rc = ps_params_apply_rows(p, id, n_parts, a)))
        return rc == PD_ENUM ? not_finite(p, 1, id, n_parts, err)
                             : pd_fail(err, rc, "no memory to apply step %llu",
                                       (unsigned long long)p->scratch.step);
    if (ps_lazy_decay_update(&p->decays[id], (double)a->lr))
        return pd_fail(err, PD_ENOMEM, "no memory to apply step %llu",
                       (unsigned long long)p->scratch.step);
    if (ps_lazy_decay_is_long(&p->decays[id]))
        forget_history(p, id);
    return 0;
}

int ps_params_apply(struct ps_params *p, uint32_t n, uint64_t n_samples, uint64_t pass,
                    struct pd_err *err) {
    int rc = 0;
    if (!n_samples)
        return 0;
    if (pd_grow(p->scratch.tmp, p->scratch.cap_tmp, (size_t)n * PARAMS_CHUNK) ||
        (p->values && ps_shared_values_own(&p->values)))
        return pd_fail(err, PD_ENOMEM, "no memory to apply step %llu",
                       (unsigned long long)p->scratch.step);
    const struct ps_schedule_at at = {.step = p->updates, .samples = p->samples, .pass = pass};
    const float rate = (float)ps_learning_rate(&p->decl.optim, &at);
    struct ps_optim_args a;
    ps_optim_args_init(&a, &p->decl.optim, 0, p->updates + 1);
    ps_optim_args_samples(&a, p->rule->adds ? 1 : (float)n_samples);
    if (p->rule->adds)
        a.clip = INFINITY;
    if (p->segs)
        rc = apply_all_dense(p, n, &a, rate, err);
    for (uint32_t i = 0; p->tables && i < p->decl.n_sparse && !rc; i++)
        rc = apply_table(p, i, n, &a, rate, err);
    p->updates++;
    p->samples += n_samples;
    return rc;
}
