/* SPDX-License-Identifier: Apache-2.0 */
/* test_agent_restart.c - restarts of a job, failures without a restart, and stops that save. */
#include <setjmp.h>

#include <cmocka.h>

#include "tests/support/c/agent_head.h"

static struct env *begin_restarting(int max) {
    struct env *e = begin("", 60000);
    e->spec.job.max_restarts = max;
    e->spec.job.restart_ms = 10;
    e->spec.job.grace_ms = 77;
    return e;
}

static void failures_and_restarts(void **state) {
    (void)state;
    struct env *e = begin_restarting(2);
    advance(e, 5, 1);
    assert_string_equal(
        msg_str(json_object_get(last(e, 1, WIRE_HD_START)->body, "env"), "PADDLE_RESTART_COUNT"),
        "0");
    assert_string_equal(msg_str(last(e, 1, WIRE_HD_START)->body, "note"), "");
    exited(e, 0, "trainer", 0, 0, 0); /* a finished trainer is restarted, too */
    exited(e, 1, "trainer", 1, 0, 2000);
    exited(e, 2, "pserver", 1, 0, 1000); /* earlier on the same clock */
    until_state(e, "restarting");
    assert_string_equal(e->text, "restart 1 of 2 after pserver 2 on host-2: exit status 1");
    assert_int_equal(count(e, WIRE_HD_END), N);
    assert_true(msg_bool(last(e, 0, WIRE_HD_END)->body, "restart"));
    assert_int_equal(msg_int(last(e, 0, WIRE_HD_END)->body, "restarts", 0, 99, 0), 1);
    assert_int_equal(msg_int(last(e, 0, WIRE_HD_END)->body, "grace_ms", 0, 999, 0), 77);
    exited(e, 0, "pserver", -1, 15, 0); /* the exit of an ended process is no failure */
    exited(e, 1, "pserver", 1, 0, 0);
    start_again(e);
    assert_int_equal(count(e, WIRE_HD_BIND), 2 * N);
    assert_string_equal(
        msg_str(json_object_get(last(e, 1, WIRE_HD_START)->body, "env"), "PADDLE_RESTART_COUNT"),
        "1");
    assert_string_equal(msg_str(last(e, 1, WIRE_HD_START)->body, "note"),
                        "restart 1 of 2 after pserver 2 on host-2: exit status 1");
    exited(e, 2, "trainer", -1, 9, 0);
    until_state(e, "restarting");
    assert_string_equal(e->text, "restart 2 of 2 after trainer 2 on host-2: signal 9 (Killed)");
    start_again(e);
    exited(e, 0, "trainer", 5, 0, 0); /* the restarts are used up: the job fails */
    exited(e, 1, "trainer", 6, 0, 0);
    for (int i = 0; i < N; i++) /* the HD_END for a restart were answered */
        assert_true(msg_bool(last(e, i, WIRE_HD_END)->body, "restart"));
    until_state(e, "ending");
    assert_false(msg_bool(last(e, 0, WIRE_HD_END)->body, "restart"));
    until_over(e);
    assert_string_equal(e->status, "failed");
    assert_int_equal(msg_int(e->failure, "exit_code", 0, 99, 99), 5);
    assert_int_equal(e->later, 1);
    assert_string_equal(e->states, "connecting probing binding pservers trainers restarting "
                                   "binding pservers trainers restarting "
                                   "binding pservers trainers ending");
    finish(e);
}

static void a_job_that_succeeds_after_a_restart(void **state) {
    (void)state;
    struct env *e = begin_restarting(3);
    advance(e, 4, 1); /* the pservers are starting */
    exited(e, 1, "pserver", 1, 0, 0);
    start_again(e);
    for (int i = 0; i < N; i++) {
        exited(e, i, "trainer", 0, 0, 0);
        exited(e, i, "pserver", 0, 0, 0);
    }
    until_over(e);
    assert_string_equal(e->status, "done");
    assert_null(e->failure);
    finish(e);
}

/* A pserver did not become ready. The connection broke before the head heard of that, or of the end
 * of all processes. */
static void a_failure_told_when_the_node_is_back(void **state) {
    static const struct {
        const char *role, *status;
        int restarting;
    } rows[] = {
        {"pserver", "done", 0}, {"pserver", "done", 1}, {"", "failed", 0}, {"", "failed", 1}};
    (void)state;
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        struct env *e = begin_restarting(3);
        advance(e, 4, 1);
        if (rows[k].restarting) {
            exited(e, 1, "pserver", 1, 0, 0);
            until_state(e, "restarting");
        }
        head_lost(e->head, 2);
        json_t *b = json_pack("{s:i, s:i, s:s, s:s, s:s}", "node", 2, "incarnation", 1, "net_id",
                              "net0", "failed", "not ready", "failed_role", rows[k].role);
        head_joined(e->head, 2, b);
        json_decref(b);
        if (!strcmp(rows[k].status, "done")) {
            start_again(e);
            assert_int_equal(count(e, WIRE_HD_END), N + rows[k].restarting);
            for (int i = 0; i < N; i++) {
                exited(e, i, "trainer", 0, 0, 0);
                exited(e, i, "pserver", 0, 0, 0);
            }
        } else {
            until_state(e, "ending");
        }
        until_over(e);
        assert_string_equal(e->status, rows[k].status);
        finish(e);
    }
}

