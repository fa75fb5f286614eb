/* SPDX-License-Identifier: Apache-2.0 */
/* data_text.h - for tests of readers: schemas from one line of text, samples as text, files in a
 * folder that is removed with the test. */
#pragma once

#include "data/read/reader.h"

static char dir[] = "/tmp/test-data-XXXXXX";

static inline void put(const char *name, const void *text, size_t n) {
    char path[200];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_int_equal(pd_write_file_atomic(path, text, n, 0600, NULL), 0);
}

/* Parses "format=csv;columns=a b;f.type=dense": settings of [data] and of field f. */
static inline int make_schema(struct data_schema **out, const char *text, struct pd_err *err) {
    static char copy[4000];
    struct data_setting set[40];
    size_t n = 0;
    int line;
    snprintf(copy, sizeof copy, "%s", text);
    for (char *save, *p = strtok_r(copy, ";", &save); p; p = strtok_r(NULL, ";", &save)) {
        struct data_setting *s = &set[n++];
        char *eq = strchr(p, '='), *dot = memchr(p, '.', (size_t)(eq - p));
        *eq = 0;
        if (dot)
            *dot = 0;
        memset(s, 0, sizeof *s);
        snprintf(s->field, sizeof s->field, "%s", dot ? p : "");
        snprintf(s->key, sizeof s->key, "%s", dot ? dot + 1 : p);
        s->value = eq + 1;
        s->line = (int)n;
    }
    return data_schema_make(out, set, n, 100, 1, 2, &line, err);
}

/* Prints a sample as text: ids, hashes as #, lists in [], numbers in (). */
static inline void print_sample(struct pd_buf *out, const struct pd_batch *b, uint32_t i) {
    for (uint32_t k = 0; k < b->n_fields; k++) {
        pd_put_fmt(out, "%s", k ? " " : "");
        if (b->offset[k]) {
            for (uint32_t j = b->offset[k][i]; j < b->offset[k][i + 1]; j++) {
                pd_put_fmt(out, "%s%llu", j > b->offset[k][i] ? "," : "[",
                           (unsigned long long)b->ids[k][j]);
                if (b->field[k].weighted)
                    pd_put_fmt(out, ":%g", (double)b->values[k][j]);
            }
            pd_put_fmt(out, "%s", b->offset[k][i] == b->offset[k][i + 1] ? "[]" : "]");
        } else if (b->ids[k]) {
            pd_put_fmt(out, "%llu", (unsigned long long)b->ids[k][i]);
        } else {
            for (uint32_t j = 0; j < b->field[k].width; j++)
                pd_put_fmt(out, "%s%.6g", j ? "," : "(",
                           (double)b->values[k][(size_t)i * b->field[k].width + j]);
            pd_put_fmt(out, ")");
        }
    }
    pd_put_fmt(out, ";");
}

static inline void note_bad(void *arg, const char *message) { pd_put_fmt(arg, "%s\n", message); }

static inline void batch_of(struct pd_batch *b, const struct data_schema *s, uint32_t cap) {
    struct pd_field f[PD_MAX_FIELDS];
    for (uint32_t k = 0; k < s->n_fields; k++)
        f[k] = s->field[k].batch;
    assert_int_equal(pd_batch_init(b, f, s->n_fields, cap), 0);
}

/* Reads the rest of a pass in batches of `per` samples into `out` (no NUL). */
static inline int read_on(struct data_reader *r, const struct data_schema *s, uint32_t per,
                          struct pd_buf *out, struct pd_err *err) {
    struct pd_batch b;
    int n;
    batch_of(&b, s, per);
    while ((n = data_reader_next(r, per, &b, err)) > 0) {
        for (uint32_t i = 0; i < b.n; i++)
            print_sample(out, &b, i);
        pd_batch_clear(&b);
    }
    pd_batch_release(&b);
    return n;
}

static inline int setup(void **state) {
    (void)state;
    return mkdtemp(dir) ? 0 : -1;
}

static inline int teardown(void **state) {
    (void)state;
    return pd_rm_tree(dir, NULL);
}
