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
    /* [g->n_evals][1 + n_slices]: of all samples, then of each slice */
    struct nn_eval_sums **of;
    double *label; /* [cap] */
    size_t cap;
    struct value *value; /* [sets of sums * NN_EVAL_VALUES] */
    uint32_t n_values;
    char judge[NN_EVAL_NAME_MAX]; /* "": the first value that can */
};

static int new_evaluator(struct nn_eval *v, uint32_t k) {
    const struct nn_eval_node *ev = &v->g->eval[k];
    v->of[k] = pd_calloc(1 + ev->n_slices, sizeof **v->of);
    if (v->of[k] && ev->type->collects)
        v->of[k]->collected = ev->type->collects->new (ev);
    return v->of[k] && (v->of[k]->collected || !ev->type->collects) ? 0 : PD_ENOMEM;
}

int nn_eval_new(struct nn_eval **out, const struct nn_graph *g, struct pd_err *err) {
    struct nn_eval *v = pd_calloc(1, sizeof *v);
    int ok = v != NULL;
    if (ok) {
        size_t n_sets = 0;
        for (uint32_t i = 0; i < g->n_evals; i++)
            n_sets += 1 + g->eval[i].n_slices;
        v->g = g;
        v->of = pd_calloc(g->n_evals, sizeof *v->of);
        v->value = pd_calloc(n_sets * NN_EVAL_VALUES, sizeof *v->value);
        ok = v->of && v->value;
    }
    for (uint32_t i = 0; ok && i < g->n_evals; i++)
        ok = !new_evaluator(v, i);
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
    for (uint32_t i = 0; v->of && i < v->g->n_evals; i++) {
        if (v->of[i] && v->of[i]->collected)
            v->g->eval[i].type->collects->free(v->of[i]->collected);
        free(v->of[i]);
    }
    free(v->of);
    free(v->label);
    free(v->value);
    free(v);
}

void nn_eval_clear(struct nn_eval *v) {
    for (uint32_t i = 0; i < v->g->n_evals; i++) {
        const struct nn_eval_node *ev = &v->g->eval[i];
        for (uint32_t set = 0; set <= ev->n_slices; set++)
            memset(v->of[i][set].sum, 0, ev->type->n_sums * sizeof *v->of[i][set].sum);
        if (ev->type->collects)
            ev->type->collects->clear(v->of[i]->collected);
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

/* Adds each sample to the sums of its slice. */
static void add_to_slices(struct nn_eval_sums *slice, const struct nn_eval_node *ev,
                          const struct nn_eval_rows *r, const uint64_t *id) {
    struct nn_eval_rows one = *r;
    one.n = 1;
    for (uint32_t i = 0; i < r->n; i++, one.y += r->cols, one.label++)
        if (id[i] < ev->n_slices)
            ev->type->add(&slice[id[i]], &one);
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
            ev->type->add(v->of[k], &r);
        if (!rc && ev->n_slices)
            add_to_slices(v->of[k] + 1, ev, &r, nn_ids(e, ev->slice));
        if (!rc && ev->type->collects)
            rc = ev->type->collects->add(v->of[k], &r);
        if (rc)
            return pd_fail(err, rc, "no memory for evaluator '%s'", ev->name);
    }
    return 0;
}

int nn_eval_merge(struct nn_eval *into, const struct nn_eval *from, struct pd_err *err) {
    const struct nn_graph *g = into->g;
    for (uint32_t k = 0; k < g->n_evals; k++) {
        for (uint32_t set = 0; set <= g->eval[k].n_slices; set++)
            for (uint32_t i = 0; i < g->eval[k].type->n_sums; i++)
                pd_exact_sum_merge(&into->of[k][set].sum[i], &from->of[k][set].sum[i]);
        if (g->eval[k].type->collects &&
            g->eval[k].type->collects->merge(into->of[k]->collected, from->of[k]->collected))
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

/* Adds up the n sums of each of the sets over all ranks. */
static int total_sums(struct nn_eval_sums *s, uint32_t n_sets, uint32_t n,
                      const struct nn_eval_all *all, struct pd_err *err) {
    const size_t numbers = (size_t)n * PD_EXACT_SUM_NUMBERS;
    if (!n || !all->sum)
        return 0;
    double *v = pd_calloc(n_sets * numbers, sizeof *v);
    if (!v)
        return pd_oom(err, "an evaluator");
    for (uint32_t i = 0; i < n_sets * n; i++)
        pd_exact_sum_put(&s[i / n].sum[i % n], v + i * PD_EXACT_SUM_NUMBERS);
    int rc = nn_eval_sum(all, v, n_sets * numbers, err);
    for (uint32_t i = 0; !rc && i < n_sets * n; i++)
        pd_exact_sum_get(&s[i / n].sum[i % n], v + i * PD_EXACT_SUM_NUMBERS);
    free(v);
    return rc;
}

/* Finishes a set of sums: that of all samples, or of slice `set` - 1. A slice without a value has
 * no line: it has no samples, or only those of one class. */
static void finish(struct nn_eval *v, const struct nn_eval_node *ev, const struct nn_eval_sums *s,
                   uint32_t set) {
    double sum[NN_EVAL_SUMS] = {0};
    struct nn_value out[NN_EVAL_VALUES];
    char slice[16] = "";
    for (uint32_t i = 0; i < ev->type->n_sums; i++)
        sum[i] = pd_exact_sum_value(&s->sum[i]);
    const uint32_t n = ev->type->finish(sum, s, out);
    if (set)
        pd_fmt(slice, sizeof slice, ".%u", set - 1);
    for (uint32_t i = 0; i < n; i++) {
        const int judges = !set && !strcmp(out[i].name, ev->type->judge ? ev->type->judge : "");
        if (set && isnan(out[i].value))
            continue;
        struct value *x = &v->value[v->n_values++];
        snprintf(x->name, sizeof x->name, "%s%s%s%s", ev->name, *out[i].name ? "." : "",
                 out[i].name, slice);
        x->value = out[i].value;
        x->better = judges ? ev->type->better : 0;
    }
}

int nn_eval_total(struct nn_eval *v, const struct nn_eval_all *all, struct pd_err *err) {
    v->n_values = 0;
    for (uint32_t k = 0; k < v->g->n_evals; k++) {
        const struct nn_eval_node *ev = &v->g->eval[k];
        int rc = ev->type->collects ? ev->type->collects->total(v->of[k], ev, all, err) : 0;
        if (!rc)
            rc = total_sums(v->of[k], 1 + ev->n_slices, ev->type->n_sums, all, err);
        if (rc)
            return rc;
    }
    for (uint32_t k = 0; k < v->g->n_evals; k++)
        finish(v, &v->g->eval[k], v->of[k], 0);
    for (uint32_t k = 0; k < v->g->n_evals; k++)
        for (uint32_t set = 1; set <= v->g->eval[k].n_slices; set++)
            finish(v, &v->g->eval[k], &v->of[k][set], set);
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
