/* package_pull.c - the connection to the node that is a package's source. The node's addresses are
 * tried in turn, until a peer proves the secret. */
#include <stdlib.h>
#include <string.h>

#include "agent/package/package.h"
#include "base/alloc.h"
#include "wire/msg.h"

enum { CONNECT_MS = 3000, ADDRS = 16 };

struct package_pull {
    struct agent_core *core;
    struct object_id root;
    const struct package_pull_events *ev; /* NULL: package_pull_close was called */
    void *arg;
    struct net_conn *conn;
    json_t *addrs;
    size_t next;
    int port, encrypt, open;
    struct wire_hs_opts hs;
    struct seal seal;
    struct object_id *early; /* requested before the connection was open */
    size_t n_early;
    struct pd_err why; /* the failure of the first address */
};

static void try_next(struct package_pull *p);

static void pull_free(struct package_pull *p) {
    json_decref(p->addrs);
    free(p->early);
    sodium_memzero(&p->hs, sizeof p->hs);
    free(p);
}

static void on_open(struct net_conn *c, void *arg) {
    struct package_pull *p = arg;
    if (!p->ev) {
        net_close(c);
        return;
    }
    p->open = 1;
    seal_init(&p->seal, c, 1, p->encrypt);
    if (seal_send(&p->seal, c, WIRE_DS_PULL, p->root.b, OBJECT_ID))
        net_close(c);
    p->ev->on_open(p->arg);
    if (p->n_early)
        package_pull_need(p, p->early, p->n_early);
    p->n_early = 0;
}

static void on_frame(struct net_conn *c, struct wire_frame *f, void *arg) {
    struct package_pull *p = arg;
    struct pd_err err = {0};
    uint8_t *data;
    size_t n;
    if (p->ev && f->flags & WIRE_F_ERROR)
        wire_error_get(f, &err);
    else if (p->ev && f->type != WIRE_DS_OBJECT)
        pd_fail(&err, PD_EPROTO, "a source does not send %s", wire_msg_name(f->type));
    else if (p->ev && !seal_open(&p->seal, f, &data, &n, &err) &&
             p->ev->on_records(p->arg, data, n))
        pd_fail(&err, PD_EPROTO, "it sends an object that was not requested");
    wire_frame_free(f);
    if (err.code) {
        pd_fail(&p->why, err.code, "%s", err.msg);
        net_close(c);
    }
}

static void on_close(struct net_conn *c, const struct pd_err *why, void *arg) {
    struct package_pull *p = arg;
    (void)c;
    p->conn = NULL;
    if (!p->ev) {
        pull_free(p);
        return;
    }
    if (why->code)
        pd_fail(&p->why, why->code, "%s", why->msg);
    if (!p->open && p->next < json_array_size(p->addrs) && p->next < ADDRS) {
        try_next(p);
        if (p->conn)
            return;
    }
    const struct package_pull_events *ev = p->ev;
    void *owner = p->arg;
    struct pd_err e = p->why;
    if (!e.code)
        pd_fail(&e, PD_ECLOSED, "the connection was closed");
    pull_free(p);
    ev->on_failed(owner, &e);
}

static void try_next(struct package_pull *p) {
    static const struct net_events ev = {on_open, on_frame, NULL, on_close};
    const struct net_opts opts = {.max_frame = PACKAGE_FRAME + (64 << 10) + OBJECT_MAX,
                                  .handshake_timeout_ms = CONNECT_MS,
                                  .log = &p->core->log};
    struct pd_err err = {0};
    while (!p->conn && p->next < json_array_size(p->addrs)) {
        const char *ip = json_string_value(json_array_get(p->addrs, p->next++));
        if (net_connect(&p->conn, &p->core->loop, ip ? ip : "", p->port, CONNECT_MS, &p->hs, &opts,
                        &ev, p, &err)) {
            p->conn = NULL;
            pd_fail(&p->why, err.code, "%s", err.msg);
        }
    }
}

int package_pull_new(struct package_pull **out, struct agent_core *core,
                     const struct object_id *root, const json_t *body, const uint8_t *secret,
                     const struct package_pull_events *ev, void *arg, struct pd_err *err) {
    const char *token = msg_str(body, "token");
    struct package_pull *p = pd_calloc(1, sizeof *p);
    if (!p)
        return pd_fail(err, PD_ENOMEM, "out of memory");
    int node = agent_node_id(core);
    p->core = core;
    p->root = *root;
    p->ev = ev;
    p->arg = arg;
    p->port = (int)msg_int(body, "port", 1, 65535, 0);
    p->encrypt = msg_bool(body, "encrypt");
    p->addrs = json_incref(json_object_get(body, "addrs"));
    p->hs.self = (struct wire_hello){.role = WIRE_ROLE_AGENT, .id = node > 0 ? (uint32_t)node : 0};
    snprintf(p->hs.self.job, sizeof p->hs.self.job, "%s", token);
    memcpy(p->hs.key, secret, WIRE_KEY_BYTES);
    if (!json_array_size(p->addrs) || !p->port || !node_paths_name_ok(token)) {
        pull_free(p);
        return pd_fail(err, PD_EPROTO, "DS_SOURCE: a node needs addrs, port and token");
    }
    try_next(p);
    if (!p->conn) {
        *err = p->why;
        pull_free(p);
        return err->code;
    }
    *out = p;
    return 0;
}

void package_pull_need(struct package_pull *p, const struct object_id *ids, size_t n) {
    if (p->open) {
        if (p->conn && seal_send(&p->seal, p->conn, WIRE_DS_NEED, ids, n * OBJECT_ID))
            net_close(p->conn);
        return;
    }
    struct object_id *v =
        /* Bounded, because each id is requested once. */
        pd_realloc(p->early, (p->n_early + n) * sizeof *v);
    if (!v) {
        net_close(p->conn);
        return;
    }
    p->early = v;
    memcpy(v + p->n_early, ids, n * sizeof *v);
    p->n_early += n;
}

/* This side closes first. The TIME_WAIT then is on its ephemeral port, and the source's port stays
 * usable. */
void package_pull_close(struct package_pull *p) {
    if (!p)
        return;
    p->ev = NULL;
    net_close(p->conn);
}
