/* SPDX-License-Identifier: Apache-2.0 */
/* calls.c - declare, pull, push, save: wraps the calls of the client, and checks and explains usage
 * errors. */
#include "base/row_life.h"
#include "capi/capi_internal.h"

/* Every call begins with this check: an earlier error stays. */
#define CHECK_OK(ps)               \
    do {                           \
        if ((ps)->err.code)        \
            return (ps)->err.code; \
    } while (0)

struct attributes {
    float mean, std, lr, l1, l2;
    struct pd_row_life life;
};

/* The attribute with that name; of a table also the settings of base/row_life.h. NULL: there is
 * none. */
static double *life_at(struct attributes *a, const char *name) {
    for (size_t i = 0; i < PD_ROW_LIFE_N; i++)
        if (!strcmp(pd_row_life_settings[i].name, name))
            return pd_row_life_at(&a->life, i);
    return NULL;
}

static float *plain_at(struct attributes *a, const char *name) {
    const struct {
        const char *name;
        float *at;
    } known[] = {
        {"mean", &a->mean}, {"std", &a->std}, {"lr", &a->lr}, {"l1", &a->l1}, {"l2", &a->l2}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (!strcmp(known[i].name, name))
            return known[i].at;
    return NULL;
}

static int read_attributes(const char *name, const char *text, int is_table, struct attributes *a,
                           struct pd_err *err) {
    struct capi_word w;
    int rc = 0;
    *a = (struct attributes){.lr = 1};
    pd_row_life_init(&a->life);
    while (text && (rc = capi_word_next(&text, &w, err)) > 0) {
        float *at = plain_at(a, w.name);
        double v, *life = is_table && !at ? life_at(a, w.name) : NULL;
        if (!at && !life)
            return pd_fail(err, PD_ECONF,
                           "parameter '%s': unknown attribute '%s' (known: mean std lr l1 l2%s)",
                           name, w.name, is_table ? ", admit_count ... of docs/online.md" : "");
        if (pd_parse_f64(w.value, -1e30, 1e30, &v))
            return pd_fail(err, PD_ECONF, "parameter '%s': %s is a number, not '%.40s'", name,
                           w.name, w.value);
        if (at)
            *at = (float)v;
        else
            *life = v;
    }
    return rc;
}

static int append(void **list, int n, size_t size, const void *item) {
    void *bigger = pd_realloc(*list, ((size_t)n + 1) * size);
    if (!bigger)
        return PD_ENOMEM;
    memcpy((char *)bigger + (size_t)n * size, item, size);
    *list = bigger;
    return 0;
}

CAPI int paddle_ps_dense(paddle_ps *ps, const char *name, unsigned n_dims, const uint64_t *shape,
                         const char *attributes) {
    struct attributes a;
    CHECK_OK(ps);
    int rc = read_attributes(name, attributes, 0, &a, &ps->err);
    if (rc)
        return rc;
    if (n_dims < 1 || n_dims > PS_DIMS_MAX)
        return capi_fail(ps, PD_EUSAGE, "parameter '%s' has %u dimensions, not 1 to %d", name,
                         n_dims, PS_DIMS_MAX);
    struct ps_dense_spec spec = {.name = name,
                                 .n_dims = n_dims,
                                 .init_mean = a.mean,
                                 .init_std = a.std,
                                 .lr_factor = a.lr,
                                 .l1 = a.l1,
                                 .l2 = a.l2};
    uint64_t n = 1;
    for (unsigned i = 0; i < n_dims; i++)
        n *= spec.shape[i] = shape[i]; /* if this overflows, the client refuses the shape */
    int id = ps_declare_dense(ps->client, &spec);
    const struct capi_dense d = {.size = n};
    if (id >= 0 && append((void **)&ps->dense, id, sizeof d, &d))
        return capi_fail(ps, PD_ENOMEM, "out of memory");
    if (id >= 0)
        ps->n_dense = id + 1;
    return capi_done(ps, id);
}

CAPI int paddle_ps_table(paddle_ps *ps, const char *name, uint32_t dim, uint64_t n_rows,
                         const char *attributes) {
    struct attributes a;
    CHECK_OK(ps);
    int rc = read_attributes(name, attributes, 1, &a, &ps->err);
    if (rc)
        return rc;
    struct ps_table_spec spec = {.name = name,
                                 .dim = dim,
                                 .n_rows = n_rows,
                                 .init_mean = a.mean,
                                 .init_std = a.std,
                                 .lr_factor = a.lr,
                                 .l1 = a.l1,
                                 .l2 = a.l2,
                                 .life = &a.life};
    const struct capi_table t = {.dim = dim, .life = pd_row_life_active(&a.life), .n_rows = n_rows};
    int id = ps_declare_table(ps->client, &spec);
    if (id >= 0 && append((void **)&ps->table, id, sizeof t, &t))
        return capi_fail(ps, PD_ENOMEM, "out of memory");
    if (id >= 0)
        ps->n_tables = id + 1;
    return capi_done(ps, id);
}

CAPI int paddle_ps_start(paddle_ps *ps) {
    CHECK_OK(ps);
    if (ps->started)
        return capi_fail(ps, PD_EUSAGE, "paddle_ps_start was called already");
    int rc = ps_start(ps->client);
    ps->started = !rc;
    return capi_done(ps, rc);
}

static int check_dense(paddle_ps *ps, int id) {
    CHECK_OK(ps);
    if (!ps->started)
        return capi_fail(ps, PD_EUSAGE, "before paddle_ps_start there are no values");
    return id >= 0 && id < ps->n_dense
               ? 0
               : capi_fail(ps, PD_EUSAGE, "there is no dense parameter %d", id);
}

static int check_table(paddle_ps *ps, int table) {
    CHECK_OK(ps);
    if (!ps->started)
        return capi_fail(ps, PD_EUSAGE, "before paddle_ps_start there are no rows");
    return table >= 0 && table < ps->n_tables
               ? 0
               : capi_fail(ps, PD_EUSAGE, "there is no table %d", table);
}

CAPI int paddle_ps_pull_dense(paddle_ps *ps, int id, float *out) {
    int rc = check_dense(ps, id);
    return rc ? rc : capi_done(ps, ps_pull_dense(ps->client, id, out, ps->dense[id].size));
}

/* The servers take one contribution of a trainer to a step, and would ignore a second one. */
static int push_once(paddle_ps *ps, uint64_t *pushed, const char *what, int id) {
    const uint64_t step = ps_step(ps->client);
    if (*pushed == step + 1)
        return capi_fail(ps, PD_EUSAGE,
                         "%s %d was pushed twice in step %llu: push the sum of its gradients once",
                         what, id, (unsigned long long)step);
    *pushed = step + 1;
    return 0;
}

CAPI int paddle_ps_push_dense(paddle_ps *ps, int id, const float *grad) {
    int rc = check_dense(ps, id);
    if (!rc)
        rc = push_once(ps, &ps->dense[id].pushed, "dense parameter", id);
    return rc ? rc : capi_done(ps, ps_push_dense(ps->client, id, grad, ps->dense[id].size));
}

/* The keys of one pull or push. NULL: the handle has the error. */
static struct capi_rows *take_rows(paddle_ps *ps, int table, size_t n, const uint64_t *ids) {
    const struct capi_table *t = &ps->table[table];
    struct capi_rows *r = capi_rows_take(ps, n, ids, t->dim);
    if (!r)
        capi_fail(ps, PD_ENOMEM, "no memory for %zu rows of table %d", n, table);
    else if (t->n_rows && r->key[r->n_keys - 1] >= t->n_rows)
        capi_fail(ps, PD_EUSAGE, "id %llu of table %d, which was declared with %llu rows",
                  (unsigned long long)r->key[r->n_keys - 1], table, (unsigned long long)t->n_rows);
    return ps->err.code ? NULL : r;
}

CAPI int paddle_ps_pull_rows(paddle_ps *ps, int table, size_t n, const uint64_t *ids, float *out,
                             int create) {
    int rc = check_table(ps, table);
    if (rc || !n)
        return rc;
    struct capi_rows *r = take_rows(ps, table, n, ids);
    if (!r)
        return ps->err.code;
    rc = ps_pull_rows(ps->client, table, r->n_keys, r->key, r->value,
                      create ? PS_CREATE : PS_NO_CREATE);
    if (!rc)
        r->out = out;
    return capi_done(ps, rc);
}

static int push_rows(paddle_ps *ps, int table, size_t n, const uint64_t *ids, const float *grad,
                     const uint32_t *seen) {
    int rc = push_once(ps, &ps->table[table].pushed, "table", table);
    if (rc)
        return rc;
    struct capi_rows *r = take_rows(ps, table, n, ids);
    if (!r)
        return ps->err.code;
    memset(r->value, 0, r->n_keys * r->dim * sizeof *r->value);
    for (size_t i = 0; i < n; i++) {
        float *to = r->value + r->slot[i] * r->dim;
        const float *from = grad + i * r->dim;
        for (size_t d = 0; d < r->dim; d++)
            to[d] += from[d];
    }
    if (!ps->table[table].life)
        return capi_done(ps, ps_push_rows(ps->client, table, r->n_keys, r->key, r->value));
    if (capi_rows_seen(r, seen))
        return capi_fail(ps, PD_ENOMEM, "no memory for %zu rows of table %d", n, table);
    return capi_done(ps,
                     ps_push_seen_rows(ps->client, table, r->n_keys, r->key, r->value, r->seen));
}

CAPI int paddle_ps_push_rows(paddle_ps *ps, int table, size_t n, const uint64_t *ids,
                             const float *grad) {
    int rc = check_table(ps, table);
    return rc || !n ? rc : push_rows(ps, table, n, ids, grad, NULL);
}

CAPI int paddle_ps_push_seen_rows(paddle_ps *ps, int table, size_t n, const uint64_t *ids,
                                  const float *grad, const uint32_t *seen) {
    int rc = check_table(ps, table);
    if (rc || !n)
        return rc;
    if (!ps->table[table].life)
        return capi_fail(ps, PD_EUSAGE,
                         "table %d has no admission and ageing of rows: neither admit_count, "
                         "admit_probability nor ageing is set",
                         table);
    for (size_t i = 0; i < n; i++)
        if (seen[2 * i + 1] > seen[2 * i])
            return capi_fail(ps, PD_EUSAGE, "id %llu was clicked %u times of %u shows",
                             (unsigned long long)ids[i], seen[2 * i + 1], seen[2 * i]);
    return push_rows(ps, table, n, ids, grad, seen);
}

CAPI int paddle_ps_wait(paddle_ps *ps) {
    CHECK_OK(ps);
    int rc = ps_wait(ps->client);
    if (!rc)
        capi_rows_wait_done(ps);
    return capi_done(ps, rc);
}

CAPI int paddle_ps_step_end(paddle_ps *ps, uint64_t n_samples, const double *sums, size_t n_sums) {
    CHECK_OK(ps);
    if (n_sums > PS_STATS_MAX)
        return capi_fail(ps, PD_EUSAGE, "a step can have at most %d sums, not %zu", PS_STATS_MAX,
                         n_sums);
    int rc = ps_step_end(ps->client, n_samples, sums, n_sums);
    /* flush: nobody knows when the program makes its next call */
    return capi_done(ps, rc ? rc : ps_flush(ps->client));
}

CAPI int paddle_ps_step_sums(paddle_ps *ps, uint64_t *step, uint64_t *n_samples, double *sums,
                             size_t n_sums) {
    double all[PS_STATS_MAX] = {0};
    uint64_t s = 0, n = 0;
    CHECK_OK(ps);
    int rc = ps_step_stats(ps->client, &s, &n, all);
    if (rc == 1) {
        if (step)
            *step = s;
        if (n_samples)
            *n_samples = n;
        if (sums)
            memcpy(sums, all, (n_sums < PS_STATS_MAX ? n_sums : PS_STATS_MAX) * sizeof *sums);
    }
    return capi_done(ps, rc);
}

CAPI int paddle_ps_pass_end(paddle_ps *ps) {
    CHECK_OK(ps);
    int rc = ps_pass_end(ps->client);
    ps->pass += !rc;
    return capi_done(ps, rc);
}

CAPI int paddle_ps_reduce(paddle_ps *ps, double *v, size_t n) {
    CHECK_OK(ps);
    return capi_done(ps, ps_reduce(ps->client, v, n));
}

CAPI int paddle_ps_barrier(paddle_ps *ps) {
    CHECK_OK(ps);
    return capi_done(ps, ps_barrier(ps->client));
}

/* Trainer 0 sends the request while the others wait; the reduction gives its answer to all. */
CAPI int paddle_ps_day_end(paddle_ps *ps, uint64_t *removed, uint64_t *rows, uint64_t *waiting) {
    struct ps_day day = {0};
    CHECK_OK(ps);
    int rc = ps->options.trainer_id ? 0 : ps_day_end(ps->client, &day);
    double v[3] = {(double)day.removed, (double)day.rows, (double)day.candidates};
    if (!rc)
        rc = ps_reduce(ps->client, v, 3);
    if (!rc) {
        uint64_t *const out[3] = {removed, rows, waiting};
        for (int i = 0; i < 3; i++)
            if (out[i])
                *out[i] = (uint64_t)v[i];
    }
    return capi_done(ps, rc);
}

CAPI int paddle_ps_save(paddle_ps *ps, const char *dir, const char *name) {
    CHECK_OK(ps);
    int rc = 0;
    if (ps->options.trainer_id == 0) {
        struct ps_save_opts s = {
            .dir = dir, .name = name, .pass = ps->pass ? ps->pass - 1 : 0, .config = ""};
        rc = ps_save(ps->client, &s);
    }
    return capi_done(ps, rc ? rc : ps_barrier(ps->client));
}

CAPI int paddle_ps_load(paddle_ps *ps, const char *folder, const char *missing) {
    /* in the order of enum ps_missing */
    static const char *const names[] = {"fail", "rand", "zero"};
    size_t k = 0;
    CHECK_OK(ps);
    while (k < 3 && strcmp(names[k], missing))
        k++;
    if (k == 3)
        return capi_fail(ps, PD_EUSAGE, "missing is fail, rand or zero, not '%.40s'", missing);
    int rc = ps->options.trainer_id ? 0 : ps_load(ps->client, folder, (enum ps_missing)k);
    return capi_done(ps, rc ? rc : ps_barrier(ps->client));
}

CAPI int paddle_ps_leave(paddle_ps *ps) {
    CHECK_OK(ps);
    return capi_done(ps, ps_bye(ps->client));
}
