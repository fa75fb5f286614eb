/* SPDX-License-Identifier: Apache-2.0 */
/* test_nn_interactions.c - layers over products of values and pairs of vectors: cross,
 * dot_interaction, bi_interaction, and the pairs inside a list. Their values against a plain
 * reference in double, and what train.ini must not say. test_nn_gradients.c tests the gradients. */
#include <setjmp.h>

#include <cmocka.h>

#include "tests/support/c/nn_net.h"

/* Parameter p of the layer, element [r, c] of `cols` columns. */
static double value(const struct net *n, int p, uint32_t r, uint32_t cols, uint32_t c) {
    return (double)n->w[p][r * cols + c];
}

/* x_0 is a, x_l is b. */
static double want_cross(const struct net *n, uint32_t i, uint32_t j, int bias) {
    double x0 = dense(n, "a", i, j), y = term(n, dense(n, "b", i, j));
    for (uint32_t k = 0; k < N; k++)
        y += term(n, x0 * dense(n, "b", i, k) * value(n, 0, k, N, j));
    return bias ? y + term(n, x0 * value(n, 1, 0, N, j)) : y;
}
static double want_matrix(const struct net *n, uint32_t i, uint32_t j) {
    return want_cross(n, i, j, 1);
}
static double want_matrix_alone(const struct net *n, uint32_t i, uint32_t j) {
    return want_cross(n, i, j, 0);
}
static double want_low_rank(const struct net *n, uint32_t i, uint32_t j) {
    double x0 = dense(n, "a", i, j),
           y = term(n, dense(n, "b", i, j)) + term(n, x0 * value(n, 2, 0, N, j));
    for (uint32_t k = 0; k < N; k++)
        for (uint32_t r = 0; r < 2; r++)
            y += term(n, x0 * dense(n, "b", i, k) * value(n, 0, k, 2, r) * value(n, 1, r, N, j));
    return y;
}
static double want_vector(const struct net *n, uint32_t i, uint32_t j) {
    double x0 = dense(n, "a", i, j),
           y = term(n, dense(n, "b", i, j)) + term(n, value(n, 1, 0, N, j));
    for (uint32_t k = 0; k < N; k++)
        y += term(n, x0 * dense(n, "b", i, k) * value(n, 0, k, 1, 0));
    return y;
}

/* Vector k of a, b and a again: two of 3 values in each. */
static double vector(const struct net *n, uint32_t i, uint32_t k, uint32_t d) {
    return dense(n, k / 2 == 1 ? "b" : "a", i, k % 2 * D + d);
}
static double want_dots(const struct net *n, uint32_t i, uint32_t j) {
    uint32_t k = 1, l = j;
    double s = 0;
    for (; l >= k; k++)
        l -= k;
    for (uint32_t d = 0; d < D; d++)
        s += term(n, vector(n, i, k, d) * vector(n, i, l, d));
    return s;
}
static double want_bi(const struct net *n, uint32_t i, uint32_t j) {
    double s = 0;
    for (uint32_t k = 0; k < 6; k++)
        for (uint32_t l = n->magnitudes ? 0 : k + 1; l < 6; l++)
            s += term(n, vector(n, i, k, j) * vector(n, i, l, j));
    return s;
}

/* Value d of the pairs inside a sample's list. */
static double inside(const struct net *n, const char *name, uint32_t i, uint32_t d) {
    uint32_t f = field(n, name), from = n->b.offset[f][i], to = n->b.offset[f][i + 1];
    double s = 0;
    for (uint32_t k = from; k < to; k++)
        for (uint32_t l = n->magnitudes ? from : k + 1; l < to; l++) {
            double weights =
                n->b.values[f] ? (double)n->b.values[f][k] * (double)n->b.values[f][l] : 1;
            s += term(n, weights * row(n->b.ids[f][k], 0, D, d) * row(n->b.ids[f][l], 0, D, d));
        }
    return s;
}
static double all_inside(const struct net *n, const char *name, uint32_t i) {
    double s = 0;
    for (uint32_t d = 0; d < D; d++)
        s += inside(n, name, i, d);
    return s;
}
static double want_list(const struct net *n, uint32_t i, uint32_t j) {
    return inside(n, j < D ? "l" : "w", i, j % D);
}
static double want_list_sum(const struct net *n, uint32_t i, uint32_t j) {
    return inside(n, "l", i, j) + inside(n, "w", i, j);
}
static double want_list_fm(const struct net *n, uint32_t i, uint32_t j) {
    return all_inside(n, j ? "w" : "l", i);
}
static double want_list_fm_sum(const struct net *n, uint32_t i, uint32_t j) {
    return all_inside(n, "l", i) + all_inside(n, "w", i) + 0 * j;
}

