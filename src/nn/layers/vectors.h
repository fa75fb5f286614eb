/* SPDX-License-Identifier: Apache-2.0 */
/* vectors.h - inputs that are vectors of one width, side by side, for the layers over their pairs.
 */
#pragma once

#include "nn/graph/graph_internal.h"

/* Count the vectors of all inputs, and set self->dim to their width, the layer's key dim. PD_ECONF:
 * no dim, an input that is no multiple of it, or fewer than two vectors. */
int nn_vectors_input(struct nn_build *b, struct nn_node *self, uint32_t *n_vectors,
                     struct pd_err *err);
