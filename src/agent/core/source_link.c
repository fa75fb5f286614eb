/* SPDX-License-Identifier: Apache-2.0 */
/* source_link.c - see source_link.h. */
#include "agent/core/source_link.h"

#include <sodium.h>

#include "agent/core/msg.h"
#include "wire/msg.h"

enum { CONNECT_MS = 3000, ADDRS = 16, MAX_FRAME = (1 << 20) + (64 << 10) + (256 << 10) };

struct source_link {
    struct agent_core *core;
    const struct source_link_events *ev; /* NULL: closed by its owner */
    void *arg;
    struct net_conn *conn;
    json_t *addrs;
    size_t next;
    int port, open;
    struct wire_hs_opts hs;
    struct pd_err why; /* of the first address; of the connection, once open */
};

static void link_free(struct source_link *l) {
    json_decref(l->addrs);
    sodium_memzero(&l->hs, sizeof l->hs);
    free(l);
}

static void on_open(struct net_conn *c, void *arg) {
    struct source_link *l = arg;
    if (!l->ev) {
        net_close(c);
        return;
    }
    l->open = 1;
    pd_err_clear(&l->why);
    l->ev->on_open(l->arg);
}

static void on_frame(struct net_conn *c, struct wire_frame *f, void *arg) {
    struct source_link *l = arg;
    struct pd_err err = {0};
    uint8_t *p = NULL;
    size_t n = 0;
    if (l->ev && f->flags & WIRE_F_ERROR)
        wire_error_get(f, &err);
    else if (l->ev && (f->type == WIRE_HD_PING || !msg_payload(f, &p, &n, &err)))
        l->ev->on_payload(l->arg, f->type, p, n, &err);
    wire_frame_free(f);
    if (err.code) {
        pd_fail(&l->why, err.code, "%s", err.msg);
        net_close(c);
    }
}

static void try_next(struct source_link *l);

static void on_close(struct net_conn *c, const struct pd_err *why, void *arg) {
    struct source_link *l = arg;
    (void)c;
    l->conn = NULL;
    if (why->code)
        pd_fail(&l->why, why->code, "%s", why->msg);
    if (l->ev && !l->open)
        try_next(l);
    if (l->conn)
        return;
    const struct source_link_events *ev = l->ev;
    void *owner = l->arg;
    struct pd_err e = l->why;
    pd_fail(&e, PD_ECLOSED, "the connection was closed");
    link_free(l);
    if (ev)
        ev->on_failed(owner, &e);
}

static void try_next(struct source_link *l) {
    static const struct net_events ev = {on_open, on_frame, NULL, on_close};
    const struct net_opts opts = {
        .max_frame = MAX_FRAME, .handshake_timeout_ms = CONNECT_MS, .log = &l->core->log};
    struct pd_err err = {0};
    while (!l->conn && l->next < json_array_size(l->addrs) && l->next < ADDRS) {
        const char *ip = json_string_value(json_array_get(l->addrs, l->next++));
        if (net_connect(&l->conn, &l->core->loop, ip ? ip : "", l->port, CONNECT_MS, &l->hs, &opts,
                        &ev, l, &err)) {
            l->conn = NULL;
            pd_fail(&l->why, err.code, "%s", err.msg);
        }
    }
}

int source_link_new(struct source_link **out, struct agent_core *core, json_t *addrs, int port,
                    const struct wire_hs_opts *hs, const struct source_link_events *ev, void *arg,
                    struct pd_err *err) {
    struct source_link *l = pd_calloc(1, sizeof *l);
    if (!l)
        return pd_oom(err, "a connection to a node");
    pd_secret_pages(l, sizeof *l);
    *l = (struct source_link){
        .core = core, .ev = ev, .arg = arg, .addrs = json_incref(addrs), .port = port, .hs = *hs};
    try_next(l);
    if (l->conn) {
        *out = l;
        return 0;
    }
    pd_fail(&l->why, PD_EHOST, "it has no address");
    int rc = pd_fail(err, l->why.code, "%s", l->why.msg);
    link_free(l);
    return rc;
}

void source_link_send(struct source_link *l, uint16_t type, const void *p, size_t n) {
    if (l->conn && msg_send_payload(l->conn, type, p, n))
        net_close(l->conn);
}

/* This end closes first, from a port that nobody else needs: the port of the source stays free of
 * TIME_WAIT. */
void source_link_close(struct source_link *l) {
    if (!l)
        return;
    l->ev = NULL;
    net_close(l->conn);
}
