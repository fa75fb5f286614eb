/* SPDX-License-Identifier: Apache-2.0 */
/* graph.h - the network of train.ini: an immutable graph, and executions of it over batches.
 *
 *     nn_graph   layers in topological order, parameters; shared by all threads, never changes
 *     nn_feed    a prepared batch: ids checked, for each table the sorted unique keys of the batch
 *     nn_exec    activations of one thread; forward and backward over samples [first, first+n)
 *
 *     nn_feed_set(feed, batch)                 one feed can be set while another one is computed
 *     keys = nn_feed_keys(feed, p, &n)         the caller pulls the rows of these keys
 *     nn_exec_bind(exec, p, values, gradients) dense: the whole tensor; table: a row per key, in
 *                                              key order
 *     nn_exec_forward(exec, feed, first, n, ...)  sum of the cost over the samples
 *     nn_exec_backward(exec)                   gradients += their sum over the samples (no mean)
 *
 * Values are float32, row-major, contiguous. The order of every summation is a function of the
 * batch alone. Gradients of duplicate keys are added layer by layer, the last layer first; in a
 * layer field by field; in a field in the order of the samples. After nn_feed_new and nn_exec_new
 * nothing is allocated.
 */
#pragma once

#include "data/schema/batch.h"
#include "model_ini/model_ini.h"

enum nn_kind {
    NN_DENSE, /* a tensor rows x cols that every batch uses whole */
    NN_TABLE  /* rows of cols values, keyed by id; a batch uses some rows */
};

struct nn_param {
    /* unique: "emb", "hidden.w", "hidden.b"; with several inputs "hidden.w0", ... */
    char name[NN_NAME_MAX];
    enum nn_kind kind;
    uint64_t rows, cols; /* table: rows = size of the vocabulary */
    /* Initial values, made by their owner: normal. std 0: the mean; std < 0: uniform in mean +-
     * |std|. */
    double init_mean, init_std;
    /* factor of the optimizer's learning rate; default 1; of a static parameter 0 */
    double lr_factor;
    /* keeps its initial or loaded values: no gradient is needed */
    int is_static;
    /* final values: the layer's own, otherwise the optimizer's; of biases 0 unless given */
    double l1, l2;
    int together; /* see nn_param_is_joint */
    /* > 0: a running mean that is not trained; `average` is the share of a new step. What backward
     * adds to the "gradient" is the sum over the samples of the averaged values. */
    double average;
    struct pd_row_life life; /* table: policy of its rows */
    /* with `life`: number of the field (nn_graph_field) that tells whether a sample was clicked;
     * -1: none */
    int click;
    int line; /* line of train.ini where the parameter appears first */
};

/* True if nn_exec_joint_gradient makes the parameter's gradient in place of each execution's
 * backward, for a feed of n_samples. That spares the copy of the matrix that each thread would
 * clear, fill from its samples and add up. But each thread then reads all samples on one side of
 * the matrix, so the samples must be few against its longer side. */
static inline int nn_param_is_joint(const struct nn_param *p, uint32_t n_samples) {
    return p->together && 2 * (uint64_t)n_samples <= (p->rows > p->cols ? p->rows : p->cols);
}

struct nn_graph;
struct nn_feed;
struct nn_exec;

/* --- graph --- */

/* Read train.ini and build the graph. All errors are PD_ECONF with file:line, or PD_ENOENT, PD_EIO,
 * PD_ENOMEM. */
int nn_graph_load(struct nn_graph **out, const char *path, struct pd_err *err);
/* The same from a text that a saved model has kept. `path` is the text's assumed file:
 * vocabulary_file is relative to its folder. */
int nn_graph_load_text(struct nn_graph **out, const char *path, const char *text,
                       struct pd_err *err);
void nn_graph_free(struct nn_graph *g);

/* The file's data (format, patterns, fields, vocabulary, start_id, end_id) and optimizer. */
const struct model_ini *nn_graph_model(const struct nn_graph *g);

/* The fields of [data] and [field ...], in their order; i counts from 0. */
uint32_t nn_graph_n_fields(const struct nn_graph *g);
const struct pd_field *nn_graph_field(const struct nn_graph *g, uint32_t i);

uint32_t nn_graph_n_params(const struct nn_graph *g);
/* in the order of computation */
const struct nn_param *nn_graph_param(const struct nn_graph *g, uint32_t i);
int nn_graph_find_param(const struct nn_graph *g, const char *name); /* index or -1 */

/* values of a sample; 0: no such layer */
uint32_t nn_graph_layer_size(const struct nn_graph *g, const char *name);
/* the (first) input layer of a cost */
const char *nn_graph_cost_input(const struct nn_graph *g, uint32_t cost);
uint32_t nn_graph_n_evaluators(const struct nn_graph *g); /* see nn/evals/eval.h */

/* --- feed --- */

