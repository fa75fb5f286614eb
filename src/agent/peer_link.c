/* SPDX-License-Identifier: Apache-2.0 */
/* peer_link.c - see peer_link.h. */
#include "agent/peer_link.h"

#include "agent/core/msg.h"
#include "agent/host/ports.h"
#include "wire/client_bodies.h"
#include "wire/msg.h"

enum { CONNECT_MS = 3000, RETRY_MS = 100, PING_MS = 1000, LOCAL_PING_MS = 5000, JOIN_MS = 10000 };

/* The head's record of a node. */
struct peer_node {
    struct net_conn *conn; /* NULL: the node has not joined */
    json_t *join;          /* its HD_JOIN, for peer_link_replay */
    uint64_t heard_ns;
};

struct accepted {
    struct net_conn *conn;
    uint64_t since_ns;
};

struct peer_link {
    struct peer_link_opts o;
    struct net_listener *listener;
    struct peer_node *nodes; /* index = node id; NULL: a member */
    /* members */
    int head_id;
    const json_t *head_at;
    struct net_conn *head;
    int said_join; /* HD_JOIN was sent on `head` */
    int joined, resting;
    size_t next_addr;
    uint64_t heard_ns, retry_ns;
    uint64_t pinged_ns;
    int closing;
    struct accepted *conns; /* accepted and not yet closed: probes, takers, members */
    size_t n_conns, cap_conns;
    int listener_closed;
    struct peer_link **slot; /* the owner's pointer; set to NULL when the link is freed */
};

static const struct pd_log *log_of(const struct peer_link *l) { return &l->o.core->log; }

static void maybe_free(struct peer_link *l) {
    if (!l->closing || l->n_conns || l->head || !l->listener_closed)
        return;
    for (int i = 0; l->nodes && i < l->o.n_nodes; i++)
        json_decref(l->nodes[i].join);
    *l->slot = NULL;
    free(l->nodes);
    free(l->conns);
    free(l);
}

/* --- accepted connections: probes, takers, and on the head members --- */

static struct peer_node *node_of(struct peer_link *l, const struct net_conn *c) {
    const struct wire_hello *h = net_peer(c);
    if (!l->nodes || h->role != WIRE_ROLE_AGENT || h->id == (uint32_t)l->o.self->node ||
        h->id >= (uint32_t)l->o.n_nodes)
        return NULL;
    return &l->nodes[h->id];
}

static int remember(struct peer_link *l, struct net_conn *c) {
    if (pd_grow(l->conns, l->cap_conns, l->n_conns + 1))
        return PD_ENOMEM;
    l->conns[l->n_conns++] = (struct accepted){c, pd_mono_ns()};
    return 0;
}

static void forget(struct peer_link *l, const struct net_conn *c) {
    for (unsigned i = 0; i < l->n_conns; i++)
        if (l->conns[i].conn == c) {
            l->conns[i] = l->conns[--l->n_conns];
            return;
        }
}

/* Before that, the node has not heard this node on this connection. */
static uint64_t accepted_ms(const struct peer_link *l, const struct net_conn *c) {
    for (unsigned i = 0; i < l->n_conns; i++)
        if (l->conns[i].conn == c)
            return l->conns[i].since_ns / 1000000u;
    return 0;
}

static int is_taker(const struct peer_link *l, const struct net_conn *c) {
    return net_peer(c)->role == WIRE_ROLE_TAKER && l->o.takers;
}

static int is_voter(const struct peer_link *l, const struct net_conn *c) {
    const struct wire_hello *h = net_peer(c);
    return h->role == WIRE_ROLE_VOTE && l->o.n_voters && h->id != (uint32_t)l->o.self->node &&
           h->id < (uint32_t)l->o.n_nodes;
}

static void on_accepted(struct net_conn *c, void *arg) {
    struct peer_link *l = arg;
    const struct wire_hello *h = net_peer(c);
    if (remember(l, c) || l->closing ||
        (h->role != WIRE_ROLE_PROBE && !is_taker(l, c) && !is_voter(l, c) && !node_of(l, c))) {
        pd_warn(log_of(l), "%s: role %u, id %u has no business here", net_peer_addr(c), h->role,
                h->id);
        net_close(c);
    }
}

static void take_join(struct peer_link *l, struct net_conn *c, struct peer_node *p, uint64_t req,
                      json_t *body) {
    int node = (int)net_peer(c)->id;
    if (p->conn && p->conn != c) {
        struct net_conn *old = p->conn;
        p->conn = NULL; /* the connection was replaced, so on_peer_close must not report it */
        net_close(old);
        l->o.events->on_lost(l->o.arg, node);
    }
    p->conn = c;
    p->heard_ns = pd_mono_ns();
    pd_info(log_of(l), "node %d joined from %s", node, net_peer_addr(c));
    msg_send(c, WIRE_HD_JOIN, req, json_object());
    json_decref(p->join);
    p->join = json_incref(body);
    l->o.events->on_alive(l->o.arg, node, accepted_ms(l, c));
    l->o.events->on_join(l->o.arg, node, body);
}

