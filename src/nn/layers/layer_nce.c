/* SPDX-License-Identifier: Apache-2.0 */
/* layer_nce.c - noise-contrastive estimation: separates the label from K ids that are drawn from a
 * known distribution q. The formulas are in the row at the end of the file.
 *
 * The score is not normalised: b begins with -log V, so sum exp(s) is near 1 from the start, and it
 * is 1 at the optimum. If w or b is a table, a test has only the rows of its keys, so it computes
 * the cost of training. */
#include "nn/kernels/kernel.h"
#include "nn/layers/sampled_output.h"

enum { W = NN_SAMPLED_W, BIAS = NN_SAMPLED_BIAS };
/* test samples whose scores of all ids are computed at a time */
enum { EXACT_ROWS = 16 };

static const char *const takes[] = {NN_SAMPLED_KEYS, "bias", NN_PARAM_KEYS, NULL};

static int shape(struct nn_build *b, struct nn_node *self, struct pd_err *err) {
    uint32_t before = b->g->n_params;
    self->bias = !self->ini->bias.line || self->ini->bias.value;
    int rc = nn_sampled_shape(b, self, 1, 1, err);
    if (rc)
        return rc;
    const struct nn_param *w = &b->g->param[self->param[W]];
    if (self->bias && self->param[BIAS] >= before)
        b->g->param[self->param[BIAS]].init_mean = -log((double)w->rows);
    size_t exact = w->kind == NN_DENSE ? EXACT_ROWS * w->rows : 0;
    self->n_work = self->n_work > exact ? self->n_work : exact;
    return 0;
}

static const float *bias(const struct nn_exec *e, const struct nn_node *self) {
    return self->bias ? e->w[self->param[BIAS]] : NULL;
}

/* The term beside h.w_i: b_i - log(K q_i). */
static float offset(const struct nn_exec *e, const struct nn_node *self, uint64_t id,
                    size_t bias_row) {
    const float *b = bias(e, self);
    return (b ? b[bias_row] : 0) - logf((float)self->dim) - e->g->sampler[self->option].log_q[id];
}

static void exact(const struct nn_exec *e, const struct nn_node *self) {
    size_t D = e->g->node[self->in[0]].size, V = e->g->param[self->param[W]].rows;
    const float *h = e->state[self->in[0]].y, *b = bias(e, self);
    const uint64_t *label = nn_ids(e, e->g->node[self->in[1]].number);
    float picked[EXACT_ROWS];
    double log_sum[EXACT_ROWS];
    for (uint32_t i = 0, n; i < e->n; i += n) {
        n = e->n - i < EXACT_ROWS ? e->n - i : EXACT_ROWS;
        if (b)
            nn_fill_rows(n, V, b, e->work);
        nn_gemm(0, 1, n, V, D, 1, h + i * D, e->w[self->param[W]], b ? 1 : 0, e->work);
        for (uint32_t s = 0; s < n; s++)
            picked[s] = e->work[s * V + label[i + s]];
        nn_softmax(n, V, e->work, log_sum);
        for (uint32_t s = 0; s < n; s++)
            e->state[self->id].y[i + s] = (float)(log_sum[s] - (double)picked[s]);
    }
}

static void forward(struct nn_exec *e, const struct nn_node *self) {
    size_t D = e->g->node[self->in[0]].size, K = self->dim, at;
    const float *h = e->state[self->in[0]].y, *w = e->w[self->param[W]];
    const uint64_t *label = nn_ids(e, e->g->node[self->in[1]].number);
    float *drawn = e->state[self->id].extra, *own = drawn + e->max * K, *soft = e->work + 2 * K * D,
          *add = soft + K;
    if (e->mode == NN_TEST && e->g->param[self->param[W]].kind == NN_DENSE) {
        exact(e, self);
        return;
    }
    for (uint32_t i = 0, end; i < e->n; i = end) {
        end = nn_sampled_group(e, self, i, &at, e->work);
        for (size_t k = 0; k < K; k++)
            add[k] = offset(e, self, e->feed->draw[self->option].ids[at + k],
                            self->bias ? nn_sampled_drawn_row(e, self, BIAS, at + k) : 0);
        nn_fill_rows(end - i, K, add, drawn + i * K);
        nn_gemm(0, 1, end - i, K, D, 1, h + i * D, e->work, 1, drawn + i * K);
        for (uint32_t s = i; s < end; s++) {
            float z = -nn_dot(D, h + s * D, w + nn_sampled_label_row(e, self, W, s) * D),
                  *d = drawn + s * K, cost;
            z -= offset(e, self, label[s], self->bias ? nn_sampled_label_row(e, self, BIAS, s) : 0);
            nn_softplus(1, &z, &cost);
            nn_sigmoid(1, &z, &own[s]);
            own[s] = -own[s];
            nn_softplus(K, d, soft);
            nn_sigmoid(K, d, d);
            e->state[self->id].y[s] = cost + nn_sum(K, soft);
        }
    }
}

const struct nn_layer nn_layer_nce = {
    .name = "nce",
    .takes = takes,
    .shape = shape,
    .forward = forward,
    .backward = nn_sampled_backward,
    .text = "noise-contrastive estimation: probabilities over large vocabularies from ids drawn at "
            "random",
    .formula =
        "inputs    a layer h[B,D] and a field of ids t\n"
        "shapes    w[V,D], b[V,1] (unless bias = false), usually tables (sparse_update) -> y[B,1]\n"
        "score     s_i = h.w_i + b_i, which becomes log p(i | h)\n"
        "log odds  z_i = s_i - log(K q_i), that i is data and not noise; K = negatives\n"
        "forward   y = softplus(-z_t) + sum_k softplus(z_nk), for a cost of type sum\n"
        "backward  ds_t = sigmoid(z_t) - 1;  ds_nk = sigmoid(z_nk), even if n_k is the label\n"
        "draws     q_i is proportional to count_i^power; an id with count 0 is never drawn, and as "
        "a\n"
        "          label it has the probability of the rarest other id\n"
        "testing   with dense w and b: y = -log softmax(s)_t over all ids, comparable with\n"
        "          cross_entropy; with tables: as in training\n"
        "initial   w: 0 (init_std gives another std), b: -log V\n",
    .source = "nce",
    .example = "[layer next]\n"
               "type = nce\n"
               "inputs = hidden word\n"
               "negatives = 25\n"
               "\n"
               "[cost cost]\n"
               "type = sum\n"
               "input = next\n",
};
