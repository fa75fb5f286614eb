/* internal.h - what conn.c, listen.c and send.c share. */
#ifndef PD_NET_INTERNAL_H
#define PD_NET_INTERNAL_H

#include "base/buf.h"
#include "net/conn.h"
#include "net/share.h"

enum { NET_PRE_AUTH_FRAME = 4096, NET_DEFAULT_HANDSHAKE_MS = 10000 };

struct net_conn {
    uv_loop_t *loop;
    uv_stream_t *in, *out; /* may be the same; owned */
    uv_timer_t timer;      /* handshake deadline, or the turn before on_open */
    int n_handles;         /* opened and not yet closed */
    int open, closing, flush_then_close, paused;
    int refused;
    int deaf; /* the peer takes nothing more; what it said before it left is still to be read */
    struct wire_decoder *decoder;
    struct wire_hs *hs; /* NULL without a handshake */
    struct net_opts opts;
    struct net_events ev;
    void *arg;
    struct pd_err why;
    size_t queued;
    int corked;         /* frames are being handed out, and opts.cork */
    int held;           /* net_hold */
    struct pd_buf cork; /* what waits to leave for either reason */
    uint64_t received;
    struct net_share *share;         /* NULL: all goes through the socket */
    const struct net_region *region; /* net_lend */
    char addr[80];
    /* of an accepted connection that is not open yet */
    struct net_listener *listener;
    struct net_conn *prev, *next;
};

/* A conn without handles yet; NULL: out of memory. */
struct net_conn *net_conn_new(uv_loop_t *loop, const struct wire_hs_opts *hs, int connector,
                              const struct net_opts *opts, const struct net_events *ev, void *arg);
uint64_t net_conn_handshake_ms(const struct net_conn *c); /* how long the handshake may take */
int net_conn_begin(
    struct net_conn *c); /* handshake (or on_open) and reading start; 0 or a libuv error */
void net_conn_fail(struct net_conn *c, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void net_conn_set_addr(struct net_conn *c);
int net_same_machine(
    uv_stream_t *s); /* a TCP connection from this machine to itself, as its addresses say */
void net_tune(uv_tcp_t *tcp);           /* a connection was made: no delays; tune.c */
int net_conn_flush(struct net_conn *c); /* what is corked leaves; 0 or PD_ENOMEM (conn closes) */
void net_listener_opened(struct net_conn *c); /* takes c off its listener's list */

#endif