int nn_feed_new(struct nn_feed **out, const struct nn_graph *g, uint32_t max_batch,
                struct pd_err *err);
void nn_feed_free(struct nn_feed *f);

/* Copy a batch of 1..max_batch samples with the fields of nn_graph_field. PD_EDATA: an id is
 * outside its vocabulary. PD_ENOMEM: no room for longer lists. */
int nn_feed_set(struct nn_feed *f, const struct pd_batch *b, struct pd_err *err);
/* Check that the costs can be computed with the labels. A call of its own, since a caller that only
 * wants outputs has no labels. PD_EDATA. */
int nn_feed_check_labels(const struct nn_feed *f, struct pd_err *err);
/* Call it before nn_feed_set: the ids that layers draw are a function of seed, pass and the
 * samples' names. Default: 0, 0. */
void nn_feed_seed(struct nn_feed *f, uint64_t seed, uint64_t pass);
uint32_t nn_feed_n(const struct nn_feed *f); /* number of samples */

/* Sorted unique keys of table `param` in this batch, valid until the next nn_feed_set. NULL and 0
 * for a dense parameter. */
const uint64_t *nn_feed_keys(const struct nn_feed *f, uint32_t param, uint32_t *n);

/* Mark the keys that samples [first, first+n) look up: sets bit k for the k-th key, leaves other
 * bits unchanged. */
void nn_feed_mark_keys(const struct nn_feed *f, uint32_t param, uint32_t first, uint32_t n,
                       uint64_t *bits);

/* Count for the k-th key how often samples [first, first+n) show it: seen[2 * k], of these with a
 * click: seen[2 * k + 1]. Drawn ids do not count. */
void nn_feed_count_shown(const struct nn_feed *f, uint32_t param, uint32_t first, uint32_t n,
                         uint32_t *seen);

/* --- execution --- */

enum nn_mode { NN_TRAIN, NN_TEST }; /* test: no dropout, no backward afterwards */

struct nn_cost {
    /* of the weighted costs over the samples; not finite if the network's values are not */
    double sum;
    uint32_t n; /* number of samples */
};

/* May this machine hold n executions of pieces of `piece` samples, for feeds of `rows` samples, and
 * the dense parameters with their gradients? PD_ENOMEM, with figures, and file:line of the largest
 * layer. */
int nn_graph_admit(const struct nn_graph *g, uint32_t n, uint32_t piece, uint32_t rows,
                   struct pd_err *err);
int nn_exec_new(struct nn_exec **out, const struct nn_graph *g, uint32_t max_batch,
                struct pd_err *err);
/* Make n executions for as many threads, "beside each other". Each computes up to max_piece samples
 * at a time, of a feed of up to max_batch. All executions share one matrix for the values of a
 * layer and one for their gradients, with a row for each sample of the feed: pieces must not
 * overlap. Backward leaves out the gradients of parameters that are nn_param_is_joint; see
 * nn_exec_joint_gradient. Free out[0] last. */
int nn_exec_new_beside(struct nn_exec **out, uint32_t n, const struct nn_graph *g,
                       uint32_t max_piece, uint32_t max_batch, struct pd_err *err);
void nn_exec_free(struct nn_exec *e);

/* Set values and gradients of parameter `param`; both stay the caller's. Dense: bind once while the
 * pointers stay valid. Table: n_keys x cols, bind for each feed. Backward adds to g; NULL: no
 * gradient is needed. */
void nn_exec_bind(struct nn_exec *e, uint32_t param, const float *w, float *g);

/* nn_exec_backward calls `hook` as soon as the gradient of a parameter is complete, last layers
 * first. */
void nn_exec_on_gradient(struct nn_exec *e, void (*hook)(void *arg, uint32_t param), void *arg);

/* Compute samples [first, first+n) of the feed, n <= max_batch. Every parameter must be bound
 * (asserted). Dropout masks are a function of (seed, pass, the sample's stream and index, layer).
 */
void nn_exec_forward(struct nn_exec *e, const struct nn_feed *f, uint32_t first, uint32_t n,
                     enum nn_mode mode, uint64_t seed, uint64_t pass, struct nn_cost *out);
void nn_exec_backward(struct nn_exec *e); /* for the last forward, which must be NN_TRAIN */

/* For executions beside each other, after backward of all samples of the feed: make slice k of n of
 * the gradients that backward left out, from all samples at once. The result replaces the contents
 * of the buffers that are bound to `e`; any of the executions will do. Slices share nothing, so
 * each thread may make one. */
void nn_exec_joint_gradient(struct nn_exec *e, const struct nn_feed *f, uint32_t k, uint32_t n);

/* The values of layer `name`: [n x *size]. NULL: no such layer. Call it between forward and
 * backward, since backward may overwrite values with gradients. */
const float *nn_exec_output(const struct nn_exec *e, const char *name, uint32_t *size);
