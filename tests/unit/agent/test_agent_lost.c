/* SPDX-License-Identifier: Apache-2.0 */
/* test_agent_lost.c - nodes that are lost while a job runs: where their roles move, and when the
 * job continues without them. */
#include <setjmp.h>

#include <cmocka.h>

#include "tests/support/c/agent_head.h"

/* --- roles --- */

/* "0,2" */
static void put_nodes(struct roles *s, enum role r, const char *text) {
    assert_int_equal(roles_init(s, r), 0);
    for (; *text; text++)
        if (*text != ',')
            roles_add(s, r, *text - '0');
}

static void check_nodes(const char *name, const struct roles *s, enum role r, const char *want) {
    char got[40] = "";
    for (int i = 0; i < s->n[r]; i++) {
        const size_t n = strlen(got);
        pd_fmt(got + n, sizeof got - n, "%s%d", i ? "," : "", s->nodes[r][i]);
        assert_int_equal(roles_rank(s, r, s->nodes[r][i]), i);
    }
    for (int i = 0, n = 0; i < s->n_nodes; i++) {
        n += roles_rank(s, r, i) >= 0;
        if (i == s->n_nodes - 1)
            assert_int_equal(n, s->n[r]);
    }
    if (strcmp(got, want))
        fail_msg("%s: %ss on %s, not on %s", name, role_names[r], got, want);
}

static void where_roles_go(void **state) {
    static const struct {
        const char *name;
        int n_nodes;
        const char *pservers, *trainers, *lost; /* lost: nodes that are lost in turn */
        const char *then_pservers, *then_trainers;
    } rows[] = {
        {"all have both: one less of each", 3, "0,1,2", "2,1,0", "1", "0,2", "2,0"},
        {"the first rank: the others move up", 3, "0,1,2", "2,1,0", "2", "0,1", "1,0"},
        {"a spare takes both, with their ranks", 4, "0,1", "1,0", "1", "0,2", "2,0"},
        {"one spare after the other", 4, "0,1", "0,1", "12", "0,3", "0,3"},
        {"and when there is none any more", 4, "0,1", "0,1", "123", "0", "0"},
        {"who runs nothing is asked before who trains", 4, "0,1", "0,2", "1", "0,3", "0,2"},
        {"a pserver goes to a node that only trains", 3, "0,1", "2", "1", "0,2", "2"},
        {"of such the first", 4, "1", "0,2,3", "1", "0", "0,2,3"},
        {"each role its own way", 3, "0,1", "1,2", "1", "0,2", "0,2"},
        {"two roles, of which one has a place", 3, "0,1,2", "0,1", "1", "0,2", "0,2"},
        {"a node without roles", 3, "0,1", "0,1", "2", "0,1", "0,1"},
        {"no such role at all", 3, "", "0,1,2", "1", "", "0,2"},
    };
    (void)state;
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        struct roles s = {.n_nodes = rows[k].n_nodes}, copy;
        char gone[8] = {0};
        put_nodes(&s, ROLE_PSERVER, rows[k].pservers);
        put_nodes(&s, ROLE_TRAINER, rows[k].trainers);
        assert_int_equal(roles_copy(&copy, &s), 0);
        for (const char *at = rows[k].lost; *at; at++) {
            int to[N_ROLES], had[N_ROLES], node = *at - '0';
            for (int r = 0; r < N_ROLES; r++)
                had[r] = roles_rank(&copy, (enum role)r, node);
            gone[node] = 1;
            roles_leave(&copy, node, gone, to);
            assert_false(roles_any(&copy, node));
            for (int r = 0; r < N_ROLES; r++) {
                assert_true(had[r] >= 0 ? to[r] >= -1 : to[r] == -2);
                if (to[r] >= 0)
                    assert_int_equal(roles_rank(&copy, (enum role)r, to[r]),
                                     had[r]); /* the rank moves with the role */
            }
        }
        check_nodes(rows[k].name, &s, ROLE_PSERVER, rows[k].pservers);
        check_nodes(rows[k].name, &copy, ROLE_PSERVER, rows[k].then_pservers);
        check_nodes(rows[k].name, &copy, ROLE_TRAINER, rows[k].then_trainers);
        roles_release(&s);
        roles_release(&copy);
    }
}

/* --- the head --- */

