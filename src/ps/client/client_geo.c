/* SPDX-License-Identifier: Apache-2.0 */
/* client_geo.c - geo mode: this trainer steps locally and exchanges its changes every k steps.
 *
 *     values of the servers ──▶ base, w       w steps by the optimizer, here, for k batches
 *     servers: value += share * (w - base)    then base and w begin anew with the servers' values
 *
 * All dense values are exchanged; their share is 1 / trainers. Of a table, the rows touched since
 * the last exchange are exchanged. Their share is larger if few other trainers touch them.
 *
 * A row is requested when a batch needs it for the first time after an exchange. Until the next
 * exchange it lives in a local table: [w | optimizer state | base]. State that is a sum over
 * updates (adagrad) is exchanged like the weights, in further planes behind them. Other state stays
 * here over exchanges and is not part of a saved model.
 *
 * The first windows are shorter, since at the start all trainers take large steps in the same
 * direction. Formula, reasons and source: docs/sources.md#update-rules. */
#include "ps/client/client_internal.h"
#include "ps/table/table.h"

enum { DEFAULT_PUSH_NUMS = 100, EARLY = 8 };

struct geo_dense {
    uint64_t stride;
    float *w;            /* [1 + state][stride]: with the optimizer's state */
    float *base, *delta; /* [planes][stride]: the values that are exchanged */
    const float *grad;   /* of the current step; the caller's memory until ps_wait */
};

struct geo_table {
    struct ps_table *rows; /* of a row's note, mark: window in which it was requested; step: window
                              in which it was touched */
    struct ps_index_entry *touched;
    size_t n_touched, cap_touched;
    uint64_t *keys; /* keys of an exchange */
    float *delta;
    size_t cap_keys, cap_delta;
    const float *grad; /* of the current step */
    uint32_t *at;      /* rows of `grad` */
    size_t n_at, cap_at;
    uint32_t *touches; /* of each row: number of steps that touched it in this process */
    size_t cap_touches;
    uint32_t *found; /* rows of a pull, separate from `at`: a pull may come between a push and the
                        end of its step */
    size_t cap_found;
};

/* Rows that a batch waits for. */
struct geo_pull {
    struct geo_pull *next;
    uint32_t table;
    enum ps_pull_mode mode;
    size_t n, n_asked;
    float *out, *asked; /* asked: values of the n_asked keys that were requested from the servers */
    uint64_t *asked_keys;
    uint64_t keys[];
};

struct ps_geo {
    uint32_t push_nums, since; /* steps of a full window; steps since the last exchange */
    uint32_t window;           /* number of exchanges, plus 1 */
    uint64_t steps, samples;
    int stale; /* 1: the dense values must be pulled again */
    const struct ps_optim *optim;
    struct geo_dense *dense;  /* [n_dense] */
    struct geo_table *tables; /* [n_sparse] */
    struct geo_pull *pulls;
};

/* Steps before exchange number `exchanges`, counted from 0: 1 for the first EARLY exchanges, then
 * 2, 4, ... for EARLY exchanges each, up to push_nums. */
static uint32_t window_steps(const struct ps_geo *g, uint64_t exchanges) {
    const uint64_t doubled = exchanges / EARLY;
    return doubled < 31 && 1u << doubled < g->push_nums ? 1u << doubled : g->push_nums;
}

uint64_t geo_steps_in(const struct ps_client *c, uint64_t first, uint64_t end) {
    uint64_t n = 0;
    for (; first < end && window_steps(c->geo, first) < c->geo->push_nums; first++)
        n += window_steps(c->geo, first);
    return n + (end - first) * c->geo->push_nums;
}

static int no_memory(struct ps_client *c) {
    return client_fail(c, PD_ENOMEM, "no memory for local steps");
}

struct ps_geo *geo_new(uint32_t push_nums) {
    struct ps_geo *g = pd_calloc(1, sizeof *g);
    if (g) {
        g->push_nums = push_nums ? push_nums : DEFAULT_PUSH_NUMS;
        g->window = 1;
        g->stale = 1;
    }
    return g;
}

