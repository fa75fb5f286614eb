/* SPDX-License-Identifier: Apache-2.0 */
/* test_report.c - the data of `paddlectl report`: fewer points, records that are cut off or of
 * another version, texts that look like HTML, settings that may be secrets. */
#include <setjmp.h>

#include <cmocka.h>

#include <sys/file.h>

#include "launcher/report/report.h"

static char top[PATH_MAX];

static int make_top(void **state) {
    (void)state;
    snprintf(top, sizeof top, "/tmp/test_report-XXXXXX");
    return !mkdtemp(top);
}

static int remove_top(void **state) {
    (void)state;
    return pd_rm_tree(top, NULL);
}

static void put(const char *name, const char *text) {
    char path[PATH_MAX];
    assert_int_equal(pd_fmt(path, sizeof path, "%s/%s", top, name), 0);
    assert_int_equal(pd_write_file_quick(path, text, strlen(text), 0644, NULL), 0);
}

/* --- series --- */

static json_t *event(const char *ev, int rank, json_int_t t, double cost) {
    return json_pack("{s:I, s:s, s:i, s:f, s:I, s:{s:f}}", "t", t, "ev", ev, "rank", rank, "cost",
                     cost, "samples", 10 * t, "metrics", "auc", cost / 2);
}

/* n events of two trainers, as at most `max` points; the array of series. */
static json_t *series_of(const char *ev, int n, size_t max) {
    struct report_many m = {0};
    for (int i = 0; i < 2 * n; i++) {
        json_t *e = event(ev, i % 2, 1000 + i / 2, i / 2);
        assert_int_equal(report_series_add(&m, e), 0);
        json_decref(e);
    }
    json_t *out = report_series_json(&m, 1000, (struct report_points){max, max});
    report_series_release(&m);
    assert_int_equal(json_array_size(out), 2);
    return out;
}

static const json_t *column(const json_t *series, size_t i, const char *key) {
    return json_object_get(json_object_get(json_array_get(series, i), "cols"), key);
}

static double value(const json_t *column, size_t i) {
    assert_true(json_is_number(json_array_get(column, i)));
    return json_number_value(json_array_get(column, i));
}

/* Few events: each is a point. */
static void all_points(void **state) {
    (void)state;
    json_t *s = series_of("progress", 7, 10);
    for (size_t k = 0; k < 2; k++) {
        assert_int_equal(json_array_size(column(s, k, "t")), 7);
        for (size_t i = 0; i < 7; i++) {
            assert_true(value(column(s, k, "t"), i) == (double)i);
            assert_true(value(column(s, k, "cost"), i) == (double)i);
            assert_true(value(column(s, k, "metrics.auc"), i) == (double)i / 2);
        }
    }
    json_decref(s);
}

/* Many events: progress has means, the ends of passes the last; times and counts are the last. The
 * last point stands for fewer events. */
static void fewer_points(void **state) {
    (void)state;
    json_t *s = series_of("progress", 1000, 300); /* every 4: 250 points */
    assert_int_equal(json_array_size(column(s, 1, "cost")), 250);
    assert_true(value(column(s, 1, "cost"), 0) == 1.5);
    assert_true(value(column(s, 1, "t"), 0) == 3);
    assert_true(value(column(s, 1, "samples"), 0) == 10030);
    json_decref(s);
    s = series_of("pass", 10, 4); /* every 3: 3, 3, 3, 1 */
    assert_int_equal(json_array_size(column(s, 0, "cost")), 4);
    assert_true(value(column(s, 0, "cost"), 0) == 2);
    assert_true(value(column(s, 0, "cost"), 3) == 9);
    json_decref(s);
}

/* A key that only some events have is null in the others; one event cannot make any number of keys.
 */
static void keys_of_some_events(void **state) {
    (void)state;
    struct report_many m = {0};
    json_t *a = event("pass", 0, 1000, 1), *b = json_copy(a), *many = json_object();
    char key[40];
    json_object_set_new(b, "only", json_integer(5));
    for (int i = 0; i < 1000; i++) {
        snprintf(key, sizeof key, "k%d", i);
        json_object_set_new(many, key, json_integer(i));
    }
    json_object_set_new(b, "many", many);
    for (int i = 0; i < 3; i++)
        report_series_add(&m, i == 1 ? b : a);
    json_t *s = report_series_json(&m, 0, (struct report_points){100, 100});
    assert_true(json_is_null(json_array_get(column(s, 0, "only"), 0)));
    assert_true(value(column(s, 0, "only"), 1) == 5);
    assert_true(json_is_null(json_array_get(column(s, 0, "only"), 2)));
    assert_int_equal(json_array_size(column(s, 0, "only")), 3);
    /* t, cost, samples, metrics.auc, only, and as many others as there is place for */
    const size_t n_columns = json_object_size(json_object_get(json_array_get(s, 0), "cols"));
    char first[40];
    assert_in_range(n_columns, 5, 48);
    assert_int_equal(m.n_lost_values, 5 + 1000 - n_columns);
    snprintf(first, sizeof first, "many.k%zu", n_columns - 5);
    assert_string_equal(m.lost_key, first);
    json_decref(s);
    json_decref(a);
    json_decref(b);
    report_series_release(&m);
}

