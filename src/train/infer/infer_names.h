/* SPDX-License-Identifier: Apache-2.0 */
/* infer_names.h - the names of a layer's outputs: the labels of train.ini, or the words of
 * vocabulary_file; and the ids of the words of a sentence.
 *
 * Outputs have names if the layer is the input of a cost whose label is a class:
 *
 *     cross_entropy          output k is class k
 *     binary_cross_entropy   the one output is the probability of class 1
 */
#pragma once

#include "data/prepare/dict.h"
#include "data/prepare/tokens.h"
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

struct infer_words { /* zeros: none */
    const struct data_tokenizer *tokens;
    struct data_dict *dict;
};

/* The lines of `schema`, a copy of that of `m`, hold sentences from now on. `tokens`: the name of
 * a tokenizer. `words` must outlive the schema's readers. PD_EUSAGE, PD_EDATA, PD_EIO, PD_ENOMEM.
 */
int train_infer_words_init(struct infer_words *words, struct data_schema *schema,
                           const struct model_ini *m, const char *tokens, struct pd_err *err);
void train_infer_words_release(struct infer_words *words);
