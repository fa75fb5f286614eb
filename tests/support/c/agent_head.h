/* SPDX-License-Identifier: Apache-2.0 */
/* agent_head.h - the head with simulated nodes, for
 * tests/unit/agent/test_agent_{head,restart,lost,alone}.c. */
#pragma once

#include <setjmp.h>

#include <cmocka.h>

#include "agent/head/head.h"
#include "agent/core/msg.h"
#include "tests/support/c/append.h"
#include "wire/msg.h"

enum { N = 3, MAX_SENT = 256 };

struct sent {
    int node;
    uint16_t type;
    uint64_t req;
    json_t *body;
};

struct env {
    uv_loop_t loop;
    uv_timer_t tick;
    struct spec spec;
    struct pd_log log;
    json_t *peers;
    struct ag_head *head;
    struct sent sent[MAX_SENT];
    int n_sent, n_seen; /* n_seen: for go() of test_agent_lost.c */
    char state[16], text[400], states[400], status[16];
    json_t *failure, *pass; /* pass: the last event that a trainer reported */
    int n_passes;
    int later, over;
    int unheard; /* paddlectl is silent */
    int deaf;    /* a node that does not answer, or -1 */
};

static inline void on_send(void *arg, int node, uint16_t type, uint64_t req, json_t *body) {
    struct env *e = arg;
    assert_true(e->n_sent < MAX_SENT);
    assert_non_null(body);
    e->sent[e->n_sent++] = (struct sent){node, type, req, body};
}

static inline void on_state(void *arg, const char *state, const char *text) {
    struct env *e = arg;
    if (strcmp(e->state, state)) {
        append(e->states, sizeof e->states, *e->states ? " " : "");
        append(e->states, sizeof e->states, state);
    }
    snprintf(e->state, sizeof e->state, "%s", state);
    snprintf(e->text, sizeof e->text, "%s", text);
}

static inline void on_over(void *arg, const char *status, const json_t *first, int later) {
    struct env *e = arg;
    e->over++;
    e->later = later;
    snprintf(e->status, sizeof e->status, "%s", status);
    e->failure = first ? json_deep_copy(first) : NULL;
}

static inline void on_pass(void *arg, int node, const json_t *body, const json_t *event) {
    (void)node;
    (void)body;
    struct env *e = arg;
    json_decref(e->pass);
    e->pass = json_deep_copy(event);
    e->n_passes++;
}

static inline int on_heard(void *arg, uint64_t since_ns) {
    (void)since_ns;
    return !((struct env *)arg)->unheard;
}

static inline void on_tick(uv_timer_t *t) { (void)t; }

/* "0-2": nodes in rank order. */
static inline struct env *begin_with(const char *pservers, const char *trainers,
                                     const char *pserver_command, int extra_ms) {
    static const struct head_io io = {on_send, on_state, on_over, on_pass, on_heard};
    struct env *e = calloc(1, sizeof *e);
    struct pd_err err = {0};
    json_t *body = json_pack("{s:s, s:i, s:i, s:{s:b, s:s, s:s, s:s, s:i, s:i, s:i, s:i}}", "job",
                             "J", "node", 0, "n_nodes", N, "spec", "attached", 1, "pserver_nodes",
                             pservers, "trainer_nodes", trainers, "pserver_command",
                             pserver_command, "connect_ms", extra_ms, "end_ms", extra_ms,
                             "detach_lease_ms", extra_ms, "attach_lease_ms", 60000);
    assert_int_equal(spec_parse(&e->spec, body, "J", &err), 0);
    json_decref(body);
    e->peers = json_array();
    for (int i = 0; i < N; i++) {
        char name[24], a[24], b[24];
        snprintf(name, sizeof name, "host-%d", i);
        snprintf(a, sizeof a, "10.0.0.%d", i + 1);
        snprintf(b, sizeof b, "127.0.0.%d", i + 1);
        json_array_append_new(e->peers, json_pack("{s:s, s:[ss], s:i}", "name", name, "addrs", a, b,
                                                  "port", 7000 + i));
    }
    uv_loop_init(&e->loop);
    uv_timer_init(&e->loop, &e->tick);
    uv_timer_start(&e->tick, on_tick, 2, 2); /* makes UV_RUN_ONCE always return */
    pd_log_init(&e->log, -1, -1, PD_INFO);
    assert_int_equal(head_new(&e->head, &e->loop, &e->spec, e->peers, &e->log, &io, e, &err), 0);
    e->deaf = -1;
    return e;
}

static inline struct env *begin(const char *pserver_command, int extra_ms) {
    return begin_with("0-2", "2,1,0", pserver_command, extra_ms);
}

static inline void finish(struct env *e) {
    assert_true(e->over <= 1);
    head_free(e->head);
    uv_close((uv_handle_t *)&e->tick, NULL);
    uv_run(&e->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&e->loop), 0);
    for (int i = 0; i < e->n_sent; i++)
        json_decref(e->sent[i].body);
    json_decref(e->failure);
    json_decref(e->pass);
    json_decref(e->peers);
    spec_release(&e->spec);
    free(e);
}

static inline void join(struct env *e, int node, const char *net_id, int incarnation) {
    json_t *j = json_pack("{s:i, s:i, s:s, s:[], s:[]}", "node", node, "incarnation", incarnation,
                          "net_id", net_id, "ready", "exited");
    head_joined(e->head, node, j);
    json_decref(j);
}