/* --- failures without a restart --- */

static void own_failure(struct env *e) { head_fail(e->head, 1, "the disk is full"); }
static void told(struct env *e, uint16_t type, json_t *b) {
    head_message(e->head, 1, type, 0, b, NULL);
    json_decref(b);
}
static void final_exit(struct env *e) {
    exited(e, 0, "trainer", 1, 0, 0);
    told(e, WIRE_HD_EXITED,
         json_pack("{s:s, s:i, s:i, s:b}", "role", "trainer", "rank", 1, "exit_code", 2, "final",
                   1));
}
static void agents_own(struct env *e) {
    told(e, WIRE_HD_FAIL, json_pack("{s:s}", "reason", "cannot write log/train.log"));
}
static void client_stop(struct env *e) {
    told(e, WIRE_HD_STOP_JOB, json_pack("{s:s}", "reason", "stopped by a client"));
}
static void stop_with_failure(struct env *e) {
    exited(e, 0, "trainer", 1, 0, 0);
    head_stop(e->head, 10, "test");
}
static void stop_in_restart(struct env *e) {
    exited(e, 0, "trainer", 1, 0, 0);
    until_state(e, "restarting");
    head_stop(e->head, 10, "test");
}
static void stop_in_backoff(struct env *e) {
    e->spec.job.restart_ms = 60000;
    exited(e, 0, "trainer", 1, 0, 0);
    until_state(e, "restarting");
    for (int i = 0; i < N; i++)
        reply(e, i, WIRE_HD_END, json_object());
    head_stop(e->head, 10, "test");
}
static void lease_in_restart(struct env *e) {
    exited(e, 0, "trainer", 1, 0, 0);
    until_state(e, "restarting");
    head_abort(e->head, 10, 0, "the launcher is gone");
}
static void while_ending(struct env *e) {
    for (int i = 0; i < N; i++)
        exited(e, i, "trainer", 0, 0, 0);
    exited(e, 1, "pserver", 1, 0, 0);
}

static void what_is_not_restarted(void **state) {
    static const struct {
        const char *name, *status, *reason;
        void (*act)(struct env *e);
    } rows[] = {
        {"an agent's failure", "failed", "the disk is full", own_failure},
        {"a process that would fail again, as an echo of one that might not", "failed", "",
         final_exit},
        {"what an agent says", "failed", "cannot write log/train.log", agents_own},
        {"a stop at a node", "stopped", NULL, client_stop},
        {"a stop within the window of a failure", "stopped", NULL, stop_with_failure},
        {"a stop during a restart", "stopped", NULL, stop_in_restart},
        {"a stop before the next try", "stopped", NULL, stop_in_backoff},
        {"a lease during a restart", "failed", "the launcher is gone", lease_in_restart},
        {"a pserver when the trainers are done", "failed", "", while_ending},
    };
    (void)state;
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        struct env *e = begin_restarting(5);
        advance(e, 5, 1);
        rows[k].act(e);
        until_state(e, "ending");
        until_over(e);
        if (!last(e, 0, WIRE_HD_END) || msg_bool(last(e, 0, WIRE_HD_END)->body, "restart"))
            fail_msg("%s: restarted", rows[k].name);
        if (strcmp(e->status, rows[k].status) ||
            (rows[k].reason ? !e->failure || strcmp(msg_str(e->failure, "reason"), rows[k].reason)
                            : !!e->failure))
            fail_msg("%s: %s, '%s'", rows[k].name, e->status, msg_str(e->failure, "reason"));
        finish(e);
    }
}

/* --- a stop that saves --- */

static json_t *saved(int number, const char *path) {
    return json_pack("{s:i, s:{s:s, s:s}}", "number", number, "event", "ev", "saved", "path", path);
}

static void a_stop_that_saves(void **state) {
    (void)state;
    struct env *e = begin_restarting(5);
    advance(e, 5, 1);
    head_save(e->head, 60000, 123, "test");
    head_save(e->head, 1, 1, "another client joins");
    assert_string_equal(e->state, "saving");
    assert_int_equal(count(e, WIRE_HD_SAVE), N);
    assert_int_equal(msg_int(last(e, 1, WIRE_HD_SAVE)->body, "save_ms", 0, 99999, 0), 60000);
    head_lost(e->head, 1); /* the node may not have got HD_SAVE */
    join(e, 1, "net0", 1);
    assert_int_equal(count(e, WIRE_HD_SAVE), N + 1);
    for (int i = 0; i < N; i++)
        reply(e, i, WIRE_HD_SAVE, json_object());
    assert_string_equal(e->state, "saving");
    for (int i = 0; i < N; i++)
        exited(e, i, "trainer", 0, 0, 0);
    assert_string_equal(e->state, "ending");
    assert_int_equal(count(e, WIRE_HD_END), 0); /* our pservers end by themselves */
    for (int i = 0; i < N; i++)
        exited(e, i, "pserver", 0, 0, 0);
    assert_int_equal(msg_int(last(e, 1, WIRE_HD_END)->body, "grace_ms", 0, 99999, 0), 123);
    until_over(e);
    assert_string_equal(e->status, "stopped");
    assert_null(e->failure);
    finish(e);
}

