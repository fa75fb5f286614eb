/* SPDX-License-Identifier: Apache-2.0 */
/* exec.c - forward and backward over a part of a feed, with the buffers of one thread.
 *
 *     forward   nodes in order: y = layer(inputs); fused costs read y; y = act(y); costs' values
 *     backward  nodes in reverse order: dy, summed over the readers, goes through the activation;
 *               costs add their gradients; then the layer makes the gradients of its inputs and
 *               parameters. The first writer of a dy overwrites it.
 */
#include "nn/graph/graph_internal.h"
#include "nn/kernels/kernel.h"

/* Allocate the values of `rows` samples, or point into the values of `first`. */
static int exec_alloc(struct nn_exec *e, uint32_t rows, const struct nn_exec *first) {
    const struct nn_graph *g = e->g;
    size_t work = 0;
    e->w = pd_calloc(g->n_params, sizeof *e->w);
    e->grad = pd_calloc(g->n_params, sizeof *e->grad);
    e->left = pd_calloc(g->n_params, sizeof *e->left);
    e->state = pd_calloc(g->n_nodes, sizeof *e->state);
    e->picked = pd_calloc(g->n_costs, sizeof *e->picked);
    e->cost_sum = pd_calloc(g->n_costs, sizeof *e->cost_sum);
    if (!e->w || !e->grad || !e->left || !e->state || !e->picked || !e->cost_sum)
        return -1;
    for (uint32_t c = 0; c < g->n_costs; c++)
        if (!(e->picked[c] = pd_calloc(e->max, sizeof **e->picked)))
            return -1;
    for (uint32_t i = g->n_fields; i < g->n_nodes; i++) {
        const struct nn_node *n = &g->node[i];
        struct nn_state *s = &e->state[i];
        size_t bytes = (size_t)e->max * n->size * sizeof(float);
        if (!first) {
            size_t all = (size_t)rows * n->size * sizeof(float);
            s->all_y = pd_alloc64(all);
            s->all_dy = n->dy_is_y ? s->all_y : n->wants_grad ? pd_alloc64(all) : NULL;
        } else {
            s->all_y = first->state[i].all_y;
            s->all_dy = first->state[i].all_dy;
        }
        s->x = n->act->of_x ? pd_alloc64(bytes) : NULL;
        s->extra = n->n_extra ? pd_alloc64((size_t)e->max * n->n_extra * sizeof(float)) : NULL;
        work = n->n_work > work ? n->n_work : work;
        s->log_sum = n->act->row_sums ? pd_calloc(e->max, sizeof *s->log_sum) : NULL;
        if (!s->all_y || (n->wants_grad && !s->all_dy) || (n->n_extra && !s->extra) ||
            (n->act->of_x && !s->x) || (n->act->row_sums && !s->log_sum))
            return -1;
    }
    return work && !(e->work = pd_alloc64(work * sizeof *e->work)) ? -1 : 0;
}

static int exec_new(struct nn_exec **out, const struct nn_graph *g, uint32_t max, uint32_t rows,
                    const struct nn_exec *first, struct pd_err *err) {
    struct nn_exec *e = pd_calloc(1, sizeof *e);
    if (e) {
        e->g = g;
        e->max = max;
        e->is_guest = first != NULL;
    }
    if (!e || exec_alloc(e, rows, first)) {
        nn_exec_free(e);
        return pd_fail(err, PD_ENOMEM,
                       "out of memory for the layers' values of a batch of %u samples", rows);
    }
    *out = e;
    return 0;
}

int nn_exec_new(struct nn_exec **out, const struct nn_graph *g, uint32_t max_batch,
                struct pd_err *err) {
    return exec_new(out, g, max_batch, max_batch, NULL, err);
}

int nn_exec_new_beside(struct nn_exec **out, uint32_t n, const struct nn_graph *g,
                       uint32_t max_piece, uint32_t max_batch, struct pd_err *err) {
    uint32_t made = 0;
    int rc = 0;
    while (made < n &&
           !(rc = exec_new(&out[made], g, max_piece, max_batch, made ? out[0] : NULL, err)))
        out[made++]->beside = 1;
    while (rc && made)
        nn_exec_free(out[--made]);
    return rc;
}

void nn_exec_free(struct nn_exec *e) {
    if (!e)
        return;
    for (uint32_t i = e->g->n_fields; e->state && i < e->g->n_nodes; i++) {
        struct nn_state *s = &e->state[i];
        if (!e->is_guest && s->all_dy != s->all_y)
            free(s->all_dy);
        if (!e->is_guest)
            free(s->all_y);
        free(s->x);
        free(s->extra);
        free(s->log_sum);
    }
    for (uint32_t c = 0; e->picked && c < e->g->n_costs; c++)
        free(e->picked[c]);
    free(e->w);
    free(e->grad);
    free(e->left);
    free(e->state);
    free(e->work);
    free(e->picked);
    free(e->cost_sum);
    free(e);
}

void nn_exec_bind(struct nn_exec *e, uint32_t param, const float *w, float *g) {
    assert(param < e->g->n_params);
    e->w[param] = w;
    e->grad[param] = g;
}

void nn_exec_on_gradient(struct nn_exec *e, void (*hook)(void *arg, uint32_t param), void *arg) {
    e->hook = hook;
    e->hook_arg = arg;
}