static inline void join_all(struct env *e, int same) {
    char id[N][16];
    for (int i = 0; i < N; i++) {
        snprintf(id[i], sizeof id[i], "net%d", same ? 0 : i);
        join(e, i, id[i], 1);
    }
}

static inline struct sent *last(struct env *e, int node, uint16_t type) {
    for (int i = e->n_sent; i-- > 0;)
        if (e->sent[i].node == node && e->sent[i].type == type)
            return &e->sent[i];
    return NULL;
}

static inline int count(struct env *e, uint16_t type) {
    int n = 0;
    for (int i = 0; i < e->n_sent; i++)
        n += e->sent[i].type == type;
    return n;
}

static inline void reply(struct env *e, int node, uint16_t type, json_t *body) {
    struct sent *s = last(e, node, type);
    if (!s)
        fail_msg("%s was not sent to node %d", wire_msg_name(type), node);
    if (node != e->deaf)
        head_message(e->head, node, type, s->req, body, NULL);
    json_decref(body);
}

static inline void reply_probe(struct env *e, int node) {
    int target = (node + N - 1) % N;
    reply(e, node, WIRE_HD_PROBE,
          json_pack("{s:O}", "addr",
                    json_array_get(
                        json_object_get(json_array_get(e->peers, (size_t)target), "addrs"), 0)));
}

static inline void reply_bind(struct env *e, int node) {
    reply(e, node, WIRE_HD_BIND,
          json_pack("{s:i, s:i}", "pserver_port", 7164, "trainer_port", 7166));
}

static inline void ready(struct env *e, int node) {
    json_t *b = json_pack("{s:s}", "role", "pserver");
    head_message(e->head, node, WIRE_HD_READY, 0, b, NULL);
    json_decref(b);
}

/* A process ends. Its last lines are "last", or its own. */
static inline void exited_with(struct env *e, int node, const char *role, int code, int sig,
                               long time, const char *last_lines) {
    json_t *b = json_pack("{s:s, s:i, s:i, s:i, s:I, s:s}", "role", role, "rank", node, "exit_code",
                          code, "signal", sig, "time", (json_int_t)time, "last_lines", last_lines);
    head_message(e->head, node, WIRE_HD_EXITED, 0, b, NULL);
    json_decref(b);
}

static inline void exited(struct env *e, int node, const char *role, int code, int sig, long time) {
    char text[40];
    snprintf(text, sizeof text, "last of %s %d\n", role, node);
    exited_with(e, node, role, code, sig, time, text);
}

static inline void until_over(struct env *e) {
    uint64_t end = pd_mono_ns() + 60000000000u;
    int answered[N] = {0};
    while (!e->over && pd_mono_ns() < end) {
        for (int i = 0; i < N; i++)
            if (!answered[i] && last(e, i, WIRE_HD_END) && (answered[i] = 1))
                reply(e, i, WIRE_HD_END, json_object());
        if (!e->over)
            uv_run(&e->loop, UV_RUN_ONCE);
    }
    assert_true(e->over);
}

/* Advances the job to the beginning of a stage: 0 idle, 1 connecting, 2 probing, 3 binding, 4
 * pservers, 5 trainers. */
static inline void advance(struct env *e, int stage, int same) {
    if (stage >= 1)
        head_run(e->head);
    if (stage >= 2)
        join_all(e, same);
    for (int i = 0; stage >= 3 && i < N; i++)
        reply_probe(e, i);
    for (int i = 0; stage >= 4 && i < N; i++)
        reply_bind(e, i);
    for (int i = 0; stage >= 5 && i < N; i++)
        reply(e, i, WIRE_HD_START, json_object());
    for (int i = 0; stage >= 5 && i < N; i++)
        ready(e, i);
    for (int i = 0; stage >= 5 && i < N; i++)
        reply(e, i, WIRE_HD_START, json_object());
}

static inline void until_state(struct env *e, const char *state) {
    uint64_t end = pd_mono_ns() + 60000000000u;
    while (strcmp(e->state, state) && !e->over && pd_mono_ns() < end)
        uv_run(&e->loop, UV_RUN_ONCE);
    assert_string_equal(e->state, state);
}

/* Runs the job once more from binding to running trainers. */
static inline void start_again(struct env *e) {
    until_state(e, "restarting");
    for (int i = 0; i < N; i++)
        reply(e, i, WIRE_HD_END, json_object());
    until_state(e, "binding");
    for (int i = 0; i < N; i++)
        reply_bind(e, i);
    for (int i = 0; i < N; i++)
        reply(e, i, WIRE_HD_START, json_object());
    for (int i = 0; i < N; i++)
        ready(e, i);
    assert_string_equal(e->state, "trainers");
    for (int i = 0; i < N; i++)
        reply(e, i, WIRE_HD_START, json_object());
}

/* Waits for the text that names the missing nodes. The head publishes it after a delay. */
static inline void hear_notice(struct env *e, const char *text) {
    uint64_t end = pd_mono_ns() + 60000000000u;
    while (strcmp(e->text, text) && pd_mono_ns() < end)
        uv_run(&e->loop, UV_RUN_ONCE);
    assert_string_equal(e->text, text);
}
