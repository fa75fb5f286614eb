/* SPDX-License-Identifier: Apache-2.0 */
/* evaluator.h - an evaluator's row of the table, as the graph needs it: the inputs. src/nn/evals
 * has the rows and their arithmetic. */
#pragma once

enum { NN_EVAL_VALUES = 3 };

/* A batch of n samples, as an evaluator gets it. */
struct nn_eval_rows {
    uint32_t n, cols;
    const float *y;        /* [n x cols], after the activation */
    const double *label;   /* [n] */
    const uint64_t *group; /* [n]: ids of the field `group`; NULL: the evaluator has no groups */
    double cost_sum;       /* of_cost */
    /* of [evaluator NAME]: a single output from this value on means class 1 */
    double threshold;
    uint32_t positive;  /* the class that counts as positive */
    int is_probability; /* y lies in 0..1 */
};

struct nn_eval_sums; /* src/nn/evals */
struct nn_eval_group;
struct nn_collector;

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
    /* what it collects of each sample besides the sums; NULL: nothing */
    const struct nn_collector *collects;
    /* NULL: the collector fills the sums */
    void (*add)(struct nn_eval_sums *s, const struct nn_eval_rows *r);
    uint32_t (*finish)(const double *sum, const struct nn_eval_sums *s,
                       struct nn_value out[NN_EVAL_VALUES]);
    const char *text;
    /* By what a pass is better than another: 1: a larger value, -1: a smaller one, 0: by nothing.
     * judge: the value of several that counts; NULL: the evaluator's own. */
    int better;
    const char *judge;
    /* the outputs must be probabilities: sigmoid or softmax */
    int of_probabilities;
    /* The value of a group of samples, NAN: the group does not count. An evaluator with it has the
     * keys group, group_weight and max_samples: eval_groups.c. */
    double (*of_group)(const struct nn_eval_group *g);
    int takes_k; /* has the key k: the first k samples of a group count */
};

/* The weight of a group in the mean over groups: group_weight of [evaluator NAME]. */
enum nn_group_weight { NN_WEIGHT_SAMPLES, NN_WEIGHT_POSITIVES, NN_WEIGHT_EQUAL, NN_N_WEIGHTS };

extern const struct nn_evaluator *const nn_evaluators[]; /* ends with NULL */
