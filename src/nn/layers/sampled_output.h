/* sampled.h - what output layers have in common whose cost takes a label and ids drawn at random:
 * negative_sampling and nce.
 *
 * Inputs: a layer h[B,D] and a field of ids t. Parameters: w[V,D] and, with self->bias, b[V,1].
 * Rows of tables are found through the feed's slots, of dense parameters by the ids themselves.
 * forward leaves in state.extra, for nn_sampled_backward: [max x K] dy/d(h.w_n) of the drawn ids n,
 * then [max] dy/d(h.w_t) of the label
 */
#ifndef PD_NN_SAMPLED_OUTPUT_H
#define PD_NN_SAMPLED_OUTPUT_H

#include "nn/graph/sampler.h"

enum { NN_SAMPLED_W, NN_SAMPLED_BIAS }; /* parameters */

#define NN_SAMPLED_KEYS \
    "inputs", "negatives", "share", "counts", "power", "sparse_update", "is_distributed"

/* Checks inputs and keys; size, dim = ids a group (K), option = the sampler, n_extra, n_work = 2 K
 * D + 2 K, parameter w; then b, if self->bias. `power`, `log_q`: see nn_sampler_add. */
int nn_sampled_shape(struct nn_build *b, struct nn_node *self, double power, int log_q,
                     struct pd_err *err);

/* Row of parameter number p for the label of sample i of the execution, and for the drawn id at a
 * place of the feed's draws. */
size_t nn_sampled_label_row(const struct nn_exec *e, const struct nn_node *self, uint32_t p,
                            uint32_t i);
size_t nn_sampled_drawn_row(const struct nn_exec *e, const struct nn_node *self, uint32_t p,
                            size_t at);

/* Samples [i, result) share what is drawn for sample i: K ids from place *at on, whose rows of w
 * are copied to out[K,D]. */
uint32_t nn_sampled_group(const struct nn_exec *e, const struct nn_node *self, uint32_t i,
                          size_t *at, float *out);

/* Gradients of h, w and b. */
void nn_sampled_backward(struct nn_exec *e, const struct nn_node *self);

#endif
