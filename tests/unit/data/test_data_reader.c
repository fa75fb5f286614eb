/* SPDX-License-Identifier: Apache-2.0 */
/* test_data_reader.c - file lists and streams; windows of both formats; positions; bad lines;
 * bounded lines. */
#include <setjmp.h>

#include <cmocka.h>

#include "data/read/pipe.h"
#include "data/read/reader.h"

static char dir[] = "/tmp/test-data-[x]-XXXXXX"; /* with brackets, because the folder's name must
                                                    not count as a pattern */

static void put(const char *name, const char *text, size_t n) {
    char path[200];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_int_equal(pd_write_file_atomic(path, text, n, 0600, NULL), 0);
}

static void put_text(const char *name, const char *text) { put(name, text, strlen(text)); }

static void note_bad(void *arg, const char *message) { pd_put_fmt(arg, "%s\n", message); }

static struct data_spec spec_of(const char *format, uint32_t n_fields) {
    return (struct data_spec){
        .format = format, .n_fields = n_fields, .vocabulary = 100, .start_id = 1, .end_id = 2};
}

/* Reads all samples of a stream in batches of `per`, as text: "a b c;d e f;". */
static int read_all(struct data_reader *r, uint32_t n_fields, uint32_t per, struct pd_buf *out,
                    struct pd_err *err) {
    struct pd_batch b;
    int n;
    assert_int_equal(pd_batch_init(&b, NULL, n_fields, per), 0);
    while ((n = data_reader_next(r, per, &b, err)) > 0) {
        assert_int_equal(n, b.n);
        for (uint32_t i = 0; i < b.n; i++)
            for (uint32_t k = 0; k < n_fields; k++)
                pd_put_fmt(out, "%llu%s", (unsigned long long)b.ids[k][i],
                           k + 1 < n_fields ? " " : ";");
        pd_batch_clear(&b);
    }
    pd_put_u8(out, 0);
    pd_batch_release(&b);
    return n;
}

static const struct {
    const char *name, *format;
    uint32_t n_fields;
    const char *text, *want;
} formats[] = {
    {"ids", "ids", 2, "3 4\n5 6\n", "3 4;5 6;"},
    {"ids, blanks and no last newline", "ids", 2, " 3\t4 \r\n\n  \n5 6", "3 4;5 6;"},
    {"one field", "ids", 1, "7\n8\n", "7;8;"},
    {"sentence", "ngram", 3, "5 6 7\n", "1 5 6;5 6 7;6 7 2;"},
    {"one word", "ngram", 3, "5\n", "1 5 2;"},
    {"shorter than the window", "ngram", 5, "5 6\n7 8 9\n", "1 7 8 9 2;"},
    {"blank lines hold no sentence", "ngram", 2, "\n5\n\n", "1 5;5 2;"},
    {"empty file", "ngram", 3, "", ""},
};

static void formats_give_their_windows(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++)
        for (uint32_t per = 1; per < 5; per++) {
            struct data_files files = {0};
            struct data_reader *r = NULL;
            struct pd_err err = {0};
            struct pd_buf got;
            struct data_spec spec = spec_of(formats[i].format, formats[i].n_fields);
            pd_buf_init(&got);
            put_text("one", formats[i].text);
            assert_int_equal(data_files_expand(&files, dir, "one", &err), 0);
            assert_int_equal(data_reader_new(&r, &spec, dir, &files, 0, 1, &err), 0);
            for (int pass = 0; pass < 2; pass++) {
                pd_buf_clear(&got);
                if (read_all(r, formats[i].n_fields, per, &got, &err))
                    fail_msg("%s: %s", formats[i].name, err.msg);
                if (strcmp((char *)got.data, formats[i].want))
                    fail_msg("%s: '%s', not '%s'", formats[i].name, (char *)got.data,
                             formats[i].want);
                data_reader_rewind(r, 0);
            }
            data_reader_free(r);
            data_files_release(&files);
            pd_buf_release(&got);
        }
}

