/* SPDX-License-Identifier: Apache-2.0 */
/* test_data_streams.c - threads, shuffling and positions. The samples are the same for every way of
 * reading, and none is lost or repeated. */
#include <setjmp.h>

#include <cmocka.h>

#include "data/input/input.h"
#include "data/read/pipe.h"
#include "tests/support/c/data_text.h"

#define BIG                                                        \
    "format=tsv;columns=n a b c;fields=n:dense a:category b:list " \
    "c:label;b.weights=true;a.vocabulary=100000"

/* Makes about `bytes` bytes of lines: some are bad, some long, some blank. */
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

static void reading_begin(struct reading *x, const char *schema, const char *files,
                          uint32_t threads, uint64_t shuffle) {
    struct pd_err err = {0};
    memset(x, 0, sizeof *x);
    if (make_schema(&x->s, schema, &err) || data_files_expand(&x->files, dir, files, &err) ||
        (threads && data_workers_new(&x->w, threads, &err)))
        fail_msg("%s", err.msg);
    x->spec = (struct data_spec){.schema = x->s,
                                 .max_bad_lines = 1000000,
                                 .workers = x->w,
                                 .shuffle_buffer = shuffle,
                                 .seed = 7};
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
        /* With shuffling, another pass has another order; without, the same order. */
        assert_int_equal(first[0].len, first[1].len);
        assert_int_equal(memcmp(first[0].data, first[1].data, first[0].len) == 0, shuffles[k] == 0);
        pd_buf_release(&first[0]);
        pd_buf_release(&first[1]);
    }
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Sorts the samples of a text. */
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
    } rows[] = {{BIG, 0, 0},
                {BIG, 0, 2},
                {BIG, 500, 0},
                {BIG, 500, 2},
                {"format=skipgram;window=4;subsample=1e-2;counts_file=counts", 300, 2}};
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
            /* The next 700 samples of both. */
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

/* Inside a group of shuffled samples, a position is a count of samples. In another order it would
 * mean other samples: some would be trained twice and some never. Between two groups the order does
 * not matter. */
static void another_shuffle_does_not_go_on_inside_a_group(void **state) {
    (void)state;
    static const struct { uint64_t shuffle, seed; } others[] = {{300, 7}, {200, 8}, {0, 7}};
    struct reading x, y;
    struct pd_batch b;
    struct data_pos pos[2], again;
    char word[DATA_POS_TEXT];
    three_files();
    reading_begin(&x, BIG, "big-*", 0, 200);
    batch_of(&b, x.s, 200);
    for (int k = 0; k < 2; k++) { /* in the middle of the first group, and after it */
        assert_int_equal(data_reader_next(x.r, 100, &b, NULL), 100);
        data_reader_tell(x.r, &pos[k]);
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        struct pd_err err = {0};
        reading_begin(&y, BIG, "big-*", 0, others[i].shuffle);
        data_reader_free(y.r);
        y.spec.seed = others[i].seed;
        assert_int_equal(data_reader_new(&y.r, &y.spec, dir, &y.files, 0, 1, NULL), 0);
        data_pos_format(&pos[0], word);
        assert_int_equal(data_pos_parse(word, &again), 0);
        assert_memory_equal(&again, &pos[0], sizeof again);
        if (data_reader_seek(y.r, &again, &err) != PD_EDATA || !strstr(err.msg, "shuffle_buffer"))
            fail_msg("%llu, seed %llu: '%s'", (unsigned long long)others[i].shuffle,
                     (unsigned long long)others[i].seed, err.msg);
        assert_int_equal(data_reader_seek(y.r, &pos[1], NULL), 0);
        reading_end(&y);
    }
    word[1] = '2'; /* as saved by a version without the order */
    *strrchr(word, ':') = 0;
    assert_int_equal(data_pos_parse(word, &again), 0);
    assert_int_equal(data_reader_seek(x.r, &again, NULL), 0);
    pd_batch_release(&b);
    reading_end(&x);
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
                pd_fault_arm("alloc:1"); /* from here on the first allocation would fail */
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_are_the_same_for_any_number_of_threads),
        cmocka_unit_test(shuffling_loses_and_doubles_nothing),
        cmocka_unit_test(reading_goes_on_where_it_was),
        cmocka_unit_test(another_shuffle_does_not_go_on_inside_a_group),
        cmocka_unit_test(nothing_is_allocated_after_the_first_batches),
    };
    return cmocka_run_group_tests_name("data streams", tests, setup, teardown);
}
