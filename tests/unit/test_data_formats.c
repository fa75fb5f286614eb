/* test_data_formats.c - what lines of every format become; schemas that are refused; packed files; threads, shuffling and positions:
 * the samples are the same whatever reads them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/fault.h"
#include "base/fs.h"
#include "data/input.h"
#include "data/pipe.h"
#include "data/plan.h"
#include "data/reader.h"

static char dir[] = "/tmp/test-data-XXXXXX";

static void put(const char *name, const void *text, size_t n) {
    char path[200];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_int_equal(pd_write_file_atomic(path, text, n, 0600, NULL), 0);
}

/* "format=csv;columns=a b;f.type=dense": settings of [data], and of field f. */
static int make_schema(struct data_schema **out, const char *text, struct pd_err *err) {
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

/* A sample as text: ids, hashes as #, lists in [], numbers in (). */
static void print_sample(struct pd_buf *out, const struct pd_batch *b, uint32_t i) {
    for (uint32_t k = 0; k < b->n_fields; k++) {
        pd_put_fmt(out, "%s", k ? " " : "");
        if (b->offset[k]) {
            for (uint32_t j = b->offset[k][i]; j < b->offset[k][i + 1]; j++) {
                pd_put_fmt(out, "%s%llu", j > b->offset[k][i] ? "," : "[", (unsigned long long)b->ids[k][j]);
                if (b->field[k].weighted)
                    pd_put_fmt(out, ":%g", (double)b->values[k][j]);
            }
            pd_put_fmt(out, "%s", b->offset[k][i] == b->offset[k][i + 1] ? "[]" : "]");
        } else if (b->ids[k]) {
            pd_put_fmt(out, "%llu", (unsigned long long)b->ids[k][i]);
        } else {
            for (uint32_t j = 0; j < b->field[k].width; j++)
                pd_put_fmt(out, "%s%.6g", j ? "," : "(", (double)b->values[k][(size_t)i * b->field[k].width + j]);
            pd_put_fmt(out, ")");
        }
    }
    pd_put_fmt(out, ";");
}

static void note_bad(void *arg, const char *message) { pd_put_fmt(arg, "%s\n", message); }

static void batch_of(struct pd_batch *b, const struct data_schema *s, uint32_t cap) {
    struct pd_field f[PD_MAX_FIELDS];
    for (uint32_t k = 0; k < s->n_fields; k++)
        f[k] = s->field[k].batch;
    assert_int_equal(pd_batch_init_fields(b, f, s->n_fields, cap), 0);
}

/* The rest of a pass in batches of `per`, into `out` (no NUL). */
static int read_on(struct data_reader *r, const struct data_schema *s, uint32_t per, struct pd_buf *out, struct pd_err *err) {
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

#define ADULT "format=csv;columns=age job hours income;missing=?;fields=nums job:category income:label;nums.type=dense;nums.columns=age hours;" \
              "job.vocabulary=1000;income.values=<=50K|<=50K. >50K|>50K."

static const struct {
    const char *name, *schema, *text, *want, *bad;
} formats[] = {
    {"csv", "format=csv;columns=a b c;fields=x:dense y:id;x.columns=a c;y.columns=b", "1,2,3\n-4.5,6,1e2\n", "(1,3) 2;(-4.5,100) 6;", ""},
    {"blanks around, no last newline, CRLF", "format=csv;columns=a b;fields=a:dense b:id", " 1 ,\t2\r\n3, 4", "(1) 2;(3) 4;", ""},
    {"quotes", "format=csv;columns=a b;fields=b:label;b.values=x,y q\"z", "1,\"x,y\"\n2, \"q\"\"z\" \n3,\"x\ny\"\n", "0;1;",
     "f:3: column 2: its quotes do not match (a sample is one line)\nf:4: 1 columns, but there should be 2\n"},
    {"header names the columns", "format=csv;header=true;fields=hours_per_week:dense age:id", "age,x,hours per week\n7,a,40\n", "(40) 7;", ""},
    {"header is skipped when columns are named", "format=csv;header=true;columns=a b;fields=b:id", "p,q\n1,2\n", "2;", ""},
    {"adult", ADULT, "39, Sales, 40, <=50K\n50, ?, ?, >50K.\n", "(39,40) 776 0;(50,0) 38 1;", ""},
    {"a class that is none", ADULT, "39, Sales, 40, 50K\n", "", "f:1: '50K' is none of the label's values\n"},
    {"missing and transformed", "format=tsv;columns=a b;fields=x:dense;x.columns=a b;x.transform=log;x.missing_value=-1;missing=NA",
     "0\t1.718281828459045\n-3\t99999\n\tNA\n", "(0,1);(0,11.5129);(-1,-1);", ""},
    {"mean and std", "format=tsv;columns=a b;fields=x:dense;x.columns=a b;x.mean=10 20;x.std=2", "12\t18\n", "(1,-1);", ""},
    {"lists", "format=tsv;columns=a b;fields=a:list b:list;a.weights=true;b.separator=blank;b.max_ids=3", "3:0.5|17\t1 2 3\n\t\n||4:2\t9\n",
     "[3:0.5,17:1] [1,2,3];[] [];[4:2] [9];", ""},
    {"a list that is too long", "format=tsv;columns=a;fields=a:list;a.max_ids=2", "1|2\n1|2|3\n4\n", "[1,2];[4];", "f:2: field 'a' has more than 2 ids\n"},
    {"a list outside its vocabulary", "format=tsv;columns=a;fields=a:list;a.vocabulary=5", "1|4\n1|5\n", "[1,4];",
     "f:2: field 'a': id 5 is not below its vocabulary, 5\n"},
    {"a separator of one's own", "format=csv;separator=::;columns=a b;fields=b:id", "1::2\n", "2;", ""},
    {"columns too few, too many", "format=tsv;columns=a b;fields=b:id", "1\n1\t2\t3\n1\t2\n", "2;",
     "f:1: 1 columns, but there should be 2\nf:2: 3 columns, but there should be 2\n"},
    {"no number, no id", "format=tsv;columns=a b;fields=a:dense b:id", "x\t1\n1.5.2\t1\n1\t-1\n1e400\t1\nnan\t1\ninf\t1\n1\t\n2\t3\n", "(2) 3;",
     "f:1: 'x' is not a number\nf:2: '1.5.2' is not a number\nf:3: '-1' is not an id\nf:4: '1e400' is not a number\n"
     "f:5: 'nan' is not a number\nf:6: 'inf' is not a number\nf:7: '' is not an id\n"},
    {"movielens", "format=movielens", "1::1193::5::978300760\n1::661::3.5::978302109\n", "1 1193 (5);1 661 (3.5);", ""},
    {"libsvm", "format=libsvm", "+1 3:0.5 7:2 # a comment\n-1\n0 1:1\n# nothing\n2 1:1\n1 x:1\n1 qid:3 4\n", "1 [3:0.5,7:2];0 [];0 [1:1];1 [4:1];",
     "f:5: '2' is not a class of the label\nf:6: 'x:1' is not index:value\n"},
    {"libsvm, dense, a number to learn", "format=libsvm;fields=y:dense x:dense;x.size=3", "-1.5 1:2 3:4\n2 4:1\n2 0:1\n", "(-1.5) (2,0,4);",
     "f:2: '4:1' has an index outside the field's size (they count from 1)\nf:3: '0:1' has an index outside the field's size (they count from 1)\n"},
    {"cbow of one word", "format=cbow;window=1", "7\n", "", ""},
    {"cbow", "format=cbow;window=1", "7 8 9\n100\n", "7 [8];8 [7,9];9 [8];", "f:2: id 100 is not below the vocabulary, 100\n"},
    {"skipgram", "format=skipgram;window=1", "7 8 9\n5\n", "7 8;8 7;8 9;9 8;", ""},
};

static void lines_become_samples(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++)
        for (uint32_t per = 1; per < 4; per += 2) {
            struct data_schema *s;
            struct data_files files = {0};
            struct data_reader *r;
            struct pd_err err = {0};
            struct pd_buf got, bad;
            pd_buf_init(&got);
            pd_buf_init(&bad);
            if (make_schema(&s, formats[i].schema, &err))
                fail_msg("%s: %s", formats[i].name, err.msg);
            struct data_spec spec = {.schema = s, .max_bad_lines = 100, .on_bad = note_bad, .arg = &bad};
            put("f", formats[i].text, strlen(formats[i].text));
            assert_int_equal(data_files_add(&files, "f"), 0);
            if (data_reader_new(&r, &spec, dir, &files, 0, 1, &err) || read_on(r, s, per, &got, &err))
                fail_msg("%s: %s", formats[i].name, err.msg);
            pd_put_u8(&got, 0);
            pd_put_u8(&bad, 0);
            if (strcmp((char *)got.data, formats[i].want) || strcmp((char *)bad.data, formats[i].bad))
                fail_msg("%s: '%s', not '%s'; bad '%s', not '%s'", formats[i].name, (char *)got.data, formats[i].want, (char *)bad.data,
                         formats[i].bad);
            data_reader_free(r);
            data_files_release(&files);
            data_schema_free(s);
            pd_buf_release(&got);
            pd_buf_release(&bad);
        }
}

static const struct {
    const char *name, *schema, *want;
} refused[] = {
    {"no format", "fields=a", "[data] has no key 'format'"},
    {"unknown format", "format=xml", "format 'xml' (known: ids, ngram, skipgram, cbow, csv, tsv, criteo, movielens, libsvm, idx)"},
    {"no fields", "format=csv;columns=a", "[data] has no key 'fields'"},
    {"no type", "format=csv;columns=a;fields=a", "field 'a' has no type"},
    {"two types", "format=csv;columns=a;fields=a:id;a.type=dense", "its type is given twice"},
    {"no such type", "format=csv;columns=a;fields=a:number", "field 'a': type: it is id, list, dense, category, categories or label, not 'number'"},
    {"no such column", "format=csv;columns=a;fields=b:id", "field 'b': there is no column 'b'"},
    {"no columns", "format=csv;fields=b:id", "needs the names of the columns"},
    {"columns of ids", "format=ids;fields=a;columns=a", "format ids has no columns"},
    {"one id of two columns", "format=csv;columns=a b;fields=x:id;x.columns=a b", "it takes one column, not 2"},
    {"size of an id", "format=csv;columns=a;fields=a:id;a.size=3", "only a dense field has a size"},
    {"size and columns", "format=csv;columns=a b;fields=x:dense;x.columns=a b;x.size=3", "size is 3, but it has 2 columns"},
    {"means", "format=csv;columns=a b;fields=x:dense;x.columns=a b;x.mean=1 2 3", "field 'x': mean: 3 numbers for a field of 2"},
    {"std", "format=csv;columns=a;fields=a:dense;a.std=0", "a standard deviation is above 0"},
    {"unknown key", "format=csv;columns=a;fields=a:dense;a.scale=2", "unknown key 'scale' in [field] (known: type, columns, "},
    {"unknown field", "format=csv;columns=a;fields=a:dense;b.std=2", "[field b]: fields does not name it"},
    {"key twice", "format=csv;columns=a;fields=a:dense;a.std=2;a.std=2", "std is given twice (first on line 4)"},
    {"values of a number", "format=csv;columns=a;fields=a:dense;a.values=x y", "only a label has them"},
    {"three fields of libsvm", "format=libsvm;fields=a:label b:list c", "format libsvm has two fields"},
    {"pairs of lists", "format=skipgram;fields=a b:list", "format skipgram has two fields"},
    {"subsample without counts", "format=skipgram;subsample=1e-3", "subsample needs the words' counts"},
    {"separator", "format=csv;columns=a;fields=a:id;separator=long", "separator: it is 1 to 3 characters"},
    {"bool", "format=csv;columns=a;fields=a:id;header=yes", "header: it is true or false, not 'yes'"},
};

static void a_schema_that_does_not_fit_is_refused(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        struct data_schema *s;
        struct pd_err err = {0};
        if (make_schema(&s, refused[i].schema, &err) != PD_ECONF || !strstr(err.msg, refused[i].want))
            fail_msg("%s: '%s', not '%s'", refused[i].name, err.msg, refused[i].want);
    }
}

