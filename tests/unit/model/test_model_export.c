/* SPDX-License-Identifier: Apache-2.0 */
/* test_model_export.c - rows of a saved table by key in the mapped file, for any keys and parts;
 * and exported models, read back. */
#include <setjmp.h>
#include <cmocka.h>

#include "math/hash.h"
#include "model/export.h"
#include "model/table.h"

static char root[200];

enum { DIM = 3, N_WORDS = 7, W = 10 };

static float value(uint64_t key, uint32_t d) { return (float)(key % 1000003) * 0.37f - (float)d; }

/* A model of `parts` parts with a table "emb" of the keys, distributed by hash, and a dense "w" of
 * 2 x 5. */
static const char *make(const char *name, const uint64_t *keys, size_t n, uint64_t n_rows,
                        uint32_t parts) {
    static char path[300];
    char stage[PATH_MAX];
    struct model_part part[16] = {{{0}, 0, 0, 0, {0}}};
    struct pd_err err = {0};
    assert_true(parts <= 16);
    assert_int_equal(model_make_staging(root, name, 1, stage, &err), 0);
    for (uint32_t i = 0; i < parts; i++) {
        uint64_t *mine = calloc(n + 1, sizeof *mine), count = 0;
        for (size_t k = 0; k < n; k++)
            if (pd_mix64(keys[k]) % parts == i)
                mine[count++] = keys[k];
        struct model_entry e[2] = {{.name = "emb", .kind = MODEL_TABLE, .dim = DIM, .count = count},
                                   {.name = "w",
                                    .kind = MODEL_DENSE,
                                    .dim = 1,
                                    .first = W * i / parts,
                                    .count = W * (i + 1) / parts - W * i / parts}};
        struct model_writer *wr;
        char file[40];
        snprintf(file, sizeof file, "p-%u.bin", i);
        assert_int_equal(model_writer_new(&wr, stage, file, e, 2, &err), 0);
        assert_int_equal(model_writer_put(wr, mine, count * 8, &err), 0);
        for (uint64_t k = 0; k < count; k++)
            for (uint32_t d = 0; d < DIM; d++)
                assert_int_equal(model_writer_put(wr, &(float){value(mine[k], d)}, 4, &err), 0);
        for (uint64_t k = e[1].first; k < e[1].first + e[1].count; k++)
            assert_int_equal(model_writer_put(wr, &(float){value(k, 100)}, 4, &err), 0);
        assert_int_equal(model_writer_end(wr, &part[i], &err), 0);
        free(mine);
    }
    struct model_param p[2] = {
        {.name = "emb", .kind = MODEL_TABLE, .dim = DIM, .rows = n, .n_rows = n_rows},
        {.name = "w", .kind = MODEL_DENSE, .n_dims = 2, .shape = {2, 5}}};
    char config[] = "[data]\n";
    struct model_manifest m = {
        .params = p, .n_params = 2, .parts = part, .n_parts = parts, .config = config};
    struct pd_buf b;
    pd_buf_init(&b);
    assert_int_equal(model_manifest_write(&m, &b, &err), 0);
    assert_int_equal(model_commit(root, name, 1, b.data, b.len, &err), 0);
    pd_buf_release(&b);
    snprintf(path, sizeof path, "%s/%s", root, name);
    return path;
}

struct walked {
    uint64_t before, n;
};

static int on_row(void *arg, uint64_t key, const float *row, struct pd_err *err) {
    struct walked *w = arg;
    (void)err;
    assert_true(w->n == 0 || key > w->before);
    assert_true(row[1] == value(key, 1));
    w->before = key;
    w->n++;
    return 0;
}

