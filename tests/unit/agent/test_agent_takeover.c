/* SPDX-License-Identifier: Apache-2.0 */
/* test_agent_takeover.c - the node of the head is lost: node 1 creates a head in the middle of the
 * job. And the head that leaves. */
#include <setjmp.h>

#include <cmocka.h>

#include "tests/support/c/agent_head.h"
#include "wire/client_bodies.h"

static const char killed[] = "the agent was killed by signal 9";

static struct env *begin_taking(const char *pservers, const char *trainers) {
    struct env *e = begin_with(pservers, trainers, "", 60000);
    e->spec.job.max_restarts = 3;
    e->spec.job.restart_ms = 10;
    e->spec.node = 1;
    return e;
}

static void take_over(struct env *e, const json_t *passes) {
    json_t *lost = json_pack("[{s:i, s:s, s:s}]", "node", 0, "host", "host-0", "reason", killed);
    head_take_over(e->head, 0, lost, 0, passes);
    json_decref(lost);
}

static void join_with(struct env *e, int node, int restarts, const char *failed) {
    json_t *b = json_pack("{s:i, s:i, s:s, s:i, s:s, s:s}", "node", node, "incarnation", 7 + node,
                          "net_id", node == 1 ? "a net:1" : "b net:1", "restarts", restarts,
                          "failed", failed, "failed_role", *failed ? "pserver" : "");
    head_joined(e->head, node, b);
    json_decref(b);
}

/* Nodes 1 and 2 answer until the job is in this state or over. */
static void go(struct env *e, const char *state) {
    for (uint64_t end = pd_mono_ns() + 60000000000u;
         pd_mono_ns() < end && !e->over && strcmp(e->state, state);) {
        if (e->n_seen == e->n_sent) {
            uv_run(&e->loop, UV_RUN_ONCE);
            continue;
        }
        const struct sent s = e->sent[e->n_seen++];
        if (s.type == WIRE_HD_PROBE)
            reply(e, s.node, s.type,
                  json_pack("{s:s}", "addr", s.node == 1 ? "10.0.0.3" : "10.0.0.2"));
        else if (s.type == WIRE_HD_BIND)
            reply_bind(e, s.node);
        else
            reply(e, s.node, s.type, json_object());
        if (s.type == WIRE_HD_START && !strcmp(msg_str(s.body, "role"), "pserver"))
            ready(e, s.node);
    }
    if (strcmp(e->state, state) && !e->over)
        fail_msg("%s, not %s", e->state, state);
}

static void end_well(struct env *e) {
    for (int i = 1; i < N; i++) {
        exited(e, i, "trainer", 0, 0, 0);
        exited(e, i, "pserver", 0, 0, 0);
    }
    go(e, "over");
    assert_string_equal(e->status, "done");
    assert_null(e->failure);
}

/* The nodes end their processes, find the addresses that work, and start again without node 0. */
static void the_job_goes_on(void **state) {
    (void)state;
    struct env *e = begin_taking("0-2", "0-2");
    take_over(e, NULL);
    assert_string_equal(e->text, "restart 1 of 3 after node 0 (host-0): the agent was killed by "
                                 "signal 9; 2 pservers are left; 2 trainers are left; node 1 "
                                 "(host-1) is the head now");
    assert_string_equal(e->state, "restarting");
    join_with(e, 1, 0, "");
    join_with(e, 2, 0, "node 0 is gone"); /* of its process: it belongs to the last attempt */
    assert_true(msg_bool(last(e, 1, WIRE_HD_END)->body, "restart"));
    go(e, "probing");
    assert_int_equal(msg_int(last(e, 1, WIRE_HD_PROBE)->body, "node", 0, 9, 9), 2);
    assert_int_equal(msg_int(last(e, 2, WIRE_HD_PROBE)->body, "node", 0, 9, 9), 1);
    go(e, "trainers");
    assert_string_equal(e->states, "restarting probing binding pservers trainers");
    assert_null(last(e, 0, WIRE_HD_START));
    const json_t *b = last(e, 1, WIRE_HD_START)->body, *env = json_object_get(b, "env");
    assert_int_equal(msg_int(b, "rank", 0, 9, 9), 0);
    assert_int_equal(msg_int(b, "trainers", 0, 9, 9), 2);
    assert_string_equal(msg_str(env, "PADDLE_PSERVERS_IP_PORT_LIST"),
                        "10.0.0.2:7164,10.0.0.3:7164");
    assert_string_equal(msg_str(env, "PADDLE_RESTART_COUNT"), "1");
    assert_string_equal(msg_str(env, "PADDLE_LOST_NODES"), "node 0 (host-0)");
    join_with(e, 0, 0, ""); /* it is sent away, and nothing else */
    assert_false(msg_bool(last(e, 0, WIRE_HD_END)->body, "restart"));
    assert_int_equal(json_array_size(head_lost_nodes(e->head)), 1);
    assert_string_equal(e->state, "trainers");
    end_well(e);
    finish(e);
}

static void a_spare_takes_the_roles(void **state) {
    (void)state;
    struct env *e = begin_taking("0-1", "0-1");
    take_over(e, NULL);
    assert_non_null(strstr(e->text,
                           "; its pserver goes to node 2 (host-2); its trainer goes to node "
                           "2 (host-2); node 1 (host-1) is the head now"));
    join_with(e, 1, 0, "");
    join_with(e, 2, 0, "");
    go(e, "trainers");
    assert_int_equal(msg_int(last(e, 2, WIRE_HD_START)->body, "rank", 0, 9, 9), 0);
    end_well(e);
    finish(e);
}