/* Handles a frame from a node of the job, before or after its HD_JOIN. */
static void take_frame(struct peer_link *l, struct peer_node *p, struct net_conn *c,
                       const struct wire_frame *f) {
    struct pd_err err = {0};
    json_t *body = NULL;
    const int refused = f->flags & WIRE_F_ERROR;
    p->heard_ns = pd_mono_ns();
    if (f->type == WIRE_HD_PING) {
        if (f->req && f->req <= p->heard_ns / 1000000u && p->conn == c)
            l->o.events->on_alive(l->o.arg, (int)net_peer(c)->id, f->req);
        return;
    }
    if (refused) {
        wire_error_get(f, &err);
    } else if (msg_body(f, &body, &err)) {
        pd_warn(log_of(l), "node %u: %s", net_peer(c)->id, err.msg);
        net_close(c);
        return;
    }
    if (f->type == WIRE_HD_JOIN && !refused)
        take_join(l, c, p, f->req, body);
    else if (p->conn == c)
        l->o.events->on_message(l->o.arg, (int)net_peer(c)->id, f, body, refused ? &err : NULL);
    json_decref(body);
}

static void on_peer_frame(struct net_conn *c, struct wire_frame *f, void *arg) {
    struct peer_link *l = arg;
    struct peer_node *p = node_of(l, c);
    if (is_taker(l, c) && !l->closing) {
        l->o.events->on_taker_frame(l->o.arg, c, f);
        return;
    }
    if (p && !l->closing) /* a probe sends no frames */
        take_frame(l, p, c, f);
    else if (is_voter(l, c) && !l->closing)
        l->o.events->on_vote(l->o.arg, c, f);
    wire_frame_free(f);
}

static void on_peer_close(struct net_conn *c, const struct pd_err *why, void *arg) {
    struct peer_link *l = arg;
    struct peer_node *p = node_of(l, c);
    forget(l, c);
    if (is_taker(l, c))
        l->o.events->on_taker_gone(l->o.arg, c);
    if (p && p->conn == c) {
        p->conn = NULL;
        if (!l->closing) {
            pd_warn(log_of(l), "node %u: %s", net_peer(c)->id, why->msg);
            l->o.events->on_lost(l->o.arg, (int)net_peer(c)->id);
        }
    } else if (why->code == PD_EIO) { /* bytes that the peer did not send */
        pd_warn(log_of(l), "%s: %s", net_peer_addr(c), why->msg);
    }
    maybe_free(l);
}

void peer_link_replay(struct peer_link *l) {
    for (int i = 0; i < l->o.n_nodes; i++)
        if (l->nodes[i].conn && l->nodes[i].join)
            l->o.events->on_join(l->o.arg, i, l->nodes[i].join);
}

/* --- a member's connection to the head --- */

static void on_head_open(struct net_conn *c, void *arg) {
    struct peer_link *l = arg;
    const struct wire_hello *h = net_peer(c);
    if (l->closing) { /* the owner has nothing to say any more */
        net_close(c);
        return;
    }
    if (h->role != WIRE_ROLE_AGENT || h->id != (uint32_t)l->head_id) {
        pd_info(log_of(l), "%s is not node %d", net_peer_addr(c), l->head_id);
        net_close(c);
        return;
    }
    l->heard_ns = pd_mono_ns();
    msg_send(c, WIRE_HD_JOIN, 1, l->o.events->join_body(l->o.arg));
    l->said_join = 1;
}

static void take_head_frame(struct peer_link *l, struct net_conn *c, const struct wire_frame *f) {
    struct pd_err err = {0};
    json_t *body = NULL;
    const int refused = f->flags & WIRE_F_ERROR;
    if (refused)
        wire_error_get(f, &err);
    else if (msg_body(f, &body, &err)) {
        net_close(c);
        return;
    }
    l->o.events->on_message(l->o.arg, PEER_HEAD, f, body, refused ? &err : NULL);
    json_decref(body);
}

static void on_head_frame(struct net_conn *c, struct wire_frame *f, void *arg) {
    struct peer_link *l = arg;
    l->heard_ns = pd_mono_ns();
    if (f->type == WIRE_HD_JOIN && !l->closing) {
        l->joined = 1;
        l->o.events->on_joined(l->o.arg);
    } else if (f->type == WIRE_HD_PING && f->req && l->joined && c == l->head) {
        msg_send(c, WIRE_HD_PING, f->req, json_object());
    } else if (f->type != WIRE_HD_PING && !l->closing) {
        take_head_frame(l, c, f);
    }
    wire_frame_free(f);
}