static int by_key(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static uint64_t key_vocabulary(size_t i) { return i; }
static uint64_t key_hash(size_t i) { return pd_mix64(i + 77); }
static uint64_t key_powers(size_t i) {
    return i < 64 ? UINT64_C(1) << i : UINT64_MAX - (2000 - i) * i;
} /* the worst case for interpolation */
static uint64_t key_clumps(size_t i) { return (uint64_t)(i / 100) << 58 | i % 100; }

static void every_row_is_found_where_it_lies(void **state) {
    (void)state;
    static const struct {
        const char *name;
        uint64_t (*key)(size_t i);
        size_t n;
        uint32_t parts;
    } rows[] = {{"vocabulary", key_vocabulary, 2000, 1},
                {"vocabulary in parts", key_vocabulary, 2000, 5},
                {"hashes", key_hash, 2000, 3},
                {"powers", key_powers, 1000, 2},
                {"clumps", key_clumps, 1500, 2},
                {"one row", key_hash, 1, 4},
                {"none", key_hash, 0, 2}};
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        uint64_t *keys = calloc(rows[r].n + 1, sizeof *keys);
        for (size_t i = 0; i < rows[r].n; i++)
            keys[i] = rows[r].key(i);
        qsort(keys, rows[r].n, sizeof *keys, by_key);
        const char *path = make("m", keys, rows[r].n, 0, rows[r].parts);
        struct model *m;
        struct model_table *t;
        struct walked w = {0, 0};
        assert_int_equal(model_open(&m, path, NULL), 0);
        if (r % 2)
            model_skip_checksums(m);
        assert_int_equal(model_table_open(&t, m, "emb", NULL), 0);
        model_random_access(m);
        uint64_t n;
        assert_int_equal(model_table_rows(t, &n, NULL), 0);
        assert_int_equal(n, rows[r].n);
        for (size_t i = 0; i < rows[r].n; i++) {
            const float *row = model_table_find(t, keys[i]);
            if (!row || row[0] != value(keys[i], 0) || row[2] != value(keys[i], 2))
                fail_msg("%s: row %llu", rows[r].name, (unsigned long long)keys[i]);
            for (int d = -1; d <= 1; d += 2) {
                uint64_t other = keys[i] + (uint64_t)(int64_t)d;
                if (!bsearch(&other, keys, rows[r].n, sizeof other, by_key) &&
                    model_table_find(t, other))
                    fail_msg("%s: there is no row %llu", rows[r].name, (unsigned long long)other);
            }
        }
        assert_null(model_table_find(t, UINT64_C(0x123456789abcdef)));
        assert_int_equal(model_table_walk(t, on_row, &w, NULL), 0);
        assert_int_equal(w.n, rows[r].n);
        model_table_close(t);
        assert_int_equal(model_table_open(&t, m, "w", NULL), PD_ENOENT);
        model_close(m);
        free(keys);
    }
}

/* --- formats --- */

static struct model *words_model(void) {
    static const uint64_t keys[] = {0, 1, 2, 4, 6};
    struct model *m;
    assert_int_equal(model_open(&m, make("words", keys, 5, N_WORDS, 3), NULL), 0);
    return m;
}

static void slurp(struct pd_buf *b, const char *name) {
    char path[400];
    pd_buf_init(b);
    snprintf(path, sizeof path, "%s/%s", root, name);
    assert_int_equal(pd_read_file(path, 1 << 20, b, NULL), 0);
}

static const char *at_root(const char *name) {
    static char path[400];
    snprintf(path, sizeof path, "%s/%s", root, name);
    return path;
}

/* A row after the last one is detected before the zeros up to it are written; those of a damaged
 * model could fill the disk. */
static void a_row_behind_the_last_one_writes_nothing(void **state) {
    (void)state;
    static const uint64_t keys[] = {3, UINT64_C(1) << 20};
    struct model_export x = {.format = "original", .out = at_root("behind")};
    struct model_export_counts c;
    struct model *m;
    struct pd_err err = {0};
    assert_int_equal(model_open(&m, make("behind-model", keys, 2, 10, 1), &err), 0);
    pd_fault_arm("export.write:20"); /* 5 rows and a header are fewer writes */
    assert_int_equal(model_export(m, &x, &c, &err), PD_EDATA);
    pd_fault_arm(NULL);
    assert_string_equal(err.msg, "table 'emb' has a row 1048576 of 10");
    model_close(m);
}