static void a_spec_that_does_not_fit_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *name;
        struct data_spec spec;
        const char *want;
    } rows[] = {
        {"unknown format",
         {.format = "xml", .n_fields = 2},
         "unknown data format 'xml' (known: ids, ngram, "},
        {"no field", {.format = "ids", .n_fields = 0}, "there are 0 fields; 1 to 256 are allowed"},
        {"no markers", {.format = "ngram", .n_fields = 3}, "needs the ids of <s> and <e>"},
        {"marker too large",
         {.format = "ngram", .n_fields = 3, .vocabulary = 5, .end_id = 5},
         "not below the vocabulary"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct pd_err err = {0};
        if (data_spec_check(&rows[i].spec, &err) != PD_ECONF || !strstr(err.msg, rows[i].want))
            fail_msg("%s: '%s'", rows[i].name, err.msg);
    }
}

static void lists_are_expanded_and_sorted_by_bytes(void **state) {
    (void)state;
    struct data_files f = {0};
    struct pd_err err = {0};
    static const char *const want[] = {"sub/A", "sub/a-10", "sub/a-9", "sub/b"};
    char path[200];
    snprintf(path, sizeof path, "%s/sub/folder", dir);
    assert_int_equal(pd_mkdirs(path, 0700, NULL), 0);
    put_text("sub/b", "");
    put_text("sub/a-9", "");
    put_text("sub/a-10", "");
    put_text("sub/A", "");
    put_text("sub/.hidden", "");
    if (data_files_expand(&f, dir, "sub/*, sub/a-*", &err)) /* repeated files count once */
        fail_msg("%s", err.msg);
    assert_int_equal(f.n, 4);
    for (size_t i = 0; i < 4; i++)
        assert_string_equal(f.path[i], want[i]);
    data_files_release(&f);
    assert_int_equal(data_files_expand(&f, dir, "sub/x*", &err), PD_ENOENT);
    assert_non_null(strstr(err.msg, "no file matches sub/x* in /tmp/test-data-[x]"));
    err.code = 0;
    assert_int_equal(data_files_expand(&f, dir, "sub/folder", &err), PD_ENOENT);
    err.code = 0;
    assert_int_equal(data_files_expand(&f, dir, " , ", &err), PD_ECONF);
    data_files_release(&f);
}

static void file_i_belongs_to_stream_i_mod_n(void **state) {
    (void)state;
    struct data_files files = {0};
    struct pd_err err = {0};
    struct data_spec spec = spec_of("ids", 1);
    static const char *const want[3][3] = {
        {"0;1;2;3;4;", NULL, NULL}, {"0;2;4;", "1;3;", NULL}, {"0;3;", "1;4;", "2;"}};
    for (int i = 0; i < 5; i++) {
        char name[20], text[20];
        snprintf(name, sizeof name, "part-%05d", i);
        snprintf(text, sizeof text, "%d\n", i);
        put_text(name, text);
    }
    assert_int_equal(data_files_expand(&files, dir, "part-*", &err), 0);
    for (uint32_t n = 1; n <= 3; n++)
        for (uint32_t s = 0; s < n; s++) {
            struct data_reader *r;
            struct pd_buf got;
            pd_buf_init(&got);
            assert_int_equal(data_reader_new(&r, &spec, dir, &files, s, n, &err), 0);
            assert_int_equal(read_all(r, 1, 2, &got, &err), 0);
            assert_string_equal((char *)got.data, want[n - 1][s]);
            data_reader_free(r);
            pd_buf_release(&got);
        }
    for (size_t i = 0; i < 20; i++)
        assert_int_equal(data_stream_of(i, 7), i % 7);
    /* A stream without files has no samples. A file of another stream may be missing, but its own
     * may not. */
    struct data_reader *r;
    struct pd_buf got;
    pd_buf_init(&got);
    assert_int_equal(data_reader_new(&r, &spec, dir, &files, 6, 7, &err), 0);
    assert_int_equal(data_reader_n_files(r), 0);
    assert_int_equal(read_all(r, 1, 2, &got, &err), 0);
    assert_int_equal(got.len, 1);
    data_reader_free(r);
    char path[200];
    snprintf(path, sizeof path, "%s/part-00001", dir);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(data_reader_new(&r, &spec, dir, &files, 0, 2, &err), 0);
    assert_int_equal(read_all(r, 1, 2, &got, &err), 0);
    data_reader_free(r);
    assert_int_equal(data_reader_new(&r, &spec, dir, &files, 1, 2, &err), 0);
    assert_int_equal(read_all(r, 1, 2, &got, &err), PD_ENOENT);
    assert_non_null(strstr(err.msg, "cannot open part-00001"));
    data_reader_free(r);
    data_files_release(&files);
    pd_buf_release(&got);
}

