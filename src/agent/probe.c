/* probe.c - HD_PROBE: which address of a peer answers? All candidates are tried at once, each with the whole
 * handshake, which proves the job's key and tells the node's id: no wrong machine, no other job's agent. The
 * first that works in the order given is the answer. */
#include <stdlib.h>
#include <string.h>

#include "agent/job.h"
#include "agent/msg.h"
#include "base/fault.h"
#include "net/conn.h"
#include "wire/msg.h"

enum { PROBE_MS = 3000, MAX_ADDRS = 64 };

struct probe;

struct attempt {
    struct probe *probe;
    const char *addr; /* points into probe->body */
    int ok, done;
};

struct probe {
    struct job *job;
    json_t *body;
    uint64_t req;
    uint32_t node;
    unsigned n, n_open; /* attempts; those whose connection is not closed yet */
    struct attempt try[MAX_ADDRS];
};

static void on_open(struct net_conn *c, void *arg) {
    struct attempt *t = arg;
    const struct wire_hello *h = net_peer(c);
    t->ok = h->role == WIRE_ROLE_AGENT && h->id == t->probe->node;
    net_close(c);
}

static void on_frame(struct net_conn *c, struct wire_frame *f, void *arg) {
    (void)c;
    (void)arg;
    wire_frame_free(f);
}

static void answer(struct probe *p) {
    const char *addr = "";
    for (unsigned i = 0; i < p->n && !*addr; i++)
        if (p->try[i].ok)
            addr = p->try[i].addr;
    pd_info(&p->job->ag->log, "node %u is reached at '%s' (%u tried)", p->node, addr, p->n);
    if (!p->job->quitting)
        job_answer(p->job, WIRE_HD_PROBE, p->req, json_pack("{s:[{s:i, s:s}]}", "ok", "node", (int)p->node, "addr", addr));
    json_decref(p->body);
    job_handle_closed(p->job);
    free(p);
}

static void on_close(struct net_conn *c, const struct pd_err *why, void *arg) {
    struct attempt *t = arg;
    (void)c;
    if (!t->ok)
        pd_info(&t->probe->job->ag->log, "probe of node %u at %s: %s", t->probe->node, t->addr, why->msg);
    if (--t->probe->n_open == 0)
        answer(t->probe);
}

static void identify(const struct job *j, struct wire_hs_opts *hs) {
    *hs = (struct wire_hs_opts){.self = {.role = WIRE_ROLE_PROBE, .id = (uint32_t)j->spec.node, .incarnation = j->incarnation}};
    memcpy(hs->self.job, j->ag->place.job, sizeof hs->self.job);
    memcpy(hs->key, j->key, sizeof hs->key);
}

void probe_begin(struct job *j, uint64_t req, const json_t *body) {
    static const struct net_events ev = {on_open, on_frame, NULL, on_close};
    const struct net_opts opts = {.max_frame = 4096, .handshake_timeout_ms = PROBE_MS, .log = &j->ag->log};
    const json_t *v, *target = json_array_get(json_object_get(body, "nodes"), 0);
    struct wire_hs_opts hs;
    size_t i;
    struct probe *p = pd_calloc(1, sizeof *p);
    if (!p)
        return; /* the head's deadline names this node */
    *p = (struct probe){.job = j, .body = json_deep_copy(target), .req = req,
                        .node = (uint32_t)msg_int(target, "node", 0, SPEC_MAX_NODES, 0), .n_open = 1};
    j->n_handles++;
    identify(j, &hs);
    json_array_foreach(json_object_get(p->body, "addrs"), i, v) {
        struct net_conn *c;
        struct pd_err err = {0};
        if (i == MAX_ADDRS || !json_is_string(v))
            break;
        struct attempt *t = &p->try[p->n++];
        *t = (struct attempt){.probe = p, .addr = json_string_value(v)};
        if (!net_connect(&c, &j->ag->loop, t->addr, (int)msg_int(target, "port", 1, 65535, 1), PROBE_MS, &hs, &opts, &ev, t,
                         &err))
            p->n_open++;
    }
    if (--p->n_open == 0)
        answer(p);
}
