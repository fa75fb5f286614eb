/* SPDX-License-Identifier: Apache-2.0 */
/* graph_internal.h - shared by the files of src/nn: the graph's nodes, the execution's buffers, and
 * the tables of layers, activations, costs and evaluators. A new layer, activation, cost or
 * evaluator is one file (or function) and one line of a table.
 *
 *     fields  w1 w2 ... target                 nodes 0 .. n_fields-1: ids, lists of ids, or values
 *                                              [n x width]
 *     layers  e1 e2 context hidden predict     nodes after them, inputs before users: values
 *                                              [n x size]
 *     costs   read a layer and a label field; their gradient starts backward
 */
#pragma once

#include "math/key_sort.h"
#include "math/rng.h"
#include "data/schema/batch.h"
#include "model_ini/model_ini.h"
#include "nn/graph/evaluator.h"
#include "nn/graph/graph.h"

struct nn_build;
struct nn_node;
struct nn_cost_node;

/* --- tables --- */

struct nn_layer {
    const char *name;
    const char *const *takes; /* keys of [layer NAME]; ends with NULL */
    /* Check inputs, set the size, make parameters. Errors name file:line and shapes. */
    int (*shape)(struct nn_build *b, struct nn_node *self, struct pd_err *err);
    /* Compute y of this node, before its activation, from the y of its inputs. */
    void (*forward)(struct nn_exec *e, const struct nn_node *self);
    /* Compute the gradients of parameters and inputs from dy of this node, which is the gradient
     * before the activation. */
    void (*backward)(struct nn_exec *e, const struct nn_node *self);
    /* For the reference (reference.h): the layer in a line; lines of shapes and formulas, where dx
     * are the parts of the gradients, which are added up; a heading of docs/sources.md, or NULL;
     * sections of train.ini that use nn_example_frame. */
    const char *text, *formula, *source, *example;
    /* state.extra has choices (max pooling): the gradient jumps where a choice changes */
    int chooses;
};
extern const struct nn_layer *const nn_layers[]; /* ends with NULL */
extern const struct nn_layer nn_layer_embedding, nn_layer_fc, nn_layer_concat, nn_layer_dropout,
    nn_layer_addto, nn_layer_product, nn_layer_dot, nn_layer_cos_sim, nn_layer_fm,
    nn_layer_bi_interaction, nn_layer_dot_interaction, nn_layer_cross, nn_layer_layer_norm,
    nn_layer_batch_norm, nn_layer_conv, nn_layer_pool, nn_layer_negative_sampling, nn_layer_nce,
    nn_layer_skip_gram;

/* the most parameters of a layer beyond one for each input */
enum { NN_MORE_PARAMS = 3 };

/* the most uses of tables beyond one for each input */
enum { NN_MORE_USES = 2 };

/* The keys of every layer with parameters: name, initial values, training. */
#define NN_PARAM_KEYS \
    "param", "init", "init_mean", "init_std", "init_max", "static", "lr_factor", "l1", "l2"

/* Further keys if the parameter may be a table: the policy of its rows (base/row_life.h). */
#define NN_LIFE_KEYS                                                                              \
    "admit_count", "admit_probability", "admit_candidates", "admit_zero", "ageing", "show_decay", \
        "show_weight", "click_weight", "delete_score", "delete_days", "click"

/* In place over [m x n]: y = f(y), and dy becomes the gradient before the activation. NULL:
 * identity. log_sum: see nn_softmax; other activations ignore it. */
struct nn_act {
    const char *name;
    void (*forward)(size_t m, size_t n, float *y, double *log_sum);
    void (*backward)(size_t m, size_t n, const float *at, float *dy);
    int row_sums; /* needs log_sum */
    int kink;     /* the gradient jumps at 0 */
    /* 1: backward's `at` is forward's input; 0: forward's output */
    int of_x;
    const char *text, *gradient;
};
/* ends with name NULL; the first is the default */
extern const struct nn_act nn_acts[];

