/* link.c - TCP between agents: every agent listens (for its peers' probes, and on node 0 for their joining), every
 * agent but node 0 holds one connection to node 0 and makes it again when it breaks.
 *
 *     member: connecting ─▶ open ─▶ HD_JOIN ─▶ joined ─▶ broken ─▶ connecting ...
 */
#include <stdlib.h>
#include <string.h>

#include "agent/data.h"
#include "agent/job.h"
#include "agent/msg.h"
#include "agent/ports.h"
#include "base/clock.h"
#include "base/fault.h"
#include "net/conn.h"
#include "wire/msg.h"

enum { CONNECT_MS = 3000, RETRY_MS = 100, PING_MS = 1000, JOIN_MS = 10000 };

struct peer {
    struct net_conn *conn; /* joined, on the head */
    json_t *join;          /* until the head exists */
    uint64_t heard_ns;
};

struct accepted {
    struct net_conn *conn;
    uint64_t since_ns;
};

struct link {
    struct job *job;
    struct net_listener *listener;
    struct peer *peers;    /* node 0 only, index = node id */
    /* members */
    struct net_conn *head;
    int joined, connecting;
    size_t next_addr;
    uint64_t heard_ns, retry_ns;
    uint64_t pinged_ns;
    int closing;
    struct accepted *conns; /* accepted and not yet closed: probes, members before and after HD_JOIN */
    unsigned n_conns, cap_conns;
    int listener_closed;
};

static const struct pd_log *log_of(const struct link *l) { return &l->job->ag->log; }

static void identify(const struct job *j, uint16_t role, struct wire_hs_opts *hs) {
    *hs = (struct wire_hs_opts){.self = {.role = role, .id = (uint32_t)j->spec.node, .incarnation = j->incarnation}};
    memcpy(hs->self.job, j->ag->place.job, sizeof hs->self.job);
    memcpy(hs->key, j->key, sizeof hs->key);
}

static void maybe_free(struct link *l) {
    if (!l->closing || l->n_conns || l->head || !l->listener_closed)
        return;
    struct job *j = l->job;
    for (int i = 0; l->peers && i < j->spec.n_nodes; i++)
        json_decref(l->peers[i].join);
    free(l->peers);
    free(l->conns);
    free(l);
    j->link = NULL; /* job_cut may still come */
    job_handle_closed(j);
}

/* --- accepted: probes, and on the head the members --- */

static struct peer *peer_of(struct link *l, const struct net_conn *c) {
    const struct wire_hello *h = net_peer(c);
    if (!l->peers || h->role != WIRE_ROLE_AGENT || h->id == 0 || h->id >= (uint32_t)l->job->spec.n_nodes)
        return NULL;
    return &l->peers[h->id];
}

static int remember(struct link *l, struct net_conn *c) {
    if (l->n_conns == l->cap_conns) {
        unsigned cap = l->cap_conns ? 2 * l->cap_conns : 64;
        struct accepted *v = pd_realloc(l->conns, cap * sizeof *v);
        if (!v)
            return PD_ENOMEM;
        l->conns = v;
        l->cap_conns = cap;
    }
    l->conns[l->n_conns++] = (struct accepted){c, pd_mono_ns()};
    return 0;
}

static void forget(struct link *l, const struct net_conn *c) {
    for (unsigned i = 0; i < l->n_conns; i++)
        if (l->conns[i].conn == c) {
            l->conns[i] = l->conns[--l->n_conns];
            return;
        }
}

/* A node that takes a data file from here. */
static int is_taker(const struct link *l, const struct net_conn *c) { return net_peer(c)->role == WIRE_ROLE_TAKER && l->job->data; }

static void on_accepted(struct net_conn *c, void *arg) {
    struct link *l = arg;
    const struct wire_hello *h = net_peer(c);
    if (remember(l, c) || l->closing || (h->role != WIRE_ROLE_PROBE && !is_taker(l, c) && !peer_of(l, c))) {
        pd_warn(log_of(l), "%s: role %u, id %u has no business here", net_peer_addr(c), h->role, h->id);
        net_close(c);
    }
}

static void take_join(struct link *l, struct net_conn *c, struct peer *p, uint64_t req, json_t *body) {
    int node = (int)net_peer(c)->id;
    if (p->conn && p->conn != c) {
        struct net_conn *old = p->conn;
        p->conn = NULL; /* it was replaced, not lost */
        net_close(old);
        if (l->job->head)
            head_lost(l->job->head, node);
    }
    p->conn = c;
    p->heard_ns = pd_mono_ns();
    pd_info(log_of(l), "node %d joined from %s", node, net_peer_addr(c));
    msg_send(c, WIRE_HD_JOIN, req, json_object());
    json_decref(p->join);
    p->join = json_incref(body);
    if (l->job->head)
        head_joined(l->job->head, node, body);
}

