/* SPDX-License-Identifier: Apache-2.0 */
/* export_word2vec.c - an embedding in the text or binary format of the word2vec tool, which
 * gensim's KeyedVectors reads. */
#include "model/export_internal.h"

struct words {
    struct pd_buf text; /* the file, each line ended by NUL */
    const char **at;
    uint64_t n;
};

static void words_release(struct words *w) {
    pd_buf_release(&w->text);
    free(w->at);
}

static int read_words(struct words *w, const char *path, struct pd_err *err) {
    enum { MAX = 1 << 30 };
    int rc = path ? pd_read_file(path, MAX, &w->text, err) : 0;
    if (rc || !path)
        return rc;
    char *s = (char *)w->text.data;
    for (size_t i = 0; i < w->text.len; i++)
        w->n += s[i] == '\n' || i + 1 == w->text.len;
    w->at = pd_calloc(w->n, sizeof *w->at);
    if (!w->at)
        return pd_fail(err, PD_ENOMEM, "out of memory for %s", path);
    char *end = s + w->text.len;
    for (uint64_t i = 0; i < w->n; i++) {
        size_t n = strcspn(s, "\n");
        w->at[i] = s;
        s[n] = 0;
        if (!*s || strpbrk(s, " \t\r") || memchr(s, 0, n))
            return pd_fail(err, PD_EDATA,
                           "%s:%llu: a word of the vocabulary is not empty and has no blanks", path,
                           (unsigned long long)i + 1);
        s = s + n < end ? s + n + 1 : end;
    }
    return 0;
}

/* The parameter to export. */
static const struct model_param *choose_param(struct model *m, const struct model_export *x,
                                              uint64_t n_words, struct pd_err *err) {
    const struct model_manifest *info = model_info(m);
    const struct model_param *found = NULL;
    int n = 0;
    if (x->param) {
        found = model_find_param(m, x->param);
        if (!found || (found->kind == MODEL_DENSE && found->n_dims != 2)) {
            pd_fail(err, PD_EUSAGE, "the model has no table or matrix '%s'", x->param);
            return NULL;
        }
        return found;
    }
    for (size_t i = 0; i < info->n_params; i++) {
        const struct model_param *p = &info->params[i];
        int fits = p->kind == MODEL_TABLE || (n_words && p->n_dims == 2 && p->shape[0] == n_words);
        found = fits ? p : found;
        n += fits;
    }
    if (n == 1)
        return found;
    pd_fail(err, PD_EUSAGE,
            n ? "the model has %d embeddings: which one? (--param=NAME)"
              : "no parameter of the model is an embedding for sure (%d): give --param=NAME",
            n);
    return NULL;
}

struct word2vec_out {
    struct export_file file;
    const struct words *words;
    const char *vocabulary;
    struct model_export_counts *c;
    uint32_t dim;
    int binary;
};

static int put_row(void *arg, uint64_t key, const float *row, struct pd_err *err) {
    struct word2vec_out *o = arg;
    char number[32];
    const char *word = number;
    snprintf(number, sizeof number, "%llu", (unsigned long long)key);
    if (o->vocabulary) {
        if (key >= o->words->n)
            return pd_fail(err, PD_EDATA, "%s has %llu words, but the model a row %llu",
                           o->vocabulary, (unsigned long long)o->words->n, (unsigned long long)key);
        word = o->words->at[key];
    }
    o->c->rows++;
    o->c->values += o->dim;
    int rc = export_file_put(&o->file, word, strlen(word), err);
    if (!rc && o->binary) {
        rc = export_file_put(&o->file, " ", 1, err);
        if (!rc)
            rc = export_file_put(&o->file, row, o->dim * sizeof *row, err);
    }
    for (uint32_t i = 0; !rc && !o->binary && i < o->dim; i++) {
        char v[40];
        rc = export_file_put(&o->file, v, (size_t)snprintf(v, sizeof v, " %.9g", (double)row[i]),
                             err);
    }
    return rc ? rc : export_file_put(&o->file, "\n", 1, err);
}

static int put_matrix(struct model *m, const struct model_param *p, struct word2vec_out *o,
                      struct pd_err *err) {
    float *row = pd_calloc(o->dim, sizeof *row);
    int rc = row ? 0 : pd_oom(err, "an export");
    for (uint64_t i = 0; !rc && i < p->shape[0]; i++) {
        rc = model_read_dense(m, p->name, i * o->dim, o->dim, row, err);
        if (!rc)
            rc = put_row(o, i, row, err);
    }
    free(row);
    return rc;
}

static int write_one(struct model *m, const struct model_export *x, int binary,
                     struct model_export_counts *c, struct pd_err *err) {
    struct words words = {.n = 0};
    struct model_table *t = NULL;
    struct word2vec_out o = {
        .words = &words, .vocabulary = x->vocabulary, .binary = binary, .c = c};
    pd_buf_init(&words.text);
    int rc = read_words(&words, x->vocabulary, err);
    const struct model_param *p = rc ? NULL : choose_param(m, x, words.n, err);
    if (!rc && !p)
        rc = PD_EUSAGE;
    if (!rc && p->kind == MODEL_TABLE)
        rc = model_table_open(&t, m, p->name, err);
    uint64_t rows = 0;
    if (!rc && t)
        rc = model_table_rows(t, &rows, err);
    else if (!rc)
        rows = p->shape[0];
    if (!rc)
        rc = export_file_open(&o.file, x->out, err);
    if (!rc) {
        char head[64];
        c->params = 1;
        o.dim = p->kind == MODEL_TABLE ? p->dim : (uint32_t)p->shape[1];
        rc = export_file_put(
            &o.file, head,
            (size_t)snprintf(head, sizeof head, "%llu %u\n", (unsigned long long)rows, o.dim), err);
        if (!rc)
            rc = p->kind == MODEL_TABLE ? model_table_walk(t, put_row, &o, err)
                                        : put_matrix(m, p, &o, err);
    }
    rc = export_file_end(&o.file, rc, err);
    model_table_close(t);
    words_release(&words);
    return rc;
}

static int write_text(struct model *m, const struct model_export *x, struct model_export_counts *c,
                      struct pd_err *err) {
    return write_one(m, x, 0, c, err);
}

static int write_binary(struct model *m, const struct model_export *x,
                        struct model_export_counts *c, struct pd_err *err) {
    return write_one(m, x, 1, c, err);
}

const struct model_export_format model_export_word2vec = {"word2vec", write_text};
const struct model_export_format model_export_word2vec_binary = {"word2vec-binary", write_binary};
