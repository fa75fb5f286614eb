/* SPDX-License-Identifier: Apache-2.0 */
/* nn_fields.h - small networks over fields of every kind, as text, for tests of layers and of their
 * gradients. */
#pragma once

/* Fields: a, b numbers [6]; i, j ids; l a list, w a list with weights; t a number; y a class; c a
 * click of 0 or 1. */
#define HEAD                                                                                   \
    "[data]\nformat = ids\nfields = a b i j l w t y c\nvocabulary = 20\n[optimizer]\ntype = "  \
    "sgd\nlearning_rate = 1\n"                                                                 \
    "[field a]\ntype = dense\nsize = 6\n[field b]\ntype = dense\nsize = 6\n[field t]\ntype = " \
    "dense\n"                                                                                  \
    "[field l]\ntype = list\n[field w]\ntype = list\nweights = true\nmax_ids = 7\n[field "     \
    "c]\nvocabulary = 2\n"
#define LAYER(name, type, inputs, rest) \
    "[layer " name "]\ntype = " type "\ninputs = " inputs "\n" rest
#define FC(name, inputs, size, act) LAYER(name, "fc", inputs, "size = " size "\nact = " act "\n")
#define EMB(name, inputs, rest) LAYER(name, "embedding", inputs, "size = 3\ninit_std = 0.5\n" rest)
#define COST(type, input, label) "[cost c]\ntype = " type "\ninput = " input "\nlabel = " label "\n"
#define SQUARE(input) FC("last", input, "1", "linear") COST("square_error", "last", "t")

static inline struct nn_graph *graph(const char *text) {
    struct nn_graph *g = NULL;
    struct pd_err err = {0};
    if (nn_graph_load_text(&g, "train.ini", text, &err))
        fail_msg("%s", err.msg);
    return g;
}