static void criteo_has_its_fields(void **state) {
    (void)state;
    struct data_schema *s;
    struct pd_err err = {0};
    struct data_files files = {0};
    struct data_reader *r;
    struct pd_batch b;
    /* 1, thirteen counts (the third missing), 26 categories (the last missing): the same string in two columns is two ids */
    static const char line[] = "1\t0\t2\t\t-1\t4\t5\t6\t7\t8\t9\t10\t11\t5000\ta9\ta9\tc\td\te\tf\tg\th\ti\tj\tk\tl\tm\tn\to\tp\tq\tr\ts\tt\tu\tv\tw\tx\ty\t\n";
    assert_int_equal(make_schema(&s, "format=criteo", &err), 0);
    assert_int_equal(s->n_fields, 28);
    assert_string_equal(s->field[27].batch.name, "C26");
    assert_int_equal(s->field[0].batch.vocabulary, 2);
    assert_int_equal(s->field[1].batch.width, 13);
    put("f", line, sizeof line - 1);
    assert_int_equal(data_files_add(&files, "f"), 0);
    struct data_spec spec = {.schema = s};
    assert_int_equal(data_reader_new(&r, &spec, dir, &files, 0, 1, &err), 0);
    batch_of(&b, s, 2);
    assert_int_equal(data_reader_next(r, 2, &b, &err), 1);
    assert_int_equal(b.ids[0][0], 1);
    static const float dense[13] = {0, 1.0986123f, 0, 0, 1.6094379f, 1.7917595f, 1.9459101f, 2.0794415f, 2.1972246f, 2.3025851f, 2.3978953f, 2.4849066f, 8.5173931f};
    for (int i = 0; i < 13; i++)
        assert_true(b.values[1][i] > dense[i] - 1e-6f && b.values[1][i] < dense[i] + 1e-6f);
    assert_true(b.ids[2][0] != b.ids[3][0]);
    assert_true(b.ids[2][0] == data_hash(data_hash_salt("C1"), "a9", 2));
    assert_true(b.ids[27][0] == data_hash(data_hash_salt("C26"), "", 0));
    /* The hash is part of saved models: it must not change. */
    assert_true(data_hash(data_hash_salt("C1"), "68fd1e64", 8) == UINT64_C(0xbb7b4148340ac23e));
    data_reader_free(r);
    data_files_release(&files);
    data_schema_free(s);
    pd_batch_release(&b);
}

