/* SPDX-License-Identifier: Apache-2.0 */
/* params.c - see params.h: declaration, initial values, rows for an answer. The update is in
 * params_apply.c. */
#include "ps/shard/params.h"

#include "base/memory_use.h"
#include "math/rng.h"
#include "ps/plan/initial.h"

enum {
    VALUES_MOST =
        4 /* copies of the dense values in the region: current, in a save, still being read */
};

/* --- scratch --- */

int shard_scratch_room(struct scratch *x, size_t n) {
    void *const arrays[] = {&x->ranges, &x->sub, &x->from, &x->plan, &x->val, &x->parts};
    const size_t sizes[] = {sizeof *x->ranges, sizeof *x->sub, sizeof *x->from,
                            sizeof *x->plan,   sizeof *x->val, sizeof *x->parts};
    size_t cap = x->cap_parts;
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) {
        cap = x->cap_parts;
        void **array = arrays[i], *grown = pd_grow_array(*array, &cap, n, sizes[i]);
        if (!grown)
            return PD_ENOMEM;
        *array = grown;
    }
    x->cap_parts = cap;
    return 0;
}

void shard_scratch_release(struct scratch *x) {
    free(x->ranges);
    free(x->sub);
    free(x->from);
    free(x->plan);
    free(x->val);
    free(x->parts);
    free(x->tmp);
    free(x->touched);
    free(x->nodes);
    free(x->rows.rows);
    *x = (struct scratch){0};
}

/* --- declaration --- */

void ps_params_release(struct ps_params *p) {
    for (uint32_t i = 0; p->dirty && i < p->decl.n_sparse; i++)
        ps_dirty_rows_release(&p->dirty[i]);
    free(p->dirty);
    p->dirty = NULL;
    for (uint32_t i = 0; p->tables && i < p->decl.n_sparse; i++)
        ps_table_free(p->tables[i]);
    for (uint32_t i = 0; p->decays && i < p->decl.n_sparse; i++)
        ps_lazy_decay_release(&p->decays[i]);
    for (uint32_t i = 0; p->policies && i < p->decl.n_sparse; i++)
        ps_row_policy_release(&p->policies[i]);
    free(p->tables);
    free(p->decays);
    free(p->policies);
    p->decays = NULL;
    p->policies = NULL;
    free(p->segs);
    ps_shared_values_drop(p->values);
    net_region_free(p->region);
    p->region = NULL;
    free(p->state);
    p->tables = NULL;
    p->segs = NULL;
    p->values = NULL;
    p->state = NULL;
    p->n_values = 0;
    ps_declaration_release(&p->decl);
    p->declared = 0;
}

void ps_params_initial_dense(struct ps_params *p, uint32_t id) {
    const struct ps_dense *d = &p->decl.dense[id];
    ps_initial(pd_rng_key(p->decl.seed, PD_RNG_INIT, ps_name_hash(d->name), 0), 1,
               p->segs[id].first, d->mean, d->std, params_w(p, id), p->segs[id].count);
}

float *ps_params_plane(const struct ps_params *p, uint32_t i) {
    const uint32_t id = i % p->decl.n_dense, plane = i / p->decl.n_dense;
    return plane ? p->state + (plane - 1) * p->n_values + p->segs[id].off : params_w(p, id);
}

/* Refuses dense parameters that this machine cannot hold, before memory is taken. Counted are the
 * values and the optimizer's state in all threads of this server. */
static int admit_dense(const struct ps_params *p, const struct ps_seg *all, struct pd_err *err) {
    const uint32_t n = p->decl.n_dense, threads = p->decl.n_dense_threads;
    const uint32_t own = threads / p->decl.n_servers ? threads / p->decl.n_servers : 1;
    double need = 0, largest = -1;
    uint32_t named = 0;
    for (uint32_t i = 0; i < n; i++) {
        double bytes = 0;
        for (uint32_t t = p->thread / own * own; t < threads && t / own == p->thread / own; t++)
            bytes +=
                (double)all[(size_t)i * threads + t].count * sizeof(float) * (1 + p->optim->state);
        need += bytes;
        if (bytes > largest) {
            largest = bytes;
            named = i;
        }
    }
    return n ? pd_memory_admit(need, err, "the dense parameters (the largest is '%s' with %.4g GB)",
                               p->decl.dense[named].name, largest / 1e9)
             : 0;
}

/* A table begins with a row, and grows. Rows that it may never get are no reason to refuse it. */
static int admit_table(const struct ps_params *p, uint32_t id, struct pd_err *err) {
    const struct ps_sparse *t = &p->decl.sparse[id];
    const uint32_t threads = p->decl.n_sparse_threads / p->decl.n_servers;
    const double row = (double)t->dim * (1 + p->optim->state) * sizeof(float);
    const double all = row * (double)t->n_rows / p->decl.n_servers;
    char text[PD_MEMORY_TEXT];
    if (t->n_rows && p->thread % (threads ? threads : 1) == 0 && !pd_memory_fits(all))
        pd_warn(p->log, "table '%s' needs %.4g GB when it has all of its %llu rows, on %s", t->name,
                all / 1e9, (unsigned long long)t->n_rows, pd_memory_text(text));
    return pd_memory_admit(row, err, "%u values of a row of table '%s', and its state,", t->dim,
                           t->name);
}

int ps_params_no_rows(const struct ps_params *p, uint32_t id, struct pd_err *err) {
    const struct ps_table *t = p->tables[id];
    char text[PD_MEMORY_TEXT];
    return pd_fail(err, PD_ENOMEM,
                   "no memory for more rows of table '%s', which has %llu in %.4g GB here, on %s",
                   p->decl.sparse[id].name, (unsigned long long)ps_table_rows(t),
                   (double)ps_table_bytes(t) / 1e9, pd_memory_text(text));
}

