/* SPDX-License-Identifier: Apache-2.0 */
/* test_nn_layers.c - every layer, activation and cost, compared with a plain reference in double,
 * over fields of all kinds. test_nn_gradients.c tests the gradients. */
#include <setjmp.h>

#include <cmocka.h>

#include "tests/support/c/nn_net.h"

/* --- values --- */

static double act(const char *name, double x) {
    if (!strcmp(name, "sigmoid"))
        return 1 / (1 + exp(-x));
    if (!strcmp(name, "tanh"))
        return tanh(x);
    if (!strcmp(name, "relu"))
        return x > 0 ? x : 0;
    if (!strcmp(name, "leaky_relu"))
        return x > 0 ? x : 0.01 * x;
    if (!strcmp(name, "softplus"))
        return log1p(exp(x));
    if (!strcmp(name, "gelu"))
        return x / 2 * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    return x;
}

static double pooled(const struct net *n, const char *name, uint32_t i, uint32_t j, int how,
                     uint32_t p) {
    uint32_t k = field(n, name);
    double s = 0, count = 0, squares = 0;
    for (uint32_t at = n->b.offset[k][i]; at < n->b.offset[k][i + 1]; at++) {
        double w = n->b.values[k] ? (double)n->b.values[k][at] : 1;
        s += w * row(n->b.ids[k][at], p, D, j);
        count += w;
        squares += w * w;
    }
    if (count == 0)
        return 0;
    return how == 0 ? s : how == 1 ? s / count : s / sqrt(squares);
}

static double want_ids(const struct net *n, uint32_t i, uint32_t j) {
    return row(n->b.ids[field(n, j < D ? "i" : "j")][i], 0, D, j % D);
}
static double want_id_sum(const struct net *n, uint32_t i, uint32_t j) {
    return want_ids(n, i, j) + want_ids(n, i, j + D) + pooled(n, "l", i, j, 0, 0);
}
static double want_sum(const struct net *n, uint32_t i, uint32_t j) {
    return pooled(n, "l", i, j, 0, 0);
}
static double want_mean(const struct net *n, uint32_t i, uint32_t j) {
    return pooled(n, "l", i, j, 1, 0);
}
static double want_sqrtn(const struct net *n, uint32_t i, uint32_t j) {
    return pooled(n, "l", i, j, 2, 0);
}
static double want_weighted_sum(const struct net *n, uint32_t i, uint32_t j) {
    return pooled(n, "w", i, j, 0, 0);
}
static double want_weighted_mean(const struct net *n, uint32_t i, uint32_t j) {
    return pooled(n, "w", i, j, 1, 0);
}
static double want_weighted_sqrtn(const struct net *n, uint32_t i, uint32_t j) {
    return pooled(n, "w", i, j, 2, 0);
}
static double want_addto(const struct net *n, uint32_t i, uint32_t j) {
    return tanh(dense(n, "a", i, j) + 2 * dense(n, "b", i, j));
}
static double want_product(const struct net *n, uint32_t i, uint32_t j) {
    return dense(n, "a", i, j) * dense(n, "b", i, j);
}
static double dot(const struct net *n, const char *a, const char *b, uint32_t i) {
    double s = 0;
    for (uint32_t j = 0; j < N; j++)
        s += dense(n, a, i, j) * dense(n, b, i, j);
    return s;
}
static double want_dot(const struct net *n, uint32_t i, uint32_t j) {
    return 0.5 * dot(n, "a", "b", i) + 0 * j;
}
static double want_cos(const struct net *n, uint32_t i, uint32_t j) {
    return 5 * dot(n, "a", "b", i) / sqrt(dot(n, "a", "a", i) * dot(n, "b", "b", i)) + 0 * j;
}
static double want_fm(const struct net *n, uint32_t i, uint32_t j) {
    double v[4][D], s = 0 * j;
    for (uint32_t k = 0; k < 4; k++)
        for (uint32_t d = 0; d < D; d++)
            v[k][d] = dense(n, k < 2 ? "a" : "b", i, k % 2 * D + d);
    for (int k = 0; k < 4; k++)
        for (int l = k + 1; l < 4; l++)
            for (int d = 0; d < D; d++)
                s += v[k][d] * v[l][d];
    return s;
}
static double want_norm(const struct net *n, uint32_t i, uint32_t j) {
    double m = 0, v = 0;
    for (uint32_t k = 0; k < N; k++)
        m += dense(n, "a", i, k) / N;
    for (uint32_t k = 0; k < N; k++)
        v += (dense(n, "a", i, k) - m) * (dense(n, "a", i, k) - m) / N;
    return (dense(n, "a", i, j) - m) / sqrt(v + 1e-3) * (double)n->w[0][j] + (double)n->w[1][j];
}
static double want_running(const struct net *n, uint32_t i,
                           uint32_t j) { /* in testing: with the running mean and variance */
    return (dense(n, "a", i, j) - (double)n->w[2][j]) / sqrt((double)n->w[3][j] + 1) *
               (double)n->w[0][j] +
           (double)n->w[1][j];
}