/* --- idx ----------------------------------------------------------------------------------------- */

static void put_idx(const char *images, const char *labels, uint8_t n, uint8_t n_labels) {
    uint8_t i[16 + 255 * 6] = {0, 0, 8, 3, 0, 0, 0, n, 0, 0, 0, 2, 0, 0, 0, 3}, l[8 + 255] = {0, 0, 8, 1, 0, 0, 0, n_labels};
    for (int k = 0; k < n * 6; k++)
        i[16 + k] = (uint8_t)(k * 5);
    for (int k = 0; k < n_labels; k++)
        l[8 + k] = (uint8_t)(k % 10);
    put(images, i, 16u + (size_t)n * 6);
    put(labels, l, 8u + (size_t)n_labels);
}

static void images_go_with_their_labels(void **state) {
    (void)state;
    struct data_schema *s;
    struct pd_err err = {0};
    struct data_files files = {0};
    struct data_reader *r, *other;
    struct pd_batch b;
    put_idx("x-images-idx3-ubyte", "x-labels-idx1-ubyte", 200, 200);
    assert_int_equal(make_schema(&s, "format=idx;image.size=6", &err), 0);
    assert_int_equal(data_files_add(&files, "x-images-idx3-ubyte"), 0);
    struct data_spec spec = {.schema = s};
    assert_int_equal(data_reader_new(&r, &spec, dir, &files, 0, 1, &err), 0);
    assert_int_equal(data_reader_new(&other, &spec, dir, &files, 0, 1, &err), 0);
    batch_of(&b, s, 1);
    for (int i = 0; i < 200; i++) {
        struct data_pos pos;
        data_reader_tell(r, &pos);
        pd_batch_clear(&b);
        assert_int_equal(data_reader_next(r, 1, &b, &err), 1);
        assert_int_equal(b.ids[1][0], i % 10);
        assert_true(b.values[0][5] == (float)((i * 6 + 5) * 5 % 256) / 255);
        if (i % 7)
            continue;
        if (data_reader_seek(other, &pos, &err))
            fail_msg("%s", err.msg);
        pd_batch_clear(&b);
        assert_int_equal(data_reader_next(other, 1, &b, &err), 1);
        assert_int_equal(b.ids[1][0], i % 10);
        assert_true(b.values[0][5] == (float)((i * 6 + 5) * 5 % 256) / 255);
    }
    pd_batch_clear(&b);
    assert_int_equal(data_reader_next(r, 1, &b, &err), 0);
    data_reader_rewind(r, 0);
    put_idx("x-images-idx3-ubyte", "x-labels-idx1-ubyte", 20, 19);
    assert_int_equal(data_reader_next(r, 1, &b, &err), PD_EDATA);
    assert_non_null(strstr(err.msg, "has 20 images, but"));
    err.code = 0;
    data_reader_rewind(r, 0);
    put("x-images-idx3-ubyte", "\0\0\x09\x03", 4);
    assert_int_equal(data_reader_next(r, 1, &b, &err), PD_EDATA);
    assert_non_null(strstr(err.msg, "no idx file of unsigned bytes"));
    data_reader_free(r);
    data_reader_free(other);
    data_files_release(&files);
    data_schema_free(s);
    pd_batch_release(&b);
}