static void samples_carry_stream_and_index(void **state) {
    (void)state;
    struct data_files files = {0};
    struct data_spec spec = spec_of("ngram", 2);
    struct pd_batch b;
    struct data_reader *r[2];
    put_text("n-0", "5 6\n");
    put_text("n-1", "7 8 9\n");
    assert_int_equal(data_files_expand(&files, dir, "n-*", NULL), 0);
    assert_int_equal(pd_batch_init(&b, NULL, 2, 10), 0);
    for (uint32_t s = 0; s < 2; s++)
        assert_int_equal(data_reader_new(&r[s], &spec, dir, &files, s, 2, NULL), 0);
    /* Two streams share a batch that is too small for all: 3 + 4 samples, then the rest. */
    b.cap = 6;
    assert_int_equal(data_reader_next(r[0], 9, &b, NULL), 3);
    assert_int_equal(data_reader_next(r[1], 9, &b, NULL), 3);
    static const uint32_t stream[] = {0, 0, 0, 1, 1, 1};
    static const uint64_t index[] = {0, 1, 2, 0, 1, 2};
    assert_memory_equal(b.stream, stream, sizeof stream);
    assert_memory_equal(b.index, index, sizeof index);
    pd_batch_clear(&b);
    assert_int_equal(data_reader_next(r[1], 9, &b, NULL), 1);
    assert_int_equal(b.index[0], 3);
    assert_int_equal(data_reader_next(r[1], 9, &b, NULL), 0);
    data_reader_rewind(r[1], 0);
    assert_int_equal(data_reader_next(r[1], 1, &b, NULL), 1);
    assert_int_equal(b.index[1], 0);
    for (uint32_t s = 0; s < 2; s++)
        data_reader_free(r[s]);
    pd_batch_release(&b);
    data_files_release(&files);
}

/* One file is read alone: only its samples come, regardless of earlier reads, and messages name the
 * file. Then the whole stream is read again. */
static void one_file_can_be_read_alone(void **state) {
    (void)state;
    struct data_files files = {0};
    struct data_reader *r = NULL;
    struct data_workers *workers = NULL;
    struct pd_err err = {0};
    struct pd_batch b;
    struct pd_buf got;
    static const uint64_t order[] = {2, 0, 1, 2};
    static const char *const want[] = {"3 1;3 2;", "1 1;", "2 1;2 2;", "3 1;3 2;"};
    pd_buf_init(&got);
    put_text("only0", "1 1\n");
    put_text("only1", "2 1\n2 2");
    put_text("only2", "3 1\n3 2\n");
    assert_int_equal(data_files_expand(&files, dir, "only?", &err), 0);
    assert_int_equal(pd_batch_init(&b, NULL, 2, 8), 0);
    for (uint32_t n_threads = 0; n_threads < 3; n_threads++) {
        struct data_spec spec = spec_of("ids", 2);
        if (n_threads)
            assert_int_equal(data_workers_new(&workers, n_threads, &err), 0);
        spec.workers = n_threads ? workers : NULL;
        assert_int_equal(data_reader_new(&r, &spec, dir, &files, 0, 1, &err), 0);
        for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
            data_reader_rewind_to_file(r, 7, order[i]);
            pd_buf_clear(&got);
            assert_int_equal(read_all(r, 2, 1, &got, &err), 0);
            assert_string_equal((char *)got.data, want[i]);
            data_reader_rewind_to_file(r, 7, order[i]);
            pd_batch_clear(&b);
            assert_true(data_reader_next(r, 8, &b, &err) > 0);
            assert_int_equal(b.stream[b.n - 1], order[i]);
            assert_int_equal(b.index[b.n - 1], b.n - 1);
        }
        data_reader_rewind(r, 0);
        pd_buf_clear(&got);
        assert_int_equal(read_all(r, 2, 3, &got, &err), 0);
        assert_string_equal((char *)got.data, "1 1;2 1;2 2;3 1;3 2;");
        data_reader_free(r);
        data_workers_free(n_threads ? workers : NULL);
    }
    pd_batch_release(&b);
    pd_buf_release(&got);
    data_files_release(&files);
}

