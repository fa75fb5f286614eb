/* SPDX-License-Identifier: Apache-2.0 */
/* shard_load.c - a server thread reads its values from any model, and from a checkpoint all of its
 * state. */
#include "model/model.h"
#include "ps/shard/shard_internal.h"

static int load_dense(struct ps_shard *s, struct model *m, uint32_t id, uint32_t missing, int full,
                      struct pd_err *err) {
    const struct ps_dense *d = &s->params.decl.dense[id];
    const struct ps_seg *seg = &s->params.segs[id];
    const struct model_param *p = model_find_param(m, d->name);
    if (!p && missing == PS_MISSING_FAIL)
        return pd_fail(err, PD_ENOENT, "the model has no parameter '%s'", d->name);
    if (!p) {
        if (missing == PS_MISSING_ZERO)
            memset(params_w(&s->params, id), 0, seg->count * sizeof(float));
        else
            ps_params_initial_dense(&s->params, id);
        return 0;
    }
    int same = p->kind == MODEL_DENSE && p->n_dims == d->n_dims;
    for (uint32_t i = 0; same && i < d->n_dims; i++)
        same = p->shape[i] == d->shape[i];
    if (!same)
        return pd_fail(
            err, PD_ECONF,
            "parameter '%s' has %llu values here and %llu, or another shape, in the model", d->name,
            (unsigned long long)d->n, (unsigned long long)model_param_values(p));
    int rc = model_read_dense(m, d->name, seg->first, seg->count, params_w(&s->params, id), err);
    if (!rc && full)
        rc = model_read_state(m, d->name, seg->first, seg->count, s->params.optim->state,
                              s->params.state + seg->off, s->params.n_values, err);
    return rc;
}

struct loading {
    struct ps_shard *s;
    uint32_t id;
    struct ps_table *t;
    struct ps_row_policy life; /* policy of the new table */
    int full, seen;            /* seen: the state of a row ends with its struct ps_row_seen */
    uint32_t width,
        history; /* floats of state to read, without `seen`; updates in the table's history */
};

/* Loads a row with its state: the optimizer's numbers, then, for a table with decay, the row as of
 * its last update and the number of that update. The number refers to the history of the thread
 * that saved the row. Without a barrier the histories of the threads differ; then the row's value
 * after the last update is loaded. */
static int load_row(void *arg, uint64_t key, const float *row, const float *state, uint32_t width,
                    struct pd_err *err) {
    struct loading *l = arg;
    const struct ps_shard *s = l->s;
    const uint32_t dim = ps_table_dim(l->t);
    uint32_t at, step = s->params.decays[l->id].n;
    if (ps_row_thread(key, s->params.decl.n_sparse_threads) != s->params.thread)
        return 0;
    if (l->seen && width < MODEL_SEEN_WIDTH)
        return pd_fail(err, PD_EDATA, "the model has %u numbers of state per row of table '%s'",
                       width, s->params.decl.sparse[l->id].name);
    width -= l->seen ? MODEL_SEEN_WIDTH : 0;
    if (l->full && width != l->width)
        return pd_fail(
            err, PD_ECONF,
            "the checkpoint has %u floats of state per row of table '%s', this optimizer has %u",
            width, s->params.decl.sparse[l->id].name, l->width);
    if (ps_table_find(l->t, &key, 1, 1, &at))
        return ps_params_no_rows(&s->params, l->id, err);
    float *to = ps_table_change(l->t, at);
    memcpy(to, row, dim * sizeof *row);
    if (l->width) { /* the model has state */
        const uint32_t n = dim * s->params.optim->state;
        memcpy(to + dim, state, n * sizeof *state);
        if (ps_lazy_decay_active(&s->params.decays[l->id]) && s->params.rule->barrier) {
            memcpy(to, state + n, dim * sizeof *state);
            memcpy(&step, state + n + dim, sizeof step);
            if (step > l->history)
                return pd_fail(err, PD_EDATA, "a row of table '%s' was touched in update %u of %u",
                               s->params.decl.sparse[l->id].name, step, l->history);
        }
    }
    ps_table_note(l->t, at)->step = step;
    if (l->seen && l->life.conf.ageing > 0)
        memcpy(ps_table_seen(l->t, at), state + width, sizeof(struct ps_row_seen));
    else if (l->life.conf.ageing > 0)
        ps_row_policy_unknown(&l->life.conf, ps_table_seen(l->t, at));
    return 0;
}

