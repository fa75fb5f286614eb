/* SPDX-License-Identifier: Apache-2.0 */
/* test_agent_head.c - the head against simulated nodes: the order of a job, nodes that are lost and
 * join again, the reported failure, stops in every state. */
#include <setjmp.h>

#include <cmocka.h>

#include "tests/support/c/agent_head.h"

static void order_of_a_job(void **state) {
    (void)state;
    struct env *e = begin("", 60000);
    join(e, 1, "net1", 1); /* before AG_JOB_RUN */
    head_run(e->head);
    head_run(e->head);
    assert_int_equal(e->n_sent, 0);
    assert_string_equal(e->text, "");
    hear_notice(e, "waiting for node 0 (host-0), node 2 (host-2)");
    join(e, 0, "net0", 1);
    join(e, 2, "net2", 1);
    assert_int_equal(count(e, WIRE_HD_PROBE), N);
    /* different machines: no 127.x; node 1 probes node 0 */
    const json_t *t = last(e, 1, WIRE_HD_PROBE)->body;
    assert_int_equal(msg_int(t, "node", 0, 9, 9), 0);
    assert_int_equal(msg_int(t, "port", 0, 9999, 0), 7000);
    assert_int_equal(json_array_size(json_object_get(t, "addrs")), 1);
    for (int i = 0; i < N; i++) {
        assert_int_equal(count(e, WIRE_HD_BIND), 0);
        reply_probe(e, i);
    }
    assert_string_equal(msg_str(last(e, 2, WIRE_HD_BIND)->body, "addr"), "10.0.0.3");
    for (int i = 0; i < N; i++)
        reply_bind(e, i);
    assert_int_equal(count(e, WIRE_HD_START), N);
    const json_t *env = json_object_get(last(e, 1, WIRE_HD_START)->body, "env");
    assert_string_equal(msg_str(env, "PADDLE_PSERVERS_IP_PORT_LIST"),
                        "10.0.0.1:7164,10.0.0.2:7164,10.0.0.3:7164");
    assert_string_equal(msg_str(env, "PADDLE_CURRENT_ENDPOINT"), "10.0.0.2:7164");
    for (int i = 0; i < N; i++)
        reply(e, i, WIRE_HD_START, json_object());
    ready(e, 2);
    ready(e, 0);
    assert_int_equal(count(e, WIRE_HD_START), N); /* one pserver is missing: no trainer yet */
    hear_notice(e, "starting pservers on node 1 (host-1)");
    ready(e, 1);
    assert_int_equal(count(e, WIRE_HD_START), 2 * N);
    assert_int_equal(msg_int(last(e, 2, WIRE_HD_START)->body, "rank", 0, 9, 9),
                     0); /* trainer_nodes is 2, 1, 0 */
    for (int i = 0; i < N; i++) {
        reply(e, i, WIRE_HD_START, json_object());
        exited(e, i, "trainer", 0, 0, 0);
        exited(e, i, "pserver", 0, 0, 0); /* early exits of pservers do not end the job */
        assert_int_equal(count(e, WIRE_HD_END), i == N - 1 ? N : 0);
    }
    until_over(e);
    assert_string_equal(e->status, "done");
    assert_null(e->failure);
    assert_string_equal(e->states, "connecting probing binding pservers trainers ending");
    finish(e);
}

static int probed_by(struct env *e, int node) {
    return (int)msg_int(last(e, node, WIRE_HD_PROBE)->body, "node", 0, N, N);
}

/* docker0 is 172.17.0.1 on every machine. A prober on the same machine would reach it, although
 * other machines can't. */
static void probed_from_another_machine(void **state) {
    static const struct {
        const char *net_id[N];
        int probes[N], elsewhere; /* -1: any other node */
    } rows[] = {
        {{"a net:1", "b net:1", "c net:1"}, {2, 0, 1}, N},
        /* One of the two nodes on machine a can\'t be probed from elsewhere. */
        {{"a net:1", "a net:1", "b net:1"}, {-1, 2, -1}, 2},
        {{"a net:1", "b net:1", "a net:2"}, {-1, -1, 1}, 2},
        {{"a net:1", "a net:1", "a net:1"}, {2, 0, 1}, 0},
    };
    (void)state;
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        struct env *e = begin("", 60000);
        int seen = 0, elsewhere = 0;
        head_run(e->head);
        for (int i = 0; i < N; i++)
            join(e, i, rows[k].net_id[i], 1);
        for (int i = 0; i < N; i++) {
            int target = probed_by(e, i);
            assert_true(target < N && target != i);
            assert_true(rows[k].probes[i] < 0 || rows[k].probes[i] == target);
            seen |= 1 << target;
            elsewhere += *rows[k].net_id[target] != *rows[k].net_id[i];
        }
        assert_int_equal(seen, (1 << N) - 1);
        assert_int_equal(elsewhere, rows[k].elsewhere);
        finish(e);
    }
}

