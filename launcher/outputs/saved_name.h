/* SPDX-License-Identifier: Apache-2.0 */
/* saved_name.h - the names of saved models (docs/checkpoints.md). Folders count passes from 0,
 * people from 1. */
#pragma once

struct saved_name {
    uint64_t pass;       /* counted from 0 */
    uint64_t batch;      /* of "-batch-N" */
    int inside, stopped; /* inside: batch is set */
};

/* 0; -1: `name` is no "pass-NNNNN", "pass-NNNNN-batch-NNNNNN" or "pass-NNNNN-stopped". */
int saved_name_parse(const char *name, struct saved_name *out);
/* Orders by training progress, as for qsort. A stopped pass comes after the batches of this pass.
 */
int saved_name_compare(const struct saved_name *a, const struct saved_name *b);

/* "pass 6", "pass 6, batch 400", "pass 6, stopped"; "": another name. Returns `out`. */
enum { SAVED_PASS_TEXT = 80 };
const char *saved_pass_text(const char *name, char out[SAVED_PASS_TEXT]);