/* a as an image of 1 x 2 x 3, b as 2 x 3 x 1; weights and biases are the parameters. */
static double at_image(const struct net *n, const char *name, uint32_t i, int c, int y, int x,
                       int h, int w) {
    return y < 0 || x < 0 || y >= h || x >= w ? 0
                                              : dense(n, name, i, (uint32_t)((c * h + y) * w + x));
}
static double want_conv(const struct net *n, uint32_t i,
                        uint32_t j) { /* 2 filters of 2 x 2, padding 1: 3 x 4 places */
    int f = (int)j / 12, r = (int)j % 12 / 4, c = (int)j % 4;
    double s = term(n, (double)n->w[1][f]);
    for (int k = 0; k < 4; k++)
        s += term(n, at_image(n, "a", i, 0, r + k / 2 - 1, c + k % 2 - 1, 2, 3) *
                         (double)n->w[0][k * 2 + f]);
    return s;
}
static double want_stride(
    const struct net *n, uint32_t i,
    uint32_t j) { /* b, 2 channels of 3 x 1, a filter of 1, stride 2: 2 x 1 places */
    int f = (int)j / 2, r = (int)j % 2;
    double s = 0;
    for (int ch = 0; ch < 2; ch++)
        s += term(n, at_image(n, "b", i, ch, r * 2, 0, 3, 1) * (double)n->w[0][ch * 3 + f]);
    return s;
}
static double want_max(const struct net *n, uint32_t i,
                       uint32_t j) { /* 2 x 2, stride 1: 1 x 2 places */
    double m = -1e9;
    for (int k = 0; k < 4; k++)
        m = fmax(m, at_image(n, "a", i, 0, k / 2, (int)j + k % 2, 2, 3));
    return m;
}
static double want_avg(const struct net *n, uint32_t i,
                       uint32_t j) { /* 2 x 2, padding 1, stride 2: 2 x 2 places */
    double s = 0, count = 0;
    for (int k = 0; k < 4; k++) {
        int y = (int)j / 2 * 2 + k / 2 - 1, x = (int)j % 2 * 2 + k % 2 - 1;
        s += at_image(n, "a", i, 0, y, x, 2, 3);
        count += y >= 0 && x >= 0 && y < 2 && x < 3;
    }
    return s / count;
}

