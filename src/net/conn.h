/* SPDX-License-Identifier: Apache-2.0 */
/* conn.h - a connection that carries frames over libuv: TCP, with the handshake that proves the
 * job's key and with sealed bytes after it (seal.h), or a trusted pair of streams (unix socket,
 * pipes, stdin/stdout).
 *
 *      connect/accept --> handshake --> on_open --> on_frame ... --> on_close
 *
 * Callbacks run in the loop's thread, never inside net_send. on_close comes exactly once and last,
 * even if the connection never opened; then the connection is freed. why->code is 0 after a local
 * net_close, PD_ECLOSED when the peer closed between frames, otherwise the cause. */
#pragma once

#include <uv.h>

#include "net/shm/region.h"
#include "wire/frame.h"
#include "wire/handshake.h"

struct net_conn;

struct net_events {
    void (*on_open)(struct net_conn *c, void *arg); /* may be NULL */
    /* The callee frees f. */
    void (*on_frame)(struct net_conn *c, struct wire_frame *f, void *arg);
    void (*on_drain)(struct net_conn *c, void *arg); /* the send queue became empty; may be NULL */
    void (*on_close)(struct net_conn *c, const struct pd_err *why, void *arg);
};

struct net_opts {
    uint64_t max_frame;            /* most bytes of a frame once open; before that 4 KiB */
    uint64_t handshake_timeout_ms; /* 0: 10 s */
    const struct pd_log *log;      /* may be NULL */
    /* Memory for frames and for queued bytes; must outlive both; may be NULL. */
    struct pd_pool *pool;
    int share;         /* large frames may go through shared memory within a machine (net_share) */
    unsigned in_place; /* bit i: section i of such a frame is not copied, see share.h */
    /* Small frames that on_frame sends are collected and sent together after all received frames
     * are handled. */
    int cork;
    /* of a listener: it and its connections do not keep the loop running (net_background) */
    int background;
};

/* Connect to the numeric address ip:port. Never blocks. `hs`: who this process is, and the job's
 * key; copied. */
int net_connect(struct net_conn **out, uv_loop_t *loop, const char *ip, int port,
                uint64_t timeout_ms, const struct wire_hs_opts *hs, const struct net_opts *opts,
                const struct net_events *ev, void *arg, struct pd_err *err);

/* Frames over streams that need no handshake; on_open comes in the next loop turn. `in` and `outs`
 * may be the same handle. Both come from malloc; the connection owns them (uv_close, free). */
int net_conn_on_streams(struct net_conn **out, uv_stream_t *in, uv_stream_t *outs,
                        const struct net_opts *opts, const struct net_events *ev, void *arg,
                        struct pd_err *err);

/* A listener. Every accepted connection runs the handshake; once open it has the events `ev` and
 * the argument `arg` (on_open may change `arg` by net_set_arg). A connection that never opens
 * causes a log line and no callback. At most 64 connections are in the handshake, fewer if
 * RLIMIT_MEMLOCK is low (32 of 8 MiB, at least 8). When another one comes, it replaces a connection
 * that has been in the handshake for more than a second; if there is none, it is closed. */
struct net_listener;
/* On a socket that is bound, listening or not. The listener owns the socket. */
int net_listen_fd(struct net_listener **out, uv_loop_t *loop, int fd, const struct wire_hs_opts *hs,
                  const struct net_opts *opts, const struct net_events *ev, void *arg,
                  struct pd_err *err);
int net_listener_port(const struct net_listener *l);
/* Accepted connections stay open. */
void net_listener_close(struct net_listener *l, void (*closed)(void *), void *arg);

/* Bind the first free port at or after `port` (0: any). The socket has no SO_REUSEADDR and does not
 * listen, so no other process can take the port. Returns the fd or PD_E*. */
int net_bind_first_free(const char *ip, int port, int tries, int *got, struct pd_err *err);
/* Bind this port, even if connections of an earlier process linger. The fd, or PD_EIO. */
int net_bind(const char *ip, int port, struct pd_err *err);

int net_bound_port(int fd); /* port of a bound socket; -1: none */

/* The address that means all addresses of this host: "::" (IPv4, too) if the kernel has IPv6, else
 * "0.0.0.0". */
const char *net_any_ip(void);

/* Parse a numeric IPv4 or IPv6 address; -1: `ip` is not such an address. */
int net_ip_addr(const char *ip, int port, struct sockaddr_storage *sa);
int net_is_ip(const char *ip);
/* Format as "10.0.0.1:7164" or "[2001:db8::1]:7164"; returns `out`. */
enum { NET_ENDPOINT_MAX = 64 };
const char *net_endpoint(const char *ip, int port, char out[NET_ENDPOINT_MAX]);

