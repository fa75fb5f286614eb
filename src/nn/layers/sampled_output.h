/* SPDX-License-Identifier: Apache-2.0 */
/* sampled_output.h - shared by the output layers whose cost takes a label and drawn ids:
 * negative_sampling and nce.
 *
 *     inputs      a layer h[B,D] and a field of ids t
 *     parameters  w[V,D] and, with self->bias, b[V,1]
 *     extra       left by forward for nn_sampled_backward: [max x K] dy/d(h.w_n) of the drawn ids
 *                 n, then [max] dy/d(h.w_t) of the label
 *
 * Rows of tables are found through the feed's slots; in a dense parameter the id is the row.
 */
#pragma once

#include "nn/graph/sampler.h"

enum { NN_SAMPLED_W, NN_SAMPLED_BIAS }; /* parameters */

#define NN_SAMPLED_KEYS \
    "inputs", "negatives", "share", "counts", "power", "sparse_update", "is_distributed"

/* Check inputs and keys. Set size, dim = ids of a group (K), option = the sampler, n_extra, n_work
 * = 2 K D + 2 K; make parameter w and, with self->bias, b. `power`, `log_q`: see nn_sampler_add. */
int nn_sampled_shape(struct nn_build *b, struct nn_node *self, double power, int log_q,
                     struct pd_err *err);

/* The row of parameter number p for the label of sample i of the execution; the row for the drawn
 * id at a place of the feed's draws. */
size_t nn_sampled_label_row(const struct nn_exec *e, const struct nn_node *self, uint32_t p,
                            uint32_t i);
size_t nn_sampled_drawn_row(const struct nn_exec *e, const struct nn_node *self, uint32_t p,
                            size_t at);

/* Samples [i, result) share the ids drawn for sample i: K ids from place *at on. Copies their rows
 * of w to out[K,D]. */
uint32_t nn_sampled_group(const struct nn_exec *e, const struct nn_node *self, uint32_t i,
                          size_t *at, float *out);

/* Add the gradients of h, w and b. */
void nn_sampled_backward(struct nn_exec *e, const struct nn_node *self);