#define IMAGE "height = 2\nwidth = 3\n"
#define ON_ONE(inputs, rest) HEAD EMB("it", inputs, rest) SQUARE("it")
static const struct layer_row layers[] = {
    {"two ids side by side", ON_ONE("i j", "sparse_update = true\n"), 2 * D, want_ids},
    {"two ids side by side, dense", ON_ONE("i j", ""), 2 * D, want_ids},
    {"two ids and a list added up", ON_ONE("i j l", "combine = sum\nis_distributed = true\n"), D,
     want_id_sum},
    {"a list, summed", ON_ONE("l", "sparse_update = true\n"), D, want_sum},
    {"a list, mean", ON_ONE("l", "sparse_update = true\npooling = mean\n"), D, want_mean},
    {"a list, sqrtn, dense", ON_ONE("l", "pooling = sqrtn\n"), D, want_sqrtn},
    {"weights, summed", ON_ONE("w", "sparse_update = true\npooling = sum\n"), D, want_weighted_sum},
    {"weights, mean", ON_ONE("w", "pooling = mean\n"), D, want_weighted_mean},
    {"weights, sqrtn", ON_ONE("w", "sparse_update = true\npooling = sqrtn\n"), D,
     want_weighted_sqrtn},
    {"addto", HEAD LAYER("it", "addto", "a b b", "act = tanh\n") SQUARE("it"), N, want_addto},
    {"product", HEAD LAYER("it", "product", "a b", "") SQUARE("it"), N, want_product},
    {"dot", HEAD LAYER("it", "dot", "a b", "scale = 0.5\n") SQUARE("it"), 1, want_dot},
    {"cos_sim", HEAD LAYER("it", "cos_sim", "a b", "scale = 5\n") SQUARE("it"), 1, want_cos},
    {"fm", HEAD LAYER("it", "fm", "a b", "dim = 3\n") SQUARE("it"), 1, want_fm},
    {"layer_norm", HEAD LAYER("it", "layer_norm", "a", "eps = 1e-3\n") SQUARE("it"), N, want_norm},
    {"batch_norm, testing", HEAD LAYER("it", "batch_norm", "a", "eps = 1\n") SQUARE("it"), N,
     want_running},
    {"conv, padded",
     HEAD LAYER("it", "conv", "a", IMAGE "filter = 2\npadding = 1\nsize = 2\n") SQUARE("it"), 24,
     want_conv},
    {"conv, strided",
     HEAD LAYER(
         "it", "conv", "b",
         "channels = 2\nheight = 3\nwidth = 1\nfilter = 1\nstride = 2\nsize = 3\nbias = false\n")
         SQUARE("it"),
     6, want_stride},
    {"pool, max", HEAD LAYER("it", "pool", "a", IMAGE "filter = 2\nstride = 1\n") SQUARE("it"), 2,
     want_max},
    {"pool, mean",
     HEAD LAYER("it", "pool", "a", IMAGE "filter = 2\npadding = 1\npooling = mean\n") SQUARE("it"),
     4, want_avg},
};

static void layers_agree_with_plain_loops(void **state) {
    (void)state;
    expect_layers(layers, sizeof layers / sizeof layers[0]);
}

/* A cosine does not depend on the lengths of its vectors, and is 0 for vectors that are too short.
 * Values and gradients must always be numbers, although squares vanish in a float and their
 * inverses are infinite. */
