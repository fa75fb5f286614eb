/* SPDX-License-Identifier: Apache-2.0 */
/* eval.c - the table of evaluators, and their common parts: see eval.h. */
#include "nn/evals/eval.h"

#include "nn/evals/eval_internal.h"
#include "nn/graph/graph_internal.h"

const struct nn_evaluator *const nn_evaluators[] = {
    &nn_eval_error,
    &nn_eval_auc,
    &nn_eval_log_loss,
    &nn_eval_normalized_entropy,
    &nn_eval_perplexity,
    &nn_eval_rmse,
    &nn_eval_mae,
    &nn_eval_precision_recall,
    &nn_eval_calibration,
    &nn_eval_gauc,
    &nn_eval_ndcg,
    &nn_eval_recall,
    NULL,
};

enum { REDUCE = 1 << 16 }; /* numbers in one call of nn_eval_all.sum */

struct value {
    char name[NN_EVAL_NAME_MAX];
    double value;
    int better; /* as in struct nn_evaluator; 0: not the value that counts */
};

struct nn_eval {
    const struct nn_graph *g;
    struct nn_eval_sums *of; /* [g->n_evals] */
    double *label;           /* [cap] */
    size_t cap;
    struct value *value; /* [g->n_evals * NN_EVAL_VALUES] */
    uint32_t n_values;
    char judge[NN_EVAL_NAME_MAX]; /* "": the first value that can */
};

int nn_eval_new(struct nn_eval **out, const struct nn_graph *g, struct pd_err *err) {
    struct nn_eval *v = pd_calloc(1, sizeof *v);
    int ok = v != NULL;
    if (ok) {
        v->g = g;
        v->of = pd_calloc(g->n_evals, sizeof *v->of);
        v->value = pd_calloc((size_t)g->n_evals * NN_EVAL_VALUES, sizeof *v->value);
        ok = v->of && v->value;
    }
    for (uint32_t i = 0; ok && i < g->n_evals; i++)
        if (g->eval[i].type->collects)
            ok = (v->of[i].collected = g->eval[i].type->collects->new (&g->eval[i])) != NULL;
    if (!ok) {
        nn_eval_free(v);
        return pd_fail(err, PD_ENOMEM, "no memory for the evaluators");
    }
    *out = v;
    return 0;
}

void nn_eval_free(struct nn_eval *v) {
    if (!v)
        return;
    for (uint32_t i = 0; v->of && i < v->g->n_evals; i++)
        if (v->of[i].collected)
            v->g->eval[i].type->collects->free(v->of[i].collected);
    free(v->of);
    free(v->label);
    free(v->value);
    free(v);
}

void nn_eval_clear(struct nn_eval *v) {
    for (uint32_t i = 0; i < v->g->n_evals; i++) {
        memset(v->of[i].sum, 0, sizeof v->of[i].sum);
        if (v->of[i].collected)
            v->g->eval[i].type->collects->clear(v->of[i].collected);
    }
    v->n_values = 0;
}

static int read_labels(struct nn_eval *v, const struct nn_exec *e, uint32_t field) {
    if (pd_grow(v->label, v->cap, e->n))
        return PD_ENOMEM;
    int ids = v->g->node[field].field.kind == PD_ID;
    for (uint32_t i = 0; i < e->n; i++)
        v->label[i] = ids ? (double)nn_ids(e, field)[i] : (double)nn_label(e, field, i, 0);
    return 0;
}

int nn_eval_add(struct nn_eval *v, const struct nn_exec *e, struct pd_err *err) {
    const struct nn_graph *g = v->g;
    for (uint32_t k = 0; k < g->n_evals; k++) {
        const struct nn_eval_node *ev = &g->eval[k];
        struct nn_eval_rows r = {.n = e->n, .threshold = ev->threshold, .positive = ev->positive};
        int rc = 0;
        if (ev->type->of_cost) {
            r.cost_sum = e->cost_sum[ev->input];
        } else {
            const struct nn_node *in = &g->node[ev->input];
            r.cols = in->size;
            r.y = e->state[ev->input].y;
            r.is_probability =
                !strcmp(in->act->name, "sigmoid") || !strcmp(in->act->name, "softmax");
            rc = read_labels(v, e, ev->label);
            r.label = v->label;
            r.group = ev->type->of_group ? nn_ids(e, ev->group) : NULL;
        }
        if (!rc && ev->type->add)
            ev->type->add(&v->of[k], &r);
        if (!rc && ev->type->collects)
            rc = ev->type->collects->add(&v->of[k], &r);
        if (rc)
            return pd_fail(err, rc, "no memory for evaluator '%s'", ev->name);
    }
    return 0;
}

