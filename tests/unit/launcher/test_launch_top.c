/* SPDX-License-Identifier: Apache-2.0 */
/* test_launch_top.c - the order of `paddlectl top`, and whom it names. */
#include <setjmp.h>

#include <cmocka.h>

#include "launcher/status/top_rows.h"

static struct top_row trainer(int64_t node, double wait, double rate, double age_s) {
    return (struct top_row){.node = node,
                            .rank = node,
                            .pid = 100 + node,
                            .host = "gpu",
                            .role = "trainer",
                            .is_running = 1,
                            .is_trainer = 1,
                            .memory = node,
                            .cpu = 50,
                            .wait = wait,
                            .rate = rate,
                            .age_s = age_s};
}

static struct top_row server(int64_t node, double cpu) {
    return (struct top_row){.node = node,
                            .rank = node,
                            .host = "gpu",
                            .role = "pserver",
                            .is_running = 1,
                            .cpu = cpu,
                            .memory = 1000 + node,
                            .wait = -1,
                            .rate = -1,
                            .age_s = -1};
}

/* "t2 s0": the first letter of the role, and the node */
static void assert_order(const char *name, const struct top_row *given, size_t n, enum top_sort by,
                         const char *wanted) {
    struct top_row rows[16];
    char text[200] = "";
    assert_true(n <= 16);
    memcpy(rows, given, n * sizeof *rows);
    top_rows_sort(rows, n, by);
    for (size_t i = 0; i < n; i++) {
        const size_t at = strlen(text);
        snprintf(text + at, sizeof text - at, "%s%c%lld", i ? " " : "",
                 rows[i].is_trainer ? 't' : 's', (long long)rows[i].node);
    }
    if (strcmp(text, wanted) != 0)
        fail_msg("%s: %s, not %s", name, text, wanted);
}

static void orders(void **state) {
    struct top_row rows[] = {server(0, 10),          server(1, 90),
                             trainer(0, 0.5, 70, 1), trainer(1, 0.01, 60, 1.5),
                             trainer(2, 0.4, 80, 1), trainer(3, -1, -1, -1)};
    const size_t n = sizeof rows / sizeof rows[0];
    (void)state;
    assert_order("wait", rows, n, TOP_WAIT, "t1 t2 t0 t3 s1 s0");
    assert_order("speed", rows, n, TOP_SPEED, "t1 t0 t2 t3 s1 s0");
    assert_order("cpu", rows, n, TOP_CPU, "s1 t0 t1 t2 t3 s0");
    assert_order("memory", rows, n, TOP_MEMORY, "s1 s0 t3 t2 t1 t0");
    assert_order("node", rows, n, TOP_NODE, "t0 s0 t1 s1 t2 t3");
    rows[2].age_s = 7; /* more than 5 s older than the newest, which is 1 s old */
    assert_order("silent", rows, n, TOP_WAIT, "t0 t1 t2 t3 s1 s0");
    rows[2].age_s = 6;
    assert_order("not yet silent", rows, n, TOP_WAIT, "t1 t2 t0 t3 s1 s0");
    rows[0].is_stopped = 1;
    assert_order("stopped", rows, n, TOP_WAIT, "s0 t1 t2 t0 t3 s1");
    rows[3].is_running = rows[3].is_trainer = 0;
    assert_order("ended", rows, n, TOP_WAIT, "s0 t2 t0 t3 s1 s1");
}

static void verdicts(void **state) {
    struct top_row rows[] = {server(0, 10), trainer(0, 0.5, 70, 1), trainer(1, 0.31, 60, 1),
                             trainer(2, 0.6, 80, 1)};
    const size_t n = sizeof rows / sizeof rows[0];
    char text[300];
    (void)state;
    top_rows_verdict(rows, n, text, sizeof text);
    assert_string_equal(text, ""); /* 0.31 and 0.5: too near */
    rows[2].wait = 0.29;
    top_rows_verdict(rows, n, text, sizeof text);
    assert_string_equal(text, "trainer 1 on gpu holds the others up: it waits 29 % of its time, "
                              "they at least 50 %");
    rows[3].age_s = 40;
    top_rows_verdict(rows, n, text, sizeof text);
    assert_string_equal(text, "trainer 2 on gpu has made no progress for 40 s");
    rows[0].is_stopped = 1;
    rows[0].pid = 77;
    top_rows_verdict(rows, n, text, sizeof text);
    assert_string_equal(text, "pserver 0 on gpu is stopped by a signal (kill -CONT 77)");
    top_rows_verdict(rows + 1, 1, text, sizeof text); /* one trainer holds nobody up */
    assert_string_equal(text, "");
    top_rows_verdict(rows, 0, text, sizeof text);
    assert_string_equal(text, "");
}

static void names_of_orders(void **state) {
    enum top_sort by = TOP_NODE;
    (void)state;
    assert_int_equal(top_sort_parse(NULL, &by), 0);
    assert_int_equal(by, TOP_WAIT);
    assert_int_equal(top_sort_parse("memory", &by), 0);
    assert_int_equal(by, TOP_MEMORY);
    assert_int_equal(top_sort_parse("mem", &by), -1);
    assert_int_equal(top_sort_parse("", &by), -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(orders),
        cmocka_unit_test(verdicts),
        cmocka_unit_test(names_of_orders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