static void cosines_of_short_vectors_are_numbers(void **state) {
    (void)state;
    static const float scale[] = {1,      1e-6f,  1e-12f, 1e-17f, 1e-19f, 1e-21f,
                                  1e-23f, 1e-24f, 1e-30f, 1e-42f, 0};
    struct net n;
    struct nn_cost cost;
    uint32_t size;
    float *grad[12] = {0}, first[B];
    start(&n, HEAD EMB("e", "i", "") EMB("f", "j", "") LAYER("it", "cos_sim", "e f", "scale = 5\n")
                  SQUARE("it"));
    uint32_t e = (uint32_t)nn_graph_find_param(n.g, "e.w"),
             f = (uint32_t)nn_graph_find_param(n.g, "f.w");
    for (uint32_t p = 0; p < nn_graph_n_params(n.g); p++)
        grad[p] =
            calloc(nn_graph_param(n.g, p)->rows * nn_graph_param(n.g, p)->cols, sizeof(float));
    const uint64_t values = nn_graph_param(n.g, e)->rows * nn_graph_param(n.g, e)->cols;
    float *was = calloc(2 * values, sizeof(float));
    memcpy(was, n.w[e], values * sizeof(float));
    memcpy(was + values, n.w[f], values * sizeof(float));
    for (size_t k = 0; k < sizeof scale / sizeof scale[0]; k++)
        for (int both = 0; both < 2; both++) {
            for (uint64_t i = 0; i < values; i++) {
                n.w[e][i] = was[i] * scale[k];
                n.w[f][i] = was[values + i] * (both ? scale[k] : 1);
            }
            for (uint32_t p = 0; p < nn_graph_n_params(n.g); p++)
                nn_exec_bind(n.exec, p, n.w[p], grad[p]);
            nn_exec_forward(n.exec, n.feed, 0, B, NN_TRAIN, 1, 0, &cost);
            const float *y = nn_exec_output(n.exec, "it", &size);
            for (uint32_t i = 0; i < B; i++) {
                first[i] = k + (size_t)both ? first[i] : y[i];
                float want = scale[k] >= 1e-12f ? first[i] : 0;
                if (!(fabsf(y[i] - want) <= 1e-4f || (scale[k] < 1e-12f && scale[k] > 1e-17f)))
                    fail_msg("scale %g: %g, not %g", (double)scale[k], (double)y[i], (double)want);
            }
            nn_exec_backward(n.exec);
            for (uint32_t p = 0; p < nn_graph_n_params(n.g); p++)
                for (uint64_t i = 0;
                     i < nn_graph_param(n.g, p)->rows * nn_graph_param(n.g, p)->cols; i++)
                    if (!isfinite(grad[p][i]))
                        fail_msg("scale %g: a gradient of %s is %g", (double)scale[k],
                                 nn_graph_param(n.g, p)->name, (double)grad[p][i]);
        }
    for (int p = 0; p < 12; p++)
        free(grad[p]);
    free(was);
    stop(&n);
}

/* Trains a batch or a part of it. Checks the values, and the inputs for the averages of the running
 * mean and variance. */
static void batch_norm_of(const char *text, uint32_t C, uint32_t first, uint32_t count) {
    struct net n;
    struct nn_cost cost;
    uint32_t size;
    start(&n, text);
    const uint32_t P = nn_graph_layer_size(n.g, "it") / C;
    float *grad[12] = {0};
    for (uint32_t p = 0; p < nn_graph_n_params(n.g); p++) {
        const struct nn_param *q = nn_graph_param(n.g, p);
        grad[p] = calloc(q->rows * q->cols, sizeof(float));
        nn_exec_bind(n.exec, p, n.w[p], grad[p]);
    }
    nn_exec_forward(n.exec, n.feed, first, count, NN_TRAIN, 1, 0, &cost);
    const float *x = P > 1 ? nn_exec_output(n.exec, "k", &size)
                           : n.b.values[field(&n, "a")] + first * N,
                *y = nn_exec_output(n.exec, "it", &size);
    const uint32_t at = (uint32_t)nn_graph_find_param(n.g, "it.gamma");
    double M = count * P, mean[8] = {0}, var[8] = {0};
    for (uint32_t k = 0; k < count * size; k++)
        mean[k % size / P] += (double)x[k] / M;
    for (uint32_t k = 0; k < count * size; k++)
        var[k % size / P] +=
            ((double)x[k] - mean[k % size / P]) * ((double)x[k] - mean[k % size / P]) / M;
    for (uint32_t k = 0; k < count * size; k++) {
        uint32_t c = k % size / P;
        double want = ((double)x[k] - mean[c]) / sqrt(var[c] + 1e-5) * (double)n.w[at][c] +
                      (double)n.w[at + 1][c];
        if (!(fabs((double)y[k] - want) <= 5e-6 * (1 + fabs(want))))
            fail_msg("%u channels, samples %u to %u: value %u is %.8g, not %.8g", C, first,
                     first + count, k, (double)y[k], want);
    }
    nn_exec_backward(n.exec);
    for (uint32_t c = 0; c < C; c++) {
        double want_mean = count * mean[c],
               want_var = count * (M > 1 ? var[c] * M / (M - 1) : (double)n.w[at + 3][c]);
        if (!(fabs((double)grad[at + 2][c] - want_mean) <= 1e-5 * (1 + fabs(want_mean)) &&
              fabs((double)grad[at + 3][c] - want_var) <= 1e-5 * (1 + fabs(want_var))))
            fail_msg("%u channels, %u samples: mean %u times samples is %.8g, not %.8g; variance "
                     "%.8g, not %.8g",
                     C, count, c, (double)grad[at + 2][c], want_mean, (double)grad[at + 3][c],
                     want_var);
    }
    for (int p = 0; p < 12; p++)
        free(grad[p]);
    stop(&n);
}