int nn_eval_merge(struct nn_eval *into, const struct nn_eval *from, struct pd_err *err) {
    const struct nn_graph *g = into->g;
    for (uint32_t k = 0; k < g->n_evals; k++) {
        for (uint32_t i = 0; i < g->eval[k].type->n_sums; i++)
            pd_exact_sum_merge(&into->of[k].sum[i], &from->of[k].sum[i]);
        if (into->of[k].collected &&
            g->eval[k].type->collects->merge(into->of[k].collected, from->of[k].collected))
            return pd_fail(err, PD_ENOMEM, "no memory for evaluator '%s'", g->eval[k].name);
    }
    return 0;
}

int nn_eval_sum(const struct nn_eval_all *all, double *v, size_t n, struct pd_err *err) {
    int rc = 0;
    for (size_t at = 0; all->sum && !rc && at < n; at += REDUCE)
        rc = all->sum(all->arg, v + at, n - at < REDUCE ? n - at : REDUCE, err);
    return rc;
}

static int total_sums(struct nn_eval_sums *s, uint32_t n, const struct nn_eval_all *all,
                      struct pd_err *err) {
    double v[NN_EVAL_SUMS * PD_EXACT_SUM_NUMBERS];
    if (!n || !all->sum)
        return 0;
    for (uint32_t i = 0; i < n; i++)
        pd_exact_sum_put(&s->sum[i], v + i * PD_EXACT_SUM_NUMBERS);
    int rc = all->sum(all->arg, v, n * PD_EXACT_SUM_NUMBERS, err);
    for (uint32_t i = 0; !rc && i < n; i++)
        pd_exact_sum_get(&s->sum[i], v + i * PD_EXACT_SUM_NUMBERS);
    return rc;
}

int nn_eval_total(struct nn_eval *v, const struct nn_eval_all *all, struct pd_err *err) {
    v->n_values = 0;
    for (uint32_t k = 0; k < v->g->n_evals; k++) {
        const struct nn_eval_node *ev = &v->g->eval[k];
        double sum[NN_EVAL_SUMS] = {0};
        struct nn_value out[NN_EVAL_VALUES];
        int rc = ev->type->collects ? ev->type->collects->total(&v->of[k], ev, all, err) : 0;
        if (!rc)
            rc = total_sums(&v->of[k], ev->type->n_sums, all, err);
        if (rc)
            return rc;
        for (uint32_t i = 0; i < ev->type->n_sums; i++)
            sum[i] = pd_exact_sum_value(&v->of[k].sum[i]);
        uint32_t n = ev->type->finish(sum, &v->of[k], out);
        for (uint32_t i = 0; i < n; i++) {
            struct value *x = &v->value[v->n_values++];
            snprintf(x->name, sizeof x->name, "%s%s%s", ev->name, *out[i].name ? "." : "",
                     out[i].name);
            x->value = out[i].value;
            x->better =
                !strcmp(out[i].name, ev->type->judge ? ev->type->judge : "") ? ev->type->better : 0;
        }
    }
    return 0;
}

uint32_t nn_eval_n_values(const struct nn_eval *v) { return v->n_values; }
const char *nn_eval_name(const struct nn_eval *v, uint32_t i) { return v->value[i].name; }
double nn_eval_value(const struct nn_eval *v, uint32_t i) { return v->value[i].value; }

int nn_eval_judge(const struct nn_eval *v, uint32_t *i) {
    for (uint32_t k = 0; k < v->n_values; k++)
        if (v->value[k].better && (!*v->judge || !strcmp(v->value[k].name, v->judge))) {
            *i = k;
            return v->value[k].better;
        }
    return 0;
}

/* The names of all values are known after a total, also of no samples. */
int nn_eval_judge_by(struct nn_eval *v, const char *name) {
    const struct nn_eval_all alone = {.n_ranks = 1};
    struct pd_err err = {0};
    uint32_t i;
    nn_eval_clear(v);
    int rc = nn_eval_total(v, &alone, &err);
    if (!rc && pd_fmt(v->judge, sizeof v->judge, "%s", name))
        rc = PD_ENOENT;
    if (!rc && !nn_eval_judge(v, &i) && strcmp(name, "cost"))
        rc = PD_ENOENT;
    nn_eval_clear(v);
    return rc;
}