enum nn_label {
    NN_LABEL_NONE,
    NN_LABEL_CLASS, /* an id below the width of the input */
    /* numbers: a dense field, or an id as a number (click: 0 or 1) */
    NN_LABEL_VALUE
};

/* A cost over one or several layers and a label, of one of two kinds:
 * - Fused with the activation of its input: it reads the values before and after the activation,
 * and adds to the gradient before it.
 * - act NULL: it reads the values after the activation, and adds to the gradient after it. */
struct nn_cost_type {
    const char *name;
    const char *act; /* the activation that the cost is fused with, or NULL */
    uint32_t n_in;
    enum nn_label label;
    /* NULL: the input is [n x 1] */
    int (*shape)(const struct nn_build *b, const struct nn_cost_node *self, struct pd_err *err);
    /* NULL unless fused */
    void (*before_act)(struct nn_exec *e, const struct nn_cost_node *self);
    /* unweighted sum over the samples */
    double (*value)(struct nn_exec *e, const struct nn_cost_node *self);
    /* adds to dy of input k */
    void (*backward)(struct nn_exec *e, const struct nn_cost_node *self, uint32_t k);
    const char *text, *formula;
    /* the label lies between 0 and 1: with other labels the cost has no minimum */
    int share;
};
extern const struct nn_cost_type *const nn_cost_types[]; /* ends with NULL */
extern const struct nn_cost_type nn_cost_cross_entropy, nn_cost_binary_cross_entropy,
    nn_cost_square_error, nn_cost_huber, nn_cost_rank, nn_cost_sum;

extern const struct nn_evaluator *const nn_evaluators[]; /* ends with NULL */

/* --- graph --- */

struct nn_image { /* the values of a sample as an image; 0: no image */
    uint32_t channels, height, width;
};

struct nn_window { /* a window that moves over an image */
    struct nn_image in;
    uint32_t filter, stride, padding;
};

struct nn_node {
    char name[NN_NAME_MAX];
    int line;
    uint32_t id; /* index in graph.node */
    /* layers: order in the file, which keys random numbers; fields: number of the field */
    uint32_t number;
    const struct nn_layer *type; /* NULL: a field */
    struct pd_field field;       /* of a field: its contents */
    const struct layer_ini *ini;
    uint32_t size; /* values of a sample; a field of ids: 1 */
    uint32_t n_in, *in;
    uint32_t n_param, *param;
    /* [n_in + NN_MORE_USES], by input or as the layer defines: index in graph.use, for tables */
    uint32_t *use;
    const struct nn_act *act;
    int bias;   /* the last parameter is a bias */
    float rate; /* rate of dropout; in other layers their one number */
    /* width of a row (embedding), of one vector (fm); rank (cross) */
    uint32_t dim;
    struct nn_image image;
    struct nn_window window;
    int option; /* a layer's choice, e.g. pooling */
    /* floats of a sample that forward leaves for backward: state.extra */
    uint32_t n_extra;
    /* floats of scratch for forward and backward: exec.work */
    size_t n_work;
    int wants_grad;     /* a parameter lies at or below this node */
    uint32_t n_readers; /* layers that read this node */
    /* costs that read this node; n_plain_costs: of these, the costs that are not fused */
    uint32_t n_costs, n_plain_costs;
    /* `shape` may set this. Then backward, in executions beside each other, leaves out the
     * gradients of the inputs' parameters that are nn_param_is_joint. This function makes slice k
     * of n of them, from all samples of the feed. */
    void (*together)(struct nn_exec *e, const struct nn_node *self, const struct nn_feed *f,
                     uint32_t k, uint32_t n);
    /* the only reader is a fused cost: the gradient may overwrite the values */
    int dy_is_y;
};

enum { NN_COST_INPUTS = 2 };

