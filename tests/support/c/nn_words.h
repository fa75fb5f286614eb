/* SPDX-License-Identifier: Apache-2.0 */
/* nn_words.h - the word model as a text with parts that a test chooses, and its graph. */
#pragma once

#include <setjmp.h>

#include <cmocka.h>

#include "nn/graph/graph.h"

static char ini[] = "/tmp/test-nn-words-XXXXXX";

#define HEAD                                                                        \
    "[data]\nformat = ids\nfields = a b c y\nvocabulary = 23\n[optimizer]\ntype = " \
    "sgd\nlearning_rate = 1\n"
#define EMB(name, field, sparse)                          \
    "[layer " name "]\ntype = embedding\ninputs = " field \
    "\nparam = emb\nsize = 5\nsparse_update = " sparse "\ninit_std = 0.4\n"
#define COST "[cost c]\ntype = cross_entropy\ninput = out\nlabel = y\n"
#define OUT(in) "[layer out]\ntype = fc\ninputs = " in "\nsize = vocabulary\nact = softmax\n"
#define THREE(sparse)      \
    EMB("ea", "a", sparse) \
    EMB("eb", "b", sparse) \
    EMB("ec", "c", sparse) "[layer cat]\ntype = concat\ninputs = ea eb ec\n"
#define HIDDEN(act) "[layer hid]\ntype = fc\ninputs = cat\nsize = 7\nact = " act "\n"
#define NET(sparse) HEAD THREE(sparse) HIDDEN("sigmoid") OUT("hid") COST

static inline struct nn_graph *graph(const char *text) {
    struct nn_graph *g = NULL;
    struct pd_err err = {0};
    assert_int_equal(pd_write_file_atomic(ini, text, strlen(text), 0600, NULL), 0);
    if (nn_graph_load(&g, ini, &err))
        fail_msg("%s", err.msg);
    return g;
}
#define DROPPED        \
    HEAD THREE("true") \
        HIDDEN("tanh") "[layer drop]\ntype = dropout\ninputs = hid\nrate = 0.5\n" OUT("drop") COST

static inline int set_up(void **state) {
    (void)state;
    int fd = mkstemp(ini);
    return fd < 0 ? -1 : close(fd);
}

static inline int tear_down(void **state) {
    (void)state;
    return unlink(ini);
}