/* --- whatever reads them ------------------------------------------------------------------------- */

#define BIG "format=tsv;columns=n a b c;fields=n:dense a:category b:list c:label;b.weights=true;a.vocabulary=100000"

/* About `bytes` of lines, some bad, some long, some blank. */
static void make_text(struct pd_buf *t, uint32_t bytes, uint32_t salt) {
    uint32_t x = 12345 + salt;
    for (uint32_t i = 0; t->len < bytes; i++) {
        x = x * 1664525 + 1013904223;
        if (x >> 24 == 7) {
            pd_put_fmt(t, "bad %u\n", i);
            continue;
        }
        if (x >> 24 == 9) {
            pd_put_fmt(t, "\n");
            continue;
        }
        pd_put_fmt(t, "%u.5\tname%u\t", i, x % 1000);
        for (uint32_t k = x >> 28; k; k--)
            pd_put_fmt(t, "%u:0.%u|", x % (k * 77), k);
        pd_put_fmt(t, "\t%u\n", x >> 20 & 1);
    }
}

static void three_files(void) {
    for (uint32_t i = 0; i < 3; i++) {
        struct pd_buf t;
        void *packed;
        size_t n;
        char name[20];
        pd_buf_init(&t);
        make_text(&t, i == 1 ? 400000 : 30000, i);
        snprintf(name, sizeof name, "big-%u", i);
        assert_int_equal(data_pack((enum data_packing)i, t.data, t.len, &packed, &n), 0);
        put(name, packed, n);
        free(packed);
        pd_buf_release(&t);
    }
}