static void on_head_close(struct net_conn *c, const struct pd_err *why, void *arg) {
    struct peer_link *l = arg;
    (void)c;
    if (l->joined || why->code == PD_EIO) /* PD_EIO: bytes that the head did not send */
        pd_warn(log_of(l), "the connection to node %d broke: %s", l->head_id, why->msg);
    else
        pd_debug(log_of(l), "node %d: %s", l->head_id, why->msg);
    l->head = NULL;
    l->said_join = l->joined = 0;
    l->retry_ns = pd_mono_ns() + RETRY_MS * UINT64_C(1000000);
    maybe_free(l);
}

int peer_link_connect(const struct peer_link *l, struct net_conn **out, const json_t *at,
                      size_t turn, enum wire_role role, uint64_t limit_ms,
                      const struct net_events *ev, void *arg) {
    const struct net_opts opts = {
        .max_frame = MSG_MAX_FRAME, .handshake_timeout_ms = limit_ms, .log = log_of(l)};
    struct job_peer p;
    struct wire_hs_opts hs;
    struct pd_err err = {0};
    if (wire_get(&wire_job_peer, &p, at, NULL) || !json_array_size(p.addrs))
        return PD_ENOENT;
    const char *ip = json_string_value(json_array_get(p.addrs, turn % json_array_size(p.addrs)));
    peer_id_put(l->o.self, role, &hs);
    int rc = net_connect(out, &l->o.core->loop, ip ? ip : "", (int)p.port, limit_ms, &hs, &opts, ev,
                         arg, &err);
    if (rc)
        pd_warn(log_of(l), "%s: %s", p.name, err.msg);
    return rc;
}

/* Tries the head's next address. */
static void connect_head(struct peer_link *l) {
    static const struct net_events ev = {on_head_open, on_head_frame, NULL, on_head_close};
    l->retry_ns = pd_mono_ns() + RETRY_MS * UINT64_C(1000000);
    if (peer_link_connect(l, &l->head, l->head_at, l->next_addr++, WIRE_ROLE_AGENT, CONNECT_MS, &ev,
                          l))
        l->head = NULL;
}

/* The connection to an earlier head closes first: on_head_close, then peer_link_tick. */
static void leave_head(struct peer_link *l) {
    l->said_join = l->joined = 0;
    if (l->head)
        net_close(l->head);
}

void peer_link_join(struct peer_link *l, int head, const json_t *at) {
    l->head_id = head;
    l->head_at = at;
    l->next_addr = 0;
    l->heard_ns = pd_mono_ns(); /* the head's lease begins */
    leave_head(l);
    if (!l->head)
        connect_head(l);
}

void peer_link_part(struct peer_link *l) {
    l->head_at = NULL;
    leave_head(l);
}

int peer_link_lead(struct peer_link *l) {
    if (!l->nodes)
        l->nodes = pd_calloc((size_t)l->o.n_nodes, sizeof *l->nodes);
    if (!l->nodes)
        return PD_ENOMEM;
    peer_link_part(l);
    return 0;
}

void peer_link_rest(struct peer_link *l) { l->resting = 1; }

int peer_link_is_joined(const struct peer_link *l) { return l->joined && l->head; }

int peer_link_has(const struct peer_link *l, int node) { return l->nodes && l->nodes[node].conn; }

uint64_t peer_link_silent_ms(const struct peer_link *l) {
    return l->nodes || !l->heard_ns ? 0 : (pd_mono_ns() - l->heard_ns) / 1000000u;
}

/* --- head and members --- */

/* The connection of a joined node, or to the head. NULL: there is none, and the message is dropped.
 * No information is lost: the head repeats its request when the node joins again, and a member's
 * HD_JOIN repeats its reports. A report that comes after HD_JOIN follows it at once, before the
 * head has answered. */
static struct net_conn *conn_of(const struct peer_link *l, int node) {
    if (l->nodes)
        return node < 0 ? NULL : l->nodes[node].conn;
    return l->said_join ? l->head : NULL;
}

void peer_link_send_with(struct peer_link *l, int node, uint16_t type, uint64_t req, json_t *body,
                         const void *p, size_t n) {
    struct net_conn *c = conn_of(l, node);
    if (c)
        msg_send_with(c, type, req, body, p, n);
    else
        json_decref(body);
}

void peer_link_send(struct peer_link *l, int node, uint16_t type, uint64_t req, json_t *body) {
    peer_link_send_with(l, node, type, req, body, NULL, 0);
}

void peer_link_refuse(struct peer_link *l, int node, uint16_t type, uint64_t req,
                      const struct pd_err *e) {
    struct net_conn *c = conn_of(l, node);
    if (c)
        net_send_error(c, type, req, e);
}

