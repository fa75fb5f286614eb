/* layer_negative_sampling.c - an output layer for large vocabularies: compares the label with K
 * drawn ids instead of with all ids.
 *
 *     inputs     a layer h[B,D] and a field of ids t
 *     parameter  w[V,D], usually a table (sparse_update)
 *     cost       y[B,1] = softplus(-h.w_t) + scale * sum_k softplus(h.w_nk), for a cost of type sum
 *     backward   d(h.w_t) = sigmoid(h.w_t) - 1;  d(h.w_nk) = scale * sigmoid(h.w_nk)
 *
 * A drawn id that is the label does not count. `share` neighbouring samples (default 1) share their
 * `negatives` drawn ids: the more samples share them, the larger the part of the work that is
 * matrix products. With 64 ids for 512 samples, scale = 5/64 weighs the ids like 5 for each sample.
 * Source: docs/sources.md#negative-sampling
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
    "negative_sampling",
    takes,
    shape,
    forward,
    nn_sampled_backward,
    "the cost of a label against ids drawn at random, for large vocabularies",
    0};