struct reading {
    struct data_schema *s;
    struct data_files files;
    struct data_workers *w;
    struct data_spec spec;
    struct data_reader *r;
};

static void reading_begin(struct reading *x, const char *schema, const char *files, uint32_t threads, uint64_t shuffle) {
    struct pd_err err = {0};
    memset(x, 0, sizeof *x);
    if (make_schema(&x->s, schema, &err) || data_files_expand(&x->files, dir, files, &err) || (threads && data_workers_new(&x->w, threads, &err)))
        fail_msg("%s", err.msg);
    x->spec = (struct data_spec){.schema = x->s, .max_bad_lines = 1000000, .workers = x->w, .shuffle_buffer = shuffle, .seed = 7};
    if (data_reader_new(&x->r, &x->spec, dir, &x->files, 0, 1, &err))
        fail_msg("%s", err.msg);
}

static void reading_end(struct reading *x) {
    data_reader_free(x->r);
    data_workers_free(x->w);
    data_files_release(&x->files);
    data_schema_free(x->s);
}

static void samples_are_the_same_for_any_number_of_threads(void **state) {
    (void)state;
    static const uint64_t shuffles[] = {0, 100, 3000};
    three_files();
    for (size_t k = 0; k < 3; k++) {
        struct pd_buf first[2];
        for (uint32_t threads = 0; threads <= 4; threads += threads ? 2 : 1) {
            struct reading x;
            reading_begin(&x, BIG, "big-*", threads, shuffles[k]);
            for (uint64_t pass = 0; pass < 2; pass++) {
                struct pd_buf got;
                struct pd_err err = {0};
                pd_buf_init(&got);
                data_reader_rewind(x.r, pass);
                if (read_on(x.r, x.s, 1 + threads * 50, &got, &err))
                    fail_msg("%s", err.msg);
                assert_true(data_reader_bad_lines(x.r) > 5);
                if (!threads) {
                    first[pass] = got;
                    continue;
                }
                assert_int_equal(got.len, first[pass].len);
                assert_memory_equal(got.data, first[pass].data, got.len);
                pd_buf_release(&got);
            }
            reading_end(&x);
        }
        /* Shuffled: another order in another pass; not: the same. */
        assert_int_equal(first[0].len, first[1].len);
        assert_int_equal(memcmp(first[0].data, first[1].data, first[0].len) == 0, shuffles[k] == 0);
        pd_buf_release(&first[0]);
        pd_buf_release(&first[1]);
    }
}

