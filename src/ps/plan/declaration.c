/* SPDX-License-Identifier: Apache-2.0 */
/* declaration.c - see declaration.h. */
#include "ps/plan/declaration.h"

#include "ps/plan/message.h"
#include "ps/plan/update_rule.h"

void ps_declaration_init(struct ps_declaration *job) { memset(job, 0, sizeof *job); }

void ps_declaration_release(struct ps_declaration *job) {
    free(job->dense);
    free(job->sparse);
    ps_declaration_init(job);
}

static int check_name(const char *name, struct pd_err *err) {
    size_t n = strlen(name);
    int bad = n == 0 || n > PS_NAME_MAX;
    for (size_t i = 0; i < n && !bad; i++)
        bad = (unsigned char)name[i] <= ' ' || name[i] == 0x7f;
    return bad ? pd_fail(err, PD_ECONF,
                         "parameter name '%.130s': 1 to %d characters without blanks", name,
                         PS_NAME_MAX)
               : 0;
}

/* The settings that dense parameters and tables share, in the order of the wire. */
enum { N_FLOATS = 5 };
static const char *const float_names[N_FLOATS] = {"initial mean", "initial std",
                                                  "learning-rate factor", "l1", "l2"};
#define FLOATS(p) ((const float[N_FLOATS]){(p)->mean, (p)->std, (p)->lr_factor, (p)->l1, (p)->l2})

static int check_floats(const char *name, const float *v, struct pd_err *err) {
    for (size_t i = 0; i < N_FLOATS; i++)
        if (!isfinite(v[i]) || (i > 1 && v[i] < 0))
            return pd_fail(err, PD_ECONF, "parameter '%s': %s is %g", name, float_names[i],
                           (double)v[i]);
    return 0;
}

static int check_dense(struct ps_dense *d, struct pd_err *err) {
    int rc = check_name(d->name, err);
    if (rc)
        return rc;
    d->n = 1;
    int bad = d->n_dims < 1 || d->n_dims > PS_DIMS_MAX;
    for (uint32_t i = 0; i < d->n_dims && !bad; i++) {
        bad = d->shape[i] == 0 || d->shape[i] > PS_VALUES_MAX / d->n;
        d->n *= bad ? 1 : d->shape[i];
    }
    if (bad)
        return pd_fail(err, PD_ECONF, "parameter '%s': 1 to %d dimensions, 1 to 2^40 values",
                       d->name, PS_DIMS_MAX);
    if (!(d->average >= 0 && d->average <= 1))
        return pd_fail(err, PD_ECONF, "parameter '%s': a running mean's share is %g", d->name,
                       (double)d->average);
    return check_floats(d->name, FLOATS(d), err);
}

static int check_sparse(const struct ps_sparse *t, struct pd_err *err) {
    int rc = check_name(t->name, err);
    if (rc)
        return rc;
    if (t->dim < 1 || t->dim > PS_DIM_MAX)
        return pd_fail(err, PD_ECONF, "table '%s': a row has 1 to %d floats, not %u", t->name,
                       PS_DIM_MAX, t->dim);
    rc = check_floats(t->name, FLOATS(t), err);
    if (!rc && (rc = pd_row_life_check(&t->life, err)))
        pd_err_prefix(err, "table '%s'", t->name);
    return rc;
}

static int name_taken(const struct ps_declaration *job, const char *name, struct pd_err *err) {
    int taken = 0;
    for (uint32_t i = 0; i < job->n_dense; i++)
        taken |= !strcmp(job->dense[i].name, name);
    for (uint32_t i = 0; i < job->n_sparse; i++)
        taken |= !strcmp(job->sparse[i].name, name);
    return taken ? pd_fail(err, PD_ECONF, "parameter '%s' is declared twice", name) : 0;
}

/* Room for one more element of `size` bytes; capacities are powers of two. */
static void *grow(void *p, uint32_t n, size_t size) {
    return n & (n - 1) ? p : pd_realloc(p, (n ? 2 * n : 1) * size);
}

static int append_dense(struct ps_declaration *job, struct ps_dense *d, struct pd_err *err) {
    int rc = check_dense(d, err);
    if (!rc)
        rc = name_taken(job, d->name, err);
    if (rc)
        return rc;
    struct ps_dense *p =
        job->n_dense < PS_PARAMS_MAX ? grow(job->dense, job->n_dense, sizeof *p) : NULL;
    if (!p)
        return pd_fail(err, PD_ENOMEM, "no memory for parameter '%s', or too many of them",
                       d->name);
    job->dense = p;
    p[job->n_dense++] = *d;
    return 0;
}