/* The head ended the job while the connection to a node was broken. The node gets HD_END when it
 * joins again. */
static void back_after_the_end(void **state) {
    (void)state;
    struct env *e = begin("", 60000);
    advance(e, 5, 1);
    head_lost(e->head, 2);
    head_stop(e->head, 10, "test");
    until_over(e);
    assert_null(last(e, 2, WIRE_HD_END));
    join(e, 2, "net0", 1);
    assert_string_equal(msg_str(last(e, 2, WIRE_HD_END)->body, "status"), "stopped");
    reply(e, 2, WIRE_HD_END, json_object());
    finish(e);
}

static void loopback_first_on_one_machine(void **state) {
    (void)state;
    struct env *e = begin("", 60000);
    advance(e, 2, 1);
    const json_t *t = last(e, 0, WIRE_HD_PROBE)->body;
    char *s = json_dumps(json_object_get(t, "addrs"), JSON_COMPACT);
    assert_string_equal(s, "[\"127.0.0.3\",\"10.0.0.3\"]");
    free(s);
    finish(e);
}

/* Nodes of one machine get their index and number there. Only nodes with processes count. */
static void who_shares_a_machine(void **state) {
    static const struct {
        const char *machine[N];
        int pserver_on_0;
        int index[N], count[N];
    } rows[] = {
        {{"a", "a", "a"}, 1, {0, 1, 2}, {3, 3, 3}},
        {{"a", "b", "a"}, 1, {0, 0, 1}, {2, 1, 2}},
        {{"a", "a", "a"}, 0, {0, 0, 1}, {1, 2, 2}}, /* node 0 has no process: it is not asked */
    };
    (void)state;
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        struct env *e =
            rows[k].pserver_on_0 ? begin("", 60000) : begin_with("1-2", "2,1", "", 60000);
        e->spec.bind = BIND_CORES;
        head_run(e->head);
        for (int i = 0; i < N; i++) {
            json_t *j = json_pack("{s:i, s:i, s:s, s:s}", "node", i, "incarnation", 1, "net_id",
                                  "net0", "machine", rows[k].machine[i]);
            head_joined(e->head, i, j);
            json_decref(j);
        }
        for (int i = 0; i < N; i++)
            reply_probe(e, i);
        for (int i = !rows[k].pserver_on_0; i < N; i++) {
            const json_t *b = last(e, i, WIRE_HD_BIND)->body;
            assert_int_equal(msg_int(b, "machine_index", -1, 99, -1), rows[k].index[i]);
            assert_int_equal(msg_int(b, "machine_count", -1, 99, -1), rows[k].count[i]);
        }
        finish(e);
    }
}

static void how_pservers_end(void **state) {
    static const struct {
        const char *command;
        int end_ms, waits;
    } rows[] = {{"", 200, 1}, {"own", 60000, 0}};
    (void)state;
    for (size_t k = 0; k < 2; k++) {
        struct env *e = begin(rows[k].command, rows[k].end_ms);
        advance(e, 5, 1);
        for (int i = 0; i < N; i++)
            exited(e, i, "trainer", 0, 0, 0);
        /* our pservers have time to end by themselves; a user's get TERM at once */
        assert_int_equal(count(e, WIRE_HD_END), rows[k].waits ? 0 : N);
        until_over(e);
        assert_string_equal(e->status, "done");
        exited(e, 0, "pserver", -1, 15, 0); /* the exit of an ended process is no failure */
        finish(e);
    }
}

static void a_pserver_that_leaves_its_trainers(void **state) {
    (void)state;
    struct env *e = begin("own", 150);
    advance(e, 5, 1);
    exited(e, 2, "pserver", 0, 0, 0);
    until_over(e);
    assert_string_equal(e->status, "failed");
    assert_string_equal(msg_str(e->failure, "reason"), "it ended before the trainers");
    assert_int_equal(msg_int(e->failure, "node", 0, 9, 9), 2);
    finish(e);
}

