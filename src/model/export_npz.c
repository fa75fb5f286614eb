/* SPDX-License-Identifier: Apache-2.0 */
/* export_npz.c - numpy's archive: an uncompressed zip file with one array in numpy's own format per
 * name. Source: docs/sources.md#npy */
#include <archive.h>
#include <archive_entry.h>

#include "model/export_internal.h"

struct npz_out {
    struct archive *a;
    const char *path; /* for messages */
    struct model_export_counts *c;
    uint32_t dim;
};

static int failed(const struct npz_out *o, struct pd_err *err) {
    const char *why = archive_error_string(o->a);
    return pd_fail(err, archive_errno(o->a) == ENOSPC ? PD_ENOSPC : PD_EIO, "cannot write %s: %s",
                   o->path, why ? why : "unknown error");
}

static int put(struct npz_out *o, const void *p, size_t n, struct pd_err *err) {
    for (size_t done = 0; done < n;) {
        la_ssize_t k = archive_write_data(o->a, (const char *)p + done, n - done);
        if (k <= 0 || pd_fault("export.write"))
            return failed(o, err);
        done += (size_t)k;
    }
    return 0;
}

/* Begins an array in the archive with its header: "\x93NUMPY", version 1.0, u16 length, a
 * dictionary as text, padded so that the values begin at a multiple of 64. shape: "(3, 4)". */
static int begin(struct npz_out *o, const char *name, const char *type, const char *shape,
                 uint64_t bytes, struct pd_err *err) {
    char file[MODEL_NAME_MAX + 20], head[256] = "\x93NUMPY\x01";
    int n = snprintf(head + 10, sizeof head - 10,
                     "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", type, shape);
    size_t total = ((size_t)n + 10 + 1 + 63) / 64 * 64;
    memset(head + 10 + n, ' ', total - 10 - (size_t)n);
    head[total - 1] = '\n';
    head[8] = (char)((total - 10) & 255);
    head[9] = (char)((total - 10) >> 8);
    snprintf(file, sizeof file, "%s.npy", name);
    struct archive_entry *e = archive_entry_new();
    if (!e)
        return pd_oom(err, "an export");
    archive_entry_set_pathname(e, file);
    archive_entry_set_filetype(e, AE_IFREG);
    archive_entry_set_perm(e, 0644);
    archive_entry_set_size(e, (la_int64_t)(total + bytes));
    int rc = archive_write_header(o->a, e) == ARCHIVE_OK ? 0 : failed(o, err);
    archive_entry_free(e);
    return rc ? rc : put(o, head, total, err);
}

static int end(struct npz_out *o, struct pd_err *err) {
    return archive_write_finish_entry(o->a) == ARCHIVE_OK ? 0 : failed(o, err);
}

static int put_values(void *arg, const float *v, size_t n, struct pd_err *err) {
    struct npz_out *o = arg;
    o->c->values += n;
    return put(o, v, n * sizeof *v, err);
}

static int put_dense(struct model *m, const struct model_param *p, struct npz_out *o,
                     struct pd_err *err) {
    char shape[120] = "(";
    for (uint32_t i = 0; i < p->n_dims; i++)
        snprintf(shape + strlen(shape), sizeof shape - strlen(shape), "%llu,",
                 (unsigned long long)p->shape[i]);
    snprintf(shape + strlen(shape), sizeof shape - strlen(shape), ")");
    int rc = begin(o, p->name, "<f4", shape, model_param_values(p) * sizeof(float), err);
    if (!rc)
        rc = export_dense(m, p, put_values, o, err);
    return rc ? rc : end(o, err);
}

static int put_key(void *arg, uint64_t key, const float *row, struct pd_err *err) {
    (void)row;
    return put(arg, &key, sizeof key, err);
}

static int put_row(void *arg, uint64_t key, const float *row, struct pd_err *err) {
    struct npz_out *o = arg;
    (void)key;
    o->c->rows++;
    return put_values(o, row, o->dim, err);
}

static int put_table(struct model *m, const struct model_param *p, struct npz_out *o,
                     struct pd_err *err) {
    struct model_table *t = NULL;
    char shape[80], ids[MODEL_NAME_MAX + 8];
    int rc = model_table_open(&t, m, p->name, err);
    if (rc)
        return rc;
    uint64_t rows;
    rc = model_table_rows(t, &rows, err);
    o->dim = p->dim;
    snprintf(ids, sizeof ids, "%s.ids", p->name);
    snprintf(shape, sizeof shape, "(%llu,)", (unsigned long long)rows);
    if (!rc)
        rc = begin(o, ids, "<u8", shape, rows * sizeof(uint64_t), err);
    if (!rc)
        rc = model_table_walk(t, put_key, o, err);
    if (!rc)
        rc = end(o, err);
    snprintf(shape, sizeof shape, "(%llu, %u)", (unsigned long long)rows, p->dim);
    if (!rc)
        rc = begin(o, p->name, "<f4", shape, rows * p->dim * sizeof(float), err);
    if (!rc)
        rc = model_table_walk(t, put_row, o, err);
    if (!rc)
        rc = end(o, err);
    model_table_close(t);
    return rc;
}

static int write_zip(struct model *m, const struct model_export *x, struct model_export_counts *c,
                     struct pd_err *err) {
    const struct model_manifest *info = model_info(m);
    struct export_file file;
    int rc = export_file_open(&file, x->out, err);
    if (rc)
        return rc;
    struct npz_out o = {.a = archive_write_new(), .path = file.part, .c = c};
    if (!o.a)
        rc = pd_oom(err, "an export");
    else if (archive_write_set_format_zip(o.a) != ARCHIVE_OK ||
             archive_write_set_options(o.a, "zip:compression=store") != ARCHIVE_OK ||
             archive_write_open_FILE(o.a, file.f) != ARCHIVE_OK)
        rc = failed(&o, err);
    for (size_t i = 0; i < info->n_params && !rc; i++, c->params++)
        rc = info->params[i].kind == MODEL_TABLE ? put_table(m, &info->params[i], &o, err)
                                                 : put_dense(m, &info->params[i], &o, err);
    if (!rc && archive_write_close(o.a) != ARCHIVE_OK)
        rc = failed(&o, err);
    if (o.a)
        archive_write_free(o.a);
    return export_file_end(&file, rc, err);
}

const struct model_export_format model_export_npz = {"npz", write_zip};