static void reading_goes_on_from_every_position(void **state) {
    (void)state;
    struct data_files files = {0};
    struct pd_err err = {0};
    struct data_spec spec = spec_of("ngram", 3);
    struct data_reader *r, *other;
    struct pd_batch b;
    char whole[4000] = "";
    spec.max_bad_lines = 10;
    put_text("p-0", "3 4 5 6\n\nx\n7 8\n");
    put_text("p-1", "");
    put_text("p-2", "9 10 11 12 13 14\n15 16 17");
    assert_int_equal(data_files_expand(&files, dir, "p-*", NULL), 0);
    assert_int_equal(data_reader_new(&r, &spec, dir, &files, 0, 1, NULL), 0);
    assert_int_equal(data_reader_new(&other, &spec, dir, &files, 0, 1, NULL), 0);
    assert_int_equal(pd_batch_init(&b, NULL, 3, 1), 0);
    struct data_pos pos[40];
    int n = 0;
    size_t at[40];
    for (;; n++) {
        data_reader_tell(r, &pos[n]);
        at[n] = strlen(whole);
        pd_batch_clear(&b);
        if (data_reader_next(r, 1, &b, &err) != 1)
            break;
        assert_int_equal(b.index[0], n);
        snprintf(whole + at[n], 50, "%d %d %d;", (int)b.ids[0][0], (int)b.ids[1][0],
                 (int)b.ids[2][0]);
    }
    assert_int_equal(n, 4 + 2 + 6 + 3);
    for (int i = 0; i <= n; i++) {
        char text[DATA_POS_TEXT];
        struct data_pos back;
        struct pd_buf got;
        data_pos_format(&pos[i], text);
        assert_int_equal(data_pos_parse(text, &back), 0);
        assert_memory_equal(&back, &pos[i], sizeof back);
        if (data_reader_seek(other, &back, &err))
            fail_msg("position %d (%s): %s", i, text, err.msg);
        struct data_pos again;
        data_reader_tell(other, &again);
        assert_int_equal(again.index, pos[i].index);
        pd_buf_init(&got);
        assert_int_equal(read_all(other, 3, 1, &got, &err), 0);
        if (strcmp((char *)got.data, whole + at[i]))
            fail_msg("position %d (%s): '%s', not '%s'", i, text, (char *)got.data, whole + at[i]);
        assert_int_equal(data_reader_bad_lines(other), 1);
        pd_buf_release(&got);
    }
    /* Another list of files, a shrunken file, and text that is not a position. */
    struct data_pos bad = pos[2];
    bad.files_hash++;
    assert_int_equal(data_reader_seek(other, &bad, &err), PD_EDATA);
    assert_int_equal(data_reader_next(other, 1, &b, &err), PD_EDATA);
    err.code = 0;
    put_text("p-0", "3\n");
    assert_int_equal(data_reader_seek(other, &pos[2], &err), PD_EDATA);
    assert_non_null(strstr(err.msg, "p-0:1: the file has changed"));
    data_reader_rewind(other, 0);
    assert_int_equal(data_reader_next(other, 0, &b, &err), 0);
    static const char *const junk[] = {"",
                                       "v2:",
                                       "v1:0123456789abcdef:0:0:1:0:0:0:0:0",
                                       "v2:0123456789abcdef:0:0:1:0:0:0:0",
                                       "v2:0123456789abcdef:0:0:1:0:0:0:0:0:0",
                                       "v2:0123456789abcdef:0:0:1:0:0:0:0:-1",
                                       "v2:0123456789abcdeX:0:0:1:0:0:0:0:0"};
    for (size_t i = 0; i < sizeof junk / sizeof junk[0]; i++)
        assert_int_equal(data_pos_parse(junk[i], &bad), PD_EDATA);
    data_reader_free(r);
    data_reader_free(other);
    pd_batch_release(&b);
    data_files_release(&files);
}