#define ON_LISTS(rest) HEAD EMB("it", "l w", rest) SQUARE("it")
static const struct layer_row layers[] = {
    {"cross", HEAD LAYER("it", "cross", "a b", "") SQUARE("it"), N, want_matrix},
    {"cross, no bias",
     HEAD LAYER("it", "cross", "a b", "kind = matrix\nbias = false\n") SQUARE("it"), N,
     want_matrix_alone},
    {"cross, rank 2", HEAD LAYER("it", "cross", "a b", "rank = 2\n") SQUARE("it"), N,
     want_low_rank},
    {"cross, a vector", HEAD LAYER("it", "cross", "a b", "kind = vector\n") SQUARE("it"), N,
     want_vector},
    {"dot_interaction", HEAD LAYER("it", "dot_interaction", "a b a", "dim = 3\n") SQUARE("it"), 15,
     want_dots},
    {"bi_interaction", HEAD LAYER("it", "bi_interaction", "a b a", "dim = 3\n") SQUARE("it"), D,
     want_bi},
    {"two lists, bi_interaction", ON_LISTS("sparse_update = true\npooling = bi_interaction\n"),
     2 * D, want_list},
    {"two lists, bi_interaction, added up", ON_LISTS("pooling = bi_interaction\ncombine = sum\n"),
     D, want_list_sum},
    {"two lists, fm", ON_LISTS("pooling = fm\n"), 2, want_list_fm},
    {"two lists, fm, added up", ON_LISTS("sparse_update = true\npooling = fm\ncombine = sum\n"), 1,
     want_list_fm_sum},
};

static void interactions_agree_with_plain_loops(void **state) {
    (void)state;
    expect_layers(layers, sizeof layers / sizeof layers[0]);
}

/* A list of one id has no pair: its values and gradients are 0, not the rest of a rounding. */
static void one_row_makes_no_pair(void **state) {
    (void)state;
    struct net n;
    struct nn_cost cost;
    uint32_t size, keys;
    start(&n, ON_LISTS("sparse_update = true\npooling = bi_interaction\n"));
    for (const char *const *name = (const char *const[]){"l", "w", NULL}; *name; name++)
        for (uint32_t i = 0, f = field(&n, *name); i <= B; i++)
            n.b.offset[f][i] = i;
    assert_int_equal(nn_feed_set(n.feed, &n.b, NULL), 0);
    uint32_t p = (uint32_t)nn_graph_find_param(n.g, "it.w");
    nn_feed_keys(n.feed, p, &keys);
    float *rows = calloc((size_t)keys * D, sizeof *rows), *g = calloc((size_t)keys * D, sizeof *g);
    for (uint32_t i = 0; i < keys * D; i++)
        rows[i] = 0.1f + 0.37f * (float)i;
    nn_exec_bind(n.exec, p, rows, g);
    nn_exec_forward(n.exec, n.feed, 0, B, NN_TRAIN, 1, 0, &cost);
    const float *y = nn_exec_output(n.exec, "it", &size);
    for (uint32_t i = 0; i < B * size; i++)
        assert_true(y[i] == 0);
    nn_exec_backward(n.exec);
    for (uint32_t i = 0; i < keys * D; i++)
        assert_true(g[i] == 0);
    free(rows);
    free(g);
    stop(&n);
}

/* A static cross layer has no gradient of its own, and passes on that of its inputs. */
static void static_cross_layers_pass_gradients_on(void **state) {
    (void)state;
    static const char *const kinds[] = {"", "rank = 2\n", "kind = vector\n"};
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        struct net n;
        struct nn_cost cost;
        char text[2000];
        snprintf(text, sizeof text,
                 HEAD FC("h", "a", "6", "tanh") LAYER("it", "cross", "h h", "static = true\n%s")
                     SQUARE("it"),
                 kinds[k]);
        start(&n, text);
        uint32_t p = (uint32_t)nn_graph_find_param(n.g, "h.w");
        float g[N * N] = {0}, sum = 0;
        nn_exec_bind(n.exec, p, n.w[p], g); /* the other gradients are not bound */
        nn_exec_forward(n.exec, n.feed, 0, B, NN_TRAIN, 1, 0, &cost);
        nn_exec_backward(n.exec);
        for (uint32_t i = 0; i < N * N; i++)
            sum += fabsf(g[i]);
        assert_true(sum > 0);
        stop(&n);
    }
}

