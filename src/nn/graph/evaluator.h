/* evaluator.h - a row of the table of evaluators, as the graph sees it: what it takes as input.
 * src/nn/evals has the rows and their arithmetic. */
#ifndef PD_NN_EVALUATOR_H
#define PD_NN_EVALUATOR_H

#include <stdint.h>

enum { NN_EVAL_VALUES = 3 };

/* What an evaluator sees of a batch of n samples. */
struct nn_eval_rows {
    uint32_t n, cols;
    const float *y;      /* [n x cols], after the activation */
    const double *label; /* [n] */
    double cost_sum;     /* of_cost */
    double threshold;    /* of [evaluator NAME]: a single output from here on says 1 */
    uint32_t positive;   /* the class that counts as positive */
    int is_probability;  /* y lies in 0..1 */
};

struct nn_eval_sums; /* src/nn/evals */

struct nn_value {
    const char *name; /* "": the evaluator's own */
    double value;
};

struct nn_evaluator {
    const char *name;
    int of_cost;       /* its input is a cost; else a layer, with a label */
    uint32_t max_cols; /* of that layer; 0: any */
    uint32_t n_sums;   /* of nn_eval_sums */
    int pairs;         /* collects (output, label) beside them: eval_auc.c */
    void (*add)(struct nn_eval_sums *s, const struct nn_eval_rows *r);
    uint32_t (*finish)(const double *sum, const struct nn_eval_sums *s,
                       struct nn_value out[NN_EVAL_VALUES]);
    const char *text;
};

extern const struct nn_evaluator *const nn_evaluators[]; /* ended by NULL */

#endif
