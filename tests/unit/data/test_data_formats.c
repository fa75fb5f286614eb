/* SPDX-License-Identifier: Apache-2.0 */
/* test_data_formats.c - the samples from lines of every format; refused schemas; packed files.
 * test_data_streams.c tests the ways of reading. */
#include <setjmp.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "data/input/input.h"
#include "data/schema/parse_plan.h"
#include "tests/support/c/data_text.h"

#define ADULT                                                                     \
    "format=csv;columns=age job hours income;missing=?;fields=nums job:category " \
    "income:label;nums.type=dense;nums.columns=age hours;"                        \
    "job.vocabulary=1000;income.values=<=50K|<=50K. >50K|>50K."

static const struct {
    const char *name, *schema, *text, *want, *bad;
} formats[] = {
    {"csv", "format=csv;columns=a b c;fields=x:dense y:id;x.columns=a c;y.columns=b",
     "1,2,3\n-4.5,6,1e2\n", "(1,3) 2;(-4.5,100) 6;", ""},
    {"blanks around, no last newline, CRLF", "format=csv;columns=a b;fields=a:dense b:id",
     " 1 ,\t2\r\n3, 4", "(1) 2;(3) 4;", ""},
    {"quotes", "format=csv;columns=a b;fields=b:label;b.values=x,y q\"z",
     "1,\"x,y\"\n2, \"q\"\"z\" \n3,\"x\ny\"\n", "0;1;",
     "f:3: column 2: its quotes do not match (a sample is one line)\nf:4: 1 column, but there "
     "should be 2 between commas\n"},
    {"header names the columns", "format=csv;header=true;fields=hours_per_week:dense age:id",
     "age,x,hours per week\n7,a,40\n", "(40) 7;", ""},
    {"header is skipped when columns are named", "format=csv;header=true;columns=a b;fields=b:id",
     "p,q\n1,2\n", "2;", ""},
    {"adult", ADULT, "39, Sales, 40, <=50K\n50, ?, ?, >50K.\n", "(39,40) 776 0;(50,0) 38 1;", ""},
    {"a class that is none", ADULT, "39, Sales, 40, 50K\n", "",
     "f:1: '50K' is none of the label's values\n"},
    {"missing and transformed",
     "format=tsv;columns=a b;fields=x:dense;x.columns=a "
     "b;x.transform=log;x.missing_value=-1;missing=NA",
     "0\t1.718281828459045\n-3\t99999\n\tNA\n", "(0,1);(0,11.5129);(-1,-1);", ""},
    {"mean and std", "format=tsv;columns=a b;fields=x:dense;x.columns=a b;x.mean=10 20;x.std=2",
     "12\t18\n", "(1,-1);", ""},
    {"lists",
     "format=tsv;columns=a b;fields=a:list b:list;a.weights=true;b.separator=blank;b.max_ids=3",
     "3:0.5|17\t1 2 3\n\t\n||4:2\t9\n", "[3:0.5,17:1] [1,2,3];[] [];[4:2] [9];", ""},
    {"a list that is too long", "format=tsv;columns=a;fields=a:list;a.max_ids=2", "1|2\n1|2|3\n4\n",
     "[1,2];[4];", "f:2: field 'a' has more than 2 ids\n"},
    {"a list outside its vocabulary", "format=tsv;columns=a;fields=a:list;a.vocabulary=5",
     "1|4\n1|5\n", "[1,4];", "f:2: field 'a': id 5 is not below its vocabulary, 5\n"},
    {"a separator of one's own", "format=csv;separator=::;columns=a b;fields=b:id", "1::2\n", "2;",
     ""},
    {"columns too few, too many", "format=tsv;columns=a b;fields=b:id", "1\n1\t2\t3\n1\t2\n", "2;",
     "f:1: 1 column, but there should be 2 between tabs\n"
     "f:2: 3 columns, but there should be 2 between tabs\n"},
    {"no number, no id", "format=tsv;columns=a b;fields=a:dense b:id",
     "x\t1\n1.5.2\t1\n1\t-1\n1e400\t1\nnan\t1\ninf\t1\n1\t\n2\t3\n", "(2) 3;",
     "f:1: 'x' is not a number\nf:2: '1.5.2' is not a number\nf:3: '-1' is not an id\nf:4: '1e400' "
     "is not a number\n"
     "f:5: 'nan' is not a number\nf:6: 'inf' is not a number\nf:7: '' is not an id\n"},
    {"movielens", "format=movielens", "1::1193::5::978300760\n1::661::3.5::978302109\n",
     "1 1193 (5);1 661 (3.5);", ""},
    {"libsvm", "format=libsvm",
     "+1 3:0.5 7:2 # a comment\n-1\n0 1:1\n# nothing\n2 1:1\n1 x:1\n1 qid:3 4\n",
     "1 [3:0.5,7:2];0 [];0 [1:1];1 [4:1];",
     "f:5: '2' is not a class of the label\nf:6: 'x:1' is not index:value\n"},
    {"libsvm, dense, a number to learn", "format=libsvm;fields=y:dense x:dense;x.size=3",
     "-1.5 1:2 3:4\n2 4:1\n2 0:1\n", "(-1.5) (2,0,4);",
     "f:2: '4:1' has an index outside the field's size (they count from 1)\nf:3: '0:1' has an "
     "index outside the field's size (they count from 1)\n"},
    {"libsvm, dense, scaled", "format=libsvm;fields=y:dense x:dense;x.size=2;x.mean=1 2;x.std=2",
     "1 1:3\n2\n", "(1) (1,-1);(2) (-0.5,-1);", ""},
    {"libsvm, dense, transformed", "format=libsvm;fields=y:dense x:dense;x.size=2;x.transform=log",
     "1 2:1.718281828459045\n", "(1) (0,1);", ""},
    {"cbow of one word", "format=cbow;window=1", "7\n", "", ""},
    {"cbow", "format=cbow;window=1", "7 8 9\n100\n", "7 [8];8 [7,9];9 [8];",
     "f:2: id 100 is not below the vocabulary, 100\n"},
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
            struct data_spec spec = {
                .schema = s, .max_bad_lines = 100, .on_bad = note_bad, .arg = &bad};
            put("f", formats[i].text, strlen(formats[i].text));
            assert_int_equal(data_files_add(&files, "f"), 0);
            if (data_reader_new(&r, &spec, dir, &files, 0, 1, &err) ||
                read_on(r, s, per, &got, &err))
                fail_msg("%s: %s", formats[i].name, err.msg);
            pd_put_u8(&got, 0);
            pd_put_u8(&bad, 0);
            if (strcmp((char *)got.data, formats[i].want) ||
                strcmp((char *)bad.data, formats[i].bad))
                fail_msg("%s: '%s', not '%s'; bad '%s', not '%s'", formats[i].name,
                         (char *)got.data, formats[i].want, (char *)bad.data, formats[i].bad);
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
    {"unknown format", "format=xml",
     "format 'xml' (known: ids, ngram, skipgram, cbow, csv, tsv, criteo, movielens, libsvm, idx)"},
    {"no fields", "format=csv;columns=a", "[data] has no key 'fields'"},
    {"no type", "format=csv;columns=a;fields=a", "field 'a' has no type"},
    {"two types", "format=csv;columns=a;fields=a:id;a.type=dense", "its type is given twice"},
    {"no such type", "format=csv;columns=a;fields=a:number",
     "field 'a': type: it is id, list, dense, category, categories or label, not 'number'"},
    {"no such column", "format=csv;columns=a;fields=b:id", "field 'b': there is no column 'b'"},
    {"no columns", "format=csv;fields=b:id", "needs the names of the columns"},
    {"columns of ids", "format=ids;fields=a;columns=a", "format ids has no columns"},
    {"one id of two columns", "format=csv;columns=a b;fields=x:id;x.columns=a b",
     "takes one column, not 2"},
    {"size of an id", "format=csv;columns=a;fields=a:id;a.size=3", "only a dense field has a size"},
    {"size and columns", "format=csv;columns=a b;fields=x:dense;x.columns=a b;x.size=3",
     "size is 3, but it has 2 columns"},
    {"means", "format=csv;columns=a b;fields=x:dense;x.columns=a b;x.mean=1 2 3",
     "field 'x': mean: 3 numbers for a field of 2"},
    {"std", "format=csv;columns=a;fields=a:dense;a.std=0", "a standard deviation is above 0"},
    {"unknown key", "format=csv;columns=a;fields=a:dense;a.scale=2",
     "unknown key 'scale' in [field] (known: type, columns, "},
    {"unknown field", "format=csv;columns=a;fields=a:dense;b.std=2",
     "[field b]: 'fields' of [data] does not name this field"},
    {"key twice", "format=csv;columns=a;fields=a:dense;a.std=2;a.std=2",
     "std is given twice (first on line 4)"},
    {"values of a number", "format=csv;columns=a;fields=a:dense;a.values=x y",
     "only a label has values"},
    {"transform of an id", "format=csv;columns=a;fields=a:id;a.transform=log",
     "field 'a': transform: only a dense field has this key"},
    {"missing_value of a category", "format=csv;columns=a;fields=a:category;a.missing_value=1",
     "field 'a': missing_value: only a dense field has this key"},
    {"missing_value of libsvm", "format=libsvm;fields=y:label x:dense;x.missing_value=1",
     "an index that a line does not name is 0"},
    {"pixels' logarithms", "format=idx;image.transform=log",
     "pixels have neither transform nor missing_value"},
    {"three fields of libsvm", "format=libsvm;fields=a:label b:list c",
     "format libsvm has two fields"},
    {"pairs of lists", "format=skipgram;fields=a b:list", "format skipgram has two fields"},
    {"subsample without counts", "format=skipgram;subsample=1e-3",
     "subsample needs the words' counts"},
    {"separator", "format=csv;columns=a;fields=a:id;separator=long",
     "separator: it is 1 to 3 characters"},
    {"bool", "format=csv;columns=a;fields=a:id;header=yes",
     "header: it is true or false, not 'yes'"},
};

