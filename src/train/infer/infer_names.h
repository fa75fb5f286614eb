/* SPDX-License-Identifier: Apache-2.0 */
/* infer_names.h - the names of a layer's outputs: the labels of train.ini, or the words of
 * vocabulary_file.
 *
 * Outputs have names if the layer is the input of a cost whose label is a class:
 *
 *     cross_entropy          output k is class k
 *     binary_cross_entropy   the one output is the probability of class 1
 */
#pragma once

#include "nn/graph/graph.h"

struct infer_names {
    uint32_t n; /* number of names; 0: the outputs have none */
    int binary; /* two names for one output */
    const struct data_field *label;
    struct pd_buf words; /* text of vocabulary_file; a NUL ends each word */
    uint32_t *word;      /* [n] offsets in `words`; NULL: the names are those of `label` */
};

/* PD_EIO, PD_ENOMEM. */
int train_infer_names_init(struct infer_names *names, const struct nn_graph *g, const char *layer,
                           struct pd_err *err);
void train_infer_names_release(struct infer_names *names);
/* The name of class k < n; NULL: this class has none. */
const char *train_infer_names_get(const struct infer_names *names, uint32_t k);
