/* peer_link.h - TCP between the agents of a job. Every agent listens: for its peers' probes, for
 * nodes that take data files, and on node 0 for the other agents. Every agent but node 0's keeps a
 * connection to node 0 and makes it again when it breaks.
 *
 *     member: connecting ─▶ open ─▶ HD_JOIN ─▶ joined ─▶ broken ─▶ connecting ...
 *
 * The link carries messages and knows none but HD_JOIN and HD_PING. Everything else goes to struct
 * peer_events.
 */
#ifndef PD_AGENT_PEER_LINK_H
#define PD_AGENT_PEER_LINK_H

#include <jansson.h>

#include "agent/core/agent_core.h"
#include "agent/core/peer_id.h"
#include "net/conn.h"

struct peer_link;

struct peer_events {
    /* Node 0: a node's HD_JOIN, once more for those that joined before when peer_link_replay is
     * called. */
    void (*on_join)(void *arg, int node, const json_t *join);
    /* Node 0: the connection to a node broke, or another connection took its place. */
    void (*on_lost)(void *arg, int node);
    /* From a node, or (member) from node 0. `refused` instead of a body when it is an error. */
    void (*on_message)(void *arg, int node, const struct wire_frame *f, const json_t *body,
                       const struct pd_err *refused);
    json_t *(*join_body)(void *arg); /* member: of HD_JOIN */
    void (*on_joined)(void *arg);    /* member: node 0 has answered it */
    /* Nodes that take data files from this one. The frame is the callee's. */
    void (*on_taker_frame)(void *arg, struct net_conn *c, struct wire_frame *f);
    void (*on_taker_gone)(void *arg, struct net_conn *c);
};

struct peer_link_opts {
    struct agent_core *core;
    const struct peer_id *self;
    int n_nodes;
    int from_port;     /* the first port that is tried; 0: any */
    int takers;        /* nodes may take data files from this one; else they are turned away */
    uint64_t lease_ms; /* a peer that is silent for longer is gone, whatever TCP thinks */
    const struct peer_events *events;
    void *arg;
};

/* Listens; *port says where. What the options point to, and `*out`, outlive the link. It frees
 * itself some time after peer_link_close and sets *out to NULL. */
int peer_link_new(struct peer_link **out, const struct peer_link_opts *o, int *port,
                  struct pd_err *err);
void peer_link_join(
    struct peer_link *l,
    const json_t *head); /* member: begin, with node 0's {addrs, port}, which outlives the link */
void peer_link_replay(struct peer_link *l); /* node 0 */
void peer_link_tick(struct peer_link *l);   /* a few times a second: pings, leases, another try */
/* Member: the job is over here, a connection that breaks stays broken. */
void peer_link_rest(struct peer_link *l);
void peer_link_close(struct peer_link *l); /* when what is queued has gone out; NULL is fine */
void peer_link_cut(struct peer_link *l);   /* what is still open is closed at once; NULL is fine */

/* To a node (node 0's), or to node 0 (a member's: `node` is 0). Dropped when it has not joined.
 * Bodies are taken over. */
void peer_link_send(struct peer_link *l, int node, uint16_t type, uint64_t req, json_t *body);
void peer_link_send_with(struct peer_link *l, int node, uint16_t type, uint64_t req, json_t *body,
                         const void *p, size_t n);
void peer_link_refuse(struct peer_link *l, int node, uint16_t type, uint64_t req,
                      const struct pd_err *e);

int peer_link_is_joined(const struct peer_link *l); /* member: node 0 hears it */
/* Member: since node 0 was heard last; 0 on node 0. */
uint64_t peer_link_silent_ms(const struct peer_link *l);

#endif
