/* describe.h - a graph as a table for people (`paddlectl conf --model`). */
#ifndef PD_NN_DESCRIBE_H
#define PD_NN_DESCRIBE_H

#include "base/buf.h"
#include "nn/graph/graph.h"

/* A line for each field and layer: name, type, inputs, shape, parameters, FLOPs of a sample's
 * forward (a multiplication and an addition of each product are two; what is done once a value is
 * not counted); then the costs and the sums. 0 or PD_ENOMEM. */
int nn_graph_describe(const struct nn_graph *g, struct pd_buf *out);

#endif