/* --- records --- */

static json_t *read_job(void) {
    struct report_job j;
    struct pd_err err = {0};
    assert_int_equal(report_job_read(&j, top, &err), 0);
    json_t *out = report_job_json(&j, NULL, (struct report_points){100, 100}, &err);
    assert_non_null(out);
    report_job_release(&j);
    return out;
}

static int has_note(const json_t *job, const char *text) {
    size_t i;
    json_t *n;
    json_array_foreach (json_object_get(job, "notes"), i, n)
        if (strstr(json_string_value(n), text))
            return 1;
    return 0;
}

static const char metrics[] =
    "{\"version\":1}\n"
    "{\"t\":5000,\"node\":0,\"host\":\"a\",\"ev\":\"progress\",\"rank\":0,\"cost\":1}\n"
    "{\"t\":5100,\"ev\":\"doing\",\"rank\":0}\n"
    "{\"t\":5200,\"ev\":\"model\",\"nodes\":[{\"name\":\"x\"}],\"values\":3,\"flops\":4}\n"
    "{\"t\":5300,\"ev\":\"lost\",\"text\":\"gone\",\"host\":\"a\",\"other\":{\"x\":1}}\n";

static void a_whole_record(void **state) {
    (void)state;
    put("run.json",
        "{\"version\":1, \"state\":\"done\", \"started_ms\":4000, \"command\":[\"run\", "
        "\"--set\", \"env.KEY=s3cret\"], \"hosts\":[{\"host\":\"a\"}], \"settings\":"
        "{\"env.KEY\":\"s3cret\", \"host.a.b.env.KEY\":\"s3cret\", \"job.on_end\":\"mail s3cret\", "
        "\"job.trainer_command\":\"./a s3cret\", \"job.pserver_command\":\"./b s3cret\", "
        "\"train.num_passes\":\"3\"}}");
    put("train.ini", "[layer h]\nsize = 64\n[train]\nnum_passes = 2\n");
    put("metrics.jsonl", metrics);
    json_t *o = read_job(), *settings = json_object_get(o, "settings");
    assert_int_equal(json_array_size(json_object_get(o, "notes")), 0);
    assert_string_equal(json_string_value(json_object_get(settings, "layer.h.size")), "64");
    assert_string_equal(json_string_value(json_object_get(settings, "train.num_passes")), "3");
    char *text = json_dumps(o, 0);
    assert_null(strstr(text, "s3cret"));
    free(text);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(o, "run"), "hosts")), 1);
    assert_string_equal(json_string_value(json_object_get(o, "state")), "done");
    assert_int_equal(json_integer_value(json_object_get(o, "t0")), 4000);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(o, "graph"), "flops")), 4);
    const json_t *marks = json_object_get(o, "marks"), *lost = json_array_get(marks, 0);
    assert_int_equal(json_array_size(marks), 1);
    assert_int_equal(json_integer_value(json_object_get(lost, "t")), 5300);
    assert_null(json_object_get(lost, "other"));
    assert_true(value(column(json_object_get(o, "series"), 0, "t"), 0) == 1000);
    json_decref(o);
}

/* A record that a process writes may end inside a line: that line is no damage. */
static void a_record_that_is_written(void **state) {
    (void)state;
    put("metrics.jsonl", "{\"version\":1}\n{\"t\":5000,\"ev\":\"prog");
    const int fd = open(top, O_RDONLY | O_DIRECTORY);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    json_t *o = read_job();
    assert_int_equal(json_array_size(json_object_get(o, "notes")), 1); /* run.json is missing */
    assert_true(has_note(o, "run.json cannot be read"));
    json_decref(o);
    put("metrics.jsonl", "{\"version\":1}\n{\"t\":50\n{\"t\":5000,\"ev\":\"prog");
    o = read_job();
    assert_true(has_note(o, "1 of 2 lines of metrics.jsonl cannot be read"));
    json_decref(o);
    close(fd);
}

/* A limit is named in a note. */
static void more_than_a_page_has(void **state) {
    (void)state;
    struct pd_buf text = {0};
    pd_put_fmt(&text, "{\"version\":1}\n");
    for (int i = 0; i < 5000; i++)
        pd_put_fmt(&text, "{\"t\":5000,\"ev\":\"pass\",\"rank\":%d,\"seconds\":1}\n", i);
    pd_put_fmt(&text, "{\"t\":5000,\"ev\":\"pass\",\"rank\":0,\"metrics\":{");
    for (int i = 0; i < 100; i++)
        pd_put_fmt(&text, "%s\"m%d\":1", i ? "," : "", i);
    pd_put_fmt(&text, "}}\n");
    assert_false(text.failed);
    put("metrics.jsonl", (char *)text.data);
    pd_buf_release(&text);
    json_t *o = read_job();
    assert_int_equal(json_array_size(json_object_get(o, "series")), 4096);
    assert_true(has_note(o, "904 events of further trainers are not shown"));
    assert_true(has_note(o, "54 values are not shown")); /* t and seconds are two of 48 */
    assert_true(has_note(o, "the first one is metrics.m46"));
    json_decref(o);
}