/* Our pservers end after the trainers' goodbyes: the process whose end is not reported hangs. */
static void a_trainer_whose_end_is_not_reported(void **state) {
    (void)state;
    struct env *e = begin("", 150);
    advance(e, 5, 1);
    exited(e, 0, "trainer", 0, 0, 0);
    exited(e, 2, "trainer", 0, 0, 0);
    exited(e, 2, "pserver", 0, 0, 0);
    until_over(e);
    assert_string_equal(e->status, "failed");
    assert_non_null(strstr(msg_str(e->failure, "reason"), "its end is not reported"));
    assert_string_equal(msg_str(e->failure, "role"), "trainer");
    assert_int_equal(msg_int(e->failure, "node", 0, 9, 9), 1);
    finish(e);
}

/* The last trainer has ended, and its node is away: the lease decides. */
static void pservers_that_end_before_a_report(void **state) {
    (void)state;
    struct env *e = begin("", 150);
    e->spec.job.attach_lease_ms = e->spec.job.detach_lease_ms = 60000;
    advance(e, 5, 1);
    head_lost(e->head, 2);
    for (int i = 0; i < N - 1; i++) {
        exited(e, i, "trainer", 0, 0, 0);
        exited(e, i, "pserver", 0, 0, 0);
    }
    const uint64_t end = pd_mono_ns() + 600 * UINT64_C(1000000);
    while (pd_mono_ns() < end)
        uv_run(&e->loop, UV_RUN_ONCE);
    assert_string_equal(e->state, "trainers");
    join(e, 2, "net0", 1);
    exited(e, 2, "trainer", 0, 0, 0);
    exited(e, 2, "pserver", 0, 0, 0);
    until_over(e);
    assert_string_equal(e->status, "done");
    finish(e);
}

static void a_node_that_comes_back_is_asked_again(void **state) {
    (void)state;
    struct env *e = begin("", 60000);
    advance(e, 3, 1);
    reply_bind(e, 0);
    reply_bind(e, 2);
    uint64_t old = last(e, 1, WIRE_HD_BIND)->req;
    head_lost(e->head, 1);
    assert_int_equal(count(e, WIRE_HD_BIND), N);
    join(e, 1, "net0", 1);
    assert_int_equal(count(e, WIRE_HD_BIND), N + 1);
    assert_true(last(e, 1, WIRE_HD_BIND)->req != old);
    json_t *b = json_pack("{s:i, s:i}", "pserver_port", 1, "trainer_port", 2);
    head_message(e->head, 1, WIRE_HD_BIND, old, b, NULL); /* a late answer, which is ignored */
    json_decref(b);
    assert_int_equal(count(e, WIRE_HD_START), 0);
    reply_bind(e, 1);
    assert_int_equal(count(e, WIRE_HD_START), N);
    /* HD_JOIN repeats the messages that the node could not send */
    for (int i = 0; i < N; i++)
        reply(e, i, WIRE_HD_START, json_object());
    ready(e, 0);
    ready(e, 2);
    head_lost(e->head, 1);
    json_t *j = json_pack("{s:i, s:i, s:s, s:[s], s:[]}", "node", 1, "incarnation", 1, "net_id",
                          "net0", "ready", "pserver", "exited");
    head_joined(e->head, 1, j);
    json_decref(j);
    assert_string_equal(e->state, "trainers");
    finish(e);
}

static void lost_nodes_and_restarted_agents(void **state) {
    (void)state;
    struct env *e = begin("", 150);
    advance(e, 5, 1);
    head_lost(e->head, 2);
    until_over(e);
    assert_string_equal(e->status, "failed");
    assert_non_null(strstr(msg_str(e->failure, "reason"), "agent is gone"));
    assert_int_equal(msg_int(e->failure, "node", 0, 9, 9), 2);
    assert_null(last(e, 2, WIRE_HD_END));
    finish(e);
    e = begin("", 60000);
    advance(e, 5, 1);
    head_lost(e->head, 1);
    join(e, 1, "net0", 2);
    until_over(e);
    assert_non_null(strstr(msg_str(e->failure, "reason"), "started again"));
    finish(e);
}