static int append_sparse(struct ps_declaration *job, const struct ps_sparse *t,
                         struct pd_err *err) {
    int rc = check_sparse(t, err);
    if (!rc)
        rc = name_taken(job, t->name, err);
    if (rc)
        return rc;
    struct ps_sparse *p =
        job->n_sparse < PS_PARAMS_MAX ? grow(job->sparse, job->n_sparse, sizeof *p) : NULL;
    if (!p)
        return pd_fail(err, PD_ENOMEM, "no memory for table '%s', or too many of them", t->name);
    job->sparse = p;
    p[job->n_sparse++] = *t;
    return 0;
}

int ps_declaration_add_dense(struct ps_declaration *job, const struct ps_dense_spec *spec,
                             struct pd_err *err) {
    struct ps_dense d = {.n_dims = spec->n_dims,
                         .mean = spec->init_mean,
                         .std = spec->init_std,
                         .lr_factor = spec->lr_factor,
                         .l1 = spec->l1,
                         .l2 = spec->l2,
                         .average = spec->average};
    if (!spec->name || pd_fmt(d.name, sizeof d.name, "%s", spec->name))
        return pd_fail(err, PD_ECONF, "a parameter's name has 1 to %d bytes", PS_NAME_MAX);
    for (uint32_t i = 0; i < spec->n_dims && i < PS_DIMS_MAX; i++)
        d.shape[i] = spec->shape[i];
    return append_dense(job, &d, err);
}

int ps_declaration_add_table(struct ps_declaration *job, const struct ps_table_spec *spec,
                             struct pd_err *err) {
    struct ps_sparse t = {.dim = spec->dim,
                          .n_rows = spec->n_rows,
                          .mean = spec->init_mean,
                          .std = spec->init_std,
                          .lr_factor = spec->lr_factor,
                          .l1 = spec->l1,
                          .l2 = spec->l2};
    if (spec->life)
        t.life = *spec->life;
    else
        pd_row_life_init(&t.life);
    if (!spec->name || pd_fmt(t.name, sizeof t.name, "%s", spec->name))
        return pd_fail(err, PD_ECONF, "a table's name has 1 to %d bytes", PS_NAME_MAX);
    return append_sparse(job, &t, err);
}

int ps_declaration_check(const struct ps_declaration *job, struct pd_err *err) {
    if (job->n_trainers < 1 || job->n_trainers > PS_TRAINERS_MAX)
        return pd_fail(err, PD_ECONF, "1 to %d trainers, not %u", PS_TRAINERS_MAX, job->n_trainers);
    if (job->n_streams < job->n_trainers)
        return pd_fail(err, PD_ECONF, "%u streams for %u trainers: each needs one", job->n_streams,
                       job->n_trainers);
    if (!job->n_servers || job->n_servers > PS_THREADS_MAX || !job->n_dense_threads ||
        job->n_dense_threads > PS_THREADS_MAX || job->n_sparse_threads > PS_THREADS_MAX)
        return pd_fail(err, PD_ECONF, "%u servers with %u dense and %u sparse threads",
                       job->n_servers, job->n_dense_threads, job->n_sparse_threads);
    if (job->n_sparse && !job->n_sparse_threads)
        return pd_fail(err, PD_ECONF, "table '%s' needs at least one sparse server thread",
                       job->sparse[0].name);
    const struct ps_update_rule *rule = ps_update_rule_find(job->update);
    if (!rule)
        return pd_fail(err, PD_ECONF, "there is no update rule '%.15s'", job->update);
    for (uint32_t i = 0; rule->adds && i < job->n_sparse; i++)
        if (pd_row_life_active(&job->sparse[i].life))
            return pd_fail(err, PD_ECONF,
                           "table '%s': rows cannot be admitted or age under update = %s, where "
                           "trainers create them",
                           job->sparse[i].name, job->update);
    if (!isfinite(job->discard_ratio) || job->discard_ratio < 0)
        return pd_fail(err, PD_ECONF, "async_lagged_grad_discard_ratio is %g", job->discard_ratio);
    return ps_optim_conf_check(&job->optim, err);
}

