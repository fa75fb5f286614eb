/* SPDX-License-Identifier: Apache-2.0 */
/* layers.c - the table of layers. */
#include "nn/graph/graph_internal.h"

const struct nn_layer *const nn_layers[] = {
    &nn_layer_embedding,
    &nn_layer_fc,
    &nn_layer_concat,
    &nn_layer_dropout,
    &nn_layer_addto,
    &nn_layer_product,
    &nn_layer_dot,
    &nn_layer_cos_sim,
    &nn_layer_fm,
    &nn_layer_bi_interaction,
    &nn_layer_dot_interaction,
    &nn_layer_cross,
    &nn_layer_layer_norm,
    &nn_layer_batch_norm,
    &nn_layer_conv,
    &nn_layer_pool,
    &nn_layer_negative_sampling,
    &nn_layer_nce,
    &nn_layer_skip_gram,
    NULL,
};
