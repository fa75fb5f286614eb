/* SPDX-License-Identifier: Apache-2.0 */
/* peer_link.h - TCP between the agents of a job. Every agent listens for its peers' probes and for
 * nodes that take data files; the head's agent also listens for the other agents. Every other agent
 * (a member) keeps a connection to the head, and reconnects if it breaks. The head is node 0 until
 * another node takes its part (peer_link_lead).
 *
 *     member: connecting ─▶ open ─▶ HD_JOIN ─▶ joined ─▶ broken ─▶ connecting ...
 *
 * The link itself handles only HD_JOIN and HD_PING. All other messages go to struct peer_events. */
#pragma once

#include <jansson.h>

#include "agent/core/agent_core.h"
#include "agent/core/peer_id.h"
#include "net/conn.h"

struct peer_link;

enum { PEER_HEAD = -1 }; /* a member's only peer, in place of a node's id */

struct peer_events {
    /* Head: a node's HD_JOIN. peer_link_replay repeats it for nodes that have joined before. */
    void (*on_join)(void *arg, int node, const json_t *join);
    /* Head: the connection to a node broke, or another connection took its place. */
    void (*on_lost)(void *arg, int node);
    /* A message from a node, or (member) from PEER_HEAD. If it is an error, `refused` is set and
     * `body` is NULL. */
    void (*on_message)(void *arg, int node, const struct wire_frame *f, const json_t *body,
                       const struct pd_err *refused);
    json_t *(*join_body)(void *arg); /* member: the body of HD_JOIN, a new reference */
    void (*on_joined)(void *arg);    /* member: the head has answered HD_JOIN */
    /* Head: the node has answered a ping that was sent then (pd_mono_ns, in milliseconds). */
    void (*on_alive)(void *arg, int node, uint64_t sent_ms);
    /* A connection of role VOTE: a candidate, or a head that was chosen. */
    void (*on_vote)(void *arg, struct net_conn *c, const struct wire_frame *f);
    /* Nodes that take data files from this node. The callee takes the frame over. */
    void (*on_taker_frame)(void *arg, struct net_conn *c, struct wire_frame *f);
    void (*on_taker_gone)(void *arg, struct net_conn *c);
};

struct peer_link_opts {
    struct agent_core *core;
    const struct peer_id *self;
    int n_nodes;
    int from_port;     /* the first port to try; 0: any port */
    int local;         /* 1: listen on 127.0.0.1 only */
    int takers;        /* 1: nodes may take data files from this node; 0: they are refused */
    int n_voters;      /* the lowest so many nodes answer pings, and this node takes votes */
    uint64_t lease_ms; /* a peer that is silent for longer is lost, even if TCP reports no error */
    const struct peer_events *events;
    void *arg;
};

/* Creates the link and listens on *port. The objects in the options, and `*out`, must outlive the
 * link. The link frees itself some time after peer_link_close and sets *out to NULL. 0 or PD_E*. */
int peer_link_new(struct peer_link **out, const struct peer_link_opts *o, int *port,
                  struct pd_err *err);
/* Member: connects to this node, the head, in place of an earlier one. `at`, the head's {addrs,
 * port}, must outlive the link or the next call. */
void peer_link_join(struct peer_link *l, int head, const json_t *at);
/* This node is the head from now on. 0 or PD_ENOMEM: nothing has changed. */
int peer_link_lead(struct peer_link *l);
/* Member: leaves the head, which another node may follow. peer_link_join or _lead is next. */
void peer_link_part(struct peer_link *l);
void peer_link_replay(struct peer_link *l); /* head: see on_join */
/* Called several times a second: pings, leases, reconnects. */
void peer_link_tick(struct peer_link *l);
/* Member: the job is over on this node; a broken connection is not replaced. */
void peer_link_rest(struct peer_link *l);
/* After all queued frames are written; NULL is allowed. */
void peer_link_close(struct peer_link *l);
void peer_link_cut(struct peer_link *l); /* closes all connections at once; NULL is allowed */

/* Connects to an agent of the job. `at` is its {name, addrs, port}, `turn` chooses the address. The
 * agent must prove the key within limit_ms; `ev` decides whether it is the right node. 0 or PD_E*;
 * PD_ENOENT: there is no address. A failure is logged. */
int peer_link_connect(const struct peer_link *l, struct net_conn **out, const json_t *at,
                      size_t turn, enum wire_role role, uint64_t limit_ms,
                      const struct net_events *ev, void *arg);

/* Sends a message to a node (on the head), or to PEER_HEAD (on a member). The message is dropped if
 * there is no such connection, or the node has not joined. Takes `body` over. */
void peer_link_send(struct peer_link *l, int node, uint16_t type, uint64_t req, json_t *body);
void peer_link_send_with(struct peer_link *l, int node, uint16_t type, uint64_t req, json_t *body,
                         const void *p, size_t n);
void peer_link_refuse(struct peer_link *l, int node, uint16_t type, uint64_t req,
                      const struct pd_err *e);

/* Member: it is connected to the head and has joined. */
int peer_link_is_joined(const struct peer_link *l);
int peer_link_has(const struct peer_link *l, int node); /* head: the node has joined */
/* Member: the time since the last message from the head. 0 on the head. */
uint64_t peer_link_silent_ms(const struct peer_link *l);
