/* SPDX-License-Identifier: Apache-2.0 */
/* conn_internal.h - shared by the files of src/net: the connection's struct and its helpers. */
#pragma once

#include "net/conn.h"
#include "net/seal.h"
#include "net/share.h"

enum { NET_PRE_AUTH_FRAME = 4096, NET_DEFAULT_HANDSHAKE_MS = 10000 };

struct net_conn {
    uv_loop_t *loop;
    uv_stream_t *in, *out; /* may be the same; owned */
    uv_timer_t timer;      /* handshake deadline, or the loop turn before on_open */
    int n_handles;         /* handles that are open */
    int open, closing, flush_then_close, paused;
    int refused;
    int deaf; /* the peer reads no more; its last messages are still to be read */
    struct wire_decoder *decoder;
    struct wire_hs *hs; /* NULL without a handshake */
    struct net_opts opts;
    struct net_events ev;
    void *arg;
    struct net_seal *seal; /* NULL: bytes are sent as they are */
    struct pd_err why;
    size_t queued;
    /* With a seal: frames that wait, and whether sealed bytes are on their way to the kernel */
    struct net_waiting *waiting, **waiting_end;
    int writing;
    int corked;         /* opts.cork, while received frames are handed out */
    int held;           /* net_hold */
    struct pd_buf cork; /* frames that wait because of corked or held */
    uint64_t received;
    struct net_share *share;         /* NULL: all frames go through the socket */
    const struct net_region *region; /* net_lend */
    char addr[80];
    /* of an accepted connection before on_open */
    struct net_listener *listener;
    struct net_conn *prev, *next;
};

/* Create a connection without handles; NULL: out of memory. */
struct net_conn *net_conn_new(uv_loop_t *loop, const struct wire_hs_opts *hs, int connector,
                              const struct net_opts *opts, const struct net_events *ev, void *arg);
uint64_t net_conn_handshake_ms(const struct net_conn *c); /* time limit of the handshake */
/* Start reading, and the handshake or on_open; 0 or a libuv error. */
int net_conn_begin(struct net_conn *c);
void net_conn_fail(struct net_conn *c, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void net_conn_set_addr(struct net_conn *c);
/* 1: by its addresses a TCP connection from this machine to itself. */
int net_same_machine(uv_stream_t *s);
void net_tune(uv_tcp_t *tcp); /* set the options of a new connection; tune.c */
/* send the corked frames; 0, or PD_ENOMEM (the connection closes) */
int net_conn_flush(struct net_conn *c);
void net_conn_drop_waiting(struct net_conn *c); /* without handles: nothing will be sent */
void net_listener_opened(struct net_conn *c);   /* removes c from its listener's list */
/* The handshake of c has failed, for c->why: logged at once, or counted. */
void net_listener_refused(struct net_conn *c);