static struct env *begin_losing(const char *pservers, const char *trainers) {
    struct env *e = begin_with(pservers, trainers, "", 60000);
    e->spec.job.max_restarts = 3;
    e->spec.job.restart_ms = 10;
    e->spec.job.detach_lease_ms = 100;
    return e;
}

/* Connected nodes answer the head's requests until the job is in this state or over. */
static void go(struct env *e, const char *state, const char *away) {
    uint64_t end = pd_mono_ns() + 60000000000u;
    while (pd_mono_ns() < end && !e->over && strcmp(e->state, state)) {
        if (e->n_seen == e->n_sent) {
            uv_run(&e->loop, UV_RUN_ONCE);
            continue;
        }
        struct sent s = e->sent[e->n_seen++];
        if (strchr(away, '0' + s.node))
            continue;
        if (s.type == WIRE_HD_PROBE)
            reply_probe(e, s.node);
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

static struct env *training(const char *pservers, const char *trainers) {
    struct env *e = begin_losing(pservers, trainers);
    head_run(e->head);
    join_all(e, 1);
    go(e, "trainers", "");
    return e;
}

/* The node's connection breaks for good. */
static void lose(struct env *e, int node) {
    head_lost(e->head, node);
    until_state(e, "restarting");
}

static const json_t *start_of(struct env *e, int node, const char *role) {
    for (int i = e->n_sent; i-- > 0 && e->sent[i].type != WIRE_HD_BIND;)
        if (e->sent[i].type == WIRE_HD_START && e->sent[i].node == node &&
            !strcmp(msg_str(e->sent[i].body, "role"), role))
            return e->sent[i].body;
    return NULL;
}

static void check_start(struct env *e, int node, const char *role, int rank, int trainers,
                        const char *servers) {
    const json_t *b = start_of(e, node, role);
    if (!b || msg_int(b, "rank", 0, 9, -1) != rank ||
        msg_int(b, "trainers", 0, 9, -1) != trainers ||
        strcmp(msg_str(json_object_get(b, "env"), "PADDLE_PSERVERS_IP_PORT_LIST"), servers))
        fail_msg("%s on node %d: %s, not rank %d of %d with %s", role, node,
                 b ? json_dumps(b, 0) : "not started", rank, trainers, servers);
}

static void end_well(struct env *e, const char *away) {
    for (int i = 0; i < N; i++)
        if (!strchr(away, '0' + i)) {
            exited(e, i, "trainer", 0, 0, 0);
            exited(e, i, "pserver", 0, 0, 0);
        }
    go(e, "over", away);
    assert_string_equal(e->status, "done");
    assert_null(e->failure);
}

static void the_job_goes_on_without_it(void **state) {
    (void)state;
    struct env *e = training("0-2", "2,1,0");
    assert_int_equal(json_array_size(head_lost_nodes(e->head)), 0);
    check_start(e, 1, "trainer", 1, 3, "10.0.0.1:7164,10.0.0.2:7164,10.0.0.3:7164");
    lose(e, 1);
    assert_string_equal(e->text, "restart 1 of 3 after node 1 (host-1): its agent is gone: the "
                                 "connection to it broke and did not come back"
                                 "; 2 pservers are left; 2 trainers are left");
    const json_t *v = json_array_get(head_lost_nodes(e->head), 0);
    assert_int_equal(msg_int(v, "node", 0, 9, 9), 1);
    assert_string_equal(msg_str(v, "host"), "host-1");
    assert_non_null(strstr(msg_str(v, "reason"), "its agent is gone"));
    go(e, "trainers", "1");
    assert_string_equal(e->text, "2 pservers, 2 trainers");
    check_start(e, 0, "pserver", 0, 2, "10.0.0.1:7164,10.0.0.3:7164");
    check_start(e, 2, "pserver", 1, 2, "10.0.0.1:7164,10.0.0.3:7164");
    check_start(e, 2, "trainer", 0, 2, "10.0.0.1:7164,10.0.0.3:7164");
    check_start(e, 0, "trainer", 1, 2, "10.0.0.1:7164,10.0.0.3:7164");
    assert_null(start_of(e, 1, "trainer"));
    assert_string_equal(
        msg_str(json_object_get(start_of(e, 0, "trainer"), "env"), "PADDLE_LOST_NODES"),
        "node 1 (host-1)");
    lose(e, 2); /* node 2 is lost, too */
    go(e, "trainers", "12");
    check_start(e, 0, "pserver", 0, 1, "10.0.0.1:7164");
    check_start(e, 0, "trainer", 0, 1, "10.0.0.1:7164");
    assert_string_equal(
        msg_str(json_object_get(start_of(e, 0, "trainer"), "env"), "PADDLE_LOST_NODES"),
        "node 1 (host-1), node 2 (host-2)");
    end_well(e, "12");
    finish(e);
}

static void a_spare_takes_its_place(void **state) {
    (void)state;
    struct env *e = training("0-1", "1,0");
    assert_null(last(e, 2, WIRE_HD_BIND));
    lose(e, 1);
    assert_non_null(strstr(
        e->text, "; its pserver goes to node 2 (host-2); its trainer goes to node 2 (host-2)"));
    go(e, "trainers", "1");
    check_start(e, 2, "pserver", 1, 2, "10.0.0.1:7164,10.0.0.3:7164");
    check_start(e, 2, "trainer", 0, 2, "10.0.0.1:7164,10.0.0.3:7164");
    check_start(e, 0, "trainer", 1, 2, "10.0.0.1:7164,10.0.0.3:7164");
    end_well(e, "1");
    finish(e);
}

/* A job does not need a node without processes. It may be lost while the others train, or its lease
 * may be pending when they are done. If no node may be lost, its loss is a failure, like that of
 * any node. */
static void a_spare_is_lost(void **state) {
    (void)state;
    struct env *e = training("0-1", "1,0");
    head_lost(e->head, 2);
    for (uint64_t end = pd_mono_ns() + 60000000000u;
         !json_array_size(head_lost_nodes(e->head)) && pd_mono_ns() < end;)
        uv_run(&e->loop, UV_RUN_ONCE);
    assert_string_equal(msg_str(json_array_get(head_lost_nodes(e->head), 0), "host"), "host-2");
    assert_string_equal(e->state, "trainers");
    assert_string_equal(e->text, "2 pservers, 2 trainers");
    lose(e, 1);
    assert_non_null(strstr(e->text, "restart 1 of 3"));
    assert_non_null(strstr(e->text, "; 1 pserver is left; 1 trainer is left"));
    go(e, "trainers", "12");
    end_well(e, "12");
    finish(e);

    e = training("0-1", "1,0");
    e->spec.job.detach_lease_ms = 600000;
    head_lost(e->head, 2);
    end_well(e, "2");
    assert_string_equal(msg_str(json_array_get(head_lost_nodes(e->head), 0), "host"), "host-2");
    finish(e);

    /* A node that was away for a moment, and has ended on request while the others are still
     * ending. */
    e = training("0-1", "1,0");
    e->spec.job.detach_lease_ms = 600000;
    head_lost(e->head, 2);
    join(e, 2, "net0", 1);
    for (int i = 0; i < 2; i++) {
        exited(e, i, "trainer", 0, 0, 0);
        exited(e, i, "pserver", 0, 0, 0);
    }
    reply(e, 2, WIRE_HD_END, json_object());
    head_lost(e->head, 2);
    go(e, "over", "2");
    assert_string_equal(e->status, "done");
    assert_int_equal(json_array_size(head_lost_nodes(e->head)), 0);
    finish(e);

    e = training("0-1", "1,0");
    e->spec.job.max_restarts = 0;
    head_lost(e->head, 2);
    go(e, "over", "2");
    assert_string_equal(e->status, "failed");
    finish(e);
}

static void its_peers_fail_first(void **state) {
    (void)state;
    struct env *e = training("0-1", "0-1");
    e->spec.job.detach_lease_ms = 60000;
    head_lost(e->head, 1);
    exited(e, 0, "trainer", 1, 0, 0);
    until_state(e, "restarting");
    assert_non_null(strstr(e->text, "restart 1 of 3 after trainer 0 on host-0: exit status 1"));
    reply(e, 0, WIRE_HD_END, json_object());
    reply(e, 2, WIRE_HD_END, json_object());
    assert_string_equal(e->state, "restarting");
    e->spec.job.detach_lease_ms = 100;
    hear_notice(e, "restart 1 of 3 after node 1 (host-1): its agent is gone: the connection to it "
                   "broke and did not come back"
                   "; its pserver goes to node 2 (host-2); its trainer goes to node 2 (host-2)");
    go(e, "trainers", "1");
    check_start(e, 2, "trainer", 1, 2, "10.0.0.1:7164,10.0.0.3:7164");
    assert_non_null(
        strstr(msg_str(start_of(e, 2, "trainer"), "note"), "restart 1 of 3 after node 1"));
    end_well(e, "1");
    finish(e);
}

/* Its agent got TERM: the guardian was killed, or the machine is being shut down. */
static void it_leaves(void **state) {
    (void)state;
    struct env *e = training("0-2", "0-2");
    json_t *b = json_pack("{s:s, s:s}", "reason", "the agent got signal 15", "role", "agent");
    head_message(e->head, 1, WIRE_HD_FAIL, 0, b, NULL);
    json_decref(b);
    until_state(e, "restarting");
    assert_string_equal(e->text, "restart 1 of 3 after node 1 (host-1): the agent got signal 15; 2 "
                                 "pservers are left; 2 trainers are left");
    go(e, "trainers", "1");
    check_start(e, 2, "trainer", 1, 2, "10.0.0.1:7164,10.0.0.3:7164");
    end_well(e, "1");
    finish(e);
}

static void it_comes_back_in_time(void **state) {
    (void)state;
    struct env *e = training("0-2", "0-2");
    e->spec.job.detach_lease_ms = 60000;
    head_lost(e->head, 1);
    uint64_t end = pd_mono_ns() + 300000000u;
    while (pd_mono_ns() < end)
        uv_run(&e->loop, UV_RUN_ONCE);
    join(e, 1, "net0", 1);
    assert_string_equal(e->state, "trainers");
    exited(e, 2, "trainer", 1, 0, 0); /* the node obeys the head's requests again */
    go(e, "restarting", "");
    go(e, "trainers", "");
    check_start(e, 1, "trainer", 1, 3, "10.0.0.1:7164,10.0.0.2:7164,10.0.0.3:7164");
    assert_int_equal(json_array_size(head_lost_nodes(e->head)), 0);
    finish(e);
}

/* The head stood still for long: the others may have another head. Without a word of paddlectl it
 * starts nothing. */
static void the_head_is_alone(void **state) {
    (void)state;
    struct env *e = training("0-2", "0-2");
    e->unheard = 1;
    lose(e, 1);
    reply(e, 0, WIRE_HD_END, json_object());
    reply(e, 2, WIRE_HD_END, json_object());
    for (uint64_t end = pd_mono_ns() + 1200000000u; pd_mono_ns() < end;)
        uv_run(&e->loop, UV_RUN_ONCE);
    assert_string_equal(e->state, "restarting");
    e->unheard = 0;
    go(e, "trainers", "1");
    end_well(e, "1");
    finish(e);
}

/* The node was cut off, and its roles have moved. */
static void it_comes_back_too_late(void **state) {
    (void)state;
    struct env *e = training("0-2", "0-2");
    lose(e, 1);
    int asked = e->n_sent;
    join(e, 1, "net0", 1);
    assert_int_equal(e->n_sent, asked + 1);
    const json_t *end = last(e, 1, WIRE_HD_END)->body;
    assert_false(msg_bool(end, "restart"));
    assert_string_equal(msg_str(end, "status"), "failed");
    assert_non_null(strstr(msg_str(end, "reason"), "the job went on without it"));
    exited(e, 1, "trainer", 1, 0, 0); /* the head ignores the message */
    json_t *b = json_pack("{s:s}", "reason", "node 1 has not heard of node 0 for 60000 ms");
    head_message(e->head, 1, WIRE_HD_FAIL, 0, b, NULL);
    json_decref(b);
    head_lost(e->head, 1);
    go(e, "trainers", "1");
    assert_null(start_of(e, 1, "pserver"));
    join(e, 1, "net0", 1);
    assert_string_equal(e->state, "trainers");
    end_well(e, "1");
    finish(e);
}

static void at_binding(struct env *e) {
    head_run(e->head);
    join_all(e, 1);
    go(e, "binding", "");
}
static void at_pservers(struct env *e) {
    head_run(e->head);
    join_all(e, 1);
    go(e, "pservers", "");
}
static void at_trainers(struct env *e) {
    head_run(e->head);
    join_all(e, 1);
    go(e, "trainers", "");
}
static void at_backoff(struct env *e) {
    at_trainers(e);
    e->spec.job.restart_ms = 2000;
    exited(e, 0, "trainer", 1, 0, 0);
    until_state(e, "restarting");
    for (int i = 0; i < N; i++)
        reply(e, i, WIRE_HD_END, json_object());
}
static void at_second_binding(struct env *e) {
    at_trainers(e);
    exited(e, 0, "trainer", 1, 0, 0);
    go(e, "restarting", "");
    go(e, "binding", "");
}
static void with_local_data(struct env *e) {
    json_object_set_new(json_object_get(e->spec.whole, "spec"), "train",
                        json_pack("{s:s}", "data_layout", "local"));
    e->spec.train = json_object_get(json_object_get(e->spec.whole, "spec"), "train");
    at_trainers(e);
}
static void without_restarts(struct env *e) {
    e->spec.job.max_restarts = 0;
    at_trainers(e);
}
static void at_the_last_one(struct env *e) {
    e->spec.job.max_restarts = 1;
    at_trainers(e);
    lose(e, 2);
    go(e, "trainers", "2");
}
static void at_ending(struct env *e) {
    at_trainers(e);
    for (int i = 0; i < N; i++)
        exited(e, i, "trainer", 0, 0, 0);
}
static void at_saving(struct env *e) {
    at_trainers(e);
    head_save(e->head, 60000, 10, "test");
}
static void beside_what_would_come_again(struct env *e) {
    at_trainers(e);
    json_t *b =
        json_pack("{s:s, s:i, s:i, s:b}", "role", "trainer", "rank", 0, "exit_code", 2, "final", 1);
    head_message(e->head, 0, WIRE_HD_EXITED, 0, b, NULL);
    json_decref(b);
}

static void when_it_goes_on(void **state) {
    static const char gone[] =
        "its agent is gone: the connection to it broke and did not come back";
    static const struct {
        const char *name, *pservers, *trainers;
        void (*prepare)(struct env *e);
        int goes_on, restarts; /* restarts: how often the job was restarted then */
        const char *reason, *status;
    } rows[] = {
        {"before anything runs", "0-2", "0-2", at_binding, 0, 0, gone, "failed"},
        {"while pservers start", "0-2", "0-2", at_pservers, 1, 1, NULL, NULL},
        {"while trainers run", "0-2", "0-2", at_trainers, 1, 1, NULL, NULL},
        {"while it waits for the next try", "0-2", "0-2", at_backoff, 1, 1, NULL, NULL},
        {"while it binds again", "0-2", "0-2", at_second_binding, 1, 2, NULL, NULL},
        {"its own data", "0-2", "0-2", with_local_data, 0, 0,
         "its agent is gone: the connection to it broke and did not come back, and with it the "
         "data that only it has (data_layout = local)",
         "failed"},
        {"others' own data", "0-2", "0,2", with_local_data, 1, 1, NULL, NULL},
        {"no restarts", "0-2", "0-2", without_restarts, 0, 0, gone, "failed"},
        {"no more restarts", "0-2", "0-2", at_the_last_one, 0, 1, gone, "failed"},
        {"when the trainers are done", "0-2", "0-2", at_ending, 0, 0, gone, "failed"},
        {"while it saves and stops", "0-2", "0-2", at_saving, 0, 0, gone, "stopped"},
        {"when it would fail again", "0-2", "0-2", beside_what_would_come_again, 0, 0, gone,
         "failed"},
    };
    (void)state;
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        struct env *e = begin_losing(rows[k].pservers, rows[k].trainers);
        char restarts[8];
        rows[k].prepare(e);
        head_lost(e->head, 1);
        uint64_t end = pd_mono_ns() + 60000000000u;
        while (pd_mono_ns() < end && strcmp(e->state, "ending") &&
               !(json_array_size(head_lost_nodes(e->head)) && !strcmp(e->state, "restarting")))
            uv_run(&e->loop, UV_RUN_ONCE);
        if (rows[k].goes_on) {
            go(e, "trainers", "1");
            snprintf(restarts, sizeof restarts, "%d", rows[k].restarts);
            if (e->over || strcmp(msg_str(json_object_get(start_of(e, 0, "trainer"), "env"),
                                          "PADDLE_RESTART_COUNT"),
                                  restarts))
                fail_msg("%s: %s", rows[k].name,
                         e->over ? e->status
                                 : msg_str(json_object_get(start_of(e, 0, "trainer"), "env"),
                                           "PADDLE_RESTART_COUNT"));
            end_well(e, "1");
        } else {
            go(e, "over", "1");
            if (!e->over || strcmp(e->status, rows[k].status) || !e->failure ||
                strcmp(msg_str(e->failure, "reason"), rows[k].reason))
                fail_msg("%s: %s, '%s'", rows[k].name, e->status, msg_str(e->failure, "reason"));
        }
        finish(e);
    }
}

/* A silent node that was given up finally ends on request. Its connection breaks, which must not
 * count as a second loss. */
static void ends_after_all(struct env *e, int node) {
    if (node < 0)
        return;
    uint64_t end = pd_mono_ns() + 400000000u;
    size_t n = json_array_size(head_lost_nodes(e->head));
    e->spec.job.detach_lease_ms = 100;
    head_lost(e->head, node);
    while (pd_mono_ns() < end) {
        uv_run(&e->loop, UV_RUN_NOWAIT);
        usleep(500);
    }
    assert_int_equal(json_array_size(head_lost_nodes(e->head)), n);
    assert_string_equal(e->state, "trainers");
}

/* The node was away for longer than an end may take, joins again, and then needs some time to end
 * its processes. */
static void come_back(struct env *e, uint64_t began) {
    uint64_t ms = (pd_mono_ns() - began) / 1000000u;
    if (ms > 11000 && !head_has(e->head, 1)) {
        e->spec.job.grace_ms = 60000;
        join(e, 1, "net0", 1);
    } else if (ms > 12500 && head_has(e->head, 1) && !strcmp(e->state, "restarting")) {
        reply(e, 1, WIRE_HD_END, json_object());
    }
}

/* All nodes must end their processes, and one does not answer. A node that is away has time until
 * its lease ends. A node that is connected but silent is given up 10 s after the grace period. */
static void who_does_not_answer_a_restart(void **state) {
    static const struct {
        const char *name, *silent;
        int lost; /* -1: all are connected */
        const char *then_without;
        int back;
    } rows[] = {{"away", "", 1, "1", 0},
                {"there", "2", -1, "2", 0},
                {"one of each", "2", 1, "12", 0},
                {"the head's own", "0", -1, NULL, 0},
                {"away, and back", "", 1, "", 1}};
    enum { ROWS = sizeof rows / sizeof rows[0] };
    struct env *e[ROWS];
    int left = ROWS;
    (void)state;
    for (int k = 0; k < ROWS; k++) {
        e[k] = training("0-2", "0-2");
        e[k]->spec.job.grace_ms = 0;
        e[k]->spec.job.detach_lease_ms = rows[k].back ? 600000 : 12000;
        if (rows[k].lost >= 0)
            head_lost(e[k]->head, rows[k].lost);
        exited(e[k], 0, "trainer", 1, 0, 0);
        until_state(e[k], "restarting");
        for (int i = 0; i < N; i++)
            if (i != rows[k].lost && !strchr(rows[k].silent, '0' + i))
                reply(e[k], i, WIRE_HD_END, json_object());
    }
    for (uint64_t began = pd_mono_ns();
         left && pd_mono_ns() - began < 60000000000u;) /* all rows run at the same time */
        for (int k = left = 0; k < ROWS; k++) {
            uv_run(&e[k]->loop, UV_RUN_NOWAIT);
            if (rows[k].back)
                come_back(e[k], began);
            left += !strcmp(e[k]->state, "restarting");
            usleep(500);
        }
    for (int k = 0; k < ROWS; k++) {
        const char *away = rows[k].then_without;
        size_t n = away ? strlen(away) : 0;
        if (json_array_size(head_lost_nodes(e[k]->head)) != n ||
            strcmp(e[k]->state, away ? "binding" : "ending"))
            fail_msg("%s: %s, %zu lost", rows[k].name, e[k]->state,
                     json_array_size(head_lost_nodes(e[k]->head)));
        if (away) {
            go(e[k], "trainers", away);
            assert_int_equal(msg_int(start_of(e[k], 0, "trainer"), "trainers", 0, 9, 9), N - n);
            ends_after_all(e[k], *rows[k].silent - '0');
            end_well(e[k], away);
        }
        finish(e[k]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(where_roles_go),
        cmocka_unit_test(the_job_goes_on_without_it),
        cmocka_unit_test(a_spare_takes_its_place),
        cmocka_unit_test(a_spare_is_lost),
        cmocka_unit_test(its_peers_fail_first),
        cmocka_unit_test(it_leaves),
        cmocka_unit_test(it_comes_back_in_time),
        cmocka_unit_test(it_comes_back_too_late),
        cmocka_unit_test(the_head_is_alone),
        cmocka_unit_test(when_it_goes_on),
        cmocka_unit_test(who_does_not_answer_a_restart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