static void who_is_missing_is_named(void **state) {
    (void)state;
    struct env *e = begin("", 150);
    head_run(e->head);
    join(e, 0, "net0", 1);
    join(e, 2, "net0", 1);
    until_over(e);
    assert_string_equal(e->status, "failed");
    assert_string_equal(msg_str(e->failure, "reason"),
                        "connecting: no answer within 1 s: node 1 (host-1)");
    assert_int_equal(msg_int(e->failure, "node", 0, 9, 9), 1);
    finish(e);
}

static void which_failure_is_told(void **state) {
    static const struct {
        const char *name;
        struct {
            int node;
            const char *role;
            int code, sig;
            long time;
            int wait; /* wait for the end before this event */
        } exits[3];
        int same, want_node;
        const char *want_role;
        int later;
    } rows[] = {
        {"one", {{1, "trainer", 3, 0, 0, 0}}, 1, 1, "trainer", 0},
        {"the first to arrive",
         {{1, "trainer", 1, 0, 0, 0}, {2, "trainer", 1, 0, 0, 0}},
         0,
         1,
         "trainer",
         1},
        {"a killed pserver explains its trainers",
         {{1, "trainer", 1, 0, 0, 0}, {2, "trainer", 1, 0, 0, 0}, {0, "pserver", -1, 9, 0, 0}},
         0,
         0,
         "pserver",
         2},
        {"of two killed the first",
         {{1, "pserver", -1, 9, 0, 0}, {0, "pserver", -1, 9, 0, 0}},
         0,
         1,
         "pserver",
         1},
        {"the earlier exit on one clock",
         {{1, "trainer", 1, 0, 2000, 0}, {0, "pserver", 1, 0, 1000, 0}},
         1,
         0,
         "pserver",
         1},
        {"clocks of two machines do not compare",
         {{1, "trainer", 1, 0, 2000, 0}, {0, "pserver", 1, 0, 1000, 0}},
         0,
         1,
         "trainer",
         1},
        {"who aborts may have lost a peer",
         {{1, "pserver", 1, 0, 0, 0}, {0, "trainer", -1, 6, 0, 0}},
         0,
         1,
         "pserver",
         1},
        {"who crashes has not",
         {{1, "pserver", 1, 0, 0, 0}, {0, "trainer", -1, 11, 0, 0}},
         0,
         0,
         "trainer",
         1},
        {"too late to explain",
         {{1, "trainer", 1, 0, 0, 0}, {0, "pserver", -1, 9, 0, 1}},
         0,
         1,
         "trainer",
         0},
    };
    (void)state;
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        struct env *e = begin("", 60000);
        advance(e, 5, rows[k].same);
        for (int i = 0; i < 3 && rows[k].exits[i].role; i++) {
            if (rows[k].exits[i].wait)
                until_over(e);
            exited(e, rows[k].exits[i].node, rows[k].exits[i].role, rows[k].exits[i].code,
                   rows[k].exits[i].sig, rows[k].exits[i].time);
        }
        if (!e->over)
            until_over(e);
        if (strcmp(e->status, "failed") ||
            msg_int(e->failure, "node", 0, 9, 9) != rows[k].want_node ||
            strcmp(msg_str(e->failure, "role"), rows[k].want_role) || e->later != rows[k].later)
            fail_msg("%s: %s, node %d, %s, %d later", rows[k].name, e->status,
                     (int)msg_int(e->failure, "node", 0, 9, 9), msg_str(e->failure, "role"),
                     e->later);
        assert_true(pd_starts_with(msg_str(e->failure, "last_lines"), "last of "));
        finish(e);
    }
}

/* A process ends because of another one: its HD_EXITED has `from`. Trainer 0 is on node 2. */
static void heard(struct env *e, int node, const char *role, const char *from) {
    json_t *b = json_pack("{s:s, s:i, s:i, s:s, s:s, s:s}", "role", role, "rank", node, "exit_code",
                          1, "last_lines", "stopping\n", "from", from, "reason", "disk full");
    head_message(e->head, node, WIRE_HD_EXITED, 0, b, NULL);
    json_decref(b);
}

static void failed_is(struct env *e, int node, const char *role, const char *last_lines) {
    if (!e->over)
        until_over(e);
    assert_string_equal(e->status, "failed");
    assert_int_equal(msg_int(e->failure, "node", 0, 9, 9), node);
    assert_string_equal(msg_str(e->failure, "role"), role);
    assert_string_equal(msg_str(e->failure, "last_lines"), last_lines);
}

