/* SPDX-License-Identifier: Apache-2.0 */
/* agent_node.h - the processes of a node, controlled by messages like the head's. */
#pragma once

#include <setjmp.h>

#include <cmocka.h>

#include <sys/wait.h>

#include "agent/core/msg.h"
#include "agent/process/node.h"
#include "wire/msg.h"

struct said {
    uint16_t type;
    uint64_t req;
    json_t *body;
    struct pd_err err;
};

struct env {
    uv_loop_t loop;
    uv_signal_t chld;
    uv_timer_t limit;
    struct node_paths paths;
    struct spec spec;
    struct logs logs;
    struct pd_log log;
    struct ag_node *node;
    struct end_waiter waits; /* for one end at a time */
    struct said said[32];
    int n_said, ended, late, ticks;
};

static inline void on_send(void *arg, uint16_t type, uint64_t req, json_t *body) {
    struct env *e = arg;
    assert_true(e->n_said < 32);
    assert_non_null(body);
    e->said[e->n_said++] = (struct said){.type = type, .req = req, .body = body};
}

static inline void on_refuse(void *arg, uint16_t type, uint64_t req, const struct pd_err *err) {
    struct env *e = arg;
    e->said[e->n_said++] = (struct said){.type = type, .req = req, .err = *err};
}

static inline void on_grew(void *arg) { (void)arg; }
static inline void on_child(uv_signal_t *h, int sig) {
    (void)sig;
    node_reap(((struct env *)h->data)->node);
}
/* Ticks, so that UV_RUN_ONCE also returns after the callback of another timer. */
static inline void on_limit(uv_timer_t *t) {
    struct env *e = t->data;
    e->late = ++e->ticks > 12000;
}
static inline void limit_60s(struct env *e) {
    e->ticks = 0;
    uv_timer_start(&e->limit, on_limit, 5, 5);
}
static inline void on_ended(void *arg) { ((struct env *)arg)->ended = 1; }
static inline struct end_waiter *waiter(struct env *e) {
    e->waits = (struct end_waiter){.done = on_ended, .arg = e};
    return &e->waits;
}

static inline struct env *begin(const char *pserver_command, const char *trainer_command) {
    struct env *e = calloc(1, sizeof *e);
    char root[] = "/tmp/agent-node-XXXXXX";
    static const struct node_io io = {on_send, on_refuse, on_grew, NULL};
    struct pd_err err = {0};
    assert_non_null(mkdtemp(root));
    assert_int_equal(node_paths_init(&e->paths, root, "J1", &err), 0);
    assert_int_equal(node_paths_make_job(&e->paths, 2, &err), 0);
    json_t *setup = json_pack(
        "{s:s, s:i, s:i, s:{s:b, s:s, s:s, s:[i], s:[i,i], s:i, s:i, s:i, s:{s:s,s:s}, s:{s:s}, "
        "s:i}}",
        "job", "J1", "node", 2, "n_nodes", 3, "spec", "attached", 1, "pserver_command",
        pserver_command, "trainer_command", trainer_command, "pserver_nodes", 2, "trainer_nodes", 1,
        2, "port", 21000, "ports_num", 2, "ports_num_for_sparse", 1, "env", "MY_NAME", "my value",
        "OPENBLAS_CORETYPE", "Haswell", "train", "num-passes", "7", "ready_ms", 2000);
    assert_non_null(setup);
    assert_int_equal(spec_parse(&e->spec, setup, "J1", &err), 0);
    json_decref(setup);
    char ws[PATH_MAX];
    assert_int_equal(pd_fmt(ws, sizeof ws, "%s/workspace", e->paths.dir), 0);
    assert_int_equal(mkdir(ws, 0755), 0);
    uint8_t key[32] = {1, 2, 3};
    if (node_lay_out(&e->paths, &e->spec, key, &err))
        fail_msg("%s", err.msg);
    assert_int_equal(logs_open(&e->logs, e->paths.dir, 0, &err), 0);
    pd_log_init(&e->log, -1, -1, PD_INFO);
    uv_loop_init(&e->loop);
    uv_signal_init(&e->loop, &e->chld);
    uv_timer_init(&e->loop, &e->limit);
    e->chld.data = e->limit.data = e;
    uv_signal_start(&e->chld, on_child, SIGCHLD);
    assert_int_equal(
        node_new(&e->node, &e->loop, &e->paths, &e->spec, &e->logs, &e->log, &io, e, &err), 0);
    return e;
}

