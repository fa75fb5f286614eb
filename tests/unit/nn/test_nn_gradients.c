/* SPDX-License-Identifier: Apache-2.0 */
/* test_nn_gradients.c - the gradients of every layer, activation and cost, compared with finite
 * differences, over fields of all kinds. test_nn_layers.c tests the values. */
#include <setjmp.h>

#include <cmocka.h>

#include "nn/graph/checkgrad.h"
#include "nn/graph/graph_internal.h"
#include "tests/support/c/nn_fields.h"

#define THREE                                           \
    EMB("ei", "i", "sparse_update = true\nparam = e\n") \
    EMB("ej", "j", "sparse_update = true\nparam = e\n")
static const struct {
    const char *name, *text;
} nets[] = {
    {"ids and lists of one table",
     HEAD EMB("it", "i j l w", "sparse_update = true\npooling = mean\n") SQUARE("it")},
    {"ids and lists added up", HEAD EMB("it", "i j l", "combine = sum\n") SQUARE("it")},
    {"lists, sum", HEAD EMB("it", "l w", "sparse_update = true\n") SQUARE("it")},
    {"lists, sqrtn", HEAD EMB("it", "l w", "pooling = sqrtn\n") SQUARE("it")},
    {"addto", HEAD FC("h", "a", "6", "tanh") LAYER("it", "addto", "a h h b", "act = sigmoid\n")
                  SQUARE("it h")},
    {"product", HEAD FC("h", "a", "6", "tanh") FC("g", "b", "6", "tanh")
                    LAYER("it", "product", "h g", "") SQUARE("it h g")},
    {"product with itself",
     HEAD FC("h", "a", "6", "tanh") LAYER("it", "product", "h h", "") SQUARE("it")},
    {"dot", HEAD FC("h", "a", "6", "tanh") FC("g", "b", "6", "tanh")
                LAYER("it", "dot", "h g", "scale = 3\nact = tanh\n") SQUARE("it h g")},
    {"cos_sim", HEAD FC("h", "a", "6", "tanh") FC("g", "b", "6", "linear")
                    LAYER("it", "cos_sim", "h g", "scale = 3\n") SQUARE("it h g")},
    {"cos_sim of two rows",
     HEAD THREE LAYER("it", "cos_sim", "ei ej", "scale = 5\n") COST("square_error", "it", "t")},
    {"fm", HEAD EMB("v", "i j", "sparse_update = true\n") FC("h", "a", "6", "tanh")
               LAYER("it", "fm", "v h", "dim = 3\n") SQUARE("it h")},
    {"layer_norm", HEAD FC("h", "a", "6", "linear") LAYER("it", "layer_norm", "h", "act = tanh\n")
                       SQUARE("it h")},
    {"batch_norm", HEAD FC("h", "a", "6", "linear")
                       LAYER("it", "batch_norm", "h", "act = tanh\neps = 1e-3\n") SQUARE("it h")},
    {"batch_norm of an image",
     HEAD FC("h", "a", "20", "tanh")
         LAYER("k", "conv", "h", "height = 4\nwidth = 5\nfilter = 3\nsize = 3\n")
             LAYER("it", "batch_norm", "k", "act = sigmoid\n") SQUARE("it k")},
    {"batch_norm, static", HEAD FC("h", "a", "6", "linear") LAYER(
                               "it", "batch_norm", "h", "static = true\neps = 1\n") SQUARE("it h")},
    {"dropout, concat, softmax",
     HEAD FC("h", "a", "6", "tanh") LAYER("d", "dropout", "h", "rate = 0.4\n")
         LAYER("k", "concat", "d b h", "") FC("it", "k", "20", "softmax")
             COST("cross_entropy", "it", "y")},
    {"conv over conv",
     HEAD FC("h", "a", "20", "tanh") LAYER(
         "k", "conv", "h", "height = 4\nwidth = 5\nfilter = 3\npadding = 1\nsize = 3\nact = tanh\n")
         LAYER("it", "conv", "k", "filter = 2\nstride = 2\nsize = 2\n") SQUARE("it h")},
    {"pool, max",
     HEAD FC("h", "a", "20", "tanh")
         LAYER("it", "pool", "h", "height = 4\nwidth = 5\nfilter = 3\nstride = 2\npadding = 1\n")
             SQUARE("it h")},
    {"pool, mean", HEAD FC("h", "a", "20", "tanh")
                       LAYER("it", "pool", "h",
                             "height = 4\nwidth = 5\nfilter = 2\npooling = mean\n") SQUARE("it h")},
    {"negative sampling, a table",
     HEAD FC("h", "a", "4", "tanh") LAYER(
         "it", "negative_sampling", "h y",
         "negatives = 5\nsparse_update = true\n") "[cost c]\ntype = sum\ninput = it\nweight = 2\n"},
    {"negative sampling, shared, dense",
     HEAD FC("h", "a", "4", "tanh")
         LAYER("it", "negative_sampling", "h y", "negatives = 6\nshare = 3\nscale = 0.4\n")
             LAYER("both", "addto", "it it", "") "[cost c]\ntype = sum\ninput = both\n" FC(
                 "g", "h", "1", "linear") "[cost d]\ntype = square_error\ninput = g\nlabel = t\n"},
    {"nce, tables",
     HEAD FC("h", "a", "4", "tanh") LAYER(
         "it", "nce", "h y",
         "negatives = 5\nsparse_update = true\n") "[cost c]\ntype = sum\ninput = it\nweight = 2\n"},
    {"nce, shared, dense, no bias",
     HEAD FC("h", "a", "4", "tanh")
         LAYER("it", "nce", "h y", "negatives = 6\nshare = 3\npower = 0.5\nbias = false\n")
             LAYER("both", "addto", "it it", "") "[cost c]\ntype = sum\ninput = both\n" FC(
                 "g", "h", "1", "linear") "[cost d]\ntype = square_error\ninput = g\nlabel = t\n"},
    {"nce, dense", HEAD FC("h", "a", "4", "tanh")
                       LAYER("it", "nce", "h y",
                             "negatives = 6\nshare = 3\n") "[cost c]\ntype = sum\ninput = it\n"},
    {"skip_gram, tables", HEAD LAYER("it", "skip_gram", "l y",
                                     "size = 4\nnegatives = 5\nsparse_update = true\ninit_std = "
                                     "0.5\n") "[cost c]\ntype = sum\ninput = it\nweight = 2\n"},
    {"skip_gram, shared, dense",
     HEAD LAYER("it", "skip_gram", "l y", "size = 4\nnegatives = 6\nshare = 4\nscale = 0.4\n")
         LAYER("both", "addto", "it it", "") "[cost c]\ntype = sum\ninput = both\n" FC(
             "g", "it", "1", "linear") "[cost d]\ntype = square_error\ninput = g\nlabel = t\n"},
    {"relu", HEAD FC("h", "a", "6", "relu") SQUARE("h")},
    {"leaky_relu", HEAD FC("h", "a", "6", "leaky_relu") SQUARE("h")},
    {"softplus", HEAD FC("h", "a", "6", "softplus") SQUARE("h")},
    {"gelu", HEAD FC("h", "a", "6", "gelu") SQUARE("h")},
    {"square_error of several values",
     HEAD FC("h", "a", "6", "sigmoid") COST("square_error", "h", "b")},
    {"huber", HEAD FC("h", "a", "6", "tanh") COST("huber", "h", "b") "delta = 0.5\n"},
    {"binary_cross_entropy",
     HEAD THREE FC("h", "ei ej a", "1", "sigmoid") COST("binary_cross_entropy", "h", "c")},
    {"binary_cross_entropy, weighted, of a layer that goes on",
     HEAD FC("h", "a", "1", "sigmoid") FC("g", "h b", "1", "sigmoid")
         COST("binary_cross_entropy", "h",
              "c") "weight = 0.3\n[cost d]\ntype = binary_cross_entropy\ninput = g\nlabel = t\n"},
    {"two costs, one fused and one not",
     HEAD FC("h", "a b", "1", "sigmoid")
         COST("binary_cross_entropy", "h",
              "c") "[cost d]\ntype = square_error\ninput = h\nlabel = t\nweight = 2\n"},
    {"rank", HEAD FC("p", "a", "1", "tanh") FC("q", "b", "1", "linear") COST("rank", "p q", "c")},
    {"sum", HEAD FC("p", "a b", "1", "softplus") "[cost c]\ntype = sum\ninput = p\nweight = 1.5\n"},
    {"bi_interaction",
     HEAD EMB("v", "i j", "sparse_update = true\n") FC("h", "a", "6", "tanh")
         LAYER("it", "bi_interaction", "v h v", "dim = 3\nact = tanh\n") SQUARE("it h")},
    {"dot_interaction", HEAD EMB("v", "i j", "sparse_update = true\n") FC("h", "a", "6", "tanh")
                            LAYER("it", "dot_interaction", "v h a v", "dim = 3\n") SQUARE("it h")},
    {"pairs inside lists",
     HEAD EMB("it", "l w", "sparse_update = true\npooling = bi_interaction\n") SQUARE("it")},
    {"pairs inside lists, added up",
     HEAD EMB("it", "l w", "pooling = bi_interaction\ncombine = sum\n") SQUARE("it")},
    {"pairs inside lists, to one number", HEAD EMB("it", "l w", "pooling = fm\n") SQUARE("it")},
    {"pairs inside lists, to one number, added up",
     HEAD EMB("it", "l w", "sparse_update = true\npooling = fm\ncombine = sum\n") SQUARE("it")},
    {"cross", HEAD FC("h", "a", "6", "tanh") FC("g", "b", "6", "tanh")
                  LAYER("it", "cross", "h g", "") SQUARE("it h g")},
    {"cross of numbers, twice", HEAD LAYER("c1", "cross", "a a", "bias = false\n")
                                    LAYER("it", "cross", "a c1", "") SQUARE("it")},
    {"cross, low rank", HEAD FC("h", "a", "6", "tanh") LAYER("c1", "cross", "h h", "rank = 2\n")
                            LAYER("it", "cross", "h c1", "rank = 3\nbias = false\n") SQUARE("it")},
    {"cross, vectors",
     HEAD FC("h", "a", "6", "tanh") LAYER("c1", "cross", "h h", "kind = vector\n")
         LAYER("it", "cross", "h c1", "kind = vector\nbias = false\n") SQUARE("it c1")},
};