static void batch_norm_takes_what_is_computed_together(void **state) {
    (void)state;
    static const char values[] = HEAD LAYER("it", "batch_norm", "a", "") SQUARE("it");
    static const char images[] =
        HEAD LAYER("k", "conv", "a", "height = 2\nwidth = 3\nfilter = 2\npadding = 1\nsize = 2\n")
            LAYER("it", "batch_norm", "k", "") SQUARE("it");
    batch_norm_of(values, N, 0, B);
    batch_norm_of(values, N, 3, 4);
    batch_norm_of(values, N, 5, 1); /* a single sample */
    batch_norm_of(images, 2, 0, B);
    batch_norm_of(images, 2, 8, 1);
}

/* A static layer uses the running values in training, too, and the servers do not change them. */
static void a_static_batch_norm_stays(void **state) {
    (void)state;
    struct net n;
    struct nn_cost cost;
    uint32_t size;
    float tested[B * N];
    start(&n, HEAD LAYER("it", "batch_norm", "a", "static = true\neps = 1\n") SQUARE("it"));
    memcpy(tested, nn_exec_output(n.exec, "it", &size), sizeof tested);
    nn_exec_forward(n.exec, n.feed, 0, B, NN_TRAIN, 1, 0, &cost);
    assert_memory_equal(tested, nn_exec_output(n.exec, "it", &size), sizeof tested);
    for (uint32_t p = 0; p < 4; p++)
        assert_true(nn_graph_param(n.g, p)->is_static && nn_graph_param(n.g, p)->lr_factor == 0);
    stop(&n);
}

static void activations_agree_with_libm(void **state) {
    (void)state;
    static const char *const names[] = {"linear",     "sigmoid",  "tanh", "relu",
                                        "leaky_relu", "softplus", "gelu"};
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
        char text[2000];
        struct net n;
        uint32_t size;
        snprintf(text, sizeof text, HEAD LAYER("it", "addto", "a b", "act = %s\n") SQUARE("it"),
                 names[k]);
        start(&n, text);
        const float *y = nn_exec_output(n.exec, "it", &size);
        for (uint32_t i = 0; i < B * N; i++) {
            double want = act(names[k], (double)(n.b.values[0][i] + n.b.values[1][i]));
            if (!(fabs((double)y[i] - want) <= 5e-7 * (fabs(want) + 1e-3)))
                fail_msg("%s: %.8g, not %.8g", names[k], (double)y[i], want);
        }
        stop(&n);
    }
}

/* --- costs --- */

static double want_square(double y, double other, double t) {
    return (y - t) * (y - t) + 0 * other;
}
static double want_huber(double y, double other, double t) {
    double r = fabs(y - t);
    return (r <= 0.7 ? r * r / 2 : 0.7 * (r - 0.35)) + 0 * other;
}
static double want_bce(double y, double other, double t) {
    return -t * log(y) - (1 - t) * log(1 - y) + 0 * other;
}
static double want_rank(double y, double other, double t) {
    return log1p(exp(y - other)) - t * (y - other);
}
static double want_itself(double y, double other, double t) { return y + 0 * other * t; }

