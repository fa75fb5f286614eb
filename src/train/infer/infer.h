/* SPDX-License-Identifier: Apache-2.0 */
/* infer.h - predictions of a saved model: one process, no servers.
 *
 *     lines of data, as in training ── network of the model's own train.ini ──▶ one line per sample
 *
 * Dense parameters are read into memory. Tables stay mapped, and a batch copies the rows that it
 * needs, so that a table may be larger than memory. An id without a row in the table counts as a
 * row of zeros.
 *
 * If the outputs are classes that have names, a line is "word:value word:value ...", the largest
 * value first.
 */
#pragma once

enum { INFER_TOP = 5 };

struct train_infer {
    const char *model;     /* folder of the model */
    const char *data;      /* a file or a pattern; "-": standard input */
    const char *tokens;    /* how to split data of words; NULL: data of ids */
    const char *workspace; /* vocabulary_file is relative to this folder */
    const char *config;    /* replaces the model's train.ini; NULL: use the model's */
    const char *layer;     /* layer whose output is printed; NULL: the input of the first cost */
    uint32_t batch_size;
    /* print the `top` largest values as "class:value"; 0: INFER_TOP if the classes have names
     * (infer_names.h), else all values */
    uint32_t top;
    int ids;   /* print numbers in place of names */
    int trust; /* do not verify the checksums of the model's files */
    int out_fd;
    const struct pd_log *log;
};

/* *n_samples (may be NULL) is the number of lines written. */
int train_infer(const struct train_infer *x, uint64_t *n_samples, struct pd_err *err);
