/* SPDX-License-Identifier: Apache-2.0 */
/* export_internal.h - shared by the export formats: a file that is complete or absent, a table that
 * is mapped. */
#pragma once

#include "model/export.h"
#include "model/table.h"

struct model_export_format {
    const char *name;
    int (*write)(struct model *m, const struct model_export *x, struct model_export_counts *c,
                 struct pd_err *err);
};
extern const struct model_export_format model_export_npz, model_export_word2vec,
    model_export_word2vec_binary, model_export_original;

/* A temporary file PATH.part, renamed to PATH when it is complete and synced. */
struct export_file {
    FILE *f;
    char path[PATH_MAX], part[PATH_MAX];
};
int export_file_open(struct export_file *f, const char *path, struct pd_err *err);
int export_file_put(struct export_file *f, const void *p, size_t n, struct pd_err *err);
/* Finish the file. rc not 0: an earlier error; the temporary file is removed. */
int export_file_end(struct export_file *f, int rc, struct pd_err *err);

/* Calls `each` with a dense parameter in pieces of n values. */
int export_dense(struct model *m, const struct model_param *p,
                 int (*each)(void *arg, const float *v, size_t n, struct pd_err *err), void *arg,
                 struct pd_err *err);