int geo_start(struct ps_client *c) {
    struct ps_geo *g = c->geo;
    g->optim = ps_optim_find(c->decl.optim.name);
    g->dense = pd_calloc(c->decl.n_dense, sizeof *g->dense);
    g->tables = pd_calloc(c->decl.n_sparse, sizeof *g->tables);
    if (!g->dense || !g->tables)
        return no_memory(c);
    const uint32_t n_planes = 1 + g->optim->state + 2 * c->planes;
    for (uint32_t i = 0; i < c->decl.n_dense; i++) {
        uint64_t n = c->decl.dense[i].n, each = (n + 15) / 16 * 16;
        struct geo_dense *d = &g->dense[i];
        d->stride = each;
        d->w = each > SIZE_MAX / sizeof(float) / n_planes
                   ? NULL
                   : pd_alloc64(each * n_planes * sizeof(float));
        if (!d->w)
            return no_memory(c);
        memset(d->w, 0, each * n_planes * sizeof(float));
        d->base = d->w + each * (1 + g->optim->state);
        d->delta = d->base + each * c->planes;
    }
    for (uint32_t i = 0; i < c->decl.n_sparse; i++) {
        struct ps_table_opts o = {.name = c->decl.sparse[i].name,
                                  .dim = c->decl.sparse[i].dim,
                                  .state = g->optim->state + c->planes};
        if (ps_table_new(&g->tables[i].rows, &o))
            return no_memory(c);
    }
    return 0;
}

static void free_pull(struct geo_pull *p) {
    free(p->asked);
    free(p->asked_keys);
    free(p);
}

void geo_free(struct ps_client *c) {
    struct ps_geo *g = c->geo;
    if (!g)
        return;
    for (uint32_t i = 0; g->dense && i < c->decl.n_dense; i++)
        free(g->dense[i].w);
    for (uint32_t i = 0; g->tables && i < c->decl.n_sparse; i++) {
        struct geo_table *t = &g->tables[i];
        ps_table_free(t->rows);
        free(t->touched);
        free(t->keys);
        free(t->touches);
        free(t->delta);
        free(t->at);
        free(t->found);
    }
    while (g->pulls) {
        struct geo_pull *p = g->pulls;
        g->pulls = p->next;
        free_pull(p);
    }
    free(g->dense);
    free(g->tables);
    free(g);
    c->geo = NULL;
}

uint64_t geo_steps(const struct ps_client *c) { return c->geo->steps; }

static float *base_values(const struct ps_geo *g, const struct ps_table *t, float *row) {
    return row + (size_t)ps_table_dim(t) * (1 + g->optim->state);
}

/* --- values --- */

/* BLOCKS. Pulls all dense values from the servers. */
static int pull_all_dense(struct ps_client *c) {
    struct ps_geo *g = c->geo;
    for (uint32_t i = 0; i < c->decl.n_dense; i++)
        for (uint32_t k = 0; k < c->planes; k++)
            if (client_pull_dense(c, (int)(i + k * c->decl.n_dense),
                                  g->dense[i].base + k * g->dense[i].stride))
                return c->err.code;
    if (client_wait_pulls(c))
        return c->err.code;
    for (uint32_t i = 0; i < c->decl.n_dense; i++)
        memcpy(g->dense[i].w, g->dense[i].base, g->dense[i].stride * c->planes * sizeof(float));
    g->stale = 0;
    return 0;
}

int geo_pull_dense(struct ps_client *c, int id, float *out) {
    if (c->geo->stale && pull_all_dense(c))
        return c->err.code;
    memcpy(out, c->geo->dense[id].w, c->decl.dense[id].n * sizeof *out);
    return 0;
}

static int is_fresh(const struct ps_geo *g, const struct geo_table *t, uint32_t row) {
    return row != PS_ROW_NONE && ps_table_note(t->rows, row)->mark == g->window;
}

/* Requests the rows that were not pulled since the last exchange. */
int geo_pull_rows(struct ps_client *c, int table, size_t n, const uint64_t *keys, float *out,
                  enum ps_pull_mode mode) {
    struct ps_geo *g = c->geo;
    struct geo_table *t = &g->tables[table];
    const size_t width = (size_t)c->decl.sparse[table].dim * c->planes;
    struct geo_pull *p = pd_malloc(sizeof *p + n * sizeof p->keys[0]);
    if (!p)
        return no_memory(c);
    *p = (struct geo_pull){
        .next = g->pulls, .table = (uint32_t)table, .mode = mode, .n = n, .out = out};
    g->pulls = p;
    memcpy(p->keys, keys, n * sizeof *keys);
    p->asked_keys = pd_malloc(n * sizeof *keys);
    p->asked = pd_alloc64(n * width * sizeof *out);
    if (!p->asked_keys || !p->asked || pd_grow(t->found, t->cap_found, n))
        return no_memory(c);
    if (ps_table_find(t->rows, keys, n, 0, t->found))
        return no_memory(c);
    for (size_t i = 0; i < n; i++)
        if (!is_fresh(g, t, t->found[i]))
            p->asked_keys[p->n_asked++] = keys[i];
    return p->n_asked ? client_pull_rows(c, table, p->n_asked, p->asked_keys, p->asked, mode)
                      : c->err.code;
}