static void bad_lines_are_named_counted_and_bounded(void **state) {
    (void)state;
    static const struct {
        const char *name, *text, *message;
    } rows[] = {
        {"no number", "3 4\n3 x4\n5 6\n", "bad:2: 'x4' is not an id\n"},
        {"negative", "3 4\n-3 4\n5 6\n", "bad:2: '-3' is not an id\n"},
        {"number and more", "3 4\n3 4.5\n5 6\n", "bad:2: '4.5' is not an id\n"},
        {"outside the vocabulary", "3 4\n3 100\n5 6\n",
         "bad:2: id 100 is not below the vocabulary, 100\n"},
        {"above 64 bits", "3 4\n3 18446744073709551616\n5 6\n",
         "bad:2: '18446744073709551616' is not an id\n"},
        {"too few", "3 4\n3\n5 6\n", "bad:2: 1 ids, but there are 2 fields\n"},
        {"too many", "3 4\n3 4 5\n5 6\n", "bad:2: 3 ids, but there are 2 fields\n"},
    };
    struct data_files files = {0};
    struct data_spec spec = spec_of("ids", 2);
    struct pd_buf bad, got;
    pd_buf_init(&bad);
    pd_buf_init(&got);
    assert_int_equal(data_files_add(&files, "bad"), 0);
    spec.on_bad = note_bad;
    spec.arg = &bad;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (spec.max_bad_lines = 0; spec.max_bad_lines < 2; spec.max_bad_lines++) {
            struct data_reader *r;
            struct pd_err err = {0};
            pd_buf_clear(&bad);
            pd_buf_clear(&got);
            put_text("bad", rows[i].text);
            assert_int_equal(data_reader_new(&r, &spec, dir, &files, 0, 1, &err), 0);
            int rc = read_all(r, 2, 1, &got, &err);
            pd_put_u8(&bad, 0);
            assert_int_equal(rc, spec.max_bad_lines ? 0 : PD_EDATA);
            /* The line that ends the reading is named once, by the error. */
            if (strcmp((char *)bad.data, rc ? "" : rows[i].message))
                fail_msg("%s: '%s'", rows[i].name, (char *)bad.data);
            assert_string_equal((char *)got.data, spec.max_bad_lines ? "3 4;5 6;" : "3 4;");
            assert_int_equal(data_reader_bad_lines(r), 1);
            char want[400];
            snprintf(want, sizeof want, "%.*s (bad lines: 1, allowed: 0)",
                     (int)strcspn(rows[i].message, "\n"), rows[i].message);
            if (rc)
                assert_string_equal(err.msg, want);
            data_reader_rewind(r, 0);
            assert_int_equal(data_reader_bad_lines(r), 0);
            data_reader_free(r);
        }
    data_files_release(&files);
    pd_buf_release(&bad);
    pd_buf_release(&got);
}

/* "7 7 7 ..." of exactly n bytes. */
static void fill_line(char *s, size_t n) {
    for (size_t i = 0; i < n; i++)
        s[i] = i % 2 ? ' ' : '7';
}

