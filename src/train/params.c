/* params.c - see params.h. */
#include "train/params.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"

struct slot { /* a parameter: dense is [rows x cols]; of a table, the rows that the current batch uses */
    int id;
    const struct nn_param *param;
    float *w, *g;
    const uint64_t *keys; /* the feed's */
    size_t n_keys;        /* rows in use */
    size_t w_cap, g_cap;  /* rows that there is room for */
};

struct train_params {
    struct ps_client *client;
    uint32_t n;
    struct slot slot[];
};

static size_t n_values(const struct slot *s) {
    return (size_t)(s->param->kind == NN_TABLE ? s->n_keys : s->param->rows) * s->param->cols;
}

static int declare(struct ps_client *c, const struct nn_param *p) {
    if (p->kind == NN_TABLE) {
        struct ps_table_spec t = {.name = p->name, .dim = (uint32_t)p->cols, .n_rows = p->rows, .init_std = (float)p->init_std,
                                  .lr_factor = (float)p->lr_factor, .l1 = (float)p->l1, .l2 = (float)p->l2};
        return ps_declare_table(c, &t);
    }
    struct ps_dense_spec d = {.name = p->name, .n_dims = p->rows > 1 ? 2 : 1, .shape = {p->rows, p->cols},
                              .init_std = (float)p->init_std, .lr_factor = (float)p->lr_factor, .l1 = (float)p->l1, .l2 = (float)p->l2};
    if (p->rows == 1)
        d.shape[0] = p->cols;
    return ps_declare_dense(c, &d);
}

/* The old contents are not kept. */
static int make_room(const struct slot *s, float **buffer, size_t *cap, size_t rows) {
    if (rows <= *cap && *buffer)
        return 0;
    free(*buffer);
    *cap = s->param->kind == NN_TABLE ? rows + rows / 2 : rows;
    *buffer = pd_alloc64(*cap * s->param->cols * sizeof(float));
    if (!*buffer)
        *cap = 0;
    return *buffer ? 0 : PD_ENOMEM;
}

int train_params_new(struct train_params **out, const struct nn_graph *g, struct ps_client *c, struct pd_err *err) {
    uint32_t n = nn_graph_n_params(g);
    struct train_params *p = pd_calloc(1, sizeof *p + n * sizeof p->slot[0]);
    int rc = p ? 0 : PD_ENOMEM;
    for (uint32_t i = 0; i < n && !rc; i++) {
        struct slot *s = &p->slot[i];
        p->client = c;
        p->n = i + 1;
        s->param = nn_graph_param(g, i);
        s->id = declare(c, s->param);
        rc = s->id < 0 ? s->id : s->param->kind == NN_DENSE ? make_room(s, &s->w, &s->w_cap, s->param->rows) : 0;
    }
    if (rc) {
        pd_fail(err, rc, "%s", p && ps_client_err(c)->code ? ps_client_err(c)->msg : "out of memory for the parameters");
        train_params_free(p);
        return rc;
    }
    *out = p;
    return 0;
}

void train_params_free(struct train_params *p) {
    for (uint32_t i = 0; p && i < p->n; i++) {
        free(p->slot[i].w);
        free(p->slot[i].g);
    }
    free(p);
}

int train_params_pull_dense(struct train_params *p) {
    int rc = 0;
    for (uint32_t i = 0; i < p->n && !rc; i++)
        if (p->slot[i].param->kind == NN_DENSE)
            rc = ps_pull_dense(p->client, p->slot[i].id, p->slot[i].w, n_values(&p->slot[i]));
    return rc;
}

int train_params_pull_rows(struct train_params *p, const struct nn_feed *feed, int train, struct pd_err *err) {
    for (uint32_t i = 0; i < p->n; i++) {
        struct slot *s = &p->slot[i];
        uint32_t n = 0;
        if (s->param->kind != NN_TABLE)
            continue;
        s->keys = nn_feed_keys(feed, i, &n);
        /* Values only: the last step's gradients may still be on their way, until ps_wait. */
        if (make_room(s, &s->w, &s->w_cap, n))
            return pd_fail(err, PD_ENOMEM, "%s: no memory for %u rows", s->param->name, n);
        s->n_keys = n;
        int rc = n ? ps_pull_rows(p->client, s->id, n, s->keys, s->w, train ? PS_CREATE : PS_NO_CREATE) : 0;
        if (rc)
            return pd_fail(err, rc, "%s", ps_client_err(p->client)->msg);
    }
    return 0;
}

int train_params_bind(struct train_params *p, struct nn_exec *exec, int train, struct pd_err *err) {
    for (uint32_t i = 0; i < p->n; i++) {
        struct slot *s = &p->slot[i];
        size_t rows = s->param->kind == NN_TABLE ? s->n_keys : s->param->rows;
        if (train && make_room(s, &s->g, &s->g_cap, rows))
            return pd_fail(err, PD_ENOMEM, "%s: no memory for the gradients of %zu rows", s->param->name, rows);
        if (train && n_values(s))
            memset(s->g, 0, n_values(s) * sizeof(float));
        nn_exec_bind(exec, i, s->w, train ? s->g : NULL);
    }
    return 0;
}

/* In double and in a fixed order, so that the same gradients give the same bits. */
void train_params_clip(struct train_params *p, uint64_t n_samples, double max_norm) {
    double sum = 0;
    for (uint32_t i = 0; i < p->n; i++)
        for (size_t k = 0, n = n_values(&p->slot[i]); k < n; k++)
            sum += (double)p->slot[i].g[k] * (double)p->slot[i].g[k];
    double norm = sqrt(sum) / (double)n_samples;
    if (!(norm > max_norm)) /* what is no number is left for the servers to name */
        return;
    const float scale = (float)(max_norm / norm);
    for (uint32_t i = 0; i < p->n; i++)
        for (size_t k = 0, n = n_values(&p->slot[i]); k < n; k++)
            p->slot[i].g[k] *= scale;
}

int train_params_push(struct train_params *p) {
    int rc = 0;
    for (uint32_t i = 0; i < p->n && !rc; i++) {
        struct slot *s = &p->slot[i];
        rc = s->param->kind == NN_DENSE ? ps_push_dense(p->client, s->id, s->g, n_values(s))
             : s->n_keys                ? ps_push_rows(p->client, s->id, s->n_keys, s->keys, s->g)
                                        : 0;
    }
    return rc;
}