/* Call when the values of a pull have arrived. The rows begin their window, and the caller gets the
 * values of all rows. */
static int finish_pull(struct ps_client *c, struct geo_pull *p) {
    struct ps_geo *g = c->geo;
    struct geo_table *t = &g->tables[p->table];
    const size_t dim = c->decl.sparse[p->table].dim, width = dim * c->planes;
    size_t k = 0;
    if (pd_grow(t->found, t->cap_found, p->n) ||
        ps_table_find(t->rows, p->keys, p->n, p->mode == PS_CREATE, t->found))
        return no_memory(c);
    for (size_t i = 0; i < p->n; i++) {
        int asked = k < p->n_asked && p->asked_keys[k] == p->keys[i];
        const float *value = p->asked + k * width;
        k += (size_t)asked;
        /* Two pulls of a batch may have requested the same row. The first answer counts, with the
         * steps since then. */
        if (!is_fresh(g, t, t->found[i]) && p->mode == PS_CREATE) {
            float *w = ps_table_change(t->rows, t->found[i]);
            memcpy(w, value, width * sizeof *w);
            memcpy(base_values(g, t->rows, w), value, width * sizeof *w);
            ps_table_note(t->rows, t->found[i])->mark = g->window;
        }
        memcpy(p->out + i * dim,
               is_fresh(g, t, t->found[i]) ? ps_table_row(t->rows, t->found[i]) : value,
               dim * sizeof *value);
    }
    return 0;
}

int geo_complete(struct ps_client *c) {
    struct ps_geo *g = c->geo;
    while (g->pulls && !c->err.code) {
        struct geo_pull *p = g->pulls;
        g->pulls = p->next;
        finish_pull(c, p);
        free_pull(p);
    }
    return c->err.code;
}

/* --- a local step --- */

int geo_push_dense(struct ps_client *c, int id, const float *grad) {
    c->geo->dense[id].grad = grad;
    return 0;
}

static int room_for_touches(struct geo_table *t) {
    const size_t had = t->cap_touches;
    const int rc = pd_grow(t->touches, t->cap_touches, (size_t)ps_table_places(t->rows));
    if (t->cap_touches > had)
        memset(t->touches + had, 0, (t->cap_touches - had) * sizeof *t->touches);
    return rc;
}

int geo_push_rows(struct ps_client *c, int table, size_t n, const uint64_t *keys,
                  const float *grad) {
    struct ps_geo *g = c->geo;
    struct geo_table *t = &g->tables[table];
    if (pd_grow(t->at, t->cap_at, n) || room_for_touches(t) ||
        pd_grow(t->touched, t->cap_touched, t->n_touched + n) ||
        ps_table_find(t->rows, keys, n, 0, t->at))
        return no_memory(c);
    for (size_t i = 0; i < n; i++) {
        if (!is_fresh(g, t, t->at[i]))
            return client_fail(c, PD_EUSAGE, "table '%s': a pushed row was not pulled before (geo)",
                               c->decl.sparse[table].name);
        struct ps_row_note *note = ps_table_note(t->rows, t->at[i]);
        if (note->step != g->window) {
            note->step = g->window;
            t->touched[t->n_touched++] = (struct ps_index_entry){keys[i], t->at[i]};
        }
    }
    for (size_t i = 0; i < n; i++)
        t->touches[t->at[i]]++;
    t->n_at = n;
    t->grad = grad;
    return 0;
}

static int local_step(struct ps_client *c, uint64_t n_samples) {
    struct ps_geo *g = c->geo;
    struct ps_optim_args a;
    const struct ps_schedule_at at = {.step = g->steps, .samples = g->samples, .pass = c->pass};
    float rate = (float)ps_learning_rate(&c->decl.optim, &at);
    ps_optim_args_init(&a, &c->decl.optim, 0, g->steps + 1);
    ps_optim_args_samples(&a, (float)n_samples);
    for (uint32_t i = 0; i < c->decl.n_dense; i++) {
        const struct ps_dense *p = &c->decl.dense[i];
        struct geo_dense *d = &g->dense[i];
        if (d->grad && c->decl.on_nan && !ps_all_finite(d->grad, p->n))
            return client_fail(
                c, PD_ENUM, "the gradient of parameter '%s' is not a finite number (stop_on_nan)",
                p->name);
        a.lr = rate * p->lr_factor;
        a.l1 = p->l1;
        a.l2 = p->l2;
        if (d->grad && p->lr_factor > 0 && p->average > 0)
            ps_optim_average(p->average, a.n_samples, d->w, d->grad, p->n);
        else if (d->grad && p->lr_factor > 0)
            ps_optim_apply(g->optim, &a, d->w, d->w + d->stride, d->stride, d->grad, p->n);
        d->grad = NULL;
    }
    for (uint32_t i = 0; i < c->decl.n_sparse; i++) {
        const struct ps_sparse *p = &c->decl.sparse[i];
        struct geo_table *t = &g->tables[i];
        if (c->decl.on_nan && t->n_at && !ps_all_finite(t->grad, t->n_at * p->dim))
            return client_fail(c, PD_ENUM,
                               "the gradient of table '%s' is not a finite number (stop_on_nan)",
                               p->name);
        a.lr = rate * p->lr_factor;
        a.l1 = p->l1;
        a.l2 = p->l2;
        for (size_t k = 0; k < t->n_at && p->lr_factor > 0; k++) {
            float *w = ps_table_change(t->rows, t->at[k]);
            ps_optim_apply(g->optim, &a, w, w + p->dim, p->dim, t->grad + k * p->dim, p->dim);
        }
        t->n_at = 0;
    }
    g->samples += n_samples;
    return 0;
}