static void on_peer_frame(struct net_conn *c, struct wire_frame *f, void *arg) {
    struct link *l = arg;
    struct peer *p = peer_of(l, c);
    struct pd_err err = {0};
    json_t *body = NULL;
    int refused = f->flags & WIRE_F_ERROR;
    if (is_taker(l, c) && !l->closing) {
        data_serve_frame(data_server(l->job->data), c, f);
        return;
    }
    if (!p || l->closing)
        goto out; /* a probe says nothing */
    p->heard_ns = pd_mono_ns();
    if (f->type == WIRE_HD_PING)
        goto out;
    if (f->type == WIRE_HD_FILE || f->type == WIRE_HD_FILE_HERE) {
        if (l->job->data && p->conn == c)
            data_on_asked(l->job->data, (int)net_peer(c)->id, c, f);
        goto out;
    }
    if (refused)
        msg_error(f, &err);
    else if (msg_body(f, &body, &err)) {
        pd_warn(log_of(l), "node %u: %s", net_peer(c)->id, err.msg);
        net_close(c);
        goto out;
    }
    if (f->type == WIRE_HD_JOIN && !refused)
        take_join(l, c, p, f->req, body);
    else if (p->conn == c && l->job->head)
        head_message(l->job->head, (int)net_peer(c)->id, f->type, f->req, body, refused ? &err : NULL);
out:
    json_decref(body);
    wire_frame_free(f);
}

static void on_peer_close(struct net_conn *c, const struct pd_err *why, void *arg) {
    struct link *l = arg;
    struct peer *p = peer_of(l, c);
    forget(l, c);
    if (is_taker(l, c))
        data_serve_gone(data_server(l->job->data), c);
    if (p && p->conn == c) {
        p->conn = NULL;
        if (!l->closing) {
            pd_warn(log_of(l), "node %u: %s", net_peer(c)->id, why->msg);
            if (l->job->head)
                head_lost(l->job->head, (int)net_peer(c)->id);
        }
    }
    maybe_free(l);
}

void link_replay_joins(struct link *l) {
    for (int i = 1; i < l->job->spec.n_nodes; i++)
        if (l->peers[i].conn && l->peers[i].join)
            head_joined(l->job->head, i, l->peers[i].join);
}

void link_to_node(struct link *l, int node, uint16_t type, uint64_t req, json_t *body) {
    struct peer *p = &l->peers[node];
    if (p->conn)
        msg_send(p->conn, type, req, body);
    else
        json_decref(body); /* the head sends it again when the node has joined again */
}

/* --- a member's connection to the head --- */

static void on_head_open(struct net_conn *c, void *arg) {
    struct link *l = arg;
    const struct wire_hello *h = net_peer(c);
    l->connecting = 0;
    if (h->role != WIRE_ROLE_AGENT || h->id != 0) {
        pd_info(log_of(l), "%s is not node 0", net_peer_addr(c));
        net_close(c);
        return;
    }
    l->heard_ns = pd_mono_ns();
    msg_send(c, WIRE_HD_JOIN, 1, job_join_body(l->job));
}

static void on_head_frame(struct net_conn *c, struct wire_frame *f, void *arg) {
    struct link *l = arg;
    struct pd_err err = {0};
    json_t *body = NULL;
    l->heard_ns = pd_mono_ns();
    if (f->type == WIRE_HD_JOIN) {
        l->joined = 1;
        if (!l->job->ag->result && !l->job->ran)
            agent_set_state(l->job->ag, "connecting", "node %d has joined", l->job->spec.node);
    } else if (f->type == WIRE_HD_FILE && !l->closing) {
        if (l->job->data)
            data_on_where(l->job->data, f);
    } else if (f->type != WIRE_HD_PING && !l->closing) {
        if (f->flags & WIRE_F_ERROR || msg_body(f, &body, &err))
            net_close(c);
        else
            job_from_head(l->job, f->type, f->req, body);
    }
    json_decref(body);
    wire_frame_free(f);
}

static void on_head_close(struct net_conn *c, const struct pd_err *why, void *arg) {
    struct link *l = arg;
    (void)c;
    if (l->joined)
        pd_warn(log_of(l), "the connection to node 0 broke: %s", why->msg);
    else
        pd_debug(log_of(l), "node 0: %s", why->msg);
    l->head = NULL;
    l->joined = l->connecting = 0;
    l->retry_ns = pd_mono_ns() + RETRY_MS * UINT64_C(1000000);
    maybe_free(l);
}

/* The head's addresses in turn; whoever answers has to prove the key and be node 0. */
void ag_link_connect(struct link *l) {
    static const struct net_events ev = {on_head_open, on_head_frame, NULL, on_head_close};
    const struct net_opts opts = {.max_frame = MSG_MAX_FRAME, .handshake_timeout_ms = CONNECT_MS, .log = log_of(l)};
    const json_t *head = json_array_get(l->job->peers, 0), *addrs = json_object_get(head, "addrs");
    struct wire_hs_opts hs;
    struct pd_err err = {0};
    if (!json_array_size(addrs))
        return;
    const char *ip = json_string_value(json_array_get(addrs, l->next_addr++ % json_array_size(addrs)));
    identify(l->job, WIRE_ROLE_AGENT, &hs);
    l->retry_ns = pd_mono_ns() + RETRY_MS * UINT64_C(1000000);
    if (!l->heard_ns)
        l->heard_ns = pd_mono_ns();
    if (net_connect(&l->head, &l->job->ag->loop, ip ? ip : "", (int)msg_int(head, "port", 1, 65535, 0), CONNECT_MS, &hs,
                    &opts, &ev, l, &err)) {
        pd_warn(log_of(l), "node 0: %s", err.msg);
        l->head = NULL;
    }
}