struct net_sec {
    const void *p;
    size_t n;
};

/* Queue a frame. Bytes that the kernel takes at once are not copied. The rest is copied, unless
 * `release` is given: then the sections stay in use until release(release_arg), which is also
 * called on failure, and may be called inside this function. A closing connection drops the frame.
 * Returns 0, PD_ENOMEM or PD_EIO (the connection closes). */
int net_send(struct net_conn *c, uint16_t type, uint16_t flags, uint64_t req,
             const struct net_sec *sec, uint32_t n_sec, void (*release)(void *), void *release_arg);
/* hold 1: collect the frames that are sent from now on. hold 0: send them together, with one system
 * call and one wake-up of the peer. A large frame also sends them. The caller must set hold to 0
 * before it waits. */
void net_hold(struct net_conn *c, int hold);
/* Answer with an error: WIRE_F_ERROR, section 0 = {code, message}. */
int net_send_error(struct net_conn *c, uint16_t type, uint64_t req, const struct pd_err *e);

/* A host that vanished is detected within 11 s: by TCP keepalive on an idle connection
 * (net_watch_host, called once), otherwise by unacknowledged data (net_check_host, called every
 * second or so, closes the connection with PD_ECLOSED). A stopped or busy process is not affected,
 * because its kernel acknowledges. TCP_USER_TIMEOUT would end it. */
void net_watch_host(struct net_conn *c);
void net_check_host(struct net_conn *c);
/* 1: TCP has retransmitted because the peer's kernel has not acknowledged yet: the network is down,
 * or the host is gone. The kernel of a stopped process does acknowledge. */
int net_has_unacknowledged(const struct net_conn *c);

/* Wipes the bytes of received frames that the connection still has: they contained a key. */
void net_forget(struct net_conn *c);

/* Ask for shared memory; the connector calls this once the connection is open. It takes effect when
 * the peer, which needs opts.share too, has mapped the memory. Frames without room there go through
 * the socket, in the same order. */
void net_share(struct net_conn *c);
int net_is_shared(const struct net_conn *c); /* 1: shared memory is in use */
/* Lend sections that are in the region instead of copying them, where memory is shared. Call it
 * before net_share or before the peer's. The region must outlive the connection. */
void net_lend(struct net_conn *c, const struct net_region *r);

/* received so far, incomplete frames included */
uint64_t net_received_bytes(const struct net_conn *c);
size_t net_queued_bytes(const struct net_conn *c); /* not yet taken by the kernel */
/* 1: the connection does not keep the loop running. 0: it does, as every connection at first. */
void net_background(struct net_conn *c, int background);
void net_pause(struct net_conn *c); /* stop reading: backpressure */
void net_resume(struct net_conn *c);
void net_close(struct net_conn *c); /* at once; queued frames may be lost */
/* The same, with a TCP reset: the port is free at once (no TIME_WAIT). */
void net_abort(struct net_conn *c);
void net_close_after_flush(struct net_conn *c); /* after the queue is empty */
/* The state of a connection that moves to another loop: the socket, and the seal of its bytes.
 * Nothing of the peer may be in flight, and the caller closes `c` right after net_move. fd -1: no
 * connection. */
struct net_moved {
    int fd;
    struct net_seal *seal;
};
struct net_moved net_move(struct net_conn *c);
void net_moved_drop(struct net_moved *m); /* closes it */
/* Continue it on a loop, as net_conn_on_streams does. Takes *m, also on failure. */
int net_conn_moved(struct net_conn **out, uv_loop_t *loop, struct net_moved *m,
                   const struct net_opts *opts, const struct net_events *ev, void *arg,
                   struct pd_err *err);
void net_set_arg(struct net_conn *c, void *arg);
/* In on_close: no process listens on that port. */
int net_port_was_closed(const struct net_conn *c);
/* The peer's hello; NULL without handshake. */
const struct wire_hello *net_peer(const struct net_conn *c);
const char *net_peer_addr(const struct net_conn *c); /* "10.0.0.2:41234" or "local" */
/* The greeting in the acceptor's WELCOME (connector only, once open). */
const uint8_t *net_greeting(const struct net_conn *c, size_t *n);
int net_is_sealed(const struct net_conn *c); /* 1: open, and all bytes are sealed */
