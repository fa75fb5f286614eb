/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_model.c - a saved model's folder: manifest and parts as PS_LOAD, infer, export and the
 * agents read them. Rows and values that are handed out are in memory, and equal in every way in
 * which they can be read.
 *
 * Input: model_folder.h. */
#include "model/export.h"
#include "model/table.h"
#include "tests/support/fuzz/model_folder.h"

static double sum; /* that nothing is left out by the compiler */

static void add(const float *v, size_t n) {
    for (size_t i = 0; i < n; i++)
        sum += (double)v[i];
}

struct rows {
    uint64_t n, last;
    uint32_t dim;
    int is_sorted; /* a walk has been through all rows */
    const struct model_table *t;
};

static int on_state(void *arg, uint64_t key, const float *row, const float *state, uint32_t width,
                    struct pd_err *err) {
    struct rows *r = arg;
    (void)err;
    fuzz_check(!width == !state);
    add(row, r->dim);
    add(state, width);
    sum += (double)key;
    r->n++;
    return 0;
}

static int on_row(void *arg, uint64_t key, const float *row, struct pd_err *err) {
    struct rows *r = arg;
    (void)err;
    fuzz_check(!r->n || key > r->last);
    fuzz_check(!r->is_sorted || model_table_find(r->t, key) == row);
    add(row, r->dim);
    r->last = key;
    r->n++;
    return 0;
}

static int on_waiting(void *arg, uint64_t key, uint32_t state, struct pd_err *err) {
    (void)arg;
    (void)err;
    sum += (double)key + state;
    return 0;
}

static void read_table(struct model *m, const struct model_param *p) {
    struct pd_err err = {0};
    struct rows states = {.dim = p->dim}, walked = {.dim = p->dim};
    struct model_table *t = NULL;
    const double *pairs = NULL;
    uint64_t n = 0;
    if (!model_history(m, p->name, &pairs, &n, NULL))
        for (uint64_t i = 0; i < 2 * n; i++)
            sum += pairs[i];
    (void)model_has_seen(m, p->name, NULL);
    (void)model_each_waiting(m, p->name, on_waiting, NULL, NULL);
    const int all = model_each_state(m, p->name, on_state, &states, NULL);
    if (fuzz_rc(model_table_open(&t, m, p->name, &err), &err))
        return;
    walked.t = t;
    (void)model_table_find(t, 0);
    (void)model_table_find(t, 7);
    (void)model_table_find(t, UINT64_MAX);
    if (!fuzz_rc(model_table_walk(t, on_row, &walked, &err), &err)) {
        struct rows again = {.dim = p->dim, .is_sorted = 1, .t = t};
        fuzz_check(!model_table_walk(t, on_row, &again, NULL) && again.n == walked.n);
        fuzz_check(!all && walked.n == states.n);
        fuzz_check(!model_table_rows(t, &n, NULL) && n == walked.n);
    }
    model_table_close(t);
}

static void read_dense(struct model *m, const struct model_param *p) {
    struct pd_err err = {0};
    float v[W], again, s[2 * W];
    uint64_t n = model_param_values(p) < W ? model_param_values(p) : W;
    if (!fuzz_rc(model_read_dense(m, p->name, 0, n, v, &err), &err) && n > 1 &&
        !model_read_dense(m, p->name, 1, 1, &again, NULL))
        fuzz_check(!memcmp(&again, &v[1], sizeof again));
    for (uint32_t planes = 1; planes < 3; planes++)
        (void)model_read_state(m, p->name, 0, n, planes, s, W, NULL);
}

static void export_all(struct model *m) {
    static const char *const formats[] = {"npz", "word2vec", "word2vec-binary", "original"};
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        char out[PATH_MAX];
        struct pd_err err = {0};
        struct model_export_counts counts = {0};
        pd_fmt(out, sizeof out, "%s/export", fuzz_folder());
        const struct model_export x = {.format = formats[i], .out = out};
        (void)fuzz_rc(model_export(m, &x, &counts, &err), &err);
        (void)pd_rm_tree(out, NULL);
    }
}

FUZZ(in) {
    struct pd_err err = {0};
    struct model *m = NULL;
    const unsigned flags = model_folder(in);
    if (!fuzz_rc(model_open(&m, fuzz_folder(), &err), &err)) {
        const struct model_manifest *info = model_info(m);
        if (flags & NO_CHECKSUMS)
            model_skip_checksums(m);
        (void)fuzz_rc(model_verify(m, &err), &err);
        (void)model_verify_present(m, NULL);
        for (size_t i = 0; i < info->n_params && i < 4; i++) {
            if (info->params[i].kind == MODEL_TABLE)
                read_table(m, &info->params[i]);
            else
                read_dense(m, &info->params[i]);
        }
        if (flags & EXPORT)
            export_all(m);
        if (model_search_first(m, files[2], 1) && info->n_params > 2)
            read_table(m, &info->params[2]);
    }
    model_close(m);
}
