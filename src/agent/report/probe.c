/* probe.c - see probe.h. */
#include "agent/report/probe.h"

#include "net/conn.h"

struct probe_try {
    struct probe *probe;
    struct net_conn *conn;
    uint64_t began_ns;
};

struct probe {
    void (*done)(void *arg, const struct probe_result *v, size_t n);
    void *arg;
    json_t *addrs;
    int port;
    uint32_t node;
    size_t n, n_open; /* n: addresses; n_open: connections that are not closed yet */
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

static void one_less(struct probe *p) {
    if (--p->n_open)
        return;
    p->done(p->arg, p->result, p->n);
    json_decref(p->addrs);
    free(p);
}

static void on_close(struct net_conn *c, const struct pd_err *why, void *arg) {
    const struct probe_try *t = arg;
    struct probe_result *r = result_of(t);
    (void)c;
    if (!r->ok && !*r->why)
        snprintf(r->why, sizeof r->why, "%.50s port %d: %.120s", r->addr, t->probe->port, why->msg);
    one_less(t->probe);
}

int probe_node(struct agent_core *core, const struct wire_hs_opts *hs,
               const struct probe_target *target,
               void (*done)(void *arg, const struct probe_result *v, size_t n), void *arg,
               struct pd_err *err) {
    static const struct net_events ev = {on_open, on_frame, NULL, on_close};
    const struct net_opts opts = {
        .max_frame = 4096, .handshake_timeout_ms = PROBE_MS, .log = &core->log};
    const json_t *v;
    size_t i;
    struct probe *p = pd_calloc(1, sizeof *p);
    if (!p)
        return pd_oom(err, "a probe");
    *p = (struct probe){.done = done,
                        .arg = arg,
                        .addrs = json_incref((json_t *)(uintptr_t)target->addrs),
                        .port = target->port,
                        .node = target->node,
                        .n_open = 1};
    json_array_foreach (target->addrs, i, v) {
        struct pd_err why = {0};
        if (i == target->max || i == PROBE_ADDRS_MAX || !json_is_string(v))
            break;
        struct probe_result *r = &p->result[p->n];
        struct probe_try *t = &p->try[p->n++];
        r->addr = json_string_value(v);
        *t = (struct probe_try){.probe = p, .began_ns = pd_mono_ns()};
        if (net_connect(&t->conn, &core->loop, r->addr, p->port, PROBE_MS, hs, &opts, &ev, t, &why))
            snprintf(r->why, sizeof r->why, "%.190s", why.msg);
        else
            p->n_open++;
    }
    one_less(p);
    return 0;
}

const struct probe_result *probe_best(const struct probe_result *v, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (v[i].ok)
            return &v[i];
    return NULL;
}
