/* SPDX-License-Identifier: Apache-2.0 */
/* launch_internal.h - shared by launch.c (the command, the end), launch_calls.c (callbacks enrol
 * and call), launch_stream.c (commands on nodes) and launch_seed.c (the payload for fresh hosts).
 */
#pragma once

#include "launcher/launch/launch.h"
#include "net/conn.h"
#include "wire/client_bodies.h"
#include "wire/msg.h"

struct launch_stream;

/* A connection that a callback has made. */
struct launch_call {
    struct launch *l;
    struct net_conn *conn;
    int enrols; /* it came to the port for that */
    int node;   /* -1: not known yet */
    struct launch_stream *stream;
    struct launch_call *next;
};

struct launch_gate {
    struct launch *l;
    struct net_listener *listener; /* NULL: closed */
    int port;
};

struct launch_node {
    int enrolled;
    int stays, answered; /* to the goodbye */
    char host[256];
    uint8_t token[LAUNCH_KEY];
    struct launch_call *call;    /* waits for a command; NULL: none */
    struct launch_stream *first; /* wait for a call */
};

struct launch {
    uv_loop_t *loop;
    struct launch_opts o;
    char **words;
    size_t n_words;
    struct launch_place place;
    uint8_t key[LAUNCH_KEY];      /* of later calls */
    struct launch_gate gates[2];  /* 0: enrolling; 1: later calls */
    struct launch_seed *seed;     /* NULL: no payload, or all have enrolled */
    struct transport *command;    /* NULL: not started, or gone */
    const struct launch_words *w; /* while launch_run starts the command */
    char said[500];               /* the beginning of the command's standard error */
    size_t n_said, n_more;        /* bytes of it; bytes behind them */
    int ended, leaving;
    struct pd_err why; /* how the command ended, or why a rank could not enrol */
    struct launch_node *nodes;
    int n_nodes, n_enrolled, complete;
    int *rank_of; /* index: node; NULL: the same number */
    struct launch_call *calls;
    size_t n_calls;
    uv_timer_t tick; /* while this wing runs the loop */
    uv_signal_t signals[3];
    int n_handles, interrupted, terminated;
};

/* launch_calls.c */
int launch_listen(struct launch *l, struct pd_err *err);
void launch_close_gate(struct launch *l, int i);
void launch_close_calls(struct launch *l);
void launch_say_bye(struct launch *l, int node); /* if a call waits */
void launch_call_waits(struct launch_call *k);   /* for its node's next command */
/* 0, or PD_ENOMEM. Takes the reference to `body`. */
int launch_send(struct net_conn *c, uint16_t type, json_t *body);

/* launch.c */
void launch_take_term(struct launch *l); /* the cluster is about to end the command */

/* launch_stream.c */
void launch_take_call(struct launch *l, int node); /* a call waits: the first stream gets it */
void launch_stream_frame(struct launch_stream *s, const struct wire_frame *f, const json_t *body);
void launch_stream_drained(struct launch_stream *s);
void launch_stream_lost(struct launch_stream *s, const struct pd_err *why);
void launch_fail_streams(struct launch *l); /* the command has ended: l->why */

/* launch_seed.c */
struct launch_seed;
int launch_seed_new(struct launch_seed **out, uv_loop_t *loop, const struct launch_opts *o,
                    const uint8_t secret[LAUNCH_KEY], int *port, struct pd_err *err);
void launch_seed_free(struct launch_seed *s, void (*closed)(void *), void *arg);
