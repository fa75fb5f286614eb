/* SPDX-License-Identifier: Apache-2.0 */
/* test_base_spans.c - spans of threads: what the file has of them, what a full ring drops, and that
 * a thread without a ring records nothing. */
#include <setjmp.h>

#include <cmocka.h>

#include <pthread.h>

#include "base/spans.h"

static const struct pd_spans_of of = {"trainer", 3, 7};

/* The file's text. */
static void text_of(struct pd_spans *s, struct pd_buf *out) {
    char dir[] = "/tmp/base-spans-XXXXXX", path[64];
    struct pd_err err = {0};
    assert_non_null(mkdtemp(dir));
    assert_int_equal(pd_fmt(path, sizeof path, "%s/spans", dir), 0);
    if (pd_spans_write(s, path, &of, &err))
        fail_msg("%s", err.msg);
    assert_int_equal(pd_read_file(path, 1 << 24, out, NULL), 0);
    assert_int_equal(pd_rm_tree(dir, NULL), 0);
}

static size_t count(const char *text, const char *what) {
    size_t n = 0;
    while ((text = strstr(text, what))) {
        text += strlen(what);
        n++;
    }
    return n;
}

static void off(void **state) {
    (void)state;
    pd_spans_thread(NULL, "main");
    assert_null(pd_span_ring);
    assert_int_equal(pd_span_begin(), 0);
    pd_span_end("nothing", 1);
    pd_span_add("nothing", 1, 2);
    assert_null(pd_spans_here());
    pd_spans_thread_end();
    pd_spans_free(NULL);
}

struct job {
    struct pd_spans *s;
    int n;
};

static void *record(void *arg) {
    const struct job *j = arg;
    pd_spans_thread(j->s, "worker");
    for (int i = 0; i < j->n; i++)
        pd_span_add("part", 1000 + (uint64_t)i, 1000 + 3 * (uint64_t)i);
    pd_spans_thread_end();
    return NULL;
}

static void a_full_ring_drops_the_oldest(void **state) {
    struct job j = {pd_spans_new(), PD_SPANS_MAX + 5};
    struct pd_buf b = {0};
    pthread_t t;
    (void)state;
    pd_spans_thread(j.s, "main");
    const uint64_t began = pd_span_begin();
    assert_true(began > 0);
    assert_ptr_equal(pd_spans_here(), j.s);
    assert_int_equal(pthread_create(&t, NULL, record, &j), 0);
    pthread_join(t, NULL);
    pd_span_end("whole", began);
    text_of(j.s, &b); /* with this thread, which goes on; but what comes now is not recorded */
    pd_span_end("later", began);
    pd_buf_release(&b);
    pd_spans_thread_end();
    text_of(j.s, &b);
    assert_null(strstr((char *)b.data, "later"));
    assert_non_null(
        strstr((char *)b.data, "\"rank\":3,\"node\":7,\"begin_ns\":1005,\"busy\":0,\"boot\":\""));
    assert_non_null(
        strstr((char *)b.data, "{\"thread\":\"main\",\"kept\":1,\"dropped\":0}\n[\"whole\","));
    char want[100];
    pd_fmt(want, sizeof want,
           "{\"thread\":\"worker\",\"kept\":%d,\"dropped\":5}\n[\"part\",1005,10]\n", PD_SPANS_MAX);
    assert_non_null(strstr((char *)b.data, want));
    assert_int_equal(count((char *)b.data, "[\"part\","), PD_SPANS_MAX);
    pd_fmt(want, sizeof want, "[\"part\",%d,%d]\n", 1000 + PD_SPANS_MAX + 4,
           2 * (PD_SPANS_MAX + 4));
    assert_true(pd_ends_with((char *)b.data, want) || strstr((char *)b.data, want));
    pd_buf_release(&b);
    pd_spans_free(j.s);
}

/* It may overwrite the oldest spans while they are written: these are left out. */
static void a_thread_that_goes_on(void **state) {
    struct pd_spans *s = pd_spans_new();
    struct pd_buf b = {0};
    (void)state;
    pd_spans_thread(s, "main");
    for (uint64_t i = 0; i < PD_SPANS_MAX; i++)
        pd_span_add("part", 1000 + i, 1001 + i);
    text_of(s, &b);
    assert_int_equal(count((char *)b.data, "[\"part\","), PD_SPANS_MAX - 1024);
    assert_non_null(strstr((char *)b.data, "\"begin_ns\":2024,"));
    assert_non_null(strstr((char *)b.data, "\"dropped\":1024}\n[\"part\",2024,1]\n"));
    pd_buf_release(&b);
    pd_spans_thread_end();
    pd_spans_free(s);
}

static void no_memory_for_a_ring(void **state) {
    struct job j = {pd_spans_new(), 3};
    struct pd_buf b = {0};
    (void)state;
    pd_fault_arm("alloc:1");
    record(&j);
    pd_fault_arm(NULL);
    text_of(j.s, &b);
    assert_non_null(strstr((char *)b.data, "\"begin_ns\":0,\"busy\":1,\"boot\":\""));
    assert_int_equal(count((char *)b.data, "\n"), 1);
    pd_buf_release(&b);
    pd_spans_free(j.s);
}

static void a_folder_that_is_not_there(void **state) {
    struct pd_spans *s = pd_spans_new();
    struct pd_err err = {0};
    (void)state;
    assert_int_equal(pd_spans_write(s, "/proc/none/spans", &of, &err), PD_EIO);
    assert_non_null(strstr(err.msg, "/proc/none/spans: "));
    pd_spans_free(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(off),
        cmocka_unit_test(a_full_ring_drops_the_oldest),
        cmocka_unit_test(a_thread_that_goes_on),
        cmocka_unit_test(no_memory_for_a_ring),
        cmocka_unit_test(a_folder_that_is_not_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
