/* graph.h - the network of train.ini: an immutable graph, and executions of it over batches.
 *
 *   nn_graph   layers in topological order, parameters; shared by all threads, never changes
 *   nn_feed    one batch made ready: ids checked, per table the sorted unique keys of the batch
 *   nn_exec    activations of one thread; forward, backward over a part [first, first+n) of a feed
 *
 *   nn_feed_set(feed, batch)                       next batch's keys can be asked for while this
 * one computes keys = nn_feed_keys(feed, p, &n)               -> caller pulls the rows of those
 * keys nn_exec_bind(exec, p, values, gradients)       dense: the whole tensor; table: a row per
 * key, in key order nn_exec_forward(exec, feed, first, n, ...)     -> sum of the cost over the
 * samples nn_exec_backward(exec)                         gradients += their sum over the samples
 * (not the mean)
 *
 * Values are float32, row-major, contiguous. The order of every summation is a function of the
 * batch alone; duplicate keys are combined layer by layer, the last first, in a layer field by
 * field, and in a field in the order of the samples. After nn_feed_new and nn_exec_new nothing is
 * allocated.
 */
#ifndef PD_NN_GRAPH_H
#define PD_NN_GRAPH_H

#include <stdint.h>

#include "base/err.h"
#include "data/schema/batch.h"
#include "model_ini/model_ini.h"

enum nn_kind {
    NN_DENSE, /* a tensor rows x cols that every batch uses whole */
    NN_TABLE  /* rows of cols values, keyed by id; a batch uses some of them */
};

struct nn_param {
    char name[NN_NAME_MAX]; /* unique: "emb", "hidden.w", "hidden.b"; with several inputs
                               "hidden.w0", ... */
    enum nn_kind kind;
    uint64_t rows, cols;        /* table: rows = vocabulary */
    double init_mean, init_std; /* the owner of the values starts them normal; std 0: the mean;
                                   below 0: uniform within -std of it */
    double lr_factor;           /* times the optimizer's learning rate; default 1; static: 0 */
    int is_static;              /* stays as it began, or was loaded: no gradient is wanted */
    double l1, l2;  /* final: the layer's own or else the optimizer's; biases 0 unless given */
    int together;   /* see nn_param_is_joint */
    double average; /* above 0: not trained. A mean over steps: this is a new step's share of it,
                     * and what backward adds to the "gradient" is the sum over the samples of what
                     * is averaged */
    struct pd_row_life life; /* table: how its rows come and go */
    int click; /* then: the field that says whether a sample was clicked, by nn_graph_field's
                  number; -1: none does */
    int line;  /* of train.ini, where it appears first */
};

/* With executions beside each other, and so many samples in the feed, nn_exec_joint_gradient makes
 * the parameter's gradient, not each one's backward. Then there is no copy of a matrix for each
 * thread to be cleared, made of fewer samples and added up; but each thread reads all samples on
 * one side of it, which costs more than it saves where they are many. */
static inline int nn_param_is_joint(const struct nn_param *p, uint32_t n_samples) {
    return p->together && 2 * (uint64_t)n_samples <= (p->rows > p->cols ? p->rows : p->cols);
}

struct nn_graph;
struct nn_feed;
struct nn_exec;

/* --- graph --- */

/* Read train.ini and build. All errors are PD_ECONF with file:line (or PD_ENOENT, PD_EIO,
 * PD_ENOMEM). */
int nn_graph_load(struct nn_graph **out, const char *path, struct pd_err *err);
/* The same of a text that a saved model has kept; `path` is where it would stand: its folder is
 * that of vocabulary_file. */
int nn_graph_load_text(struct nn_graph **out, const char *path, const char *text,
                       struct pd_err *err);
void nn_graph_free(struct nn_graph *g);

/* What the file says: data (format, patterns, fields, vocabulary, start_id, end_id), optimizer. */
const struct model_ini *nn_graph_model(const struct nn_graph *g);

/* What [data] and [field ...] say of the fields, in their order: an array, i from 0. */
uint32_t nn_graph_n_fields(const struct nn_graph *g);
const struct pd_field *nn_graph_field(const struct nn_graph *g, uint32_t i);

uint32_t nn_graph_n_params(const struct nn_graph *g);
const struct nn_param *nn_graph_param(const struct nn_graph *g,
                                      uint32_t i); /* in the order of computation */
int nn_graph_find_param(const struct nn_graph *g, const char *name); /* index or -1 */

uint32_t nn_graph_layer_size(const struct nn_graph *g,
                             const char *name); /* values a sample; 0: there is no such layer */
const char *nn_graph_cost_input(const struct nn_graph *g,
                                uint32_t cost); /* the layer that a cost looks at (first) */
