/* SPDX-License-Identifier: Apache-2.0 */
/* evaluator.h - an evaluator's row of the table, as the graph needs it: the inputs. src/nn/evals
 * has the rows and their arithmetic. */
#pragma once

enum { NN_EVAL_VALUES = 3 };

/* A batch of n samples, as an evaluator gets it. */
struct nn_eval_rows {
    uint32_t n, cols;
    const float *y;      /* [n x cols], after the activation */
    const double *label; /* [n] */
    double cost_sum;     /* of_cost */
    /* of [evaluator NAME]: a single output from this value on means class 1 */
    double threshold;
    uint32_t positive;  /* the class that counts as positive */
    int is_probability; /* y lies in 0..1 */
};

struct nn_eval_sums; /* src/nn/evals */

struct nn_value {
    const char *name; /* "": the evaluator's own */
    double value;
};

struct nn_evaluator {
    const char *name;
    /* 1: the input is a cost; 0: a layer, with a label */
    int of_cost;
    uint32_t max_cols; /* of that layer; 0: any number */
    uint32_t n_sums;   /* number of sums in nn_eval_sums */
    /* also collects (output, label) pairs: eval_auc.c */
    int pairs;
    void (*add)(struct nn_eval_sums *s, const struct nn_eval_rows *r);
    uint32_t (*finish)(const double *sum, const struct nn_eval_sums *s,
                       struct nn_value out[NN_EVAL_VALUES]);
    const char *text;
    /* By what a pass is better than another: 1: a larger value, -1: a smaller one, 0: by nothing.
     * judge: the value of several that counts; NULL: the evaluator's own. */
    int better;
    const char *judge;
};

extern const struct nn_evaluator *const nn_evaluators[]; /* ends with NULL */