uint32_t ps_declaration_planes(const struct ps_declaration *job) {
    const struct ps_optim *o = ps_optim_find(job->optim.name);
    return ps_update_rule_find(job->update)->adds && o->sums ? 1 + o->state : 1;
}

static void append_dense_entry(struct pd_buf *b, const struct ps_dense *p) {
    const struct ps_msg_dense_entry m = {.name = p->name,
                                         .n_dims = p->n_dims,
                                         .shape = (const uint8_t *)p->shape,
                                         .mean = p->mean,
                                         .std = p->std,
                                         .lr_factor = p->lr_factor,
                                         .l1 = p->l1,
                                         .l2 = p->l2,
                                         .average = p->average};
    ps_append_dense_entry(b, &m);
}

static void append_table_entry(struct pd_buf *b, const struct ps_sparse *p) {
    double life[PD_ROW_LIFE_N];
    for (uint32_t k = 0; k < PD_ROW_LIFE_N; k++)
        life[k] = pd_row_life_get(&p->life, k);
    const struct ps_msg_table_entry m = {.name = p->name,
                                         .dim = p->dim,
                                         .n_rows = p->n_rows,
                                         .mean = p->mean,
                                         .std = p->std,
                                         .lr_factor = p->lr_factor,
                                         .l1 = p->l1,
                                         .l2 = p->l2,
                                         .n_life = pd_row_life_active(&p->life) ? PD_ROW_LIFE_N : 0,
                                         .life = (const uint8_t *)life};
    ps_append_table_entry(b, &m);
}

void ps_declaration_put(struct pd_buf *b, const struct ps_declare_sender *d,
                        const struct ps_declaration *job) {
    struct pd_buf text = {0}, dense = {0}, tables = {0};
    struct ps_body body = {.head = b};
    ps_optim_conf_text(&job->optim, &text);
    for (uint32_t i = 0; i < job->n_dense; i++)
        append_dense_entry(&dense, &job->dense[i]);
    for (uint32_t i = 0; i < job->n_sparse; i++)
        append_table_entry(&tables, &job->sparse[i]);
    const struct ps_msg_declare m = {
        .version = PS_PROTO,
        .kind = d->kind,
        .thread = d->thread,
        .stream_lo = d->stream_lo,
        .stream_hi = d->stream_hi,
        .n_trainers = job->n_trainers,
        .n_streams = job->n_streams,
        .n_servers = job->n_servers,
        .n_dense_threads = job->n_dense_threads,
        .n_sparse_threads = job->n_sparse_threads,
        .incarnation = d->incarnation,
        .epoch = d->epoch,
        .seed = job->seed,
        .optimizer = text.failed ? "" : (const char *)text.data,
        .update = job->update,
        .staleness = job->staleness,
        .discard_ratio = job->discard_ratio,
        .on_nan = job->on_nan,
        .dense = dense.data,
        .dense_bytes = dense.len,
        .n_dense = job->n_dense,
        .tables = tables.data,
        .tables_bytes = tables.len,
        .n_tables = job->n_sparse,
    };
    ps_put_declare(&body, &m);
    b->failed |= text.failed | dense.failed | tables.failed;
    pd_buf_release(&text);
    pd_buf_release(&dense);
    pd_buf_release(&tables);
}

static int get_all_dense(const struct ps_msg_declare *m, struct ps_declaration *job,
                         struct pd_err *err) {
    struct ps_msg_dense_entry e;
    struct pd_reader r;
    int rc = 0;
    pd_reader_init(&r, m->dense, m->dense_bytes);
    for (uint32_t i = 0; i < m->n_dense && !rc && ps_next_dense_entry(&r, &e); i++) {
        struct ps_dense d = {.n_dims = e.n_dims,
                             .mean = e.mean,
                             .std = e.std,
                             .lr_factor = e.lr_factor,
                             .l1 = e.l1,
                             .l2 = e.l2,
                             .average = e.average};
        memcpy(d.name, e.name_text, sizeof d.name);
        memcpy(d.shape, e.shape, e.n_dims * sizeof d.shape[0]);
        rc = append_dense(job, &d, err);
    }
    return rc;
}