uint32_t nn_graph_n_evaluators(const struct nn_graph *g); /* see nn/evals/eval.h */

/* --- feed --- */

int nn_feed_new(struct nn_feed **out, const struct nn_graph *g, uint32_t max_batch,
                struct pd_err *err);
void nn_feed_free(struct nn_feed *f);

/* Take over a batch of 1..max_batch samples (copied), whose fields are nn_graph_field's. PD_EDATA:
 * an id is outside its vocabulary; PD_ENOMEM: lists longer than any before need more room. */
int nn_feed_set(struct nn_feed *f, const struct pd_batch *b, struct pd_err *err);
/* Are the labels in it such that the costs can be computed? Apart from nn_feed_set, since who only
 * asks the network has none. PD_EDATA. */
int nn_feed_check_labels(const struct nn_feed *f, struct pd_err *err);
/* Before nn_feed_set: what layers draw for the samples is a function of these and the samples'
 * names. Not called: 0, 0. */
void nn_feed_seed(struct nn_feed *f, uint64_t seed, uint64_t pass);
uint32_t nn_feed_n(const struct nn_feed *f); /* samples */

/* Sorted unique keys of table `param` in this batch; valid until the next nn_feed_set. NULL, 0 for
 * a dense one. */
const uint64_t *nn_feed_keys(const struct nn_feed *f, uint32_t param, uint32_t *n);

/* Which of them samples [first, first+n) look up: bit k is set for the k-th key; others stay as
 * they are. */
void nn_feed_mark_keys(const struct nn_feed *f, uint32_t param, uint32_t first, uint32_t n,
                       uint64_t *bits);

/* How often the samples [first, first+n) show each of them, and how often with a click: seen[2 * k]
 * and seen[2 * k + 1] of the k-th key. Ids that are drawn are not shown. */
void nn_feed_count_shown(const struct nn_feed *f, uint32_t param, uint32_t first, uint32_t n,
                         uint32_t *seen);

/* --- execution --- */

enum nn_mode { NN_TRAIN, NN_TEST }; /* test: no dropout, no backward afterwards */

struct nn_cost {
    double sum; /* of the weighted costs over the samples; not finite when the network is not */
    uint32_t n; /* samples */
};

int nn_exec_new(struct nn_exec **out, const struct nn_graph *g, uint32_t max_batch,
                struct pd_err *err);
/* n executions beside each other, for as many threads: each computes up to max_piece samples at a
 * time of a feed of up to max_batch. The values of a layer, and their gradients, are rows of one
 * matrix, by sample of the feed: pieces must not overlap. Backward leaves out the gradients of
 * parameters that are nn_param_is_joint, see nn_exec_joint_gradient. None is used after out[0] was
 * freed.
 */
int nn_exec_new_beside(struct nn_exec **out, uint32_t n, const struct nn_graph *g,
                       uint32_t max_piece, uint32_t max_batch, struct pd_err *err);
void nn_exec_free(struct nn_exec *e);

/* Values and gradients of parameter `param`; both stay the caller's. Dense: once is enough while
 * the pointers stay. Table: n_keys x cols, anew for each feed. g is added to; NULL: no gradient
 * wanted. */
void nn_exec_bind(struct nn_exec *e, uint32_t param, const float *w, float *g);

/* Called in nn_exec_backward as soon as the gradient of a parameter is complete, last layers first.
 */
void nn_exec_on_gradient(struct nn_exec *e, void (*hook)(void *arg, uint32_t param), void *arg);

/* Samples [first, first+n) of the feed, n <= max_batch. Every parameter must be bound (asserted).
 * Dropout masks are a function of (seed, pass, the sample's stream and index, layer). */
void nn_exec_forward(struct nn_exec *e, const struct nn_feed *f, uint32_t first, uint32_t n,
                     enum nn_mode mode, uint64_t seed, uint64_t pass, struct nn_cost *out);
void nn_exec_backward(struct nn_exec *e); /* of the last forward, which was NN_TRAIN */

/* When executions beside each other have done backward for all samples of the feed: slice k of n of
 * the gradients that they left out, made of all samples at once, in place of what is in the buffers
 * that are bound to `e`, any of them. Slices share nothing, so threads may make one each. */
void nn_exec_joint_gradient(struct nn_exec *e, const struct nn_feed *f, uint32_t k, uint32_t n);

/* Between forward and backward, which may put gradients in the place of values. The values of layer
 * `name`: [n x *size], or NULL if there is no such layer. */
const float *nn_exec_output(const struct nn_exec *e, const char *name, uint32_t *size);

#endif
