/* SPDX-License-Identifier: Apache-2.0 */
/* export.c - the table of export formats, and their common functions. See export.h. */
#include "model/export.h"

#include "model/export_internal.h"

enum { PIECE = 1 << 16 };

static const struct model_export_format *const formats[] = {
    &model_export_npz, &model_export_word2vec, &model_export_word2vec_binary,
    &model_export_original};
#define FORMATS "npz|word2vec|word2vec-binary|original"

int model_export(struct model *m, const struct model_export *x, struct model_export_counts *counts,
                 struct pd_err *err) {
    *counts = (struct model_export_counts){0};
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++)
        if (!strcmp(formats[i]->name, x->format))
            return formats[i]->write(m, x, counts, err);
    return pd_fail(err, PD_EUSAGE, "there is no format '%s' (known: " FORMATS ")", x->format);
}

int export_file_open(struct export_file *f, const char *path, struct pd_err *err) {
    f->f = NULL;
    if (pd_fmt(f->path, sizeof f->path, "%s", path) ||
        pd_fmt(f->part, sizeof f->part, "%s.part", path))
        return pd_fail(err, PD_EUSAGE, "path too long: %s", path);
    f->f = fopen(f->part, "we");
    return f->f ? 0 : pd_fail_errno(err, PD_EIO, errno, "cannot write %s", f->part);
}

int export_file_put(struct export_file *f, const void *p, size_t n, struct pd_err *err) {
    if (fwrite(p, 1, n, f->f) != n || pd_fault("export.write"))
        return pd_fail_errno(err, PD_EIO, errno, "cannot write %s", f->part);
    return 0;
}

int export_file_end(struct export_file *f, int rc, struct pd_err *err) {
    if (!f->f)
        return rc;
    if (!rc && (fflush(f->f) || fsync(fileno(f->f))))
        rc = pd_fail_errno(err, PD_EIO, errno, "cannot write %s", f->part);
    if (fclose(f->f) && !rc)
        rc = pd_fail_errno(err, PD_EIO, errno, "cannot write %s", f->part);
    if (!rc && rename(f->part, f->path))
        rc = pd_fail_errno(err, PD_EIO, errno, "cannot rename %s", f->part);
    if (rc)
        unlink(f->part);
    f->f = NULL;
    return rc;
}

int export_dense(struct model *m, const struct model_param *p,
                 int (*each)(void *arg, const float *v, size_t n, struct pd_err *err), void *arg,
                 struct pd_err *err) {
    uint64_t total = model_param_values(p);
    float *v = pd_calloc(PIECE, sizeof *v);
    int rc = v ? 0 : pd_oom(err, "an export");
    for (uint64_t at = 0; !rc && at < total; at += PIECE) {
        size_t n = total - at < PIECE ? (size_t)(total - at) : PIECE;
        rc = model_read_dense(m, p->name, at, n, v, err);
        if (!rc)
            rc = each(arg, v, n, err);
    }
    free(v);
    return rc;
}
