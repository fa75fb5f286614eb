/* SPDX-License-Identifier: Apache-2.0 */
/* test_launch_takeover.c - the reports of passes that paddlectl keeps for another head: the newest
 * ones, as many as AG_JOB_HEAD has room for. */
#include <setjmp.h>

#include <cmocka.h>

#include "launcher/job/job_internal.h"

struct one {
    struct pd_options opts;
    struct job job;
    struct job_node node;
};

static struct one *begin(void) {
    struct one *t = calloc(1, sizeof *t);
    t->opts.on_failure = PD_FAILURE_RESTART;
    t->opts.max_restarts = 1;
    t->job.opts = &t->opts;
    t->node.job = &t->job;
    return t;
}

static void finish(struct one *t) {
    json_decref(t->job.passes);
    free(t);
}

static void hear(struct one *t, int times, size_t bytes) {
    char *text = malloc(bytes + 100);
    for (int i = 0; i < times; i++) {
        int n = snprintf(text, bytes + 100, "{\"ev\":\"saved\",\"name\":\"%*s\"}", (int)bytes, "x");
        job_hear_pass(&t->node, text, (size_t)n);
    }
    free(text);
}

static size_t size_of(const json_t *o) { return json_dumpb(o, NULL, 0, JSON_COMPACT); }

/* The numbers of the kept reports ascend by one up to the newest. */
static void assert_newest(const struct one *t, int64_t newest) {
    const size_t n = json_array_size(t->job.passes);
    for (size_t i = 0; i < n; i++) {
        const json_t *pass = json_object_get(json_array_get(t->job.passes, i), "pass");
        assert_int_equal(json_integer_value(json_object_get(pass, "number")),
                         newest - (int64_t)(n - 1 - i));
    }
}

static void the_newest_are_kept(void **state) {
    struct one *t = begin();
    (void)state;
    hear(t, 3000, 100);
    assert_int_equal(json_array_size(t->job.passes), 3000);
    hear(t, 30000, 300);
    assert_in_range(size_of(t->job.passes), (2 << 20) - 1000, 2 << 20);
    assert_newest(t, 33000);
    hear(t, 5, 1 << 20); /* long lines */
    assert_int_equal(json_array_size(t->job.passes), 1);
    assert_newest(t, 33005);
    hear(t, 1, 3 << 20); /* longer than all room */
    assert_int_equal(json_array_size(t->job.passes), 0);
    hear(t, 2, 10);
    assert_int_equal(json_array_size(t->job.passes), 2);
    assert_newest(t, 33008);
    finish(t);
}

static void a_frame_has_room(void **state) {
    struct one *t = begin();
    json_t *nodes = json_array(), *lost = json_array();
    (void)state;
    hear(t, 30000, 300);
    for (int rest = 3 << 20; rest > 0; rest -= 160)
        /* {"name":"..."} and a comma: 160 bytes */
        json_array_append_new(nodes, json_pack("{s:o}", "name", json_sprintf("%0148d", 0)));
    json_t *body = job_head_body(&t->job, 1, nodes, lost);
    assert_in_range(size_of(body), WIRE_JSON_MAX - 1000, WIRE_JSON_MAX);
    assert_newest(t, 30000);
    json_decref(body);
    for (int i = 0; i < 9000; i++) /* nothing is left for reports */
        json_array_append_new(lost, json_pack("{s:s}", "host",
                                              "a lost node whose name is such "
                                              "that all of them take 1 MiB and "
                                              "a little more of the message, "
                                              "which has thus no room"));
    body = job_head_body(&t->job, 1, nodes, lost);
    assert_int_equal(json_array_size(json_object_get(body, "passes")), 0);
    json_decref(body);
    json_decref(nodes);
    json_decref(lost);
    finish(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_newest_are_kept),
        cmocka_unit_test(a_frame_has_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
