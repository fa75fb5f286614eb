/* SPDX-License-Identifier: Apache-2.0 */
/* admit.c - whether this machine can hold an execution of the graph, before memory is taken. */
#include "base/memory_use.h"
#include "nn/graph/graph_internal.h"

enum { FEEDS = 3 }; /* two feeds and the batch that is read */

/* Bytes of a node: values and gradients of all samples, and what each of n executions has for a
 * piece of them. */
static double node_bytes(const struct nn_node *n, double execs, double piece, double rows) {
    const double of_row = (double)n->size * sizeof(float);
    if (!n->type)
        return n->field.kind == PD_DENSE ? FEEDS * rows * of_row : 0;
    const double one = piece * ((n->act->of_x ? of_row : 0) + (double)n->n_extra * sizeof(float) +
                                (n->act->row_sums ? sizeof(double) : 0));
    return rows * of_row * (1 + (n->wants_grad && !n->dy_is_y)) +
           execs * (one + (double)n->n_work * sizeof(float));
}

/* Bytes of the dense parameters that no node before has: values, and gradients unless static. */
static double param_bytes(const struct nn_graph *g, const struct nn_node *n, uint8_t *counted) {
    double bytes = 0;
    for (uint32_t k = 0; k < n->n_param; k++) {
        const struct nn_param *p = &g->param[n->param[k]];
        if (p->kind == NN_DENSE && !counted[n->param[k]])
            bytes += (double)p->rows * (double)p->cols * sizeof(float) * (p->is_static ? 1 : 2);
        counted[n->param[k]] = 1;
    }
    return bytes;
}

int nn_graph_admit(const struct nn_graph *g, uint32_t n, uint32_t piece, uint32_t rows,
                   struct pd_err *err) {
    uint8_t *counted = pd_calloc(g->n_params, 1);
    const struct nn_node *named = NULL;
    double need = 0, largest = 0;
    if (!counted)
        return pd_oom(err, "the network");
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const struct nn_node *node = &g->node[i];
        const double bytes = node_bytes(node, n, piece, rows) + param_bytes(g, node, counted);
        need += bytes;
        if (!named || bytes > largest) {
            largest = bytes;
            named = node;
        }
    }
    free(counted);
    return named ? pd_memory_admit(need, err,
                                   "%s:%d: a batch of %u samples and the parameters (the largest "
                                   "is %s '%s' with %.4g GB)",
                                   g->model->file, named->line, rows,
                                   named->type ? "layer" : "field", named->name, largest / 1e9)
                 : 0;
}
