/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_reader.c - any bytes as a data file: read to the end in every format, plain or packed, and
 * again from a position in the middle, which must give what followed.
 *
 * Input: u8: format (low 4 bits), 32: a position as text comes first, 64: bad lines are skipped,
 * 128: shuffled. Parts: the position; for the last two formats the labels, or counts_file; the
 * data file. */
#include "data/read/reader.h"
#include "tests/support/fuzz/fuzz.h"

static const struct schema {
    const char *format, *fields, *columns;
    struct data_setting more[3];
    uint64_t vocabulary;
    const char *other; /* a second file */
} schemas[] = {
    {"ids", "a b", "", {{"", "", NULL, 0}}, 1000, NULL},
    {"ngram", "a b c", "", {{"", "", NULL, 0}}, 1000, NULL},
    {"skipgram", "center context", "", {{"", "", NULL, 0}}, 1000, NULL},
    {"cbow", "center context:list", "", {{"", "", NULL, 0}}, 1000, NULL},
    {"csv", "x:dense y:category z:label", "x y z", {{"", "", NULL, 0}}, 1000, NULL},
    {"tsv", "x:list y:categories", "x y", {{"", "", NULL, 0}}, 1000, NULL},
    {"criteo", NULL, NULL, {{"", "", NULL, 0}}, 1000, NULL},
    {"movielens", NULL, NULL, {{"", "", NULL, 0}}, 1000, NULL},
    {"libsvm", NULL, NULL, {{"", "", NULL, 0}}, 1000, NULL},
    {"csv", "x:id", NULL, {{"", "header", "true", 4}}, 1000, NULL}, /* it names the columns */
    {"csv",
     "x:dense y:list z:label",
     "x y z",
     {{"", "trim", "true", 4}, {"y", "weights", "true", 5}, {"z", "values", "no yes", 6}},
     1000,
     NULL},
    {"idx",
     "image:dense label:label",
     NULL,
     {{"image", "size", "4", 4}},
     1000,
     "train-labels-idx1"},
    {"skipgram",
     "center context",
     "",
     {{"", "subsample", "0.01", 4}, {"", "counts_file", "counts.txt", 5}},
     4,
     "counts.txt"},
};
enum { N_SCHEMAS = sizeof schemas / sizeof schemas[0] };
enum { BY_TEXT = 32, SKIPS = 64, SHUFFLES = 128 };

static struct data_schema *make(const struct schema *k) {
    struct data_setting set[6];
    struct data_schema *s;
    int line;
    size_t n = 0;
    set[n++] = (struct data_setting){"", "format", k->format, 1};
    if (k->fields)
        set[n++] = (struct data_setting){"", "fields", k->fields, 2};
    if (k->columns && *k->columns)
        set[n++] = (struct data_setting){"", "columns", k->columns, 3};
    for (int i = 0; i < 3 && k->more[i].value; i++)
        set[n++] = k->more[i];
    fuzz_check(!data_schema_make(&s, set, n, k->vocabulary, 1, 2, &line, NULL));
    return s;
}

static void batch(struct pd_batch *b, const struct data_schema *s, uint32_t cap) {
    struct pd_field f[PD_MAX_FIELDS];
    for (uint32_t k = 0; k < s->n_fields; k++)
        f[k] = s->field[k].batch;
    fuzz_check(!pd_batch_init(b, f, s->n_fields, cap));
}

static void must_be_equal(const struct data_schema *s, const struct pd_batch *a,
                          const struct pd_batch *b, int n) {
    fuzz_check(!memcmp(a->index, b->index, (size_t)n * sizeof *a->index));
    for (uint32_t k = 0; k < s->n_fields; k++) {
        const size_t n_ids = a->offset[k] ? a->offset[k][n] : (size_t)n;
        fuzz_check(!a->ids[k] || !memcmp(a->ids[k], b->ids[k], n_ids * sizeof **a->ids));
        for (size_t i = 0; a->ids[k] && s->field[k].batch.vocabulary && i < n_ids; i++)
            fuzz_check(a->ids[k][i] < s->field[k].batch.vocabulary);
    }
}

static void read_twice(struct data_reader *r, struct data_reader *other,
                       const struct data_schema *s, const struct data_pos *named) {
    struct pd_batch a, b;
    struct data_pos pos;
    struct pd_err err = {0};
    int n;
    batch(&a, s, 7);
    batch(&b, s, 7);
    for (int step = 0; (data_reader_tell(r, &pos), n = data_reader_next(r, 7, &a, &err)) > 0;
         step++) {
        if (step % 3 == 0) {
            char text[DATA_POS_TEXT];
            struct data_pos same;
            data_pos_format(&pos, text);
            fuzz_check(!data_pos_parse(text, &same) && !memcmp(&same, &pos, sizeof pos));
            fuzz_check(!data_reader_seek(other, &pos, NULL));
            fuzz_check(data_reader_next(other, 7, &b, NULL) == n);
            must_be_equal(s, &a, &b, n);
        }
        pd_batch_clear(&a);
        pd_batch_clear(&b);
    }
    fuzz_check(!n || *err.msg);
    if (named && !data_reader_seek(other, named, NULL))
        (void)data_reader_next(other, 7, &b, NULL);
    pd_batch_release(&a);
    pd_batch_release(&b);
}

FUZZ(in) {
    const unsigned how = fuzz_u8(in);
    const struct schema *k = &schemas[(how & 15) % N_SCHEMAS];
    struct data_files files = {0};
    struct data_reader *r = NULL, *other = NULL;
    struct data_pos pos = {0};
    struct data_schema *s = make(k);
    size_t n;
    const char *text = how & BY_TEXT ? fuzz_text(in) : "",
               *second = k->other ? fuzz_part(in, &n) : "";
    const int named = !data_pos_parse(text, &pos);
    if (k->other)
        (void)fuzz_file(k->other, second, n);
    const struct data_spec spec = {.schema = s,
                                   .max_bad_lines = how & SKIPS ? 1u << 20 : 2,
                                   .shuffle_buffer = how & SHUFFLES ? 5 : 0};
    const char *path = fuzz_file("train-images-idx3", in->p, fuzz_left(in));
    fuzz_check(!data_files_add(&files, path));
    if (!data_reader_new(&r, &spec, fuzz_folder(), &files, 0, 1, NULL) &&
        !data_reader_new(&other, &spec, fuzz_folder(), &files, 0, 1, NULL)) {
        struct data_pos start;
        data_reader_tell(r, &start);
        pos.files_hash = start.files_hash; /* of this list of files */
        read_twice(r, other, s, named ? &pos : NULL);
    }
    data_reader_free(r);
    data_reader_free(other);
    data_files_release(&files);
    data_schema_free(s);
}