void nn_exec_forward(struct nn_exec *e, const struct nn_feed *f, uint32_t first, uint32_t n,
                     enum nn_mode mode, uint64_t seed, uint64_t pass, struct nn_cost *out) {
    const struct nn_graph *g = e->g;
    assert(f->g == g && n <= e->max && first <= f->n && n <= f->n - first);
    e->feed = f;
    e->first = first;
    e->n = n;
    e->mode = mode;
    e->seed = seed;
    e->pass = pass;
    *out = (struct nn_cost){0, n};
    for (uint32_t p = 0; p < g->n_params; p++)
        assert(e->w[p]);
    for (uint32_t i = 0; i < g->n_fields; i++)
        if (g->node[i].field.kind == PD_DENSE)
            e->state[i].y = f->col[i].value + (size_t)first * g->node[i].size;
    for (uint32_t i = g->n_fields; i < g->n_nodes; i++) {
        const struct nn_node *node = &g->node[i];
        struct nn_state *s = &e->state[i];
        const size_t at = e->beside ? (size_t)first * node->size : 0;
        s->y = s->all_y + at;
        s->dy = s->all_dy ? s->all_dy + at : NULL;
        node->type->forward(e, node);
        for (uint32_t c = 0; node->n_costs && c < g->n_costs; c++)
            if (g->cost[c].in[0] == i && g->cost[c].type->before_act)
                g->cost[c].type->before_act(e, &g->cost[c]);
        if (s->x)
            memcpy(s->x, s->y, (size_t)n * node->size * sizeof *s->x);
        if (node->act->forward)
            node->act->forward(n, node->size, s->y, s->log_sum);
    }
    for (uint32_t c = 0; c < g->n_costs; c++) {
        e->cost_sum[c] = g->cost[c].type->value(e, &g->cost[c]);
        out->sum += (double)g->cost[c].weight * e->cost_sum[c];
    }
}

float *nn_input_gradient(struct nn_exec *e, uint32_t node, int *add) {
    struct nn_state *s = &e->state[node];
    if (!e->g->node[node].wants_grad)
        return NULL;
    *add = s->has_dy;
    s->has_dy = 1;
    return s->dy;
}

/* Add to dy of `node` the gradients of its costs; `fused`: of the fused costs, otherwise of the
 * others. */
static void add_costs(struct nn_exec *e, const struct nn_node *node, int fused) {
    for (uint32_t c = 0; node->n_costs && c < e->g->n_costs; c++) {
        const struct nn_cost_node *cost = &e->g->cost[c];
        for (uint32_t k = 0; k < cost->n_in && !cost->type->act == !fused; k++)
            if (cost->in[k] == node->id)
                cost->type->backward(e, cost, k);
    }
}

/* Turn dy of `node`, from after its activation and from its costs, into the gradient before the
 * activation. */
static void finish_dy(struct nn_exec *e, const struct nn_node *node) {
    struct nn_state *s = &e->state[node->id];
    if (!s->has_dy && !node->dy_is_y)
        memset(s->dy, 0, (size_t)e->n * node->size * sizeof *s->dy);
    add_costs(e, node, 0);
    if ((s->has_dy || node->n_plain_costs) && node->act->backward)
        node->act->backward(e->n, node->size, s->x ? s->x : s->y, s->dy);
    add_costs(e, node, 1);
}

void nn_exec_backward(struct nn_exec *e) {
    const struct nn_graph *g = e->g;
    assert(e->mode == NN_TRAIN && e->feed);
    for (uint32_t i = 0; i < g->n_nodes; i++)
        e->state[i].has_dy = 0;
    memcpy(e->left, g->param_readers, g->n_params * sizeof *e->left);
    for (uint32_t i = g->n_nodes; i-- > g->n_fields;) {
        const struct nn_node *node = &g->node[i];
        if (node->wants_grad) {
            finish_dy(e, node);
            node->type->backward(e, node);
        }
        for (uint32_t k = 0; k < node->n_param; k++)
            if (--e->left[node->param[k]] == 0 && e->hook)
                e->hook(e->hook_arg, node->param[k]);
    }
    /* no outputs any more: some gradients have overwritten them */
    e->feed = NULL;
}

void nn_exec_joint_gradient(struct nn_exec *e, const struct nn_feed *f, uint32_t k, uint32_t n) {
    const struct nn_graph *g = e->g;
    assert(e->beside && f->g == g && k < n);
    for (uint32_t i = g->n_nodes; i-- > g->n_fields;)
        if (g->node[i].wants_grad && g->node[i].together)
            g->node[i].together(e, &g->node[i], f, k, n);
}

const float *nn_exec_output(const struct nn_exec *e, const char *name, uint32_t *size) {
    for (uint32_t i = e->g->n_fields; i < e->g->n_nodes; i++)
        if (!strcmp(e->g->node[i].name, name)) {
            *size = e->g->node[i].size;
            return e->state[i].y;
        }
    return NULL;
}

uint64_t nn_exec_kink_sides(const struct nn_exec *e) {
    uint64_t h = 0;
    for (uint32_t i = e->g->n_fields; i < e->g->n_nodes; i++) {
        const struct nn_node *n = &e->g->node[i];
        const float *y = e->state[i].y, *chosen = n->type->chooses ? e->state[i].extra : NULL;
        for (size_t k = 0; n->act->kink && k < (size_t)e->n * n->size; k++)
            h = h * 6364136223846793005u + (y[k] > 0) + 1;
        for (size_t k = 0; chosen && k < (size_t)e->n * n->n_extra; k++) {
            uint32_t place;
            memcpy(&place, &chosen[k], sizeof place);
            h = h * 6364136223846793005u + place + 1;
        }
    }
    return h;
}
