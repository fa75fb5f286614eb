/* records.h - data files of samples into shards: `paddlectl prepare` for everything but texts.
 *
 *   files ─▶ lines, each tried with the format's own parser ─▶ held out or not ─▶ categories rewritten ─▶ shards
 *
 *     OUT/train_data_dir/train.txt-00000 ...   lines dealt round-robin; for images
 * train-images-idx3-ubyte-00000 and the labels beside it OUT/test_data_dir/test.txt-00000 ... as
 * many shards of those held out OUT/vocabulary/COLUMN.tsv                where categories were
 * counted: see categories.h
 *
 * Files are read once, or once more for each of: the number of lines is needed (holdout_last,
 * images), categories are counted. Shards appear under their names only when all are complete, and
 * take the place of those of an earlier run. Memory: constant, but for the dictionaries of what is
 * counted, and all lines with `shuffle`.
 */
#ifndef PD_DATA_RECORDS_H
#define PD_DATA_RECORDS_H

#include "data/prepare/categories.h"
#include "data/schema/schema.h"

struct data_records_opts {
    const char *const *input; /* paths; "-" is standard input, when files are read once */
    size_t n_inputs;
    const char *test; /* pattern of files that are held out; NULL: none */
    const struct data_schema *schema;
    const char *dir; /* folder that the schema's own files are relative to */
    const char *out;
    uint32_t shards;        /* 1..DATA_MAX_SHARDS */
    uint64_t holdout;       /* every k-th good line of `input` is held out; 0: none, else >= 2 */
    uint64_t holdout_last;  /* or the last so many; 0: none */
    uint64_t max_bad_lines; /* lines that can't be read and are left out; one more is an error */
    int shuffle;            /* of what is to learn from, and of what is held out, each by itself */
    uint64_t seed;
    const char *pack; /* "none", "gzip", "zstd" */
    enum data_encode encode;
    uint64_t
        min_count;    /* a category seen less often in lines to learn from is rare; 0, 1: none is */
    uint64_t buckets; /* of DATA_ENCODE_HASH */
    void (*on_bad)(void *arg, const char *message); /* "file:line: ..."; may be NULL */
    void *arg;
};

struct data_records_counts {
    uint64_t lines, bad_lines; /* good ones (or images), and those left out */
    uint64_t train_lines, test_lines;
    uint64_t
        categories; /* different ones that were kept, of all columns; 0: they were not counted */
    uint64_t rare;  /* places where one became <rare> */
};

/* PD_EUSAGE: what is asked for does not fit; PD_EDATA, PD_ENOENT, PD_EIO, PD_ENOMEM. */
int data_records(const struct data_records_opts *o, struct data_records_counts *counts,
                 struct pd_err *err);

#endif
