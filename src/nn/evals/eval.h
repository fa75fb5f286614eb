/* SPDX-License-Identifier: Apache-2.0 */
/* eval.h - the evaluators of train.ini. Their sums over all batches and all trainers are finished
 * once, to values.
 *
 *     nn_eval_new ─ nn_eval_add after every forward ... ─ nn_eval_total ─ nn_eval_n_values,
 *                        ^                                                _name, _value
 *                        └─────────────────── nn_eval_clear <───────────────────┘
 *
 * Sums are whole numbers or exact (math/exact_sum.h). So a value depends only on the samples and
 * the network's outputs for them, not on how they were cut into batches, threads or trainers. The
 * exception is perplexity, which takes a cost's sum for each batch.
 */
#pragma once

#include "nn/graph/graph.h"

struct nn_eval;

int nn_eval_new(struct nn_eval **out, const struct nn_graph *g, struct pd_err *err);
void nn_eval_free(struct nn_eval *v);
void nn_eval_clear(struct nn_eval *v);

/* Add the samples of the last forward. Call it before backward, which may overwrite outputs with
 * gradients. */
int nn_eval_add(struct nn_eval *v, const struct nn_exec *e, struct pd_err *err);
/* Add the sums of another thread; `from` is unchanged. */
int nn_eval_merge(struct nn_eval *into, const struct nn_eval *from, struct pd_err *err);

struct nn_eval_all { /* all ranks that evaluate together */
    uint32_t rank, n_ranks;
    /* v[i] = its sum over all ranks; NULL: there is one rank */
    int (*sum)(void *arg, double *v, size_t n, struct pd_err *err);
    void *arg;
};
/* Sum over all ranks; then the values are valid. Every rank must call it at the same point, since
 * each calls `sum` the same number of times. */
int nn_eval_total(struct nn_eval *v, const struct nn_eval_all *all, struct pd_err *err);

/* Valid after nn_eval_total. An evaluator gives one value ("quality") or several
 * ("quality.recall"). The values of slices ("quality.recall.3") follow those of all evaluators. */
enum { NN_EVAL_NAME_MAX = NN_NAME_MAX + 24 };
uint32_t nn_eval_n_values(const struct nn_eval *v);
const char *nn_eval_name(const struct nn_eval *v, uint32_t i);
/* NAN: no value (no samples, or only one class) */
double nn_eval_value(const struct nn_eval *v, uint32_t i);
/* The value by which passes are compared: that of the first evaluator of which it is known whether
 * more or less is better, or that of nn_eval_judge_by. Returns 1: more is better, -1: less, 0:
 * there is no such value, and the cost compares passes. */
int nn_eval_judge(const struct nn_eval *v, uint32_t *i);
/* Passes are compared by the value `name`, or by "cost". Clears the sums. PD_ENOENT: there is no
 * such value, or it is not known whether more or less of it is better. */
int nn_eval_judge_by(struct nn_eval *v, const char *name);
