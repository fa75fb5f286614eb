/* cost.c - the table of costs. */
#include "nn/internal.h"

const struct nn_cost_type *const nn_cost_types[] = {
    &nn_cost_cross_entropy,
    NULL,
};