struct nn_cost_node {
    const char *name;
    int line;
    uint32_t id;
    const struct nn_cost_type *type;
    uint32_t n_in, in[NN_COST_INPUTS]; /* nodes */
    uint32_t label;                    /* field */
    float weight, delta;
};

struct nn_eval_node {
    const char *name;
    const struct nn_evaluator *type;
    uint32_t input;   /* node or cost */
    uint32_t label;   /* field */
    double threshold; /* see evaluator.h */
    uint32_t positive;
    uint32_t slice, n_slices; /* field, and how many ids it has; 0: no slices */
    /* of an evaluator with groups */
    uint32_t group; /* field */
    enum nn_group_weight weight;
    uint32_t k;
    size_t max_samples;
};

/* The ids of `field` look up rows of table `param`. drawn: `field` is the number of a sampler, and
 * its drawn ids look up the rows. */
struct nn_use {
    uint32_t param, field;
    int drawn;
};

struct nn_sampler; /* sampler.h */
struct nn_draw;

struct nn_graph {
    struct model_ini *model;
    uint32_t n_fields, n_nodes, n_params, n_costs, n_evals, n_uses;
    struct nn_node *node;
    struct pd_field *field;
    struct nn_param *param;
    uint32_t *param_readers; /* layers that use the parameter */
    struct nn_cost_node *cost;
    struct nn_eval_node *eval;
    struct nn_use *use;
    struct nn_sampler *sampler;
    uint32_t n_samplers;
};

/* The graph while it is built. */
struct nn_build {
    struct nn_graph *g;
    const char *file;
    uint64_t vocabulary;
    uint32_t cap_params, cap_uses;
};

int nn_build_no_memory(const struct nn_build *b, struct pd_err *err);

/* The index of the node called `name` among the first `n`, or -1. */
int nn_build_find_node(const struct nn_graph *g, uint32_t n, const char *name);
/* The end of an error about a name that is neither of the fields nor of the layers: see pd_suggest.
 */
const char *nn_build_suggest_node(const struct nn_graph *g, int fields, int layers,
                                  const char *name, char out[120]);
/* Reads the keys that only some evaluators have; refuses them for the others. */
int nn_build_eval_keys(const struct nn_build *b, const struct evaluator_ini *ini,
                       struct nn_eval_node *ev, struct pd_err *err);

/* Parameter number `k` of layer `self`. Its name is the k-th of `param =`, otherwise
 * "LAYER.SUFFIX". A name that exists is shared and must have the same kind and shape. Initial
 * values are normal with `std` and mean 0, unless the layer's init, init_mean, init_std or init_max
 * say otherwise. These keys do not apply to biases (suffix "b" or "beta") and "out", which begin
 * with 0, nor to "gamma", which begins with 1. */
int nn_build_param(struct nn_build *b, struct nn_node *self, uint32_t k, const char *suffix,
                   enum nn_kind kind, uint64_t rows, uint64_t cols, double std, struct pd_err *err);
/* As nn_build_param, for `cols` running means (nn_param.average = `share`), initially `first`. */
int nn_build_average(struct nn_build *b, struct nn_node *self, uint32_t k, const char *suffix,
                     uint64_t cols, double share, double first, struct pd_err *err);
/* Set self->use[k], k < n_in + NN_MORE_USES: the ids of a field look up rows of the layer's
 * parameter number `param`, a table. */
int nn_build_use(struct nn_build *b, struct nn_node *self, uint32_t k, uint32_t param,
                 uint32_t field, struct pd_err *err);
/* the same for the ids that a sampler draws */
int nn_build_use_drawn(struct nn_build *b, struct nn_node *self, uint32_t k, uint32_t param,
                       uint32_t sampler, struct pd_err *err);
int nn_build_need_values(const struct nn_build *b, const struct nn_node *self, struct pd_err *err);
/* Check that the number of inputs lies between lo and hi (NN_MAX_INPUTS: any number). */
int nn_build_n_in(const struct nn_build *b, const struct nn_node *self, uint32_t lo, uint32_t hi,
                  struct pd_err *err);
