/* internal.h - what the files of src/nn share: the graph's nodes, the execution's buffers, and the
 * tables of layers, activations, costs and evaluators. Adding one of those is one file (or
 * function) and one table line.
 *
 *   fields  w1 w2 ... target                 nodes 0 .. n_fields-1: ids, lists of ids, or values [n
 * x width] layers  e1 e2 context hidden predict     nodes after them, inputs before users: values
 * [n x size] costs   read a layer and a label field; their gradient starts backward
 */
#ifndef PD_NN_GRAPH_INTERNAL_H
#define PD_NN_GRAPH_INTERNAL_H

#include "math/key_sort.h"
#include "math/rng.h"
#include "data/schema/batch.h"
#include "model_ini/model_ini.h"
#include "nn/graph/graph.h"

struct nn_build;
struct nn_node;
struct nn_cost_node;

/* --- tables --- */

struct nn_layer {
    const char *name;
    const char *const *takes; /* keys of [layer NAME], ended by NULL */
    /* Check inputs, set size, make parameters. Errors name file:line and shapes. */
    int (*shape)(struct nn_build *b, struct nn_node *self, struct pd_err *err);
    /* Fill y of this node, before its activation, from the y of its inputs. */
    void (*forward)(struct nn_exec *e, const struct nn_node *self);
    /* From the gradient before the activation (dy of this node): gradients of parameters and
     * inputs. */
    void (*backward)(struct nn_exec *e, const struct nn_node *self);
    const char *text;
    int chooses; /* state.extra says what it chose (max pooling): its gradient jumps where that
                    changes */
};
extern const struct nn_layer *const nn_layers[]; /* ended by NULL */
extern const struct nn_layer nn_layer_embedding, nn_layer_fc, nn_layer_concat, nn_layer_dropout,
    nn_layer_addto, nn_layer_product, nn_layer_dot, nn_layer_cos_sim, nn_layer_fm,
    nn_layer_layer_norm, nn_layer_batch_norm, nn_layer_conv, nn_layer_pool,
    nn_layer_negative_sampling, nn_layer_nce, nn_layer_skip_gram;

enum { NN_MORE_PARAMS = 3 }; /* a layer has at most so many parameters more than inputs */

enum { NN_MORE_USES = 2 }; /* and of tables, so many uses more */

/* Keys that every layer with parameters takes: what a parameter is called, how it begins, how it is
 * trained. */
#define NN_PARAM_KEYS \
    "param", "init", "init_mean", "init_std", "init_max", "static", "lr_factor", "l1", "l2"

/* And those whose parameter may be a table: how its rows come and go (base/row_life.h). */
#define NN_LIFE_KEYS                                                                              \
    "admit_count", "admit_probability", "admit_candidates", "admit_zero", "ageing", "show_decay", \
        "show_weight", "click_weight", "delete_score", "delete_days", "click"

/* In place over [m x n]: y = f(y), and dy = gradient before the activation from that after it.
 * NULL: identity. log_sum: see nn_softmax; others ignore it. */
struct nn_act {
    const char *name;
    void (*forward)(size_t m, size_t n, float *y, double *log_sum);
    void (*backward)(size_t m, size_t n, const float *at, float *dy);
    int row_sums; /* wants log_sum */
    int kink;     /* its gradient jumps at 0 */
    int of_x;     /* backward's `at` is what forward was given; else what it gave */
    const char *text;
};
extern const struct nn_act nn_acts[]; /* ended by name NULL; the first is the default */

enum nn_label {
    NN_LABEL_NONE,
    NN_LABEL_CLASS, /* an id below the width of the input */
    NN_LABEL_VALUE  /* numbers: a dense field, or an id as a number (a click of 0 or 1) */
};

/* A cost over one or several layers, and a label. Either fused with the activation of its input: it
 * sees the values before and after it, and adds to the gradient before it. Or act is NULL: it sees
 * the values only, and adds to the gradient after it. */