static int get_all_sparse(const struct ps_msg_declare *m, struct ps_declaration *job,
                          struct pd_err *err) {
    struct ps_msg_table_entry e;
    struct pd_reader r, life;
    int rc = 0;
    pd_reader_init(&r, m->tables, m->tables_bytes);
    for (uint32_t i = 0; i < m->n_tables && !rc && ps_next_table_entry(&r, &e); i++) {
        struct ps_sparse t = {.dim = e.dim,
                              .n_rows = e.n_rows,
                              .mean = e.mean,
                              .std = e.std,
                              .lr_factor = e.lr_factor,
                              .l1 = e.l1,
                              .l2 = e.l2};
        memcpy(t.name, e.name_text, sizeof t.name);
        pd_row_life_init(&t.life);
        if (e.n_life && e.n_life != PD_ROW_LIFE_N)
            return pd_fail(err, PD_EPROTO, "table '%s' with %u settings of its rows' life", t.name,
                           e.n_life);
        pd_reader_init(&life, e.life, e.n_life * sizeof(double));
        for (uint32_t k = 0; k < e.n_life; k++)
            *pd_row_life_at(&t.life, k) = pd_get_f64(&life);
        rc = append_sparse(job, &t, err);
    }
    return rc;
}

static int read_job(const struct ps_msg_declare *m, struct ps_declare_sender *d,
                    struct ps_declaration *job, struct pd_err *err) {
    *d = (struct ps_declare_sender){.kind = m->kind,
                                    .thread = m->thread,
                                    .stream_lo = m->stream_lo,
                                    .stream_hi = m->stream_hi,
                                    .incarnation = m->incarnation,
                                    .epoch = m->epoch};
    job->n_trainers = m->n_trainers;
    job->n_streams = m->n_streams;
    job->n_servers = m->n_servers;
    job->n_dense_threads = m->n_dense_threads;
    job->n_sparse_threads = m->n_sparse_threads;
    job->seed = m->seed;
    memcpy(job->update, m->update_text, sizeof job->update);
    job->staleness = m->staleness;
    job->discard_ratio = m->discard_ratio;
    job->on_nan = (enum ps_nan)m->on_nan;
    int rc = ps_optim_conf_parse(&job->optim, m->optimizer, err);
    if (!rc)
        rc = get_all_dense(m, job, err);
    if (!rc)
        rc = get_all_sparse(m, job, err);
    return rc ? rc : ps_declaration_check(job, err);
}

int ps_declaration_get(const void *p, size_t n, struct ps_declare_sender *d,
                       struct ps_declaration *job, struct pd_err *err) {
    const struct ps_body b = {.n = 1, .sec = {p}, .len = {n}};
    struct ps_msg_declare m;
    ps_declaration_init(job);
    if (ps_get_version(&b) != PS_PROTO)
        return pd_fail(err, PD_EPROTO, "declaration of version %u, this server speaks %d",
                       ps_get_version(&b), PS_PROTO);
    int rc = ps_get_declare(&b, &m, err);
    if (!rc)
        rc = read_job(&m, d, job, err);
    if (rc)
        ps_declaration_release(job);
    return rc;
}

static int fail_differs(struct pd_err *err, const char *name, const char *what, double first,
                        double later) {
    return pd_fail(err, PD_ECONF, "%s: %s is %.9g here but was declared first as %.9g", name, what,
                   later, first);
}

static int same_floats(const char *name, const float *a, const float *b, struct pd_err *err) {
    for (size_t i = 0; i < N_FLOATS; i++)
        if (a[i] != b[i])
            return fail_differs(err, name, float_names[i], (double)a[i], (double)b[i]);
    return 0;
}

static int same_optimizer(const struct ps_declaration *a, const struct ps_declaration *b,
                          struct pd_err *err) {
    struct pd_buf ta = {0}, tb = {0};
    int rc;
    ps_optim_conf_text(&a->optim, &ta);
    ps_optim_conf_text(&b->optim, &tb);
    if (ta.failed || tb.failed)
        rc = pd_fail(err, PD_ENOMEM, "no memory for a declaration");
    else if (strcmp((char *)ta.data, (char *)tb.data))
        rc = pd_fail(err, PD_ECONF,
                     "job: optimizer is '%.400s' here but was declared first as '%.400s'",
                     (char *)tb.data, (char *)ta.data);
    else
        rc = 0;
    pd_buf_release(&ta);
    pd_buf_release(&tb);
    return rc;
}