/* A file that all trainers read is damaged: one failure, not three. The nodes hear its name. */
static void failures_of_one_cause_are_one(void **state) {
    (void)state;
    struct env *e = begin("", 60000);
    advance(e, 5, 0);
    for (int i = 0; i < 3; i++)
        exited_with(e, 2 - i, "trainer", 1, 0, 0, "reading\ndata/part-00000:50: not an id\n");
    exited(e, 2, "pserver", 1, 0, 0); /* the same node */
    failed_is(e, 2, "trainer", "reading\ndata/part-00000:50: not an id\n");
    assert_int_equal(e->later, 0);
    for (int i = 0; i < N; i++)
        assert_string_equal(msg_str(last(e, i, WIRE_HD_END)->body, "cause"), "trainer 2 on host-2");
    finish(e);
}

static void a_witness_is_not_the_cause(void **state) {
    (void)state;
    struct env *e = begin("", 60000); /* the cause reports after two witnesses */
    advance(e, 5, 0);
    heard(e, 0, "pserver", "trainer 0 on 10.0.0.3");
    heard(e, 1, "trainer", "trainer 0 on 10.0.0.3");
    exited(e, 2, "trainer", 1, 0, 0);
    failed_is(e, 2, "trainer", "last of trainer 2\n");
    assert_int_equal(e->later, 0);
    finish(e);

    e = begin("", 60000); /* the cause comes first */
    advance(e, 5, 0);
    exited(e, 2, "trainer", 1, 0, 0);
    heard(e, 0, "pserver", "trainer 0 on 10.0.0.3");
    failed_is(e, 2, "trainer", "last of trainer 2\n");
    finish(e);

    e = begin("", 60000); /* the cause never reports: its host is gone */
    advance(e, 5, 0);
    heard(e, 0, "pserver", "trainer 0 on 10.0.0.3");
    failed_is(e, 2, "trainer", "");
    assert_int_equal(msg_int(e->failure, "rank", 0, 9, 9), 0);
    assert_true(msg_bool(e->failure, "heard"));
    assert_string_equal(msg_str(e->failure, "reason"),
                        "disk full (reported by pserver 0 on host-0, node 0)");
    finish(e);

    static const char *const nobody[] = {"trainer 77 on x", "trainer -1 on x", "host 1 on x", "x"};
    for (size_t i = 0; i < sizeof nobody / sizeof nobody[0]; i++) {
        e = begin("", 60000); /* a process that does not exist cannot be the cause */
        advance(e, 5, 0);
        heard(e, 1, "trainer", nobody[i]);
        failed_is(e, 1, "trainer", "stopping\n");
        finish(e);
    }
}

static void a_failure_without_memory_is_told(void **state) {
    (void)state;
    struct env *e = begin("", 60000);
    advance(e, 5, 1);
    pd_fault_arm("wire.put:1");
    exited(e, 1, "trainer", 3, 0, 0);
    pd_fault_arm(NULL);
    until_over(e);
    assert_string_equal(e->status, "failed");
    assert_string_equal(msg_str(e->failure, "reason"),
                        "out of memory while a failure of the job was reported");
    finish(e);
}

static void failures_while_starting(void **state) {
    (void)state;
    struct env *e = begin("", 60000); /* no address works */
    advance(e, 2, 0);
    reply(e, 2, WIRE_HD_PROBE, json_object());
    until_over(e);
    assert_non_null(strstr(msg_str(e->failure, "reason"),
                           "node 2 (host-2) reaches none of its addresses [\"10.0.0.2\"]"));
    finish(e);
    e = begin("", 60000); /* a node refuses */
    advance(e, 3, 0);
    struct pd_err no = {0};
    pd_fail(&no, PD_EIO, "no free port");
    head_message(e->head, 1, WIRE_HD_BIND, last(e, 1, WIRE_HD_BIND)->req, NULL, &no);
    until_over(e);
    assert_string_equal(msg_str(e->failure, "reason"), "no free port");
    finish(e);
    e = begin("", 60000); /* a pserver exits with 0 before all pservers listen */
    advance(e, 4, 0);
    exited(e, 1, "pserver", 0, 0, 0);
    until_over(e);
    assert_string_equal(e->status, "failed");
    assert_string_equal(msg_str(e->failure, "role"), "pserver");
    assert_int_equal(count(e, WIRE_HD_START), N);
    finish(e);
}

