/* layers.c - the table of layers. */
#include "nn/internal.h"

const struct nn_layer *const nn_layers[] = {
    &nn_layer_embedding,
    &nn_layer_fc,
    &nn_layer_concat,
    &nn_layer_dropout,
    NULL,
};