static int make_dense(struct ps_params *p, struct pd_err *err) {
    uint32_t n = p->decl.n_dense, threads = p->decl.n_dense_threads;
    uint64_t *counts = pd_calloc(n, sizeof *counts);
    struct ps_seg *all = pd_calloc((size_t)n * threads, sizeof *all);
    p->segs = pd_calloc(n, sizeof *p->segs);
    int rc = counts && all && p->segs ? 0 : PD_ENOMEM;
    for (uint32_t i = 0; i < n && !rc; i++)
        counts[i] = p->decl.dense[i].n;
    if (!rc)
        rc = ps_layout_dense(n, counts, p->decl.n_servers, threads, all);
    for (uint32_t i = 0; i < n && !rc; i++) {
        p->segs[i] = all[(size_t)i * threads + p->thread];
        p->n_values += ps_seg_padded(p->segs[i].count);
    }
    if (!rc)
        rc = admit_dense(p, all, err);
    free(counts);
    free(all);
    if (rc || p->n_values > SIZE_MAX / sizeof(float) / (1 + p->optim->state))
        return PD_ENOMEM;
    /* Only under a barrier: without one, updates come while trainers read, and each update would
     * need a copy. Without a region, answers are only slower. */
    if (p->lends && p->rule->barrier && p->n_values)
        (void)net_region_new(&p->region, p->n_values * sizeof(float) * VALUES_MOST,
                             NET_LENT_UNTIL_READ);
    p->values = ps_shared_values_new(p->pool, p->region, p->n_values);
    p->state = pd_alloc64(p->n_values * sizeof(float) * p->optim->state);
    if (!p->values || !p->state)
        return PD_ENOMEM;
    memset(p->values->w, 0, p->n_values * sizeof(float));
    memset(p->state, 0, p->n_values * sizeof(float) * p->optim->state);
    for (uint32_t i = 0; i < n; i++)
        ps_params_initial_dense(p, i);
    return 0;
}

static int make_tables(struct ps_params *p, struct pd_err *err) {
    int rc = 0;
    p->tables = pd_calloc(p->decl.n_sparse, sizeof *p->tables);
    p->decays = pd_calloc(p->decl.n_sparse, sizeof *p->decays);
    p->dirty = pd_calloc(p->decl.n_sparse, sizeof *p->dirty);
    p->policies = pd_calloc(p->decl.n_sparse, sizeof *p->policies);
    if (!p->tables || !p->decays || !p->dirty || !p->policies)
        return PD_ENOMEM;
    for (uint32_t i = 0; i < p->decl.n_sparse && !rc; i++) {
        const struct ps_sparse *t = &p->decl.sparse[i];
        struct ps_table_opts o = {.name = t->name,
                                  .dim = t->dim,
                                  .state = p->optim->state,
                                  .seed = p->decl.seed,
                                  .mean = t->mean,
                                  .std = t->std,
                                  .ageing = t->life.ageing > 0};
        int decays = t->lr_factor > 0 && !p->optim->own_l1 && !p->rule->adds;
        rc = admit_table(p, i, err);
        if (!rc)
            rc = ps_table_new(&p->tables[i], &o);
        if (!rc && decays)
            rc = ps_lazy_decay_init(&p->decays[i], t->l1, t->l2);
        if (!rc)
            rc = ps_row_policy_init(&p->policies[i], &t->life, p->decl.seed, t->name);
    }
    return rc;
}

int ps_params_declare(struct ps_params *p, struct ps_declaration *job, uint32_t kind,
                      uint32_t thread, struct pd_err *err) {
    p->decl = *job;
    ps_declaration_init(job);
    p->thread = thread;
    p->rule = ps_update_rule_find(p->decl.update);
    p->planes = ps_declaration_planes(&p->decl);
    p->apply_optim = ps_optim_find(p->rule->adds ? "sgd" : p->decl.optim.name);
    p->optim = p->planes > 1 ? ps_optim_find(p->decl.optim.name) : p->apply_optim;
    int rc = 0;
    if (kind & PS_KIND_DENSE)
        rc = make_dense(p, err);
    if (!rc && kind & PS_KIND_SPARSE)
        rc = make_tables(p, err);
    if (rc) {
        ps_params_release(p);
        return pd_fail(err, rc, "no memory for the declared parameters");
    }
    p->declared = 1;
    return 0;
}

void ps_params_gather(const struct ps_params *p, uint32_t id, const uint64_t *keys,
                      const uint32_t *rows, size_t n, float *out) {
    const struct ps_lazy_decay *d = &p->decays[id];
    const struct ps_table *t = p->tables[id];
    uint32_t dim = p->decl.sparse[id].dim;
    ps_table_gather(t, keys, rows, n, out);
    for (size_t i = 0; p->policies[id].conf.admit_zero > 0 && i < n; i++)
        if (rows[i] == PS_ROW_NONE)
            memset(out + i * dim, 0, dim * sizeof *out);
    for (size_t i = 0; ps_lazy_decay_active(d) && i < n; i++)
        ps_lazy_decay_catch_up(d, rows[i] == PS_ROW_NONE ? 0 : ps_table_note(t, rows[i])->step,
                               out + i * dim, dim);
}

uint32_t ps_params_state_width(const struct ps_params *p, uint32_t id) {
    uint32_t dim = p->decl.sparse[id].dim;
    return dim * p->optim->state + (ps_lazy_decay_active(&p->decays[id]) ? dim + 1 : 0);
}
