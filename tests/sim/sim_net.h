/* SPDX-License-Identifier: Apache-2.0 */
/* sim_net.h - a stream of bytes between two machines, as sim_net.c and sim_transport.c see it. */
#pragma once
#include "launcher/transport/transport.h"
#include "net/conn.h"
#include "tests/sim/sim.h"

struct way;
struct chunk {
    struct way *w;
    struct chunk *next;
    uint64_t sent, at;
    enum { BYTES, OPENED, FIN, RST } kind;
    size_t n;
    uint8_t p[];
};

struct way { /* one direction */
    struct sim_stream *s;
    int to; /* the end that receives */
    struct chunk *first, **last;
    uint64_t last_at, rto_ms, unacked; /* unacked: sent then, and no acknowledgment came */
    int scheduled;
};

struct end {
    struct actor *a;
    int machine;
    struct net_conn *conn;
    struct sim_transport *t;
    int shut; /* it sends and receives nothing more */
};

struct sim_stream {
    struct sim_stream *next;
    struct end end[2];
    struct way way[2]; /* way[i] leads to end i */
    /* connecting */
    int port, local;
    uint64_t deadline;
    int start, node;
    unsigned lease_ms;
    char job[64];
};

struct net_listener {
    struct actor *a;
    int port;
    struct wire_hs_opts hs;
    struct net_events ev;
    struct net_opts opts;
    void *arg;
};

struct net_conn {
    struct sim_stream *s;
    int end;
    struct actor *a;
    struct net_events ev;
    void *arg;
    struct wire_hello self, peer;
    uint8_t key[32];
    int open, closing, flush, has_peer;
    uint64_t received, sent;
    struct wire_decoder *dec;
    uv_stream_t *in, *out;
    struct pd_err why;
    char addr[40];
};

struct sim_transport {
    struct transport t; /* first */
    struct sim_stream *s;
    struct actor *a;
    int open, closing;
    struct pd_err why;
};

/* The time that bytes take now, in nanoseconds: delay, losses and slow spells. */
uint64_t sim_travel(int from, int to);
struct sim_stream *sim_new_stream(int from, int to);
/* Sends bytes, or another `kind` of struct chunk, to the other end. */
void sim_put(struct way *w, int kind, const void *p, size_t n);
/* An end leaves the stream; silent: without telling the other end. */
void sim_shut(struct sim_stream *s, int end, int silent);
void sim_close_transport(struct sim_transport *t, int code, const char *why);
