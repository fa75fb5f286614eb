/* SPDX-License-Identifier: Apache-2.0 */
/* test_agent_alone.c - on_trainer_lost = wait in a launched job: one trainer is restarted while the
 * others wait for it. */
#include <setjmp.h>

#include <cmocka.h>

#include "tests/support/c/agent_head.h"

static struct env *begin_waiting(const char *policy) {
    struct env *e = begin("", 60000);
    e->spec.job.max_restarts = 3;
    e->spec.job.restart_ms = 10;
    e->spec.train = json_pack("{s:s}", "on_trainer_lost", policy);
    json_object_set_new(e->spec.whole, "train", e->spec.train);
    advance(e, 5, 1);
    return e;
}

static json_t *killed(int node, int trained, int alone) {
    return json_pack("{s:s, s:i, s:i, s:i, s:I, s:s, s:b, s:i}", "role", "trainer", "rank", node,
                     "exit_code", -1, "signal", 9, "time", (json_int_t)0, "last_lines", "",
                     "trained", trained, "alone", alone);
}

static void is_killed(struct env *e, int node, int trained, int alone) {
    json_t *b = killed(node, trained, alone);
    head_message(e->head, node, WIRE_HD_EXITED, 0, b, NULL);
    json_decref(b);
}

static void until_start(struct env *e, int node, int alone) {
    uint64_t end = pd_mono_ns() + 60000000000u;
    while (msg_int(last(e, node, WIRE_HD_START)->body, "alone", 0, 99, 0) != alone && !e->over &&
           pd_mono_ns() < end)
        uv_run(&e->loop, UV_RUN_ONCE);
    assert_int_equal(msg_int(last(e, node, WIRE_HD_START)->body, "alone", 0, 99, 0), alone);
}

static const char *attempt_of(struct env *e, int node) {
    return msg_str(json_object_get(last(e, node, WIRE_HD_START)->body, "env"),
                   "PADDLE_RESTART_COUNT");
}

static void one_is_started_again(void **state) {
    (void)state;
    struct env *e = begin_waiting("wait");
    int starts = count(e, WIRE_HD_START);
    is_killed(e, 1, 1, 0);
    until_start(e, 1, 1);
    assert_string_equal(e->state, "trainers");
    assert_string_equal(e->text, "restart 1 of 3 after trainer 1 on host-1: signal 9 (Killed)");
    assert_int_equal(count(e, WIRE_HD_START), starts + 1);
    assert_int_equal(count(e, WIRE_HD_END), 0);
    assert_string_equal(msg_str(last(e, 1, WIRE_HD_START)->body, "note"), e->text);
    assert_string_equal(attempt_of(e, 1), "0"); /* the new trainer loads no checkpoint */
    assert_int_equal(msg_int(last(e, 1, WIRE_HD_START)->body, "restarts", 0, 99, 0), 1);

    /* The connection breaks before the node has got HD_START. The node repeats the exit, and the
     * head repeats HD_START. */
    json_t *b = json_pack("{s:i, s:i, s:s, s:[s], s:[o]}", "node", 1, "incarnation", 1, "net_id",
                          "net0", "ready", "pserver", "exited", killed(1, 1, 0));
    head_lost(e->head, 1);
    head_joined(e->head, 1, b);
    json_decref(b);
    assert_int_equal(count(e, WIRE_HD_START), starts + 2);
    reply(e, 1, WIRE_HD_START, json_object());

    is_killed(e, 1, 1, 1); /* the same trainer fails again later */
    until_start(e, 1, 2);
    reply(e, 1, WIRE_HD_START, json_object());
    for (int i = 0; i < N; i++) {
        json_t *done = json_pack("{s:s, s:i, s:i, s:b, s:i}", "role", "trainer", "rank", i,
                                 "exit_code", 0, "trained", 1, "alone", i == 1 ? 2 : 0);
        head_message(e->head, i, WIRE_HD_EXITED, 0, done, NULL);
        json_decref(done);
        exited(e, i, "pserver", 0, 0, 0);
    }
    until_over(e);
    assert_string_equal(e->status, "done");
    assert_null(e->failure);
    finish(e);
}

/* The new trainer fails before it completes a step: all processes are restarted, and the count of
 * single restarts begins at 0. */
static void one_that_fails_at_once(void **state) {
    (void)state;
    struct env *e = begin_waiting("wait");
    is_killed(e, 1, 1, 0);
    until_start(e, 1, 1);
    reply(e, 1, WIRE_HD_START, json_object());
    is_killed(e, 1, 0, 1);
    start_again(e);
    assert_string_equal(attempt_of(e, 1), "2");
    assert_string_equal(attempt_of(e, 0), "2");
    assert_int_equal(msg_int(last(e, 1, WIRE_HD_START)->body, "alone", 0, 99, 9), 0);
    is_killed(e, 1, 1, 0);
    until_start(e, 1, 1);
    assert_string_equal(attempt_of(e, 1), "2");
    assert_string_equal(e->text, "restart 3 of 3 after trainer 1 on host-1: signal 9 (Killed)");
    is_killed(e, 1, 1, 1);
    until_state(e, "ending");
    until_over(e);
    assert_string_equal(e->status, "failed");
    finish(e);
}

static void two_die(struct env *e) {
    is_killed(e, 1, 1, 0);
    is_killed(e, 0, 1, 0);
}
static void before_a_step(struct env *e) { is_killed(e, 1, 0, 0); }
static void one_dies(struct env *e) { is_killed(e, 1, 1, 0); }
static void users_program(struct env *e) {
    e->spec.command[ROLE_TRAINER] = "own";
    is_killed(e, 1, 1, 0);
}
static void pserver_dies(struct env *e) { exited(e, 1, "pserver", -1, 9, 0); }
static void pserver_too(struct env *e) {
    is_killed(e, 1, 1, 0);
    pserver_dies(e);
}

static void when_all_begin_again(void **state) {
    static const struct {
        const char *name, *policy;
        void (*act)(struct env *e);
    } rows[] = {
        {"two trainers", "wait", two_die},
        {"one that had done no step", "wait", before_a_step},
        {"fail", "fail", one_dies},
        {"continue", "continue", one_dies},
        {"a user's program", "wait", users_program},
        {"a pserver", "wait", pserver_dies},
        {"a trainer and its pserver", "wait", pserver_too},
    };
    (void)state;
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        struct env *e = begin_waiting(rows[k].policy);
        int starts = count(e, WIRE_HD_START);
        rows[k].act(e);
        until_state(e, "restarting");
        if (count(e, WIRE_HD_START) != starts || count(e, WIRE_HD_END) != N)
            fail_msg("%s: not all were ended", rows[k].name);
        finish(e);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_is_started_again),
        cmocka_unit_test(one_that_fails_at_once),
        cmocka_unit_test(when_all_begin_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