#define C(type, inputs, rest) HEAD LAYER("it", type, inputs, rest)
#define ON_E(type, rest) HEAD EMB("e", "l", "") LAYER("it", type, "e", rest)
static const struct {
    const char *name, *text, *want;
} refused[] = {
    {"one input", C("cross", "a", ""), ":26: layer 'it': cross takes 2 inputs, not 1"},
    {"two sizes", C("cross", "a t", ""),
     ":26: layer 'it': its inputs must be of one size, but 'a' is [batch x 6] and 't' is [batch x "
     "1]"},
    {"ids", C("cross", "i i", ""), ":26: layer 'it': its input 'i' is a field of ids"},
    {"a kind of its own", C("cross", "a b", "kind = tensor\n"),
     ":27: layer 'it': kind is matrix or vector, not 'tensor'"},
    {"a vector with a rank", C("cross", "a b", "kind = vector\nrank = 2\n"),
     ":28: layer 'it': rank is for kind = matrix"},
    {"a rank that saves nothing", C("cross", "a b", "rank = 6\n"),
     ":27: layer 'it': rank is 6, but its inputs are [batch x 6]: leave rank out for a whole "
     "matrix"},
    {"no rank", C("cross", "a b", "rank = 0\n"), ":27: rank is a whole number from 1 to 1048576"},
    {"an activation", C("cross", "a b", "act = relu\n"),
     ":27: layer 'it': cross takes no key 'act' (it takes: inputs, kind, rank, bias, param,"},
    {"a list that is pooled, fm", ON_E("fm", "dim = 3\n"),
     ":31: layer 'it': fm of one vector has no pairs: give it several vectors, or pool its list "
     "with "
     "pooling = fm or bi_interaction"},
    {"a list that is pooled, bi_interaction", ON_E("bi_interaction", "dim = 3\n"),
     ":31: layer 'it': bi_interaction of one vector has no pairs: "},
    {"a list that is pooled, dot_interaction", ON_E("dot_interaction", "dim = 3\n"),
     ":31: layer 'it': dot_interaction of one vector has no pairs: "},
    {"no dim", C("dot_interaction", "a b", ""),
     ":25: layer 'it' needs dim, the width of one vector"},
    {"vectors that do not divide", C("bi_interaction", "a b", "dim = 4\n"),
     ":27: layer 'it': dim is 4, but its input 'a' is [batch x 6], no multiple of it"},
    {"too many pairs",
     HEAD FC("h", "a", "6000", "tanh") LAYER("it", "dot_interaction", "h", "dim = 1\n"),
     ":30: layer 'it' would be 17997000 wide; the limit is 16777216"},
    {"pairs inside an id", HEAD EMB("e", "l i", "pooling = fm\n"),
     ":29: layer 'e': pooling = fm takes the pairs inside a list, but 'i' has one id a sample"},
    {"a pooling of its own", HEAD EMB("e", "l", "pooling = pairs\n"),
     ":29: layer 'e': pooling is sum, mean, sqrtn, bi_interaction or fm, not 'pairs'"},
};

static void what_makes_no_sense_is_refused_with_its_line(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        struct nn_graph *g = NULL;
        struct pd_err err = {0};
        int rc = nn_graph_load_text(&g, "train.ini", refused[i].text, &err);
        if (rc != PD_ECONF || strncmp(err.msg, "train.ini", 9) || !strstr(err.msg, refused[i].want))
            fail_msg("%s: %d '%s', not '%s'", refused[i].name, rc, err.msg, refused[i].want);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(interactions_agree_with_plain_loops),
        cmocka_unit_test(one_row_makes_no_pair),
        cmocka_unit_test(static_cross_layers_pass_gradients_on),
        cmocka_unit_test(what_makes_no_sense_is_refused_with_its_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