/* of all inputs */
int nn_build_same_size(const struct nn_build *b, const struct nn_node *self, struct pd_err *err);
/* value of `size =`; 0: not given */
uint64_t nn_build_size(const struct nn_build *b, const struct nn_node *self);

/* --- feed and execution --- */

/* of a field, see data/schema/batch.h; pointers that its kind does not need are NULL */
struct nn_column {
    uint64_t *ids;
    uint32_t *offset;
    float *weight, *value;
    size_t cap; /* room for so many ids */
};

struct nn_feed {
    const struct nn_graph *g;
    uint32_t max, n;
    struct nn_column *col; /* [n_fields] */
    struct nn_draw *draw;  /* [n_samplers] */
    uint64_t seed, pass;   /* of the drawn ids */
    uint32_t *stream;
    uint64_t *index;
    struct nn_keys {
        uint64_t *at; /* sorted, unique; NULL for a dense parameter */
        uint32_t n;
        size_t cap;
    } * keys; /* [n_params] */
    /* [n_uses]: for each id of the field the number of its key */
    uint32_t **slot;
    size_t *slot_cap;
    /* scratch for all uses of one table: the key, its use, its id in the use */
    struct pd_sort_key *sort, *spare;
    size_t sort_cap;
};

struct nn_state { /* of a node */
    /* storage of y and dy: the same pointers, or [max_batch x size] of all executions beside each
     * other */
    float *all_y, *all_dy;
    /* [max x size]; dy NULL: no gradient is needed */
    float *y, *dy;
    int has_dy; /* dy holds a gradient in this backward */
    /* y before the activation, if the activation's backward needs it */
    float *x;
    float *extra;    /* [max x n_extra] */
    double *log_sum; /* softmax: for each row */
};

struct nn_exec {
    const struct nn_graph *g;
    uint32_t max;
    /* one of several executions: sample i of the feed is row i of all_y and all_dy */
    int beside;
    int is_guest; /* all_y and all_dy belong to the first execution */
    const struct nn_feed *feed;
    uint32_t first, n;
    enum nn_mode mode;
    uint64_t seed, pass;
    const float **w; /* [n_params] */
    float **grad;
    /* [n_nodes]; of a dense field y points into the feed, other fields have none */
    struct nn_state *state;
    float *work;
    /* [n_costs][max]: the label's value before the activation */
    double **picked;
    double *cost_sum; /* [n_costs], unweighted */
    /* [n_params]: layers still to come in this backward */
    uint32_t *left;
    void (*hook)(void *arg, uint32_t param);
    void *hook_arg;
};

/* Make room for `need` elements of `size` bytes in the array whose address is at `at`; drops its
 * contents. 0 or PD_ENOMEM. */
int nn_feed_grow(void *at, size_t *cap, size_t need, size_t size);

/* The ids of the samples that the execution computes. */
static inline const uint64_t *nn_ids(const struct nn_exec *e, uint32_t field) {
    return e->feed->col[field].ids + e->first;
}
static inline const float *nn_values(const struct nn_exec *e, uint32_t field) {
    return e->feed->col[field].value + (size_t)e->first * e->g->node[field].size;
}
/* Value j of sample i's label, as a number. */
static inline float nn_label(const struct nn_exec *e, uint32_t field, size_t i, size_t j) {
    return e->feed->col[field].value ? nn_values(e, field)[i * e->g->node[field].size + j]
                                     : (float)nn_ids(e, field)[i];
}

/* A hash of the sides of kinks on which the last forward's values lie, and of its choices; for
 * checkgrad. */
uint64_t nn_exec_kink_sides(const struct nn_exec *e);

/* Where a layer puts the gradient of its input `node`. NULL: no gradient is needed. *add: add to
 * the contents. */
float *nn_input_gradient(struct nn_exec *e, uint32_t node, int *add);
