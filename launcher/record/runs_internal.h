/* SPDX-License-Identifier: Apache-2.0 */
/* runs_internal.h - the figures of a run, and the index that keeps them. */
#pragma once

#include "launcher/record/record_internal.h"
#include "launcher/record/runs.h"

/* --- figures: pairs of a key and a text or number, packed (run_figures.c) --- */

/* Appends the figures of the record, whose test, best and pass are known, to `out`. */
void run_figures_put(struct pd_buf *out, const struct run *r);

/* --- the index (runs_index.c) --- */

/* The stamp of a file when it was read. A file with another stamp has to be read again. */
struct run_stamp {
    uint64_t inode, size;
    int64_t mtime_ns, ctime_ns;
};
/* Zeros: there is no such file, or the figures do not depend on it. */
struct run_stamps {
    struct run_stamp run, metrics;
};

struct runs_index {
    struct run_entry {
        const char *job;
        struct run_stamps stamps;
        int needs_metrics; /* the figures depend on metrics.jsonl */
        int is_settled;    /* not in the file: the entry may be written */
        struct pd_bytes figures;
    } * v;
    size_t n, cap;
};

int run_stamp_is_equal(const struct run_stamp *a, const struct run_stamp *b);
/* Reads the index of the folder into `file` and `x`, which points into it. Without an index, or
 * with one that is damaged or of another version, x->n is 0. */
void runs_index_read(struct runs_index *x, struct pd_buf *file, const char *outputs);
const struct run_entry *runs_index_find(const struct runs_index *x, const char *job);
int runs_index_add(struct runs_index *x, const struct run_entry *e);
/* Best effort: a folder that cannot be written has no index. */
void runs_index_write(struct runs_index *x, const char *outputs);
void runs_index_release(struct runs_index *x);
