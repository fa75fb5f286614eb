/* SPDX-License-Identifier: Apache-2.0 */
/* cost.c - the table of costs. */
#include "nn/graph/graph_internal.h"

const struct nn_cost_type *const nn_cost_types[] = {
    &nn_cost_cross_entropy,
    &nn_cost_binary_cross_entropy,
    &nn_cost_square_error,
    &nn_cost_huber,
    &nn_cost_rank,
    &nn_cost_sum,
    NULL,
};