static int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* The samples of a text, sorted. */
static char **sorted(struct pd_buf *t, size_t *n) {
    char **at = calloc(t->len, sizeof *at), *save;
    *n = 0;
    pd_put_u8(t, 0);
    for (char *p = strtok_r((char *)t->data, ";", &save); p; p = strtok_r(NULL, ";", &save))
        at[(*n)++] = p;
    qsort(at, *n, sizeof *at, by_text);
    return at;
}

static void shuffling_loses_and_doubles_nothing(void **state) {
    (void)state;
    struct reading x;
    struct pd_buf plain, shuffled;
    struct pd_err err = {0};
    size_t n, m;
    pd_buf_init(&plain);
    pd_buf_init(&shuffled);
    reading_begin(&x, BIG, "big-*", 0, 0);
    assert_int_equal(read_on(x.r, x.s, 10, &plain, &err), 0);
    reading_end(&x);
    reading_begin(&x, BIG, "big-*", 0, 777);
    assert_int_equal(read_on(x.r, x.s, 10, &shuffled, &err), 0);
    reading_end(&x);
    char **a = sorted(&plain, &n), **b = sorted(&shuffled, &m);
    assert_int_equal(n, m);
    for (size_t i = 0; i < n; i++)
        assert_string_equal(a[i], b[i]);
    free(a);
    free(b);
    pd_buf_release(&plain);
    pd_buf_release(&shuffled);
}