/* A report of a pass may come twice: HD_JOIN repeats those that a broken connection may have lost.
 */
static void reports_of_passes(void **state) {
    (void)state;
    struct env *e = begin_restarting(5);
    advance(e, 5, 1);
    json_t *a = saved(1, "output/pass-00000"), *b = saved(2, "output/pass-00001");
    head_message(e->head, 2, WIRE_HD_PASS, 0, a, NULL);
    assert_string_equal(msg_str(e->pass, "path"), "output/pass-00000");
    head_lost(e->head, 2);
    json_t *join = json_pack("{s:i, s:i, s:s, s:[o, o]}", "node", 2, "incarnation", 1, "net_id",
                             "net0", "passes", a, b);
    head_joined(e->head, 2, join);
    json_decref(join);
    assert_int_equal(e->n_passes, 2);
    assert_string_equal(msg_str(e->pass, "path"), "output/pass-00001");
    head_stop(e->head, 0, "test");
    until_over(e);
    finish(e);
}

static void saves_that_do_not_end_well(void **state) {
    static const struct {
        const char *name;
        int stage;
        unsigned save_ms;
        int again, fails; /* again: a second stop; fails: our trainer fails */
        int saves, failure;
    } rows[] = {
        {"too slow", 5, 50, 0, 0, 1, 0},
        {"a second stop", 5, 600000, 1, 0, 1, 0},
        {"a trainer that cannot save", 5, 600000, 0, 1, 1, 1},
        {"before trainers run", 4, 600000, 0, 0, 0, 0},
        {"before all is bound", 3, 600000, 0, 0, 0, 0},
    };
    (void)state;
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        struct env *e = begin_restarting(5);
        advance(e, rows[k].stage, 1);
        head_save(e->head, rows[k].save_ms, 20, "test");
        assert_int_equal(count(e, WIRE_HD_SAVE), rows[k].saves ? N : 0);
        if (rows[k].fails)
            exited(e, 1, "trainer", 1, 0, 0);
        if (rows[k].again)
            head_stop(e->head, 5, "again");
        until_over(e);
        if (strcmp(e->status, "stopped") || !e->failure != !rows[k].failure ||
            msg_bool(last(e, 0, WIRE_HD_END)->body, "restart"))
            fail_msg("%s: %s", rows[k].name, e->status);
        finish(e);
    }
}

static struct env *children_save(void) {
    struct env *e = begin("own", 60000);
    e->spec.command[ROLE_TRAINER] = "own";
    advance(e, 5, 1);
    head_save(e->head, 600000, 20, "test");
    exited(e, 1, "trainer", -1, 15, 0);
    exited(e, 0, "trainer", 143, 0, 0);
    assert_string_equal(e->state, "saving");
    exited(e, 2, "trainer", 0, 0, 0);
    assert_int_equal(count(e, WIRE_HD_END), N);
    assert_true(msg_int(last(e, 1, WIRE_HD_END)->body, "grace_ms", 0, 999999, 0) > 500000);
    return e;
}

/* User programs get TERM and may exit with any status. The remaining children of a shell have the
 * rest of the time. */
static void users_programs_save(void **state) {
    struct env *e = children_save();
    (void)state;
    until_over(e);
    assert_string_equal(e->status, "stopped");
    assert_null(e->failure);
    finish(e);
}

/* The lease of node 0 ends meanwhile: the children have only its short grace period. Node 0 had
 * processes for 120 s more. */
static void a_lease_ends_while_children_save(void **state) {
    struct env *e = children_save();
    (void)state;
    head_abort(e->head, 10, 0, "the launcher is gone");
    assert_int_equal(count(e, WIRE_HD_END), 2 * N);
    for (int i = 0; i < N; i++)
        assert_int_equal(msg_int(last(e, i, WIRE_HD_END)->body, "grace_ms", 0, 999999, 0), 10);
    until_over(e);
    assert_string_equal(e->status, "stopped");
    finish(e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(failures_and_restarts),
        cmocka_unit_test(a_job_that_succeeds_after_a_restart),
        cmocka_unit_test(a_failure_told_when_the_node_is_back),
        cmocka_unit_test(what_is_not_restarted),
        cmocka_unit_test(a_stop_that_saves),
        cmocka_unit_test(reports_of_passes),
        cmocka_unit_test(saves_that_do_not_end_well),
        cmocka_unit_test(users_programs_save),
        cmocka_unit_test(a_lease_ends_while_children_save),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
