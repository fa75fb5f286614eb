/* SPDX-License-Identifier: Apache-2.0 */
/* describe.c - see describe.h. */
#include "nn/graph/describe.h"

#include "nn/graph/graph_internal.h"

/* Products of a sample: each value of a matrix counts once for each place where it is used. Rows
 * that are looked up cost none. */
static double flops(const struct nn_graph *g, const struct nn_node *n) {
    double f = 0;
    if (n->type == &nn_layer_embedding)
        return 0;
    if (n->type == &nn_layer_negative_sampling || n->type == &nn_layer_nce)
        return 2.0 * (n->dim + 1) * (double)g->param[n->param[0]].cols;
    /* for the longest list */
    if (n->type == &nn_layer_skip_gram)
        return 2.0 * (n->dim + 1) * (double)g->param[n->param[0]].cols *
               g->node[n->in[0]].field.max_ids;
    for (uint32_t k = 0; k < n->n_param; k++)
        if (g->param[n->param[k]].rows > 1)
            f += 2.0 * (double)g->param[n->param[k]].rows * (double)g->param[n->param[k]].cols;
    return n->type == &nn_layer_conv ? f * n->image.height * n->image.width : f;
}

static void shape_text(const struct nn_node *n, char *out, size_t cap) {
    if (n->image.height)
        snprintf(out, cap, "%ux%ux%u", n->image.channels, n->image.height, n->image.width);
    else if (!n->type && n->field.kind != PD_DENSE)
        snprintf(out, cap, n->field.kind == PD_LIST ? "<=%u ids" : "id", n->field.max_ids);
    else
        snprintf(out, cap, "%u", n->size);
}

static void params_text(const struct nn_graph *g, const struct nn_node *n, char *out, size_t cap) {
    size_t at = 0;
    *out = 0;
    for (uint32_t k = 0; k < n->n_param && at < cap; k++) {
        const struct nn_param *p = &g->param[n->param[k]];
        char rows[32] = "any";
        if (p->rows)
            snprintf(rows, sizeof rows, "%llu", (unsigned long long)p->rows);
        at += (size_t)snprintf(out + at, cap - at, "%s%s %s%sx%llu", k ? ", " : "", p->name,
                               p->kind == NN_TABLE ? "table " : "", rows,
                               (unsigned long long)p->cols);
    }
}

static void inputs_text(const struct nn_graph *g, const struct nn_node *n, char *out, size_t cap) {
    size_t at = 0;
    snprintf(out, cap, n->type ? "" : "-");
    for (uint32_t k = 0; k < n->n_in && at < cap; k++)
        at += (size_t)snprintf(out + at, cap - at, "%s%s", k ? " " : "", g->node[n->in[k]].name);
}

static void type_text(const struct nn_node *n, char *out, size_t cap) {
    snprintf(out, cap, "%s%s%s", n->type ? n->type->name : "field",
             n->type && n->act->forward ? "+" : "", n->type && n->act->forward ? n->act->name : "");
}

static double all_values(const struct nn_graph *g) {
    double values = 0;
    for (uint32_t p = 0; p < g->n_params; p++)
        values += (double)g->param[p].rows * (double)g->param[p].cols;
    return values;
}

int nn_graph_describe(const struct nn_graph *g, struct pd_buf *out) {
    double total = 0;
    pd_put_fmt(out, "%-20s %-18s %-24s %-12s %-12s %s\n", "name", "type", "inputs", "shape",
               "FLOPs", "parameters");
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const struct nn_node *n = &g->node[i];
        char shape[64], params[2000], inputs[1000], type[100];
        double f = n->type ? flops(g, n) : 0;
        shape_text(n, shape, sizeof shape);
        params_text(g, n, params, sizeof params);
        inputs_text(g, n, inputs, sizeof inputs);
        type_text(n, type, sizeof type);
        total += f;
        pd_put_fmt(out, "%-20s %-18s %-24s %-12s %-12.0f %s\n", n->name, type, inputs, shape, f,
                   params);
    }
    for (uint32_t c = 0; c < g->n_costs; c++) {
        const struct nn_cost_node *cost = &g->cost[c];
        char inputs[200];
        snprintf(inputs, sizeof inputs, "%s%s%s%s%s", g->node[cost->in[0]].name,
                 cost->n_in > 1 ? " " : "", cost->n_in > 1 ? g->node[cost->in[1]].name : "",
                 cost->type->label ? " " : "", cost->type->label ? g->node[cost->label].name : "");
        pd_put_fmt(out, "%-20s %-18s %-24s %-12s\n", cost->name, cost->type->name, inputs, "cost");
    }
    pd_put_fmt(out, "%.0f values in %u parameters, %.0f FLOPs a sample forward\n", all_values(g),
               g->n_params, total);
    return out->failed ? PD_ENOMEM : 0;
}

/* Names of train.ini have no control characters; a quote or backslash is left out. */
static void put_string(struct pd_buf *out, const char *s) {
    pd_put_fmt(out, "\"");
    for (; *s; s++)
        if ((unsigned char)*s >= 32 && *s != '"' && *s != '\\')
            pd_put(out, s, 1);
    pd_put_fmt(out, "\"");
}

static void put_node(struct pd_buf *out, int first, const char *name, const char *type) {
    pd_put_fmt(out, "%s{\"name\":", first ? "" : ",");
    put_string(out, name);
    pd_put_fmt(out, ",\"type\":");
    put_string(out, type);
    pd_put_fmt(out, ",\"in\":[");
}

int nn_graph_describe_json(const struct nn_graph *g, struct pd_buf *out) {
    double total = 0;
    pd_put_fmt(out, "\"nodes\":[");
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const struct nn_node *n = &g->node[i];
        char shape[64], params[2000], type[100];
        const double f = n->type ? flops(g, n) : 0;
        shape_text(n, shape, sizeof shape);
        params_text(g, n, params, sizeof params);
        type_text(n, type, sizeof type);
        total += f;
        put_node(out, !i, n->name, type);
        for (uint32_t k = 0; k < n->n_in; k++) {
            pd_put_fmt(out, k ? "," : "");
            put_string(out, g->node[n->in[k]].name);
        }
        pd_put_fmt(out, "],\"shape\":");
        put_string(out, shape);
        pd_put_fmt(out, ",\"flops\":%.0f,\"params\":", f);
        put_string(out, params);
        pd_put_fmt(out, "}");
    }
    for (uint32_t c = 0; c < g->n_costs; c++) {
        const struct nn_cost_node *cost = &g->cost[c];
        put_node(out, !g->n_nodes && !c, cost->name, cost->type->name);
        for (uint32_t k = 0; k < cost->n_in; k++) {
            pd_put_fmt(out, k ? "," : "");
            put_string(out, g->node[cost->in[k]].name);
        }
        if (cost->type->label) {
            pd_put_fmt(out, ",");
            put_string(out, g->node[cost->label].name);
        }
        pd_put_fmt(out, "],\"shape\":\"cost\",\"flops\":0,\"params\":\"\"}");
    }
    pd_put_fmt(out, "],\"values\":%.0f,\"flops\":%.0f", all_values(g), total);
    return out->failed ? PD_ENOMEM : 0;
}