static void shape_text(const struct ps_dense *d, char *out, size_t cap) {
    size_t n = 0;
    for (uint32_t i = 0; i < d->n_dims && n + 24 < cap; i++) {
        (void)pd_fmt(out + n, cap - n, "%s%llu", i ? "x" : "", (unsigned long long)d->shape[i]);
        n += strlen(out + n);
    }
}

static int same_dense(const struct ps_dense *a, const struct ps_dense *b, struct pd_err *err) {
    char sa[120] = "", sb[120] = "", name[PS_NAME_MAX + 16];
    if (strcmp(a->name, b->name))
        return pd_fail(err, PD_ECONF, "parameter '%s' stands where '%s' was declared first",
                       b->name, a->name);
    (void)pd_fmt(name, sizeof name, "parameter '%s'", a->name);
    shape_text(a, sa, sizeof sa);
    shape_text(b, sb, sizeof sb);
    if (strcmp(sa, sb))
        return pd_fail(err, PD_ECONF, "%s: shape is %s here but was declared first as %s", name, sb,
                       sa);
    if (a->average != b->average)
        return fail_differs(err, name, "a running mean's share", (double)a->average,
                            (double)b->average);
    return same_floats(name, FLOATS(a), FLOATS(b), err);
}

static int same_sparse(const struct ps_sparse *a, const struct ps_sparse *b, struct pd_err *err) {
    char name[PS_NAME_MAX + 16];
    if (strcmp(a->name, b->name))
        return pd_fail(err, PD_ECONF, "table '%s' stands where '%s' was declared first", b->name,
                       a->name);
    (void)pd_fmt(name, sizeof name, "table '%s'", a->name);
    if (a->dim != b->dim)
        return fail_differs(err, name, "floats per row", a->dim, b->dim);
    if (a->n_rows != b->n_rows)
        return fail_differs(err, name, "number of rows", (double)a->n_rows, (double)b->n_rows);
    for (size_t k = 0; k < PD_ROW_LIFE_N; k++)
        if (pd_row_life_get(&a->life, k) != pd_row_life_get(&b->life, k))
            return fail_differs(err, name, pd_row_life_settings[k].name,
                                pd_row_life_get(&a->life, k), pd_row_life_get(&b->life, k));
    return same_floats(name, FLOATS(a), FLOATS(b), err);
}

int ps_declaration_same(const struct ps_declaration *a, const struct ps_declaration *b,
                        struct pd_err *err) {
    const struct {
        const char *what;
        double a, b;
    } num[] = {
        {"number of trainers", a->n_trainers, b->n_trainers},
        {"number of streams", a->n_streams, b->n_streams},
        {"number of pservers", a->n_servers, b->n_servers},
        {"dense server threads", a->n_dense_threads, b->n_dense_threads},
        {"sparse server threads", a->n_sparse_threads, b->n_sparse_threads},
        {"staleness", a->staleness, b->staleness},
        {"async_lagged_grad_discard_ratio", a->discard_ratio, b->discard_ratio},
        {"handling of NaN (stop_on_nan, reject_nan)", a->on_nan, b->on_nan},
    };
    for (size_t i = 0; i < sizeof num / sizeof num[0]; i++)
        if (num[i].a != num[i].b)
            return fail_differs(err, "job", num[i].what, num[i].a, num[i].b);
    if (a->seed != b->seed)
        return pd_fail(err, PD_ECONF, "job: seed is %llu here but was declared first as %llu",
                       (unsigned long long)b->seed, (unsigned long long)a->seed);
    if (strcmp(a->update, b->update))
        return pd_fail(err, PD_ECONF, "job: update is %s here but was declared first as %s",
                       b->update, a->update);
    int rc = same_optimizer(a, b, err);
    for (uint32_t i = 0; i < a->n_dense && i < b->n_dense && !rc; i++)
        rc = same_dense(&a->dense[i], &b->dense[i], err);
    for (uint32_t i = 0; i < a->n_sparse && i < b->n_sparse && !rc; i++)
        rc = same_sparse(&a->sparse[i], &b->sparse[i], err);
    if (!rc && a->n_dense != b->n_dense)
        rc = fail_differs(err, "job", "number of parameters", a->n_dense, b->n_dense);
    if (!rc && a->n_sparse != b->n_sparse)
        rc = fail_differs(err, "job", "number of tables", a->n_sparse, b->n_sparse);
    return rc;
}