static void a_schema_that_does_not_fit_is_refused(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        struct data_schema *s;
        struct pd_err err = {0};
        if (make_schema(&s, refused[i].schema, &err) != PD_ECONF ||
            !strstr(err.msg, refused[i].want))
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
    /* Label 1, thirteen counts (the third missing), 26 categories (the last missing). The same
     * string in two columns gives two ids. */
    static const char line[] = "1\t0\t2\t\t-"
                               "1\t4\t5\t6\t7\t8\t9\t10\t11\t5000\ta9\ta9\tc\td\te\tf\tg\th\ti\tj\t"
                               "k\tl\tm\tn\to\tp\tq\tr\ts\tt\tu\tv\tw\tx\ty\t\n";
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
    static const float dense[13] = {0,          1.0986123f, 0,          0,          1.6094379f,
                                    1.7917595f, 1.9459101f, 2.0794415f, 2.1972246f, 2.3025851f,
                                    2.3978953f, 2.4849066f, 8.5173931f};
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

/* --- idx --- */

static void put_idx(const char *images, const char *labels, uint8_t n, uint8_t n_labels) {
    uint8_t i[16 + 255 * 6] = {0, 0, 8, 3, 0, 0, 0, n, 0, 0, 0, 2, 0, 0, 0, 3},
                         l[8 + 255] = {0, 0, 8, 1, 0, 0, 0, n_labels};
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
    assert_non_null(strstr(err.msg, "not an idx file of unsigned bytes"));
    data_reader_free(r);
    data_reader_free(other);
    data_files_release(&files);
    data_schema_free(s);
    pd_batch_release(&b);
}

/* --- packed files --- */

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
        for (size_t cut = 5; cut < na + nb;
             cut += cut < 40 ? 1 : 7919) { /* truncated everywhere except between the two */
            pd_buf_clear(&got);
            err.code = 0;
            put("packed", two, cut);
            int rc = read_packed("packed", &got, &err);
            if (rc != PD_EDATA || !strstr(err.msg, "cut off"))
                fail_msg("%d cut at %zu: %d %s", p, cut, rc, err.msg);
            assert_memory_equal(got.data, text, got.len);
        }
        memset(two + na, 0,
               700); /* zeros fill the last block of a tape; for zstd they are not a frame */
        for (size_t more = 1; more <= 700; more += 233) {
            pd_buf_clear(&got);
            put("packed", two, na + more);
            assert_int_equal(read_packed("packed", &got, NULL), p == DATA_GZIP ? 0 : PD_EDATA);
            assert_int_equal(got.len, N / 3);
        }
        for (size_t zeros = 0; zeros < 3;
             zeros++) { /* text after packed data would be silently lost */
            pd_buf_clear(&got);
            err.code = 0;
            memcpy(two + na + zeros, "1 2\n", 4);
            put("packed", two, na + zeros + 4);
            assert_int_equal(read_packed("packed", &got, &err), PD_EDATA);
            assert_non_null(strstr(err.msg, "data is broken after 100000 bytes"));
        }
        memcpy(two + na, b, nb);
        /* One byte after the first header is changed. gzip's headers contain a time that is not
         * checked. */
        for (size_t at = 20; at < na + nb; at += at < na - 40 || at > na + 40 ? 3011 : 1) {
            if (at >= na && at < na + 20)
                continue;
            two[at] ^= 0x55;
            put("packed", two, na + nb);
            pd_buf_clear(&got);
            err.code = 0;
            int rc = read_packed("packed", &got, &err);
            if (rc != PD_EDATA || !strstr(err.msg, "packed: the "))
                fail_msg("%d with another byte at %zu: %d %s", p, at, rc, err.msg);
            two[at] ^= 0x55;
        }
        pd_buf_release(&got);
        free(a);
        free(b);
    }
    free(text);
    free(two);
}