/* A restart of one trainer is known to its node only, but counts, and so does its number. */
static void restarts_count(void **state) {
    (void)state;
    struct env *e = begin_taking("0-2", "0-2");
    take_over(e, NULL);
    join_with(e, 1, 0, "");
    join_with(e, 2, 1, "");
    go(e, "trainers");
    assert_string_equal(
        msg_str(json_object_get(last(e, 2, WIRE_HD_START)->body, "env"), "PADDLE_RESTART_COUNT"),
        "2");
    exited(e, 1, "trainer", 1, 0, 0);
    go(e, "restarting");
    assert_non_null(strstr(e->text, "restart 3 of 3"));
    go(e, "trainers");
    exited(e, 1, "trainer", 1, 0, 0);
    go(e, "over");
    assert_string_equal(e->status, "failed");
    finish(e);
}

/* A node that does not come to the new head is lost, too. */
static void a_node_stays_away(void **state) {
    (void)state;
    struct env *e = begin_taking("0-2", "0-2");
    e->spec.job.detach_lease_ms = 100;
    take_over(e, NULL);
    join_with(e, 1, 0, "");
    go(e, "binding");
    assert_int_equal(json_array_size(head_lost_nodes(e->head)), 2);
    assert_null(last(e, 2, WIRE_HD_PROBE));
    finish(e);
}

/* paddlectl resends the reports of passes, and the nodes repeat theirs: each counts once. */
static void passes_are_kept_once(void **state) {
    (void)state;
    struct env *e = begin_taking("0-2", "0-2");
    json_t *passes = json_array();
    for (int i = 0; i < 3; i++)
        json_array_append_new(
            passes, json_pack("{s:i, s:{s:i, s:{s:s, s:i}}}", "node", i == 2 ? 2 : 0, "pass",
                              "number", i == 2 ? 1 : i + 1, "event", "ev", "saved", "n", i));
    json_array_append_new(passes, json_pack("{s:i}", "node", 9999)); /* no such node */
    take_over(e, passes);
    assert_int_equal(e->n_passes, 3);
    json_t *b = json_pack("{s:i, s:[{s:i, s:{s:s}}, {s:i, s:{s:s}}]}", "node", 2, "passes",
                          "number", 1, "event", "ev", "saved", "number", 2, "event", "ev", "saved");
    head_joined(e->head, 2, b);
    assert_int_equal(e->n_passes, 4);
    json_decref(b);
    json_decref(passes);
    finish(e);
}

static void no_restarts(struct env *e) { e->spec.job.max_restarts = 0; }
static void local_data(struct env *e) {
    json_object_set_new(json_object_get(e->spec.whole, "spec"), "train",
                        json_pack("{s:s}", "data_layout", "local"));
    e->spec.train = json_object_get(json_object_get(e->spec.whole, "spec"), "train");
}

/* The job ends with node 0 as the cause, and the nodes end their processes. */
static void when_it_cannot_go_on(void **state) {
    static const struct {
        void (*prepare)(struct env *e);
        const char *reason;
    } rows[] = {{no_restarts, "the agent was killed by signal 9"},
                {local_data, "the agent was killed by signal 9, and with it the data that only it "
                             "has (data_layout = local)"}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct env *e = begin_taking("0-2", "0-2");
        rows[i].prepare(e);
        take_over(e, NULL);
        join_with(e, 1, 0, "");
        join_with(e, 2, 0, "");
        go(e, "over");
        assert_string_equal(e->status, "failed");
        assert_int_equal(msg_int(e->failure, "node", 0, 9, 9), 0);
        assert_string_equal(msg_str(e->failure, "reason"), rows[i].reason);
        assert_string_equal(msg_str(last(e, 2, WIRE_HD_END)->body, "status"), "failed");
        finish(e);
    }
}

/* Node 0 leaves: its head says nothing more, whatever comes. */
static void the_head_leaves(void **state) {
    struct env *e;
    (void)state;
    for (int stage = 0; stage <= 5; stage++) {
        e = begin("", 60000);
        e->spec.job.max_restarts = 3;
        advance(e, stage, 1);
        assert_int_equal(head_leave(e->head, 0), stage >= 4);
        if (stage >= 4) {
            const int n = e->n_sent;
            exited(e, 1, "trainer", 1, 0, 0);
            head_lost(e->head, 1);
            join(e, 1, "net0", 1);
            head_stop(e->head, 10, "test");
            head_abort(e->head, 10, 0, "test");
            for (uint64_t end = pd_mono_ns() + 500000000u; pd_mono_ns() < end;)
                uv_run(&e->loop, UV_RUN_ONCE);
            assert_int_equal(e->n_sent, n);
            assert_int_equal(e->over, 0);
        }
        finish(e);
    }
    e = begin("", 60000); /* no restarts */
    advance(e, 5, 1);
    assert_false(head_leave(e->head, 0));
    finish(e);
    e = begin("", 60000); /* nobody is left who could take over */
    e->spec.job.max_restarts = 3;
    advance(e, 5, 1);
    head_lost(e->head, 1);
    head_lost(e->head, 2);
    assert_false(head_leave(e->head, 0));
    finish(e);
    e = begin("", 60000); /* the job is being stopped */
    e->spec.job.max_restarts = 3;
    advance(e, 5, 1);
    head_stop(e->head, 10, "test");
    assert_false(head_leave(e->head, 0));
    assert_true(head_leave(e->head, 1)); /* a majority may have chosen another head */
    finish(e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_job_goes_on),      cmocka_unit_test(a_spare_takes_the_roles),
        cmocka_unit_test(restarts_count),       cmocka_unit_test(a_node_stays_away),
        cmocka_unit_test(passes_are_kept_once), cmocka_unit_test(when_it_cannot_go_on),
        cmocka_unit_test(the_head_leaves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
