/* SPDX-License-Identifier: Apache-2.0 */
/* probe.c - see probe.h. */
#include "agent/report/probe.h"

#include "net/conn.h"

enum { AGAIN_MS = 300 };

struct probe_try {
    struct probe *probe;
    struct net_conn *conn;
    uint64_t began_ns;
};

struct probe {
    void (*done)(void *arg, const struct probe_result *v, size_t n);
    void *arg;
    struct agent_core *core;
    struct wire_hs_opts hs;
    json_t *addrs;
    int port;
    uint32_t node;
    size_t n, n_open; /* n: addresses; n_open: connections that are not closed yet */
    uint64_t began_ns;
    uv_timer_t again;
    struct probe_try try[PROBE_ADDRS_MAX];
    struct probe_result result[PROBE_ADDRS_MAX];
};

static struct probe_result *result_of(const struct probe_try *t) {
    return &t->probe->result[t - t->probe->try];
}

static void on_open(struct net_conn *c, void *arg) {
    const struct probe_try *t = arg;
    struct probe_result *r = result_of(t);
    const struct wire_hello *h = net_peer(c);
    r->ok = h->role == WIRE_ROLE_AGENT && h->id == t->probe->node;
    r->ms = (double)(pd_mono_ns() - t->began_ns) / 1e6;
    if (!r->ok)
        snprintf(r->why, sizeof r->why, "node %u answers at %.50s", (unsigned)h->id, r->addr);
    net_close(c);
}

static void on_frame(struct net_conn *c, struct wire_frame *f, void *arg) {
    (void)c;
    (void)arg;
    wire_frame_free(f);
}

static void on_again_closed(uv_handle_t *t) { pd_secret_free(t->data, sizeof(struct probe)); }

static void finish(struct probe *p) {
    p->done(p->arg, p->result, p->n);
    json_decref(p->addrs);
    uv_close((uv_handle_t *)&p->again, on_again_closed);
}

static void try_all(struct probe *p);

static void on_again(uv_timer_t *t) {
    struct probe *p = t->data;
    if (p->core->quitting)
        finish(p);
    else
        try_all(p);
}

static void one_less(struct probe *p) {
    if (--p->n_open)
        return;
    if (!p->n || probe_best(p->result, p->n) ||
        pd_mono_ns() - p->began_ns >= PROBE_MS * UINT64_C(1000000))
        finish(p);
    else
        uv_timer_start(&p->again, on_again, AGAIN_MS, 0);
}

static void on_close(struct net_conn *c, const struct pd_err *why, void *arg) {
    const struct probe_try *t = arg;
    struct probe_result *r = result_of(t);
    (void)c;
    if (!r->ok && !*r->why)
        snprintf(r->why, sizeof r->why, "%.50s port %d: %.120s", r->addr, t->probe->port, why->msg);
    one_less(t->probe);
}

static void try_all(struct probe *p) {
    static const struct net_events ev = {on_open, on_frame, NULL, on_close};
    const struct net_opts opts = {
        .max_frame = 4096, .handshake_timeout_ms = PROBE_MS, .log = &p->core->log};
    p->n_open = 1;
    for (size_t i = 0; i < p->n; i++) {
        struct pd_err why = {0};
        struct probe_result *r = &p->result[i];
        struct probe_try *t = &p->try[i];
        *r = (struct probe_result){.addr = json_string_value(json_array_get(p->addrs, i))};
        *t = (struct probe_try){.probe = p, .began_ns = pd_mono_ns()};
        if (net_connect(&t->conn, &p->core->loop, r->addr, p->port, PROBE_MS, &p->hs, &opts, &ev, t,
                        &why))
            snprintf(r->why, sizeof r->why, "%.190s", why.msg);
        else
            p->n_open++;
    }
    one_less(p);
}

int probe_node(struct agent_core *core, const struct wire_hs_opts *hs,
               const struct probe_target *target,
               void (*done)(void *arg, const struct probe_result *v, size_t n), void *arg,
               struct pd_err *err) {
    struct probe *p = pd_secret_new(sizeof *p);
    if (!p)
        return pd_oom(err, "a probe");
    *p = (struct probe){.done = done,
                        .arg = arg,
                        .core = core,
                        .hs = *hs,
                        .addrs = json_incref((json_t *)(uintptr_t)target->addrs),
                        .port = target->port,
                        .node = target->node,
                        .began_ns = pd_mono_ns()};
    while (p->n < target->max && p->n < PROBE_ADDRS_MAX &&
           json_is_string(json_array_get(p->addrs, p->n)))
        p->n++;
    uv_timer_init(&core->loop, &p->again);
    p->again.data = p;
    try_all(p);
    return 0;
}

const struct probe_result *probe_best(const struct probe_result *v, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (v[i].ok)
            return &v[i];
    return NULL;
}
