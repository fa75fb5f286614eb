/* SPDX-License-Identifier: Apache-2.0 */
/* test_nn_word_gradients.c - the gradients of the word model and its relatives, compared with
 * finite differences. */
#include <setjmp.h>

#include <cmocka.h>

#include "nn/graph/checkgrad.h"
#include "tests/support/c/nn_words.h"

static const struct {
    const char *name, *text;
} nets[] = {
    {"sparse embedding, sigmoid", NET("true")},
    {"dense embedding, tanh", HEAD THREE("false") HIDDEN("tanh") OUT("hid") COST},
    {"relu", HEAD THREE("true") HIDDEN("relu") OUT("hid") COST},
    {"linear", HEAD THREE("true") HIDDEN("linear") OUT("hid") COST},
    {"softmax inside", HEAD THREE("true") HIDDEN("softmax") OUT("hid") COST},
    {"no bias", HEAD THREE("true") "[layer hid]\ntype = fc\ninputs = cat\nsize = 7\nbias = "
                                   "false\nact = tanh\n" OUT("hid") COST},
    {"dropout", DROPPED},
    {"several inputs",
     HEAD EMB("ea", "a", "true") EMB(
         "eb", "b",
         "true") "[layer hid]\ntype = fc\ninputs = ea eb\nsize = 7\nact = sigmoid\n" OUT("hid ea")
         COST},
    {"a layer read three times",
     HEAD EMB("ea", "a",
              "true") "[layer hid]\ntype = fc\ninputs = ea\nsize = 7\nact = tanh\n"
                      "[layer two]\ntype = concat\ninputs = hid ea hid\n[layer drop]\ntype = "
                      "dropout\ninputs = hid\nrate = 0.3\n" OUT("two drop hid") COST},
    {"one matrix in two layers",
     HEAD EMB("ea", "a",
              "true") "[layer p]\ntype = fc\ninputs = ea\nparam = sq\nsize = 5\nact = tanh\n"
                      "[layer q]\ntype = fc\ninputs = p\nparam = sq\nsize = 5\nact = tanh\n" OUT(
                          "q") COST},
    {"two costs, weighted, on one output", HEAD THREE("true") HIDDEN("tanh") OUT("hid") COST
     "[cost d]\ntype = cross_entropy\ninput = out\nlabel = a\nweight = 0.3\n"},
    {"a weighted cost",
     HEAD THREE("true") HIDDEN("tanh")
         OUT("hid") "[cost c]\ntype = cross_entropy\ninput = out\nlabel = y\nweight = 2.5\n"},
    {"an output that goes on", HEAD THREE("true") HIDDEN("tanh") OUT("hid") COST
     "[layer more]\ntype = fc\ninputs = out\nsize = vocabulary\nact = softmax\n[cost d]\ntype = "
     "cross_entropy\ninput = more\nlabel = a\n"},
};

static void collect(void *arg, const struct nn_check *c) {
    char *s = arg;
    size_t n = strlen(s);
    snprintf(s + n, 600 - n, " %s:%.1e", c->param, c->max_relative);
}

static void gradients_agree_with_finite_differences(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof nets / sizeof nets[0]; i++) {
        struct nn_graph *g = graph(nets[i].text);
        struct pd_err err = {0};
        char text[600] = "";
        struct nn_check_opts o = {.seed = 11 + i};
        int rc = nn_checkgrad(g, &o, collect, text, &err);
        if (rc)
            fail_msg("%s: %s (%s)", nets[i].name, err.msg, text);
        print_message("   %-36s%s\n", nets[i].name, text);
        nn_graph_free(g);
    }
}

static void take_worst(void *arg, const struct nn_check *c) {
    if (!c->ok)
        ++*(int *)arg;
}

/* A checker that passes everything would be worthless: with a threshold below float32's noise it
 * must fail. */
static void the_checker_can_fail(void **state) {
    (void)state;
    struct nn_graph *g = graph(NET("true"));
    struct pd_err err = {0};
    int failed = 0;
    struct nn_check_opts o = {.seed = 1, .threshold = 1e-12};
    assert_int_equal(nn_checkgrad(g, &o, take_worst, &failed, &err), PD_EFAIL);
    assert_true(failed > 0 && strstr(err.msg, "the gradient of parameter '"));
    nn_graph_free(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_agree_with_finite_differences),
        cmocka_unit_test(the_checker_can_fail),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