void link_to_head(struct link *l, uint16_t type, uint64_t req, json_t *body) {
    if (l->joined && l->head)
        msg_send(l->head, type, req, body);
    else
        json_decref(body); /* HD_JOIN tells what matters */
}

void link_refuse(struct link *l, uint16_t type, uint64_t req, const struct pd_err *e) {
    if (l->joined && l->head)
        net_send_error(l->head, type, req, e);
}

void link_ask_head(struct link *l, uint16_t type, uint64_t req, const void *p, size_t n) {
    if (l->joined && l->head)
        msg_send_with(l->head, type, req, json_object(), p, n);
}

int link_is_joined(const struct link *l) { return l->joined && l->head; }

uint64_t link_silent_ms(const struct link *l) {
    return l->peers || !l->heard_ns ? 0 : (pd_mono_ns() - l->heard_ns) / 1000000u;
}

/* --- both --- */

/* A peer that says nothing for longer than a lease is gone, whatever TCP thinks. */
void link_tick(struct link *l) {
    uint64_t now = pd_mono_ns(), limit_ns = l->job->spec.detach_lease_ms * 1000000u;
    int ping = now - l->pinged_ns >= PING_MS * UINT64_C(1000000);
    if (ping)
        l->pinged_ns = now;
    for (int i = 1; l->peers && i < l->job->spec.n_nodes; i++) {
        struct peer *p = &l->peers[i];
        if (p->conn && now - p->heard_ns > limit_ns)
            net_close(p->conn);
        else if (p->conn && ping) {
            msg_send(p->conn, WIRE_HD_PING, 0, json_object());
            net_check_host(p->conn); /* whose cable is pulled is away long before its lease is over */
        }
    }
    for (unsigned i = 0; i < l->n_conns; i++) { /* a probe says nothing, a member joins at once */
        const struct peer *p = peer_of(l, l->conns[i].conn);
        if ((!p || p->conn != l->conns[i].conn) && !is_taker(l, l->conns[i].conn) && now - l->conns[i].since_ns > JOIN_MS * UINT64_C(1000000))
            net_close(l->conns[i].conn);
    }
    if (l->peers || !l->job->peers || l->job->ag->result)
        return;
    if (!l->head && now >= l->retry_ns)
        ag_link_connect(l);
    else if (l->joined && now - l->heard_ns > limit_ns / 2)
        net_close(l->head); /* try another way while there is time */
    else if (l->joined && ping) {
        msg_send(l->head, WIRE_HD_PING, 0, json_object());
        net_check_host(l->head);
    }
}

int link_new(struct link **out, struct job *j, int *port, struct pd_err *err) {
    static const struct net_events ev = {on_accepted, on_peer_frame, NULL, on_peer_close};
    const struct net_opts opts = {.max_frame = MSG_MAX_FRAME, .log = &j->ag->log};
    const struct spec *s = &j->spec;
    struct wire_hs_opts hs;
    struct link *l = pd_calloc(1, sizeof *l);
    struct peer *peers = s->node == 0 ? pd_calloc((size_t)s->n_nodes, sizeof *peers) : NULL;
    if (!l || (s->node == 0 && !peers)) {
        free(l);
        free(peers);
        return pd_fail(err, PD_ENOMEM, "out of memory");
    }
    l->job = j;
    l->peers = peers;
    /* Behind the ports that pservers would like to have. */
    int from = s->port ? s->port + s->n_dense + s->n_sparse : 0;
    int fd = ports_bind(net_any_ip(), from > 65000 ? s->port : from, port, NULL, err);
    identify(j, WIRE_ROLE_AGENT, &hs);
    int rc = fd < 0 ? fd : net_listen_fd(&l->listener, &j->ag->loop, fd, &hs, &opts, &ev, l, err);
    if (rc) {
        free(peers);
        free(l);
        return rc;
    }
    j->n_handles++;
    *out = l;
    return 0;
}

static void on_listener_closed(void *arg) {
    struct link *l = arg;
    l->listener_closed = 1;
    maybe_free(l);
}

void ag_link_close(struct link *l) {
    if (!l || l->closing)
        return;
    l->closing = 1;
    for (unsigned i = 0; i < l->n_conns; i++) {
        const struct peer *p = peer_of(l, l->conns[i].conn);
        if (p && p->conn == l->conns[i].conn)
            net_close_after_flush(l->conns[i].conn);
        else
            net_close(l->conns[i].conn);
    }
    if (l->head)
        net_close_after_flush(l->head);
    net_listener_close(l->listener, on_listener_closed, l);
}

void link_cut(struct link *l) {
    if (!l)
        return;
    for (unsigned i = 0; i < l->n_conns; i++)
        net_close(l->conns[i].conn);
    if (l->head)
        net_close(l->head);
}