#define SCORES(act) FC("p", "a", "1", act) FC("q", "b", "1", act)
static const struct {
    const char *name, *text, *label;
    double (*want)(double y, double other, double t);
} costs[] = {
    {"square_error", HEAD SCORES("tanh") COST("square_error", "p", "t"), "t", want_square},
    {"huber", HEAD SCORES("linear") COST("huber", "p", "t") "delta = 0.7\n", "t", want_huber},
    {"binary_cross_entropy of a click",
     HEAD SCORES("sigmoid") COST("binary_cross_entropy", "p", "c"), "c", want_bce},
    {"binary_cross_entropy of a number",
     HEAD SCORES("sigmoid") COST("binary_cross_entropy", "p", "t"), "t", want_bce},
    {"rank", HEAD SCORES("linear") COST("rank", "p q", "c"), "c", want_rank},
    {"sum", HEAD SCORES("softplus") "[cost c]\ntype = sum\ninput = p\n", "t", want_itself},
};

static void costs_agree_with_plain_loops(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof costs / sizeof costs[0]; k++) {
        struct net n;
        uint32_t size;
        char text[3000];
        /* a second cost of weight 0 uses the inputs that the cost does not use */
        snprintf(text, sizeof text, "%s%s", costs[k].text,
                 strcmp(costs[k].name, "rank") ? "[cost rest]\ntype = sum\ninput = q\nweight = 0\n"
                                               : "");
        double got = start(&n, text), want = 0;
        const float *p = nn_exec_output(n.exec, "p", &size),
                    *q = nn_exec_output(n.exec, "q", &size);
        uint32_t f = field(&n, costs[k].label);
        for (uint32_t i = 0; i < B; i++) {
            double t = n.b.values[f] ? (double)n.b.values[f][i] : (double)n.b.ids[f][i];
            want += costs[k].want((double)p[i], (double)q[i], t);
        }
        if (!(fabs(got - want) <= 3e-6 * (1 + fabs(want))))
            fail_msg("%s: %.9g, not %.9g", costs[k].name, got, want);
        stop(&n);
    }
}

static void lists_longer_than_any_before_get_room(void **state) {
    (void)state;
    struct net n;
    start(&n, layers[3].text);
    uint32_t k = field(&n, "l"), keys;
    n.b.n = 0;
    assert_int_equal(pd_batch_reserve(&n.b, k, 100 * B), 0);
    for (uint32_t i = 0; i < B; i++) {
        for (uint32_t j = 0; j < 100; j++)
            n.b.ids[k][i * 100 + j] = (i + j) % V;
        n.b.offset[k][i + 1] = (i + 1) * 100;
    }
    n.b.n = B;
    assert_int_equal(nn_feed_set(n.feed, &n.b, NULL), 0);
    nn_feed_keys(n.feed, 0, &keys);
    assert_int_equal(keys, V);
    struct pd_err err = {0};
    n.b.ids[k][250] = V + 5;
    assert_int_equal(nn_feed_set(n.feed, &n.b, &err), PD_EDATA);
    assert_string_equal(err.msg,
                        "stream 0, sample 2: field 'l' is 25, but the vocabulary has 20 ids");
    stop(&n);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_agree_with_plain_loops),
        cmocka_unit_test(cosines_of_short_vectors_are_numbers),
        cmocka_unit_test(batch_norm_takes_what_is_computed_together),
        cmocka_unit_test(a_static_batch_norm_stays),
        cmocka_unit_test(activations_agree_with_libm),
        cmocka_unit_test(costs_agree_with_plain_loops),
        cmocka_unit_test(lists_longer_than_any_before_get_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