struct nn_cost_type {
    const char *name;
    const char *act; /* the activation it is fused with, or NULL */
    uint32_t n_in;
    enum nn_label label;
    int (*shape)(const struct nn_build *b, const struct nn_cost_node *self,
                 struct pd_err *err); /* NULL: input [n x 1] */
    void (*before_act)(struct nn_exec *e, const struct nn_cost_node *self); /* NULL unless fused */
    double (*value)(struct nn_exec *e,
                    const struct nn_cost_node *self); /* unweighted sum over the samples */
    void (*backward)(struct nn_exec *e, const struct nn_cost_node *self,
                     uint32_t k); /* adds to dy of input k */
    const char *text;
    int share; /* its label lies between 0 and 1: with others the cost has no least value */
};
extern const struct nn_cost_type *const nn_cost_types[]; /* ended by NULL */
extern const struct nn_cost_type nn_cost_cross_entropy, nn_cost_binary_cross_entropy,
    nn_cost_square_error, nn_cost_huber, nn_cost_rank, nn_cost_sum;

struct nn_evaluator;                                     /* eval_int.h */
extern const struct nn_evaluator *const nn_evaluators[]; /* ended by NULL */

/* --- graph --- */

struct nn_image { /* values of a sample as an image; 0: they are none */
    uint32_t channels, height, width;
};

struct nn_window { /* moves over an image */
    struct nn_image in;
    uint32_t filter, stride, padding;
};

struct nn_node {
    char name[NN_NAME_MAX];
    int line;
    uint32_t id;     /* its place in graph.node */
    uint32_t number; /* layers: order in the file; keys random numbers. fields: which field */
    const struct nn_layer *type; /* NULL: a field */
    struct pd_field field;       /* of a field: what it holds */
    const struct layer_ini *ini;
    uint32_t size; /* values per sample; a field of ids: 1 */
    uint32_t n_in, *in;
    uint32_t n_param, *param;
    uint32_t *use; /* [n_in + NN_MORE_USES], by input or what the layer says: of a table, into
                      graph.use */
    const struct nn_act *act;
    int bias;     /* the last parameter is one */
    float rate;   /* dropout's; any other layer's one number */
    uint32_t dim; /* values of one input (embedding), of one vector (fm) */
    struct nn_image image;
    struct nn_window window;
    int option;         /* a layer's choice: pooling, ... */
    uint32_t n_extra;   /* floats per sample that forward leaves for backward: state.extra */
    size_t n_work;      /* floats that forward and backward may use for themselves: exec.work */
    int wants_grad;     /* a parameter lies at or below it */
    uint32_t n_readers; /* layers that take it */
    uint32_t n_costs, n_plain_costs; /* that read it; of these not fused with its activation */
    /* shape may set this: then backward leaves out the gradients of the inputs' parameters that are
     * nn_param_is_joint, in executions beside each other, and this makes slice k of n of them, of
     * all samples of the feed. */
    void (*together)(struct nn_exec *e, const struct nn_node *self, const struct nn_feed *f,
                     uint32_t k, uint32_t n);
    int dy_is_y; /* its only reader is one fused cost: the gradient may replace the values */
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
    double threshold; /* see eval_int.h */
    uint32_t positive;
};

struct nn_use { /* the ids of `field`, or (drawn) those that sampler `field` draws, look up rows of
                   table `param` */
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
    uint32_t *param_readers; /* layers that use it */
    struct nn_cost_node *cost;
    struct nn_eval_node *eval;
    struct nn_use *use;
    struct nn_sampler *sampler;
    uint32_t n_samplers;
};

/* Building: the graph so far. */
struct nn_build {
    struct nn_graph *g;
    const char *file;
    uint64_t vocabulary;
    uint32_t cap_params, cap_uses;
};

int nn_build_no_memory(const struct nn_build *b, struct pd_err *err);

/* Parameter number `k` of layer `self`: the k-th name of its `param =`, or else "LAYER.SUFFIX". A
 * name seen before is shared and must have the same kind and shape. It begins normal with `std` and
 * mean 0 unless the layer's init, init_mean, init_std, init_max say otherwise; those are not for
 * biases (suffix "b" or "beta") and "out", which begin with 0, nor for "gamma", which begins
 * with 1. */
int nn_build_param(struct nn_build *b, struct nn_node *self, uint32_t k, const char *suffix,
                   enum nn_kind kind, uint64_t rows, uint64_t cols, double std, struct pd_err *err);