/* A pipe may deliver its first bytes one by one. The first four bytes must still determine the
 * compression. */
static void a_slow_pipe_is_unpacked(void **state) {
    (void)state;
    static const char text[] = "1 2 3\n";
    char path[200];
    snprintf(path, sizeof path, "%s/pipe", dir);
    assert_int_equal(mkfifo(path, 0600), 0);
    for (int p = DATA_PLAIN; p <= DATA_ZSTD; p++) {
        void *packed;
        size_t n;
        struct pd_buf got;
        struct pd_err err = {0};
        pd_buf_init(&got);
        assert_int_equal(data_pack((enum data_packing)p, text, sizeof text - 1, &packed, &n), 0);
        pid_t writer = fork();
        if (!writer) {
            int fd = open(path, O_WRONLY);
            for (size_t i = 0; i < n; i++) {
                if (write(fd, (char *)packed + i, 1) != 1)
                    _exit(1);
                usleep(i < 4 ? 20000 : 0); /* so that the reader gets them separately */
            }
            _exit(0);
        }
        assert_true(writer > 0);
        if (read_packed("pipe", &got, &err))
            fail_msg("%d: %s", p, err.msg);
        assert_int_equal(waitpid(writer, NULL, 0), writer);
        assert_int_equal(got.len, sizeof text - 1);
        assert_memory_equal(got.data, text, got.len);
        pd_buf_release(&got);
        free(packed);
    }
    unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_become_samples),
        cmocka_unit_test(a_schema_that_does_not_fit_is_refused),
        cmocka_unit_test(criteo_has_its_fields),
        cmocka_unit_test(images_go_with_their_labels),
        cmocka_unit_test(packed_files_are_read_in_full_or_named),
        cmocka_unit_test(a_slow_pipe_is_unpacked),
    };
    return cmocka_run_group_tests_name("data formats", tests, setup, teardown);
}