static void the_original_format(void **state) {
    (void)state;
    struct model *m = words_model();
    struct model_export x = {.format = "original", .out = at_root("orig")};
    struct model_export_counts c;
    struct pd_buf b;
    assert_int_equal(model_export(m, &x, &c, NULL), 0);
    assert_true(c.params == 2 && c.rows == 5 && c.missing == 2 && c.values == N_WORDS * DIM + W);
    slurp(&b, "orig/emb");
    assert_int_equal(b.len, 16 + 4 * N_WORDS * DIM);
    struct pd_reader r;
    pd_reader_init(&r, b.data, b.len);
    assert_int_equal(pd_get_u32(&r), 0);
    assert_int_equal(pd_get_u32(&r), 4);
    assert_int_equal(pd_get_u64(&r), N_WORDS * DIM);
    for (uint64_t k = 0; k < N_WORDS; k++)
        for (uint32_t d = 0; d < DIM; d++)
            assert_true(pd_get_f32(&r) == (k == 3 || k == 5 ? 0 : value(k, d)));
    pd_buf_release(&b);
    slurp(&b, "orig/w");
    assert_int_equal(b.len, 16 + 4 * W);
    pd_reader_init(&r, b.data + 16, b.len - 16);
    for (uint64_t k = 0; k < W; k++)
        assert_true(pd_get_f32(&r) == value(k, 100));
    pd_buf_release(&b);
    struct pd_err err = {0};
    assert_int_equal(model_export(m, &x, &c, &err),
                     PD_EUSAGE); /* the folder is not empty and stays unchanged */
    assert_non_null(strstr(err.msg, "must be an empty folder"));
    assert_int_equal(access(at_root("orig/w"), R_OK), 0);
    model_close(m);
}

static void words_as_word2vec_writes_them(void **state) {
    (void)state;
    static const char dict[] = "the\nof\nand\nin\nto\nz\xc3\xbcrich\nzoo";
    static const char *const words[] = {"the", "of", "and", "to", "zoo"};
    static const uint64_t keys[] = {0, 1, 2, 4, 6};
    struct model *m = words_model();
    char vocabulary[400], out[400];
    snprintf(vocabulary, sizeof vocabulary, "%s", at_root("dict"));
    assert_int_equal(pd_write_file_atomic(vocabulary, dict, strlen(dict), 0644, NULL), 0);
    snprintf(out, sizeof out, "%s", at_root("words.txt"));
    struct model_export x = {.format = "word2vec", .out = out, .vocabulary = vocabulary};
    struct model_export_counts c;
    struct pd_buf b;
    assert_int_equal(model_export(m, &x, &c, NULL), 0);
    slurp(&b, "words.txt");
    char *s = (char *)b.data;
    assert_memory_equal(s, "5 3\n", 4);
    s += 4;
    for (int i = 0; i < 5; i++) {
        char word[32];
        float v[DIM];
        int n = 0;
        assert_int_equal(sscanf(s, "%31s %f %f %f\n%n", word, &v[0], &v[1], &v[2], &n), 4);
        assert_string_equal(word, words[i]);
        for (uint32_t d = 0; d < DIM; d++)
            assert_true(v[d] == value(keys[i], d));
        s += n;
    }
    assert_int_equal(*s, 0);
    pd_buf_release(&b);
    x.format = "word2vec-binary";
    assert_int_equal(model_export(m, &x, &c, NULL), 0);
    slurp(&b, "words.txt");
    s = (char *)b.data + 4;
    for (int i = 0; i < 5; i++) {
        size_t n = strlen(words[i]);
        float v[DIM];
        assert_memory_equal(s, words[i], n);
        assert_int_equal(s[n], ' ');
        memcpy(v, s + n + 1, sizeof v);
        for (uint32_t d = 0; d < DIM; d++)
            assert_true(v[d] == value(keys[i], d));
        s += n + 1 + sizeof v;
        assert_int_equal(*s++, '\n');
    }
    assert_ptr_equal(s, b.data + b.len);
    pd_buf_release(&b);
    model_close(m);
}