/* The same for `cols` running means (nn_param.average = `share`), which begin with `first`. */
int nn_build_average(struct nn_build *b, struct nn_node *self, uint32_t k, const char *suffix,
                     uint64_t cols, double share, double first, struct pd_err *err);
/* self->use[k], k < n_in + NN_MORE_USES: the ids of a field look up rows of the layer's parameter
 * number `param`, a table. */
int nn_build_use(struct nn_build *b, struct nn_node *self, uint32_t k, uint32_t param,
                 uint32_t field, struct pd_err *err);
int nn_build_use_drawn(struct nn_build *b, struct nn_node *self, uint32_t k, uint32_t param,
                       uint32_t sampler, struct pd_err *err); /* or drawn ids */
int nn_build_need_values(const struct nn_build *b, const struct nn_node *self, struct pd_err *err);
/* That, and between lo and hi (NN_MAX_INPUTS: any number) of them. */
int nn_build_n_in(const struct nn_build *b, const struct nn_node *self, uint32_t lo, uint32_t hi,
                  struct pd_err *err);
int nn_build_same_size(const struct nn_build *b, const struct nn_node *self,
                       struct pd_err *err); /* all inputs */
uint64_t nn_build_size(const struct nn_build *b,
                       const struct nn_node *self); /* of `size =`; 0: not given */

/* --- feed and execution --- */

struct nn_column { /* of a field, see data/schema/batch.h; what its kind does not have is NULL */
    uint64_t *ids;
    uint32_t *offset;
    float *weight, *value;
    size_t cap; /* ids that there is room for */
};

struct nn_feed {
    const struct nn_graph *g;
    uint32_t max, n;
    struct nn_column *col; /* [n_fields] */
    struct nn_draw *draw;  /* [n_samplers] */
    uint64_t seed, pass;   /* of what is drawn */
    uint32_t *stream;
    uint64_t *index;
    struct nn_keys {
        uint64_t *at; /* sorted, unique; NULL for a dense parameter */
        uint32_t n;
        size_t cap;
    } * keys;        /* [n_params] */
    uint32_t **slot; /* [n_uses]: of each id of the field, which key */
    size_t *slot_cap;
    struct pd_sort_key *sort,
        *spare; /* scratch for all uses of one table: key, which use, which of its ids */
    size_t sort_cap;
};

struct nn_state {          /* of a node */
    float *all_y, *all_dy; /* what y and dy lie in: themselves, or [max_batch x size] of all
                              executions beside each other */
    float *y, *dy;         /* [max x size]; dy NULL if none is wanted */
    int has_dy;            /* dy holds something in this backward */
    float *x;              /* y before the activation, for those whose backward wants it */
    float *extra;          /* [max x n_extra] */
    double *log_sum;       /* softmax: per row */
};

struct nn_exec {
    const struct nn_graph *g;
    uint32_t max;
    int beside;   /* with others: sample i of the feed is row i of all_y and all_dy */
    int is_guest; /* those are the first one's */
    const struct nn_feed *feed;
    uint32_t first, n;
    enum nn_mode mode;
    uint64_t seed, pass;
    const float **w; /* [n_params] */
    float **grad;
    struct nn_state
        *state; /* [n_nodes]; of a dense field y points into the feed, others have none */
    float *work;
    double **picked;  /* [n_costs][max]: the label's value before the activation */
    double *cost_sum; /* [n_costs], unweighted */
    uint32_t *left;   /* [n_params]: layers still to come in this backward */
    void (*hook)(void *arg, uint32_t param);
    void *hook_arg;
};

/* Room for `need` elements of `size` bytes in *(pointer) at; what was there is not kept. 0 or
 * PD_ENOMEM. */
int nn_feed_grow(void *at, size_t *cap, size_t need, size_t size);

/* Of the samples that the execution is at. */
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

/* A fingerprint of which side of kinks the values of the last forward are on, and of what was
 * chosen (checkgrad). */
uint64_t nn_exec_kink_sides(const struct nn_exec *e);

/* Where a layer puts the gradient of its input `node`: NULL if nobody wants it; *add: add to what
 * is there. */
float *nn_input_gradient(struct nn_exec *e, uint32_t node, int *add);

#endif
