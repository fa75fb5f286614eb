/* SPDX-License-Identifier: Apache-2.0 */
/* layer_negative_sampling.c - an output layer for large vocabularies: compares the label with K
 * drawn ids instead of with all ids. The formulas are in the row at the end of the file.
 *
 * The more samples share their drawn ids, the larger the part of the work that is matrix products.
 */
#include "nn/kernels/kernel.h"
#include "nn/layers/sampled_output.h"

static const char *const takes[] = {NN_SAMPLED_KEYS, "scale", NN_PARAM_KEYS, NULL};

static int shape(struct nn_build *b, struct nn_node *self, struct pd_err *err) {
    int rc = nn_sampled_shape(b, self, 0.75, 0, err);
    self->rate = self->ini->scale.line ? (float)self->ini->scale.value : 1;
    return rc;
}

static void forward(struct nn_exec *e, const struct nn_node *self) {
    size_t D = e->g->node[self->in[0]].size, K = self->dim, at;
    const float *h = e->state[self->in[0]].y, *w = e->w[self->param[0]];
    const uint64_t *label = nn_ids(e, e->g->node[self->in[1]].number);
    float *drawn = e->state[self->id].extra, *own = drawn + e->max * K, *soft = e->work + 2 * K * D;
    for (uint32_t i = 0, end; i < e->n; i = end) {
        end = nn_sampled_group(e, self, i, &at, e->work);
        const uint64_t *ids = e->feed->draw[self->option].ids + at;
        nn_gemm(0, 1, end - i, K, D, 1, h + i * D, e->work, 0, drawn + i * K);
        for (uint32_t s = i; s < end; s++) {
            float z = -nn_dot(D, h + s * D, w + nn_sampled_label_row(e, self, NN_SAMPLED_W, s) * D),
                  *d = drawn + s * K, cost;
            nn_softplus(1, &z, &cost);
            nn_sigmoid(1, &z, &own[s]);
            own[s] = -own[s];
            nn_softplus(K, d, soft);
            nn_sigmoid(K, d, d);
            for (size_t k = 0; k < K; k++)
                if (ids[k] == label[s])
                    soft[k] = d[k] = 0;
            e->state[self->id].y[s] = cost + self->rate * nn_sum(K, soft);
            nn_scale(K, self->rate, d);
        }
    }
}

const struct nn_layer nn_layer_negative_sampling = {
    .name = "negative_sampling",
    .takes = takes,
    .shape = shape,
    .forward = forward,
    .backward = nn_sampled_backward,
    .text = "the cost of a label against ids drawn at random, for large vocabularies",
    .formula =
        "inputs    a layer h[B,D] and a field of ids t\n"
        "shapes    w[V,D], usually a table (sparse_update) -> y[B,1]\n"
        "forward   y = softplus(-h.w_t) + scale * sum_k softplus(h.w_nk), for a cost of type sum\n"
        "          a drawn id n_k that is the label does not count\n"
        "backward  d(h.w_t) = sigmoid(h.w_t) - 1;  d(h.w_nk) = scale * sigmoid(h.w_nk)\n"
        "draws     an id i is drawn in proportion to count_i^power; share neighbouring samples "
        "have\n"
        "          the same draws: 64 ids for 512 samples with scale = 5/64 weigh like 5 for each\n"
        "initial   w: 0 (init_std gives another std)\n",
    .source = "negative-sampling",
    .example = "[layer next]\n"
               "type = negative_sampling\n"
               "inputs = hidden word\n"
               "negatives = 5\n"
               "sparse_update = true\n"
               "\n"
               "[cost cost]\n"
               "type = sum\n"
               "input = next\n",
};