/* Runs the loop until `type` was sent for the n-th time, or fails after 60 s. */
static inline struct said *hear(struct env *e, uint16_t type, int nth) {
    limit_60s(e);
    for (;;) {
        int seen = 0;
        for (int i = 0; i < e->n_said; i++)
            if (e->said[i].type == type && ++seen == nth)
                return &e->said[i];
        if (e->late)
            fail_msg("%s did not come", wire_msg_name(type));
        uv_run(&e->loop, UV_RUN_ONCE);
    }
}

static inline void tell(struct env *e, uint16_t type, uint64_t req, json_t *body) {
    node_message(e->node, type, req, body);
    json_decref(body);
}

static inline void finish(struct env *e) {
    node_end(e->node, NODE_END, 100, waiter(e));
    limit_60s(e);
    while (!e->ended && !e->late)
        uv_run(&e->loop, UV_RUN_ONCE);
    assert_true(e->ended);
    siginfo_t si;
    assert_true(waitid(P_ALL, 0, &si, WEXITED | WNOHANG | WNOWAIT) < 0 && errno == ECHILD);
    assert_true(e->logs.f[LOG_TRAIN].complete);
    node_free(e->node);
    uv_close((uv_handle_t *)&e->chld, NULL);
    uv_close((uv_handle_t *)&e->limit, NULL);
    uv_run(&e->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&e->loop), 0);
    for (int i = 0; i < e->n_said; i++)
        json_decref(e->said[i].body);
    logs_close(&e->logs);
    spec_release(&e->spec);
    pd_rm_tree(e->paths.root, NULL);
    free(e);
}

static inline void bind_roles(struct env *e, int pserver, int trainer) {
    tell(e, WIRE_HD_BIND, 1,
         json_pack("{s:b, s:b, s:s}", "pserver", pserver, "trainer", trainer, "addr", "127.0.0.1"));
    struct said *s = hear(e, WIRE_HD_BIND, 1);
    if (s->err.code)
        fail_msg("%s", s->err.msg);
    assert_int_equal(msg_int(s->body, "pserver_port", 0, 65535, 0) != 0, pserver);
}

/* The number of elements of an array in the HD_JOIN that the node would send now. */
static inline size_t joins_with(struct env *e, const char *key) {
    struct hd_join join = {0};
    node_describe(e->node, &join);
    json_t *o = wire_put(&wire_hd_join, &join);
    const size_t n = json_array_size(json_object_get(o, key));
    json_decref(o);
    json_decref(join.ready);
    json_decref(join.exited);
    return n;
}

static inline void start(struct env *e, const char *role, uint64_t req) {
    tell(e, WIRE_HD_START, req,
         json_pack("{s:s, s:i, s:i, s:{s:s, s:s}}", "role", role, "rank", 0, "trainers", 2, "env",
                   "PADDLE_PSERVERS_IP_PORT_LIST", "127.0.0.1:21000", "POD_IP", "127.0.0.1"));
}

#define line(out, ...) assert_int_equal(pd_fmt(out, PATH_MAX, __VA_ARGS__), 0)

static inline void read_log(struct env *e, const char *name, struct pd_buf *b) {
    char p[PATH_MAX];
    assert_int_equal(pd_fmt(p, sizeof p, "%s/log/%s", e->paths.dir, name), 0);
    pd_buf_init(b);
    assert_int_equal(pd_read_file(p, 1 << 20, b, NULL), 0);
}
