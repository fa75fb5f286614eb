/* SPDX-License-Identifier: Apache-2.0 */
/* records.h - data files of samples into shards: `paddlectl prepare` for all formats but texts.
 *   files ─▶ lines, tried with the parser ─▶ train or test ─▶ categories rewritten ─▶ shards
 *
 *     OUT/train_data_dir/train.txt-00000 ...   lines dealt round-robin; for images
 *                                              train-images-idx3-ubyte-00000 and their labels
 *     OUT/test_data_dir/test.txt-00000 ...     as many shards of held-out lines
 *     OUT/vocabulary/COLUMN.tsv                if categories were counted: see categories.h
 *
 * Files are read once, plus once for each of these: the number of lines is needed (holdout_last,
 * images); categories are counted. Shards get their names only when all are complete, and replace
 * those of an earlier run. Memory: constant, plus the dictionaries, plus all lines with `shuffle`.
 */
#pragma once

#include "data/prepare/categories.h"
#include "data/schema/schema.h"

struct data_records_opts {
    const char *const *input; /* paths; "-" is standard input, allowed if files are read once */
    size_t n_inputs;
    const char *test; /* pattern of held-out files; NULL: none */
    const struct data_schema *schema;
    const char *dir;    /* the schema's own files are relative to this folder */
    const char *config; /* the file that has the schema, for messages; NULL: none */
    const char *out;
    uint32_t shards;        /* 1..DATA_MAX_SHARDS */
    uint64_t holdout;       /* every k-th good line of `input` is held out; 0: none, else >= 2 */
    uint64_t holdout_last;  /* instead: the last N good lines, with holdout at most a k-th of all;
                             * 0: none */
    uint64_t max_bad_lines; /* unreadable lines that are skipped; one more is an error */
    int shuffle;            /* shuffle training lines and held-out lines, separately */
    uint64_t seed;
    const char *pack; /* "none", "gzip", "zstd" */
    enum data_encode encode;
    uint64_t min_count; /* categories counted less often in training lines are rare; 0, 1: none */
    uint64_t buckets;   /* for DATA_ENCODE_HASH */
    void (*on_bad)(void *arg, const char *message); /* "file:line: ..."; may be NULL */
    void *arg;
};

struct data_records_counts {
    uint64_t lines, bad_lines; /* good lines (or images); skipped lines */
    uint64_t train_lines, test_lines;
    int counted;         /* categories were counted: min_count, or encode = index */
    uint64_t categories; /* distinct values kept, all columns */
    uint64_t rare;       /* values replaced by <rare> */
};

/* PD_EUSAGE: the options contradict each other or the format; PD_EDATA, PD_ENOENT, PD_EIO,
 * PD_ENOMEM. */
int data_records(const struct data_records_opts *o, struct data_records_counts *counts,
                 struct pd_err *err);
