/* SPDX-License-Identifier: Apache-2.0 */
/* export_original.c - a folder with one file per parameter, as the trainer of the original system
 * wrote them.
 *
 *      0  int32   format, 0
 *      4  uint32  bytes of a value, 4
 *      8  uint64  number of values
 *     16  float32 values, row-major */
#include "model/export_internal.h"

struct original_out {
    struct export_file file;
    float *zeros;
    uint64_t next, n_rows; /* next row, of n_rows */
    const char *table;
    uint32_t dim;
    struct model_export_counts *c;
};

static int put_values(void *arg, const float *v, size_t n, struct pd_err *err) {
    struct original_out *o = arg;
    o->c->values += n;
    return export_file_put(&o->file, v, n * sizeof *v, err);
}

static int put_zeros(struct original_out *o, uint64_t until, struct pd_err *err) {
    int rc = 0;
    for (; !rc && o->next < until; o->next++, o->c->missing++)
        rc = put_values(o, o->zeros, o->dim, err);
    return rc;
}

static int put_row(void *arg, uint64_t key, const float *row, struct pd_err *err) {
    struct original_out *o = arg;
    if (key >= o->n_rows) /* check before writing zeros up to it */
        return pd_fail(err, PD_EDATA, "table '%s' has a row %llu of %llu", o->table,
                       (unsigned long long)key, (unsigned long long)o->n_rows);
    int rc = put_zeros(o, key, err);
    o->next++;
    o->c->rows++;
    return rc ? rc : put_values(o, row, o->dim, err);
}

static int put_table(struct model *m, const struct model_param *p, struct original_out *o,
                     struct pd_err *err) {
    struct model_table *t = NULL;
    o->next = 0;
    o->n_rows = p->n_rows;
    o->table = p->name;
    o->dim = p->dim;
    o->zeros = pd_calloc(p->dim, sizeof *o->zeros);
    int rc = o->zeros ? model_table_open(&t, m, p->name, err) : pd_oom(err, "an export");
    if (!rc)
        rc = model_table_walk(t, put_row, o, err);
    if (!rc)
        rc = put_zeros(o, p->n_rows, err);
    model_table_close(t);
    free(o->zeros);
    o->zeros = NULL;
    return rc;
}

static int put_param(struct model *m, const struct model_param *p, const char *dir,
                     struct original_out *o, struct pd_err *err) {
    char path[PATH_MAX];
    struct pd_buf head = {0};
    uint64_t n = p->kind == MODEL_TABLE ? p->n_rows * p->dim : model_param_values(p);
    if (strchr(p->name, '/') || *p->name == '.' || pd_fmt(path, sizeof path, "%s/%s", dir, p->name))
        return pd_fail(err, PD_EUSAGE, "parameter '%s' cannot be the name of a file in %s", p->name,
                       dir);
    int rc = export_file_open(&o->file, path, err);
    if (rc)
        return rc;
    pd_put_u32(&head, 0);
    pd_put_u32(&head, sizeof(float));
    pd_put_u64(&head, n);
    rc = head.failed ? pd_oom(err, "an export")
                     : export_file_put(&o->file, head.data, head.len, err);
    pd_buf_release(&head);
    if (!rc)
        rc = p->kind == MODEL_TABLE ? put_table(m, p, o, err)
                                    : export_dense(m, p, put_values, o, err);
    return export_file_end(&o->file, rc, err);
}

static int write_all(struct model *m, const struct model_export *x, struct model_export_counts *c,
                     struct pd_err *err) {
    const struct model_manifest *info = model_info(m);
    struct original_out o = {.c = c};
    int rc = 0;
    for (size_t i = 0; i < info->n_params && !rc; i++)
        if (info->params[i].kind == MODEL_TABLE && !info->params[i].n_rows)
            rc = pd_fail(err, PD_EUSAGE,
                         "table '%s' takes any 64-bit id, which this format cannot store; use npz",
                         info->params[i].name);
    if (!rc && rmdir(x->out) && errno != ENOENT)
        rc = pd_fail_errno(err, PD_EUSAGE, errno, "%s must be an empty folder, or not there",
                           x->out);
    if (!rc)
        rc = pd_mkdirs(x->out, 0777, err);
    for (size_t i = 0; i < info->n_params && !rc; i++, c->params++)
        rc = put_param(m, &info->params[i], x->out, &o, err);
    if (rc && rc != PD_EUSAGE)
        pd_rm_tree(x->out, NULL); /* the folder was empty before */
    return rc;
}

const struct model_export_format model_export_original = {"original", write_all};