static void what_does_not_fit_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *name, *format, *param, *dict, *want;
        int code;
    } rows[] = {
        {"unknown", "hdf5", NULL, NULL,
         "no format 'hdf5' (known: npz|word2vec|word2vec-binary|original)", PD_EUSAGE},
        {"no such parameter", "word2vec", "nope", NULL, "no table or matrix 'nope'", PD_EUSAGE},
        {"too few words", "word2vec", NULL, "a\nb\nc\n", "has 3 words, but the model a row 4",
         PD_EDATA},
        {"a blank in a word", "word2vec", NULL, "a\nb c\n",
         ":2: a word of the vocabulary is not empty and has no blanks", PD_EDATA},
        {"an empty word", "word2vec", NULL, "a\n\nb\n", ":2: a word", PD_EDATA},
        {"no vocabulary file", "word2vec", NULL, "", "nowhere", PD_ENOENT},
    };
    struct model *m = words_model();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char dict[400], out[400];
        struct pd_err err = {0};
        struct model_export_counts c;
        snprintf(dict, sizeof dict, "%s",
                 at_root(rows[i].dict && !*rows[i].dict ? "nowhere" : "dict2"));
        snprintf(out, sizeof out, "%s", at_root("out"));
        if (rows[i].dict && *rows[i].dict)
            assert_int_equal(
                pd_write_file_atomic(dict, rows[i].dict, strlen(rows[i].dict), 0644, NULL), 0);
        struct model_export x = {.format = rows[i].format,
                                 .out = out,
                                 .param = rows[i].param,
                                 .vocabulary = rows[i].dict ? dict : NULL};
        int rc = model_export(m, &x, &c, &err);
        if (rc != rows[i].code || !strstr(err.msg, rows[i].want))
            fail_msg("%s: %d '%s'", rows[i].name, rc, err.msg);
        assert_int_not_equal(access(out, F_OK), 0);
        assert_int_not_equal(access(at_root("out.part"), F_OK), 0);
    }
    model_close(m);
    struct model_export x = {.format = "original", .out = at_root("open")};
    struct model_export_counts c;
    struct pd_err err = {0};
    const uint64_t key = 3;
    assert_int_equal(model_open(&m, make("open-table", &key, 1, 0, 1), NULL), 0);
    assert_int_equal(model_export(m, &x, &c, &err), PD_EUSAGE);
    assert_non_null(strstr(err.msg, "takes any 64-bit id"));
    model_close(m);
}

/* A full disk, and a failure of every allocation in turn: an error, and no file is left. */
static void a_failed_export_leaves_nothing(void **state) {
    (void)state;
    static const char *const formats[] = {"npz", "word2vec", "word2vec-binary", "original"};
    struct model *m = words_model();
    for (size_t f = 0; f < 4; f++)
        for (int kind = 0; kind < 2; kind++)
            for (int k = 1;; k++) {
                char spec[40], out[400], part[420];
                struct model_export_counts c;
                struct pd_err err = {0};
                snprintf(out, sizeof out, "%s", at_root("full"));
                snprintf(part, sizeof part, "%s.part", out);
                struct model_export x = {.format = formats[f], .out = out, .param = "emb"};
                snprintf(spec, sizeof spec, kind ? "export.write:%d" : "alloc:%d", k);
                pd_fault_arm(spec);
                int rc = model_export(m, &x, &c, &err);
                pd_fault_arm(NULL);
                assert_int_not_equal(access(part, F_OK), 0);
                if (!rc) {
                    assert_true(k > 3);
                    pd_rm_tree(out, NULL);
                    break;
                }
                assert_true(err.msg[0]);
                assert_int_not_equal(access(out, F_OK), 0);
            }
    model_close(m);
}

int main(void) {
    const char *tmp = getenv("TMPDIR");
    snprintf(root, sizeof root, "%s/test_export.XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(root))
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_is_found_where_it_lies),
        cmocka_unit_test(the_original_format),
        cmocka_unit_test(a_row_behind_the_last_one_writes_nothing),
        cmocka_unit_test(words_as_word2vec_writes_them),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(a_failed_export_leaves_nothing),
    };
    int rc = cmocka_run_group_tests_name("export", tests, NULL, NULL);
    pd_rm_tree(root, NULL);
    return rc;
}