static void a_line_of_1_mib_is_read_and_one_byte_more_is_not(void **state) {
    (void)state;
    enum { N = DATA_MAX_LINE };
    struct data_files files = {0};
    struct data_spec spec = spec_of("ngram", 3);
    struct pd_buf bad;
    pd_buf_init(&bad);
    spec.max_bad_lines = 1;
    spec.on_bad = note_bad;
    spec.arg = &bad;
    assert_int_equal(data_files_add(&files, "long"), 0);
    char *text = malloc(2 * N);
    for (int more = 0; more < 3; more++) {
        size_t n = more == 2 ? N + N / 2 : (size_t)N + (size_t)more, samples = 0;
        struct data_reader *r;
        struct pd_batch b;
        struct pd_err err = {0};
        int k;
        fill_line(text, n);
        memcpy(text + n, "\n5\n", 3);
        put("long", text, n + 3);
        assert_int_equal(data_reader_new(&r, &spec, dir, &files, 0, 1, &err), 0);
        assert_int_equal(pd_batch_init(&b, NULL, 3, 1000), 0);
        while ((k = data_reader_next(r, 1000, &b, &err)) > 0) {
            samples += (size_t)k;
            pd_batch_clear(&b);
        }
        assert_int_equal(k, 0);
        assert_int_equal(samples, more ? 1 : N / 2 + 1);
        assert_int_equal(data_reader_bad_lines(r), more > 0);
        pd_batch_release(&b);
        data_reader_free(r);
    }
    free(text);
    pd_put_u8(&bad, 0);
    assert_string_equal(
        (char *)bad.data,
        "long:1: the line is longer than 1 MiB\nlong:1: the line is longer than 1 MiB\n");
    pd_buf_release(&bad);
    data_files_release(&files);
}

static void a_read_error_and_failed_allocations_are_reported(void **state) {
    (void)state;
    struct data_spec spec = spec_of("ngram", 3);
    put_text("one", "3 4 5\n6 7\n");
    for (int n = 1;; n++) {
        struct data_files files = {0};
        struct data_reader *r = NULL;
        struct pd_batch b = {0};
        struct pd_err err = {0};
        char arm[32];
        snprintf(arm, sizeof arm, "alloc:%d", n);
        pd_fault_arm(arm);
        int rc = data_files_expand(&files, dir, "one", &err);
        if (!rc)
            rc = data_reader_new(&r, &spec, dir, &files, 0, 1, &err);
        if (!rc)
            rc = pd_batch_init(&b, NULL, 3, 10);
        if (!rc)
            rc = data_reader_next(r, 10, &b, &err);
        pd_fault_arm(NULL);
        pd_batch_release(&b);
        data_reader_free(r);
        data_files_release(&files);
        if (rc > 0) {
            assert_int_equal(rc, 5);
            assert_true(n > 8);
            break;
        }
        assert_int_equal(rc, PD_ENOMEM);
    }
    struct data_files files = {0};
    struct data_reader *r;
    struct pd_batch b;
    struct pd_err err = {0};
    assert_int_equal(data_files_expand(&files, dir, "one", &err), 0);
    assert_int_equal(data_reader_new(&r, &spec, dir, &files, 0, 1, &err), 0);
    assert_int_equal(pd_batch_init(&b, NULL, 3, 10), 0);
    pd_fault_arm("data.read:1");
    assert_int_equal(data_reader_next(r, 10, &b, &err), PD_EIO);
    pd_fault_arm(NULL);
    assert_string_equal(err.msg, "cannot read one: Input/output error");
    assert_int_equal(b.n, 0);
    data_reader_rewind(r, 0);
    assert_int_equal(data_reader_next(r, 10, &b, &err), 5);
    pd_batch_release(&b);
    data_reader_free(r);
    data_files_release(&files);
}

static int set_up(void **state) {
    (void)state;
    return mkdtemp(dir) ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    return pd_rm_tree(dir, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formats_give_their_windows),
        cmocka_unit_test(a_spec_that_does_not_fit_is_refused),
        cmocka_unit_test(lists_are_expanded_and_sorted_by_bytes),
        cmocka_unit_test(file_i_belongs_to_stream_i_mod_n),
        cmocka_unit_test(samples_carry_stream_and_index),
        cmocka_unit_test(one_file_can_be_read_alone),
        cmocka_unit_test(reading_goes_on_from_every_position),
        cmocka_unit_test(bad_lines_are_named_counted_and_bounded),
        cmocka_unit_test(a_line_of_1_mib_is_read_and_one_byte_more_is_not),
        cmocka_unit_test(a_read_error_and_failed_allocations_are_reported),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
