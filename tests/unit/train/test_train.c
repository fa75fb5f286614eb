/* SPDX-License-Identifier: Apache-2.0 */
/* test_train.c - the samples of a step are the same for every division of the streams; events about
 * progress. */
#include <setjmp.h>

#include <cmocka.h>
#include <jansson.h>

#include "nn/evals/eval_internal.h"
#include "nn/graph/graph_internal.h"
#include "train/report.h"
#include "data/read/pipe.h"
#include "train/input/streams.h"

static char dir[] = "/tmp/test-train-XXXXXX";

/* Writes files. File i holds rows[i] samples: i*1000, i*1000+1, ... */
static void write_files(const uint32_t *rows, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        char path[100];
        struct pd_buf b;
        pd_buf_init(&b);
        snprintf(path, sizeof path, "%s/part-%05u", dir, i);
        for (uint32_t k = 0; k < rows[i]; k++)
            pd_put_fmt(&b, "%u\n", i * 1000 + k);
        assert_int_equal(pd_write_file_atomic(path, b.data, b.len, 0600, NULL), 0);
        pd_buf_release(&b);
    }
}

static int by_id(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static const struct data_spec spec = {.format = "ids", .n_fields = 1};

/* The sorted samples of a step, as n_trainers trainers together read them. Returns their number. */
static size_t samples_of_step(uint32_t n_streams, uint32_t n_trainers, uint64_t batch, int step,
                              uint64_t *out) {
    size_t n = 0;
    for (uint32_t t = 0; t < n_trainers; t++) {
        uint32_t lo, hi;
        struct train_streams *s;
        struct pd_batch b;
        struct pd_err err = {0};
        data_stream_range(n_streams, n_trainers, t, &lo, &hi);
        if (train_streams_new(&s, &spec,
                              &(struct train_files){dir, "part-*", "train", PD_DATA_SHARED},
                              n_streams, lo, hi, batch, 0, &err))
            fail_msg("%s", err.msg);
        assert_int_equal(pd_batch_init(&b, NULL, 1, train_streams_max_batch(s)), 0);
        int got = 0;
        for (int k = 0; k <= step; k++) {
            got = train_streams_next(s, &b, &err);
            assert_true(got >= 0);
        }
        if (got > 0)
            memcpy(out + n, b.ids[0], (size_t)got * sizeof *out);
        n += (size_t)got;
        pd_batch_release(&b);
        train_streams_free(s);
    }
    qsort(out, n, sizeof *out, by_id);
    return n;
}

static void a_step_has_the_same_samples_for_any_number_of_trainers(void **state) {
    (void)state;
    const uint32_t rows[7] = {50, 31, 50, 0, 49, 12, 3};
    write_files(rows, 7);
    for (uint32_t n_streams = 3; n_streams <= 6; n_streams += 3)
        for (uint64_t batch = n_streams; batch < 20; batch += 5)
            for (int step = 0; step < 40; step += 3) {
                uint64_t one[64], many[64];
                size_t n = samples_of_step(n_streams, 1, batch, step, one);
                for (uint32_t t = 2; t <= n_streams; t++) {
                    size_t m = samples_of_step(n_streams, t, batch, step, many);
                    assert_int_equal(m, n);
                    assert_memory_equal(one, many, n * sizeof *one);
                }
            }
}

static void every_sample_is_read_once_and_shares_add_up(void **state) {
    (void)state;
    const uint32_t rows[4] = {10, 20, 30, 7};
    for (uint32_t i = 4; i < 7; i++) {
        char path[100];
        snprintf(path, sizeof path, "%s/part-%05u", dir, i);
        unlink(path);
    }
    write_files(rows, 4);
    int seen[4000] = {0};
    for (uint32_t t = 0; t < 2; t++) {
        uint32_t lo, hi;
        struct train_streams *s;
        struct pd_batch b;
        data_stream_range(3, 2, t, &lo, &hi);
        assert_int_equal(
            train_streams_new(&s, &spec,
                              &(struct train_files){dir, "part-*", "train", PD_DATA_SHARED}, 3, lo,
                              hi, 8, 0, NULL),
            0);
        assert_int_equal(pd_batch_init(&b, NULL, 1, train_streams_max_batch(s)), 0);
        for (int pass = 0; pass < 2; pass++) {
            for (int n; (n = train_streams_next(s, &b, NULL)) != 0;)
                for (int i = 0; i < n; i++)
                    seen[b.ids[0][i]]++;
            train_streams_rewind(s, 0);
        }
        pd_batch_release(&b);
        train_streams_free(s);
    }
    for (uint32_t f = 0; f < 4; f++)
        for (uint32_t k = 0; k < 1000; k++)
            assert_int_equal(seen[f * 1000 + k], k < rows[f] ? 2 : 0);
    for (uint32_t n_streams = 1; n_streams < 40; n_streams++) {
        uint64_t sum = 0;
        for (uint32_t s = 0; s < n_streams; s++)
            sum += train_stream_share(384, n_streams, s);
        assert_int_equal(sum, 384);
    }
}

/* Batches, counts, bad lines and positions are the same with and without threads that read ahead.
 * Reading can continue from a position of either, although the threads had read further. */
static void batches_are_the_same_when_threads_read_ahead(void **state) {
    (void)state;
    const uint32_t rows[4] = {100, 200, 310, 70};
    struct data_schema *schema;
    struct data_workers *w;
    struct train_streams *s[2];
    struct pd_batch b[2];
    write_files(rows, 4);
    assert_int_equal(data_schema_plain(&schema, "ids", 1, 0, 0, 0, NULL), 0);
    assert_int_equal(data_workers_new(&w, 2, NULL), 0);
    for (int k = 0; k < 2; k++) {
        struct data_spec x = {
            .schema = schema, .workers = k ? w : NULL, .shuffle_buffer = 30, .seed = 5};
        assert_int_equal(
            train_streams_new(&s[k], &x,
                              &(struct train_files){dir, "part-*", "train", PD_DATA_SHARED}, 3, 0,
                              3, 17, 0, NULL),
            0);
        assert_int_equal(pd_batch_init(&b[k], NULL, 1, train_streams_max_batch(s[k])), 0);
    }
    for (uint64_t pass = 0; pass < 3; pass++) {
        int n = 1;
        char was[3][TRAIN_POS_TEXT];
        for (int k = 0; k < 2; k++)
            train_streams_rewind(s[k], pass);
        for (int step = 0; n; step++) {
            char text[2][TRAIN_POS_TEXT];
            n = train_streams_next(s[0], &b[0], NULL);
            assert_int_equal(train_streams_next(s[1], &b[1], NULL), n);
            for (int i = 0; i < n; i++)
                assert_true(b[0].ids[0][i] == b[1].ids[0][i] && b[0].index[i] == b[1].index[i] &&
                            b[0].stream[i] == b[1].stream[i]);
            char front[TRAIN_POS_TEXT];
            for (uint32_t i = 0; i < 3; i++) {
                train_streams_tell(s[1], i, 2,
                                   front); /* the position before the last batch: its beginning */
                if (step && (step - 1) % 5 != (int)pass)
                    assert_string_equal(front, was[i]);
                train_streams_tell(s[1], i, 1, was[i]);
            }
            for (uint32_t i = 0; i < 3; i++)
                for (int back = 0; back < 3; back++) {
                    for (int k = 0; k < 2; k++)
                        train_streams_tell(s[k], i, back, text[k]);
                    assert_string_equal(text[0], text[1]);
                    if (!back && step % 5 == (int)pass) /* each continues from the other */
                        for (int k = 0; k < 2; k++)
                            assert_int_equal(train_streams_seek(s[k], i, text[!k], NULL), 0);
                }
            assert_memory_equal(train_streams_counts(s[0]), train_streams_counts(s[1]),
                                n && step % 5 != (int)pass ? 3 * sizeof(uint32_t) : 0);
        }
        assert_int_equal(train_streams_next(s[1], &b[1], NULL), 0); /* the end of the pass stays */
    }
    for (int k = 0; k < 2; k++) {
        train_streams_free(s[k]);
        pd_batch_release(&b[k]);
    }
    data_workers_free(w);
    data_schema_free(schema);
}

static void fewer_files_than_streams_is_an_error_that_says_so(void **state) {
    (void)state;
    struct train_streams *s;
    struct pd_err err = {0};
    assert_int_equal(
        train_streams_new(&s, &spec, &(struct train_files){dir, "part-*", "train", PD_DATA_SHARED},
                          9, 0, 3, 18, 0, &err),
        PD_EDATA);
    assert_non_null(strstr(err.msg, "matches 4 files for 9 streams"));
}

/* The fraction of the pass that has been read grows with every file, and is 1 at the end, also in
 * the second pass. */
static void the_fraction_that_is_read_is_told(void **state) {
    (void)state;
    static const uint32_t rows[] = {50, 100, 0, 200, 70};
    struct train_streams *s;
    struct pd_batch b;
    struct pd_err err = {0};
    write_files(rows, 5);
    assert_int_equal(
        train_streams_new(&s, &spec, &(struct train_files){dir, "part-*", "train", PD_DATA_SHARED},
                          3, 0, 2, 30, 0, &err),
        0); /* files 0 and 3, files 1 and 4 */
    assert_int_equal(pd_batch_init(&b, NULL, 1, train_streams_max_batch(s)), 0);
    for (int pass = 0; pass < 2; pass++) {
        double last = 0;
        int n = 0;
        train_streams_rewind(s, 0);
        assert_true(train_streams_fraction(s) < 0.01);
        while (train_streams_next(s, &b, &err) > 0) {
            double f = train_streams_fraction(s);
            if (f < last || f > 1)
                fail_msg("step %d: %g after %g", n, f, last);
            if (n++ == 10 && (f < 0.3 || f > 0.7)) /* 220 of 420 samples */
                fail_msg("in the middle: %g", f);
            last = f;
        }
        assert_true(train_streams_fraction(s) == 1);
    }
    pd_batch_release(&b);
    train_streams_free(s);
}

/* A trainer's event about its own speed and the waits. */
static void an_event_tells_who_is_waited_for(void **state) {
    (void)state;
    int fd[2];
    char line[700];
    assert_int_equal(pipe(fd), 0);
    struct train_report r = {.out_fd = -1,
                             .event_fd = fd[1],
                             .trainer_id = 1,
                             .unit = "words",
                             .log_period = 100,
                             .n_passes = 2,
                             .perplexity = 1};
    train_report_pass_begin(&r, 0);
    r.fraction = 0.25;
    r.own_samples = 1000;
    r.waited_ns = 500000000;
    r.started_ns -= 2000000000; /* two seconds ago */
    train_report_step(&r, 10, 20);
    train_report_step(&r, 10, 20); /* too soon for another event */
    ssize_t n = read(fd[0], line, sizeof line - 1);
    assert_true(n > 0);
    line[n] = 0;
    assert_ptr_equal(strchr(line, '\n'), line + n - 1);
    json_t *e = json_loads(line, 0, NULL);
    assert_int_equal(json_integer_value(json_object_get(e, "rank")), 1);
    const json_int_t now_ms = (json_int_t)(pd_wall_us() / 1000);
    assert_in_range(now_ms - json_integer_value(json_object_get(e, "t")), 0, 60000);
    assert_null(json_object_get(e, "rate")); /* only trainer 0 reports the rate */
    double rate = json_real_value(json_object_get(e, "own_rate")),
           wait = json_real_value(json_object_get(e, "wait"));
    if (rate < 100 || rate > 500 || wait < 0.05 || wait > 0.25)
        fail_msg("%s", line);
    assert_true(json_real_value(json_object_get(e, "fraction")) == 0.25);
    assert_int_equal((int)(1000 * json_number_value(json_object_get(json_object_get(e, "metrics"),
                                                                    "perplexity"))),
                     7389); /* e^2 */
    json_decref(e);
    close(fd[0]);
    close(fd[1]);
}

/* After an evaluation, the events contain its figures, except values that are not numbers. */
static void an_event_has_the_last_evaluation(void **state) {
    (void)state;
    int fd[2];
    char line[4000];
    const struct nn_act act = {.name = "sigmoid"};
    struct nn_node node[2] = {{.size = 1}, {.size = 1, .act = &act}};
    struct nn_eval_node ev[2] = {{.name = "area", .type = &nn_eval_auc, .input = 1, .positive = 1},
                                 {.name = "rate", .type = &nn_eval_rmse, .input = 1}};
    struct nn_graph g = {.n_fields = 1, .n_nodes = 2, .n_evals = 2, .node = node, .eval = ev};
    uint64_t label[2] = {1, 1};
    float y[2] = {0.5f, 0.5f};
    struct nn_column col = {.ids = label};
    struct nn_feed feed = {.g = &g, .col = &col};
    struct nn_state st[2] = {{0}, {.y = y}};
    struct nn_exec e = {.g = &g, .max = 2, .n = 2, .feed = &feed, .state = st};
    struct nn_eval *v;
    assert_int_equal(nn_eval_new(&v, &g, NULL), 0);
    assert_int_equal(nn_eval_add(v, &e, NULL), 0);
    assert_int_equal(nn_eval_total(v, &(struct nn_eval_all){.n_ranks = 1}, NULL), 0);
    assert_int_equal(pipe(fd), 0);
    struct train_report r = {.out_fd = fd[1],
                             .event_fd = fd[1],
                             .unit = "words",
                             .log_period = 100,
                             .n_passes = 2,
                             .perplexity = 1};
    train_report_test(&r, &(struct train_tested){"after pass 1/2", 1, 0}, 2, 4, v);
    train_report_pass_begin(&r, 0);
    r.started_ns -= 2000000000;
    train_report_step(&r, 10, 20);
    ssize_t n = read(fd[0], line, sizeof line - 1);
    assert_true(n > 0);
    line[n] = 0;
    char *event = strchr(line, '\n') + 1;
    assert_memory_equal(line, "Test after pass 1/2: cost 2.000000, perplexity 7.3891, area ", 58);
    assert_non_null(strstr(line, ", rate 0.5, 2 samples\n"));
    char *test = event;
    event = strchr(event, '\n') + 1;
    *strchr(test, '\n') = 0;
    json_t *o = json_loads(test, 0, NULL), *m = json_object_get(o, "metrics");
    assert_string_equal(json_string_value(json_object_get(o, "ev")), "test");
    assert_int_equal(json_integer_value(json_object_get(o, "pass")), 0);
    /* The area has no value: all samples have one class. So this test compares no passes. */
    assert_null(json_object_get(o, "by"));
    assert_int_equal(json_object_size(m), 2);
    json_decref(o);
    o = json_loads(event, 0, NULL), m = json_object_get(o, "metrics");
    assert_int_equal(json_object_size(m), 2);
    assert_true(json_number_value(json_object_get(m, "test.rate")) == 0.5);
    assert_true(json_number_value(json_object_get(m, "perplexity")) > 7);
    json_decref(o);
    label[1] = 0; /* two classes: the area has a value, and more is better */
    nn_eval_clear(v);
    assert_int_equal(nn_eval_add(v, &e, NULL), 0);
    assert_int_equal(nn_eval_total(v, &(struct nn_eval_all){.n_ranks = 1}, NULL), 0);
    train_report_test(&r, &(struct train_tested){"after pass 2/2", 1, 1}, 2, 4, v);
    assert_true((n = read(fd[0], line, sizeof line - 1)) > 0);
    line[n] = 0;
    o = json_loads(strchr(line, '\n') + 1, 0, NULL);
    assert_string_equal(json_string_value(json_object_get(o, "by")), "area");
    assert_string_equal(json_string_value(json_object_get(o, "better")), "higher");
    assert_true(json_number_value(json_object_get(o, "value")) == 0.5);
    json_decref(o);
    train_report_test(&r, &(struct train_tested){"after pass 2/2", 1, 1}, 2, 4, NULL);
    assert_true((n = read(fd[0], line, sizeof line - 1)) > 0);
    line[n] = 0;
    assert_non_null(strstr(line, "\"by\":\"cost\",\"better\":\"lower\",\"value\":2"));
    /* The end of a pass: the figures of the job, and of this trainer. */
    r.pass_waited_ns = 1500000000;
    r.started_ns = pd_mono_ns() - 2000000000;
    train_report_pass_end(&r, 7, 20, 50, v, 0, 1);
    assert_true((n = read(fd[0], line, sizeof line - 1)) > 0);
    line[n] = 0;
    assert_non_null(event = strstr(line, "{\"t\":"));
    assert_non_null(event = strstr(event + 1, "{\"t\":")); /* after the last progress */
    *strchr(event, '\n') = 0;
    o = json_loads(event, 0, NULL), m = json_object_get(o, "metrics");
    assert_string_equal(json_string_value(json_object_get(o, "ev")), "pass");
    assert_true(json_is_false(json_object_get(o, "complete")));
    assert_int_equal(json_integer_value(json_object_get(o, "batches")), 7);
    assert_true(json_number_value(json_object_get(o, "cost")) == 2.5);
    assert_true(json_number_value(json_object_get(o, "waited")) == 1.5);
    assert_true(json_number_value(json_object_get(o, "seconds")) >= 2);
    assert_true(json_number_value(json_object_get(o, "peak_memory")) > 100000);
    assert_true(json_number_value(json_object_get(m, "area")) == 0.5);
    json_decref(o);
    nn_eval_free(v);
    close(fd[0]);
    close(fd[1]);
}

/* Which way an evaluator is better is in its row: no row may be forgotten. */
static void evaluators_have_a_direction(void **state) {
    static const struct {
        const char *name;
        int better;
    } rows[] = {{"classification_error", -1},
                {"auc", 1},
                {"log_loss", -1},
                {"perplexity", -1},
                {"rmse", -1},
                {"mae", -1},
                {"precision_recall", 1},
                {"calibration", 0},
                {"normalized_entropy", -1},
                {"gauc", 1},
                {"ndcg", 1},
                {"recall", 1}};
    (void)state;
    size_t n = 0;
    for (; nn_evaluators[n]; n++) {
        size_t i = 0;
        while (i < sizeof rows / sizeof rows[0] && strcmp(rows[i].name, nn_evaluators[n]->name))
            i++;
        if (i == sizeof rows / sizeof rows[0] || rows[i].better != nn_evaluators[n]->better)
            fail_msg("%s: better %d", nn_evaluators[n]->name, nn_evaluators[n]->better);
    }
    assert_int_equal(n, sizeof rows / sizeof rows[0]);
}

int main(void) {
    if (!mkdtemp(dir))
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_has_the_same_samples_for_any_number_of_trainers),
        cmocka_unit_test(every_sample_is_read_once_and_shares_add_up),
        cmocka_unit_test(evaluators_have_a_direction),
        cmocka_unit_test(batches_are_the_same_when_threads_read_ahead),
        cmocka_unit_test(fewer_files_than_streams_is_an_error_that_says_so),
        cmocka_unit_test(the_fraction_that_is_read_is_told),
        cmocka_unit_test(an_event_tells_who_is_waited_for),
        cmocka_unit_test(an_event_has_the_last_evaluation),
    };
    int rc = cmocka_run_group_tests_name("train", tests, NULL, NULL);
    pd_rm_tree(dir, NULL);
    return rc;
}