/* A record may be cut off at any byte: each event that is whole is shown, the rest is said. */
static void records_that_are_cut_off(void **state) {
    (void)state;
    char text[sizeof metrics];
    for (size_t n = 0; n < sizeof metrics; n++) {
        int whole = 0;
        memcpy(text, metrics, n);
        text[n] = 0;
        for (size_t i = 0; i < n; i++)
            whole += text[i] == '\n';
        put("metrics.jsonl", text);
        json_t *o = read_job();
        assert_int_equal(has_note(o, "lines of metrics.jsonl cannot be read"),
                         n && text[n - 1] != '\n');
        assert_int_equal(json_array_size(json_object_get(o, "series")), whole >= 2);
        assert_int_equal(json_object_get(o, "graph") != NULL, whole >= 4);
        assert_int_equal(json_array_size(json_object_get(o, "marks")), whole >= 5);
        json_decref(o);
    }
}

static void records_of_others(void **state) {
    (void)state;
    put("metrics.jsonl", metrics);
    put("run.json", "{\"version\":2, \"state\":\"paused\", \"started_ms\":4000}");
    json_t *o = read_job();
    assert_true(has_note(o, "run.json is of another version of paddlectl (2, this one knows 1)"));
    assert_string_equal(json_string_value(json_object_get(o, "state")), "paused");
    assert_int_equal(json_array_size(json_object_get(o, "series")), 1);
    json_decref(o);
    put("run.json", "{\"version\":1, \"sta");
    put("train.ini", "size\n[\n");
    o = read_job();
    assert_true(has_note(o, "run.json is damaged or cut off"));
    assert_true(has_note(o, "settings of train.ini are missing"));
    assert_int_equal(json_array_size(json_object_get(o, "series")), 1);
    json_decref(o);
    put("metrics.jsonl", "{\"version\":7}\n");
    o = read_job();
    assert_true(has_note(o, "metrics.jsonl is of another version of paddlectl (7, this one"));
    json_decref(o);
    char path[PATH_MAX];
    assert_int_equal(pd_fmt(path, sizeof path, "%s/metrics.jsonl", top), 0);
    assert_int_equal(unlink(path), 0);
    o = read_job();
    assert_true(has_note(o, "metrics.jsonl cannot be read"));
    json_decref(o);
}

/* --- the page --- */

static size_t count(const char *text, size_t n, const char *what) {
    size_t found = 0;
    for (const char *p = text; (p = memmem(p, (size_t)(text + n - p), what, strlen(what))); p++)
        found++;
    return found;
}

/* No text of a record can end the element that it is in. The page names no other file. */
static void a_page_has_texts_as_data(void **state) {
    (void)state;
    struct pd_buf plain = {0}, odd = {0};
    struct pd_err err = {0};
    json_t *a = json_pack("{s:s}", "text", "name"),
           *b = json_pack("{s:s}", "text", "</script><script>x()</script><!-- <b>\xe2\x80\xa8 ");
    char *text_a = report_data_text(a), *text_b = report_data_text(b);
    assert_int_equal(report_page(&plain, text_a, 0, &err), 0);
    assert_int_equal(report_page(&odd, text_b, 1, &err), 0);
    free(text_a);
    free(text_b);
    static const char *const tags[] = {"<script", "</script", "<!--", "<b>"};
    for (size_t i = 0; i < sizeof tags / sizeof tags[0]; i++)
        assert_int_equal(count((char *)odd.data, odd.len, tags[i]),
                         count((char *)plain.data, plain.len, tags[i]));
    assert_int_equal(count((char *)odd.data, odd.len, "\\u003c/script>\\u003cscript>x()"), 1);
    assert_int_equal(count((char *)plain.data, plain.len, "sourceMappingURL"), 0);
    assert_int_equal(count((char *)plain.data, plain.len, "<script src"), 0);
    assert_int_equal(count((char *)plain.data, plain.len, "connect-src"), 0); /* a live page asks */
    assert_int_equal(count((char *)odd.data, odd.len, "connect-src 'self'"), 1);
    assert_in_range(plain.len, 140000, 250000); /* the library, without data */
    json_decref(a);
    json_decref(b);
    pd_buf_release(&plain);
    pd_buf_release(&odd);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_points),
        cmocka_unit_test(fewer_points),
        cmocka_unit_test(keys_of_some_events),
        cmocka_unit_test(a_record_that_is_written),
        cmocka_unit_test(a_whole_record),
        cmocka_unit_test(more_than_a_page_has),
        cmocka_unit_test(records_that_are_cut_off),
        cmocka_unit_test(records_of_others),
        cmocka_unit_test(a_page_has_texts_as_data),
    };
    return cmocka_run_group_tests(tests, make_top, remove_top);
}
