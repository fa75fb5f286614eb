/* eval.h - the evaluators of train.ini: what they see of each batch is added up, over all trainers,
 * and finished once.
 *
 *     nn_eval_new ─ nn_eval_add after every forward ... ─ nn_eval_total ─ nn_eval_n_values, _name,
 * _value
 *                        ^                                                          │
 *                        └──────────────────── nn_eval_clear <──────────────────────┘
 *
 * Sums are whole numbers or exact (math/exact_sum.h): a figure depends on the samples and the
 * network's outputs for them alone, not on how they were cut into batches, threads or trainers. The
 * one exception is perplexity, which takes a cost's sums a batch.
 */
#ifndef PD_NN_EVAL_H
#define PD_NN_EVAL_H

#include "nn/graph/graph.h"

struct nn_eval;

int nn_eval_new(struct nn_eval **out, const struct nn_graph *g, struct pd_err *err);
void nn_eval_free(struct nn_eval *v);
void nn_eval_clear(struct nn_eval *v);

/* The samples of the last forward; before backward, which may put gradients in the place of
 * outputs. */
int nn_eval_add(struct nn_eval *v, const struct nn_exec *e, struct pd_err *err);
/* What another thread added up; `from` stays as it is. */
int nn_eval_merge(struct nn_eval *into, const struct nn_eval *from, struct pd_err *err);

struct nn_eval_all { /* all who evaluate together */
    uint32_t rank, n_ranks;
    int (*sum)(void *arg, double *v, size_t n,
               struct pd_err *err); /* v[i] = its sum over all ranks; NULL: there is one */
    void *arg;
};
/* Add up over all ranks; each calls it at the same point, as it calls `sum` equally often
 * everywhere. Then the values are there. */
int nn_eval_total(struct nn_eval *v, const struct nn_eval_all *all, struct pd_err *err);

/* After nn_eval_total. An evaluator gives one value or several: "quality" is one, "quality.recall"
 * one of several. */
enum { NN_EVAL_NAME_MAX = NN_NAME_MAX + 24 };
uint32_t nn_eval_n_values(const struct nn_eval *v);
const char *nn_eval_name(const struct nn_eval *v, uint32_t i);
double nn_eval_value(const struct nn_eval *v,
                     uint32_t i); /* NAN where there is none: no samples, only one class */

#endif