/* --- the exchange --- */

static int by_key(const void *a, const void *b) {
    const struct ps_index_entry *x = a, *y = b;
    return x->key < y->key ? -1 : x->key > y->key;
}

/* The share of a row's difference: 1 / the expected number of trainers that touch the row in a
 * window of this length. It assumes that every other trainer touches the row in a step as often as
 * this trainer did in its earlier steps. */
static float row_share(const struct ps_client *c, const struct geo_table *t, uint32_t row) {
    const struct ps_geo *g = c->geo;
    const double often = g->steps > 1 ? (double)(t->touches[row] - 1) / (double)(g->steps - 1) : 1;
    return (float)(1 / (1 + (c->decl.n_trainers - 1) * (1 - pow(1 - fmin(often, 1), g->since))));
}

static int push_table(struct ps_client *c, uint32_t id) {
    struct ps_geo *g = c->geo;
    struct geo_table *t = &g->tables[id];
    const size_t width = (size_t)c->decl.sparse[id].dim * c->planes, n = t->n_touched;
    if (!n)
        return 0;
    if (pd_grow(t->keys, t->cap_keys, n) || pd_grow(t->delta, t->cap_delta, n * width))
        return no_memory(c);
    qsort(t->touched, n, sizeof *t->touched, by_key);
    for (size_t i = 0; i < n; i++) {
        float *w = ps_table_change(t->rows, t->touched[i].row);
        const float *base = base_values(g, t->rows, w), share = row_share(c, t, t->touched[i].row);
        t->keys[i] = t->touched[i].key;
        for (size_t k = 0; k < width; k++)
            t->delta[i * width + k] = (w[k] - base[k]) * share;
    }
    t->n_touched = 0;
    return client_push_rows(c, (int)id, n, t->keys, t->delta, NULL);
}

/* BLOCKS. Pushes the differences, ends the servers' step and pulls the dense values. */
static int exchange_differences(struct ps_client *c) {
    struct ps_geo *g = c->geo;
    const float share = 1.0f / (float)c->decl.n_trainers;
    for (uint32_t i = 0; i < c->decl.n_dense && !c->err.code; i++) {
        struct geo_dense *d = &g->dense[i];
        for (uint64_t k = 0; k < d->stride * c->planes; k++)
            d->delta[k] = (d->w[k] - d->base[k]) * share;
        for (uint32_t k = 0; k < c->planes; k++)
            client_push_dense(c, (int)(i + k * c->decl.n_dense), d->delta + k * d->stride);
    }
    for (uint32_t i = 0; i < c->decl.n_sparse && !c->err.code; i++)
        push_table(c, i);
    g->since = 0;
    g->window++;
    if (c->err.code || client_step_end(c, 1, NULL, 0))
        return c->err.code;
    return pull_all_dense(c);
}

int geo_step_end(struct ps_client *c, uint64_t n_samples, const double *stats, size_t n_stats) {
    struct ps_geo *g = c->geo;
    if (g->pulls)
        return client_fail(c, PD_EUSAGE, "ps_step_end before ps_wait: pulls are under way");
    if (n_samples && local_step(c, n_samples))
        return c->err.code;
    if (n_stats) {
        struct step_sums s = {.step = g->steps, .n_samples = n_samples};
        memcpy(s.v, stats, n_stats * sizeof *stats);
        c->n_sums_asked++;
        client_keep_sums(c, &s);
    }
    g->steps++;
    return ++g->since >= window_steps(g, c->step) ? exchange_differences(c) : 0;
}

int geo_pass_end(struct ps_client *c) { return c->geo->since ? exchange_differences(c) : 0; }

void geo_forget(struct ps_client *c) {
    c->geo->window++;
    c->geo->stale = 1;
}