static void reading_goes_on_where_it_was(void **state) {
    (void)state;
    static const struct {
        const char *schema;
        uint64_t shuffle;
        uint32_t threads;
    } rows[] = {{BIG, 0, 0}, {BIG, 0, 2}, {BIG, 500, 0}, {BIG, 500, 2}, {"format=skipgram;window=4;subsample=1e-2;counts_file=counts", 300, 2}};
    struct pd_buf text;
    pd_buf_init(&text);
    for (int i = 0; i < 100; i++)
        pd_put_fmt(&text, "%d\n", 1 + 10000 / (i + 1));
    put("counts", text.data, text.len);
    pd_buf_clear(&text);
    for (int i = 0; i < 400; i++)
        pd_put_fmt(&text, "%d %d %d %d %d %d\n", i % 100, i % 7, i % 13, 50, i % 31, 99);
    put("words", text.data, text.len);
    pd_buf_release(&text);
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        struct reading x, y;
        struct pd_err err = {0};
        struct pd_batch b;
        const char *files = k == 4 ? "words" : "big-*";
        reading_begin(&x, rows[k].schema, files, rows[k].threads, rows[k].shuffle);
        reading_begin(&y, rows[k].schema, files, 2 - rows[k].threads, rows[k].shuffle);
        data_reader_rewind(x.r, 3);
        batch_of(&b, x.s, 700);
        for (int step = 0; step < 9; step++) {
            struct data_pos pos, back;
            char word[DATA_POS_TEXT];
            struct pd_buf rest, again;
            data_reader_tell(x.r, &pos);
            data_pos_format(&pos, word);
            assert_int_equal(data_pos_parse(word, &back), 0);
            if (data_reader_seek(y.r, &back, &err))
                fail_msg("%zu, step %d (%s): %s", k, step, word, err.msg);
            struct data_pos there;
            data_reader_tell(y.r, &there);
            assert_memory_equal(&there, &pos, sizeof pos);
            /* The next 700 of both. */
            struct pd_batch c;
            batch_of(&c, x.s, 700);
            pd_batch_clear(&b);
            uint32_t n = 1 + (uint32_t)(step * 83);
            int nb = data_reader_next(x.r, n, &b, &err), nc = data_reader_next(y.r, n, &c, &err);
            assert_int_equal(nb, nc);
            pd_buf_init(&rest);
            pd_buf_init(&again);
            for (uint32_t i = 0; i < b.n; i++) {
                assert_true(b.index[i] == c.index[i]);
                print_sample(&rest, &b, i);
                print_sample(&again, &c, i);
            }
            assert_int_equal(rest.len, again.len);
            assert_memory_equal(rest.data, again.data, rest.len);
            assert_int_equal(data_reader_bad_lines(x.r), data_reader_bad_lines(y.r));
            pd_buf_release(&rest);
            pd_buf_release(&again);
            pd_batch_release(&c);
        }
        pd_batch_release(&b);
        reading_end(&x);
        reading_end(&y);
    }
}

static void nothing_is_allocated_after_the_first_batches(void **state) {
    (void)state;
    struct pd_buf t;
    struct reading x;
    struct pd_batch b;
    struct pd_err err = {0};
    int n, batches = 0;
    pd_buf_init(&t);
    for (int i = 0; i < 40000; i++)
        pd_put_fmt(&t, "%d.25\tname%d\t1:2|3:4\t%d\n", i % 1000, i, i % 2);
    put("even", t.data, t.len);
    pd_buf_release(&t);
    for (int shuffle = 0; shuffle < 2; shuffle++) {
        reading_begin(&x, BIG, "even", 0, shuffle ? 1000 : 0);
        batch_of(&b, x.s, 100);
        while ((n = data_reader_next(x.r, 100, &b, &err)) > 0) {
            pd_batch_clear(&b);
            if (++batches == 100)
                pd_fault_arm("alloc:1"); /* from now on the first allocation would fail */
        }
        pd_fault_arm(NULL);
        if (n)
            fail_msg("%s", err.msg);
        assert_true(batches >= 400);
        batches = 0;
        pd_batch_release(&b);
        reading_end(&x);
    }
}