static int load_waiting(void *arg, uint64_t key, uint32_t state, struct pd_err *err) {
    struct loading *l = arg;
    if (ps_row_thread(key, l->s->params.decl.n_sparse_threads) != l->s->params.thread)
        return 0;
    int rc = ps_row_policy_restore(&l->life, key, state);
    return rc ? pd_fail(err, rc, "cannot restore the waiting id %llu of table '%s'",
                        (unsigned long long)key, l->s->params.decl.sparse[l->id].name)
              : 0;
}

static int load_history(struct ps_shard *s, struct model *m, uint32_t id, uint32_t *n,
                        struct pd_err *err) {
    const double *pairs = NULL;
    uint64_t count;
    int rc = model_history(m, s->params.decl.sparse[id].name, &pairs, &count, err);
    if (rc)
        return rc;
    if (!count || count > UINT32_MAX)
        return pd_fail(err, PD_ECONF,
                       "table '%s' was trained without l1 and l2, or has none of their history",
                       s->params.decl.sparse[id].name);
    *n = (uint32_t)(count - 1);
    if (ps_lazy_decay_restore(&s->params.decays[id],
                              (const struct ps_lazy_decay_at *)(const void *)pairs, *n))
        return pd_fail(err, PD_ENOMEM, "no memory for table '%s'", s->params.decl.sparse[id].name);
    return 0;
}

/* Builds a new table and replaces the old one, so rows that the model lacks have initial values
 * again. */
static int load_table(struct ps_shard *s, struct model *m, uint32_t id, uint32_t missing, int full,
                      struct pd_err *err) {
    const struct ps_sparse *d = &s->params.decl.sparse[id];
    const struct model_param *p = model_find_param(m, d->name);
    if (!p && missing == PS_MISSING_FAIL)
        return pd_fail(err, PD_ENOENT, "the model has no table '%s'", d->name);
    if (p && (p->kind != MODEL_TABLE || p->dim != d->dim))
        return pd_fail(err, PD_ECONF, "table '%s' has %u floats per row here and %u in the model",
                       d->name, d->dim, p->dim);
    if (p && p->n_rows && d->n_rows && p->n_rows != d->n_rows)
        return pd_fail(err, PD_ECONF,
                       "table '%s' has %llu ids here and %llu in the model: another vocabulary",
                       d->name, (unsigned long long)d->n_rows, (unsigned long long)p->n_rows);
    struct ps_table_opts o = {.name = d->name,
                              .dim = d->dim,
                              .state = s->params.optim->state,
                              .seed = s->params.decl.seed,
                              .ageing = d->life.ageing > 0};
    struct loading l = {
        .s = s, .id = id, .full = full, .width = full ? ps_params_state_width(&s->params, id) : 0};
    int rc = ps_table_new(&l.t, &o);
    if (!rc)
        rc = ps_row_policy_init(&l.life, &d->life, s->params.decl.seed, d->name);
    if (rc) {
        ps_table_free(l.t);
        return pd_fail(err, rc, "no memory for table '%s'", d->name);
    }
    l.seen = p ? model_has_seen(m, d->name, err) : 0;
    rc = l.seen < 0 ? l.seen : 0;
    if (p && !rc && full && ps_lazy_decay_active(&s->params.decays[id]))
        rc = load_history(s, m, id, &l.history, err);
    if (p && !rc)
        rc = model_each_state(m, d->name, load_row, &l, err);
    if (p && !rc && s->params.policies[id].active)
        rc = model_each_waiting(m, d->name, load_waiting, &l, err);
    if (rc) {
        ps_row_policy_release(&l.life);
        ps_table_free(l.t);
        return rc;
    }
    if (p || missing != PS_MISSING_ZERO)
        ps_table_set_initial(l.t, d->mean, d->std);
    ps_table_free(s->params.tables[id]);
    s->params.tables[id] = l.t;
    ps_row_policy_release(&s->params.policies[id]);
    s->params.policies[id] = l.life;
    return 0;
}