static void collect(void *arg, const struct nn_check *c) {
    char *s = arg;
    size_t n = strlen(s);
    snprintf(s + n, 600 - n, " %s:%.1e", c->param, c->max_relative);
}

static void count_skipped(void *arg, const struct nn_check *c) { *(uint64_t *)arg += c->n_skipped; }

/* Which rows of the tables of layers, activations and costs a network has; more than 32 rows would
 * need more bits. */
struct seen {
    uint32_t layers, acts, costs;
};

static void see(struct seen *s, const struct nn_graph *g) {
    for (uint32_t i = g->n_fields; i < g->n_nodes; i++) {
        for (uint32_t k = 0; nn_layers[k]; k++)
            s->layers |= (uint32_t)(nn_layers[k] == g->node[i].type) << k;
        s->acts |= UINT32_C(1) << (g->node[i].act - nn_acts);
    }
    for (uint32_t c = 0; c < g->n_costs; c++)
        for (uint32_t k = 0; nn_cost_types[k]; k++)
            s->costs |= (uint32_t)(nn_cost_types[k] == g->cost[c].type) << k;
}

static void gradients_agree_with_finite_differences(void **state) {
    (void)state;
    struct seen s = {0};
    for (size_t i = 0; i < sizeof nets / sizeof nets[0]; i++) {
        struct nn_graph *g = graph(nets[i].text);
        struct pd_err err = {0};
        char text[600] = "";
        struct nn_check_opts o = {.seed = 3 + i};
        int rc = nn_checkgrad(g, &o, collect, text, &err);
        if (rc)
            fail_msg("%s: %s (%s)", nets[i].name, err.msg, text);
        print_message("   %-36s%s\n", nets[i].name, text);
        see(&s, g);
        nn_graph_free(g);
    }
    for (uint32_t k = 0; nn_layers[k]; k++)
        if (!(s.layers >> k & 1))
            fail_msg("no network here has a layer of type %s", nn_layers[k]->name);
    for (uint32_t k = 0; nn_acts[k].name; k++)
        if (!(s.acts >> k & 1))
            fail_msg("no network here has the activation %s", nn_acts[k].name);
    for (uint32_t k = 0; nn_cost_types[k]; k++)
        if (!(s.costs >> k & 1))
            fail_msg("no network here has the cost %s", nn_cost_types[k]->name);
}

/* A deep relu network has values near 0 under every seed: the checker must not call a right
 * gradient wrong. */
static void kinks_are_not_called_wrong(void **state) {
    (void)state;
    static const char text[] = HEAD FC("g", "a b", "24", "relu") FC("h", "g", "24", "leaky_relu")
        FC("k", "h", "16", "relu") LAYER("p", "pool", "k", "height = 4\nwidth = 4\nfilter = 2\n")
            SQUARE("p k");
    struct nn_graph *g = graph(text);
    uint64_t skipped = 0;
    for (uint64_t seed = 0; seed < 60; seed++) {
        struct pd_err err = {0};
        struct nn_check_opts o = {.seed = seed, .n_elements = 10};
        if (nn_checkgrad(g, &o, count_skipped, &skipped, &err))
            fail_msg("seed %llu: %s", (unsigned long long)seed, err.msg);
    }
    print_message("   %llu elements skipped\n", (unsigned long long)skipped);
    nn_graph_free(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_agree_with_finite_differences),
        cmocka_unit_test(kinks_are_not_called_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