/* --- packed files -------------------------------------------------------------------------------- */

static int read_packed(const char *name, struct pd_buf *got, struct pd_err *err) {
    char path[200], part[1000];
    struct data_input *in;
    int64_t k;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    int rc = data_input_open(&in, path, name, err);
    if (rc)
        return rc;
    while ((k = data_input_read(in, part, sizeof part, err)) > 0)
        pd_put(got, part, (size_t)k);
    data_input_close(in);
    return (int)k;
}

static void packed_files_are_read_in_full_or_named(void **state) {
    (void)state;
    enum { N = 300000 };
    uint8_t *text = malloc(N), *two = malloc(2 * N + 1000);
    uint32_t x = 1;
    for (int i = 0; i < N; i++) {
        x = x * 1664525 + 1013904223;
        text[i] = (uint8_t)(x >> 30 ? 'a' : x >> 20);
    }
    for (int p = DATA_GZIP; p <= DATA_ZSTD; p++) {
        void *a, *b;
        size_t na, nb;
        struct pd_buf got;
        struct pd_err err = {0};
        assert_int_equal(data_pack((enum data_packing)p, text, N / 3, &a, &na), 0);
        assert_int_equal(data_pack((enum data_packing)p, text + N / 3, N - N / 3, &b, &nb), 0);
        memcpy(two, a, na);
        memcpy(two + na, b, nb);
        put("packed", two, na + nb); /* two members */
        pd_buf_init(&got);
        if (read_packed("packed", &got, &err))
            fail_msg("%s", err.msg);
        assert_int_equal(got.len, N);
        assert_memory_equal(got.data, text, N);
        for (size_t cut = 5; cut < na + nb; cut += cut < 40 ? 1 : 7919) { /* cut anywhere but between the two */
            pd_buf_clear(&got);
            err.code = 0;
            put("packed", two, cut);
            int rc = read_packed("packed", &got, &err);
            if (rc != PD_EDATA || !strstr(err.msg, "cut off"))
                fail_msg("%d cut at %zu: %d %s", p, cut, rc, err.msg);
            assert_memory_equal(got.data, text, got.len);
        }
        two[na / 2] ^= 0x55;
        put("packed", two, na + nb);
        pd_buf_clear(&got);
        err.code = 0;
        assert_int_equal(read_packed("packed", &got, &err), PD_EDATA);
        assert_non_null(strstr(err.msg, "packed: the "));
        assert_non_null(strstr(err.msg, "data is broken after"));
        pd_buf_release(&got);
        free(a);
        free(b);
    }
    free(text);
    free(two);
}

static int setup(void **state) {
    (void)state;
    return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state) {
    (void)state;
    return pd_rm_tree(dir, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_become_samples),
        cmocka_unit_test(a_schema_that_does_not_fit_is_refused),
        cmocka_unit_test(criteo_has_its_fields),
        cmocka_unit_test(images_go_with_their_labels),
        cmocka_unit_test(samples_are_the_same_for_any_number_of_threads),
        cmocka_unit_test(shuffling_loses_and_doubles_nothing),
        cmocka_unit_test(reading_goes_on_where_it_was),
        cmocka_unit_test(nothing_is_allocated_after_the_first_batches),
        cmocka_unit_test(packed_files_are_read_in_full_or_named),
    };
    return cmocka_run_group_tests_name("data formats", tests, setup, teardown);
}