static void tick_accepted(struct peer_link *l, uint64_t now, int ping) {
    for (int i = 0; l->nodes && i < l->o.n_nodes; i++) {
        struct peer_node *p = &l->nodes[i];
        if (p->conn && now - p->heard_ns > l->o.lease_ms * 1000000u)
            net_close(p->conn);
        else if (p->conn && ping) {
            msg_send(p->conn, WIRE_HD_PING, i < l->o.n_voters ? now / 1000000u : 0, json_object());
            /* Finds a host without a link (a pulled cable) long before its lease ends. */
            net_check_host(p->conn);
        }
    }
    /* A probe closes at once, and a member joins at once. */
    for (unsigned i = 0; i < l->n_conns; i++) {
        const struct peer_node *p = node_of(l, l->conns[i].conn);
        if ((!p || p->conn != l->conns[i].conn) && !is_taker(l, l->conns[i].conn) &&
            now - l->conns[i].since_ns > JOIN_MS * UINT64_C(1000000))
            net_close(l->conns[i].conn);
    }
}

/* A silent head: a new connection may come through while the lease still has time. A head needs the
 * answers of voters for half of that lease. */
static uint64_t patience_ms(const struct peer_link *l) {
    const uint64_t lease = l->o.lease_ms;
    return l->o.n_voters && lease / 4 > 3 * PING_MS ? lease / 4 : lease / 2;
}

/* A thousand nodes may be on one machine, where no cable is pulled: twelve pings in a lease do. */
static uint64_t ping_ms(const struct peer_link *l) {
    const uint64_t part = l->o.lease_ms / 12;
    return !l->o.local || l->o.n_voters || part < PING_MS ? PING_MS
           : part < LOCAL_PING_MS                         ? part
                                                          : LOCAL_PING_MS;
}

void peer_link_tick(struct peer_link *l) {
    uint64_t now = pd_mono_ns();
    int ping = now - l->pinged_ns >= ping_ms(l) * 1000000u;
    if (ping)
        l->pinged_ns = now;
    tick_accepted(l, now, ping);
    if (l->nodes || !l->head_at || l->resting)
        return;
    if (!l->head && now >= l->retry_ns)
        connect_head(l);
    else if (l->joined && now - l->heard_ns > patience_ms(l) * 1000000u)
        net_close(l->head);
    else if (l->joined && ping) {
        msg_send(l->head, WIRE_HD_PING, 0, json_object());
        net_check_host(l->head);
    }
}

int peer_link_new(struct peer_link **out, const struct peer_link_opts *o, int *port,
                  struct pd_err *err) {
    static const struct net_events ev = {on_accepted, on_peer_frame, NULL, on_peer_close};
    const struct net_opts opts = {.max_frame = MSG_MAX_FRAME, .log = &o->core->log};
    const int is_head = o->self->node == 0;
    struct wire_hs_opts hs;
    struct peer_link *l = pd_calloc(1, sizeof *l);
    struct peer_node *nodes = is_head ? pd_calloc((size_t)o->n_nodes, sizeof *nodes) : NULL;
    if (!l || (is_head && !nodes)) {
        free(l);
        free(nodes);
        return pd_oom(err, "connections between agents");
    }
    *l = (struct peer_link){.o = *o, .nodes = nodes, .slot = out};
    int fd = ports_bind(o->local ? "127.0.0.1" : net_any_ip(), o->from_port, port, NULL, err);
    peer_id_put(o->self, WIRE_ROLE_AGENT, &hs);
    int rc = fd < 0 ? fd : net_listen_fd(&l->listener, &o->core->loop, fd, &hs, &opts, &ev, l, err);
    if (rc) {
        free(nodes);
        free(l);
        return rc;
    }
    *out = l;
    return 0;
}

static void on_listener_closed(void *arg) {
    struct peer_link *l = arg;
    l->listener_closed = 1;
    maybe_free(l);
}

void peer_link_close(struct peer_link *l) {
    if (!l || l->closing)
        return;
    l->closing = 1;
    for (unsigned i = 0; i < l->n_conns; i++) {
        const struct peer_node *p = node_of(l, l->conns[i].conn);
        if (p && p->conn == l->conns[i].conn)
            net_close_after_flush(l->conns[i].conn);
        else
            net_close(l->conns[i].conn);
    }
    if (l->head)
        net_close_after_flush(l->head);
    net_listener_close(l->listener, on_listener_closed, l);
}

void peer_link_cut(struct peer_link *l) {
    if (!l)
        return;
    for (unsigned i = 0; i < l->n_conns; i++)
        net_close(l->conns[i].conn);
    if (l->head)
        net_close(l->head);
}