static void stop_in_every_state(void **state) {
    (void)state;
    for (int stage = 0; stage <= 5; stage++) {
        struct env *e = begin("", 60000);
        advance(e, stage, 1);
        if (stage == 5)
            /* A consequence of the stop, heard before the stop. */
            exited(e, 1, "trainer", -1, 15, 0);
        head_stop(e->head, 123, "test");
        head_stop(e->head, 5, "again");
        until_over(e);
        assert_string_equal(e->status, "stopped");
        assert_null(e->failure);
        assert_int_equal(count(e, WIRE_HD_END), stage >= 2 ? N : 0);
        if (stage >= 2)
            assert_int_equal(msg_int(last(e, 1, WIRE_HD_END)->body, "grace_ms", 0, 9999, 0),
                             stage == 5 ? 5 : 123); /* the shorter grace period */
        assert_int_equal(count(e, WIRE_HD_STOP), stage == 5 ? N : 0);
        exited(e, 0, "trainer", 1, 0, 0);
        head_lost(e->head, 1);
        head_fail(e->head, 1, "too late");
        finish(e);
    }
}

/* No pserver is ended while a trainer runs that could miss it. The head does not wait for nodes
 * that are away or silent. */
static void a_stop_ends_trainers_first(void **state) {
    enum { EXITS, LOST, SILENT };
    (void)state;
    for (int last_one = EXITS; last_one <= SILENT; last_one++) {
        struct env *e = begin("", 60000);
        advance(e, 5, 1);
        head_stop(e->head, last_one == SILENT ? 100 : 60000, "test");
        assert_int_equal(count(e, WIRE_HD_STOP), N);
        for (int i = 0; i < N; i++)
            reply(e, i, WIRE_HD_STOP,
                  json_pack("{s:b}", "trainer", i != 2)); /* node 2's trainer had ended */
        exited(e, 0, "trainer", -1, 15, 0);
        exited(e, 0, "pserver", 1, 0, 0);
        assert_int_equal(count(e, WIRE_HD_END), 0);
        if (last_one == EXITS)
            exited(e, 1, "trainer", -1, 15, 0);
        else if (last_one == LOST)
            head_lost(e->head, 1);
        until_over(e);
        assert_int_equal(count(e, WIRE_HD_END), last_one == LOST ? N - 1 : N);
        assert_string_equal(e->status, "stopped");
        assert_null(e->failure);
        assert_string_equal(e->states, "connecting probing binding pservers trainers ending");
        finish(e);
    }
}

/* Without a client there is no use in waiting for a silent node. The head must not wait for it,
 * even if it was already waiting. */
static void an_abort_does_not_wait_for_silent_nodes(void **state) {
    (void)state;
    for (int stopped = 0; stopped <= 1; stopped++) {
        struct env *e = begin("", 60000);
        advance(e, 5, 1);
        if (stopped)
            head_stop(e->head, 3000, "test");
        head_abort(e->head, 100, 0, "the launcher is gone");
        uint64_t end =
            pd_mono_ns() + 8000000000u; /* with a client the head would wait for over 10 s */
        while (!e->over && pd_mono_ns() < end)
            uv_run(&e->loop, UV_RUN_ONCE);
        assert_int_equal(e->over, 1);
        assert_string_equal(e->status, stopped ? "stopped" : "failed");
        finish(e);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_of_a_job),
        cmocka_unit_test(probed_from_another_machine),
        cmocka_unit_test(back_after_the_end),
        cmocka_unit_test(loopback_first_on_one_machine),
        cmocka_unit_test(who_shares_a_machine),
        cmocka_unit_test(how_pservers_end),
        cmocka_unit_test(a_pserver_that_leaves_its_trainers),
        cmocka_unit_test(a_trainer_whose_end_is_not_reported),
        cmocka_unit_test(pservers_that_end_before_a_report),
        cmocka_unit_test(a_node_that_comes_back_is_asked_again),
        cmocka_unit_test(lost_nodes_and_restarted_agents),
        cmocka_unit_test(who_is_missing_is_named),
        cmocka_unit_test(which_failure_is_told),
        cmocka_unit_test(failures_of_one_cause_are_one),
        cmocka_unit_test(a_witness_is_not_the_cause),
        cmocka_unit_test(failures_of_one_cause_are_one),
        cmocka_unit_test(a_failure_without_memory_is_told),
        cmocka_unit_test(failures_while_starting),
        cmocka_unit_test(stop_in_every_state),
        cmocka_unit_test(a_stop_ends_trainers_first),
        cmocka_unit_test(an_abort_does_not_wait_for_silent_nodes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