/* Drops the members' key lists, whose row numbers belong to the old tables. */
static void forget_rows(struct ps_shard *s) {
    for (uint32_t i = 0; i < s->barrier.n_joined; i++)
        for (uint32_t t = 0; t < s->params.decl.n_sparse * SHARD_LISTS; t++)
            s->barrier.members[s->barrier.order[i]].known[t].id = 0;
}

/* Sets the counters of the checkpoint. All members are then at its step. */
static void resume_counters(struct ps_shard *s, const struct model_manifest *m) {
    s->barrier.step = m->step;
    s->barrier.pass = m->resume.pass;
    s->params.updates = m->resume.updates;
    s->params.samples = m->resume.samples;
    for (uint32_t i = 0; i < s->barrier.n_joined; i++)
        s->barrier.members[s->barrier.order[i]].step = s->barrier.step;
    s->barrier.reduced_full = 1; /* until this pass ends, no process can take a lost trainer's
                                    place: it would begin at another step */
}

/* If the model was saved by as many threads, the part with this thread's name has all its values.
 */
static void prefer_own(const struct ps_shard *s, struct model *m) {
    char file[MODEL_FILE_MAX + 1];
    shard_part_name(s, file);
    (void)model_search_first(m, file, s->params.tables != NULL);
}

/* Handles PS_LOAD. The answer has the step and pass of the model, or with `full` those at which the
 * trainers continue. */
int shard_load(struct ps_shard *s, const struct wire_frame *f, struct ps_body *out,
               struct pd_err *err) {
    char folder[PATH_MAX];
    const struct ps_body b = ps_body_of(f);
    struct ps_msg_load q;
    if (ps_get_load(&b, &q, err))
        return PD_EPROTO;
    const uint32_t missing = q.missing, full = q.full;
    int rc = shard_folder(s, SHARD_READS, q.folder, folder, err);
    if (shard_barrier_steps_under_way(&s->barrier))
        return pd_fail(err, PD_EPROTO, "PS_LOAD while a step is under way");
    struct model *m = NULL;
    if (!rc && s->params.values && ps_shared_values_own(&s->params.values))
        rc = pd_fail(err, PD_ENOMEM, "no memory to load a model");
    if (!rc)
        rc = model_open(&m, folder, err);
    if (!rc && full && !model_info(m)->optimizer_state)
        rc = pd_fail(err, PD_ECONF,
                     "%s has no optimizer state: training can start from it (init_model_path) but "
                     "not resume from it",
                     folder);
    if (!rc)
        prefer_own(s, m);
    if (!rc && s->params.segs)
        memset(s->params.state, 0,
               s->params.n_values * s->params.optim->state * sizeof *s->params.state);
    for (uint32_t i = 0; s->params.segs && i < s->params.decl.n_dense && !rc; i++)
        rc = load_dense(s, m, i, missing, (int)full, err);
    forget_rows(s);
    shard_delta_drop(s);
    for (uint32_t i = 0; s->params.tables && i < s->params.decl.n_sparse && !rc; i++)
        rc = load_table(s, m, i, missing, (int)full, err);
    if (!rc && full)
        resume_counters(s, model_info(m));
    if (!rc)
        ps_put_loaded(
            out, &(struct ps_msg_loaded){.step = full ? s->barrier.step : model_info(m)->step,
                                         .pass = full ? s->barrier.pass : model_info(m)->pass});
    model_close(m);
    return rc;
}

int shard_day_end(struct ps_shard *s, const struct wire_frame *f, struct ps_body *out,
                  struct pd_err *err) {
    const struct ps_body b = ps_body_of(f);
    struct ps_msg_day_end m;
    struct ps_row_policy_day day;
    if (ps_get_day_end(&b, &m, err))
        return PD_EPROTO;
    if (shard_barrier_steps_under_way(&s->barrier))
        return pd_fail(err, PD_EPROTO, "PS_DAY_END while a step is under way");
    if (ps_params_day_end(&s->params, &day, err))
        return err->code;
    forget_rows(s);
    shard_delta_drop(s); /* a delta save cannot record removed rows */
    ps_put_day_ended(out, &(struct ps_msg_day_ended){.removed = day.removed,
                                                     .rows = day.rows,
                                                     .candidates = day.candidates});
    return 0;
}
