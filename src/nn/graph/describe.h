/* SPDX-License-Identifier: Apache-2.0 */
/* describe.h - a graph as a table of text (`paddlectl conf --model`). */
#pragma once

#include "nn/graph/graph.h"

/* Append a line for each field and layer, then the costs and the sums. A line has name, type,
 * inputs, shape, parameters and FLOPs of a sample's forward. A multiplication and an addition count
 * as two; elementwise work does not count. 0 or PD_ENOMEM. */
int nn_graph_describe(const struct nn_graph *g, struct pd_buf *out);
/* Append the same as members of a JSON object: "nodes": [{"name", "type", "in": [NAME...], "shape",
 * "params", "flops"}, ...] in topological order, fields first, costs last ("shape": "cost");
 * "values", "flops": the sums. */
int nn_graph_describe_json(const struct nn_graph *g, struct pd_buf *out);
