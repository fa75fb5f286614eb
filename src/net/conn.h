/* conn.h - a connection that carries frames over libuv: TCP (with the handshake that proves the
 * job's key), or an already trusted stream pair (unix socket, pipes, stdin/stdout).
 *
 *      connect/accept --> handshake --> on_open --> on_frame ... --> on_close
 *
 * Callbacks come from the loop's thread, never from inside net_send. on_close comes exactly once
 * and last, also for a connection that never opened; afterwards the conn is gone. `why->code` is 0
 * after net_close by us, PD_ECLOSED when the peer closed between frames, else what went wrong.
 */
#ifndef PD_NET_CONN_H
#define PD_NET_CONN_H

#include <uv.h>

#include "base/err.h"
#include "base/log.h"
#include "net/shm/region.h"
#include "wire/frame.h"
#include "wire/handshake.h"

struct net_conn;

struct net_events {
    void (*on_open)(struct net_conn *c, void *arg); /* may be NULL */
    void (*on_frame)(struct net_conn *c, struct wire_frame *f,
                     void *arg);                     /* f is the callee's to free */
    void (*on_drain)(struct net_conn *c, void *arg); /* the send queue became empty; may be NULL */
    void (*on_close)(struct net_conn *c, const struct pd_err *why, void *arg);
};

struct net_opts {
    uint64_t max_frame;            /* bytes a frame may have once open; before that 4 KiB */
    uint64_t handshake_timeout_ms; /* 0: 10 s */
    const struct pd_log *log;      /* may be NULL */
    struct pd_pool
        *pool; /* memory of frames and of what waits to be sent; outlives them; may be NULL */
    int share; /* large frames may go through memory where both are on one machine (net_share) */
    int cork; /* small frames that on_frame sends leave together, once all frames that have come are
                 handed out */
};

/* Connect to numeric ip:port. Never blocks. `hs` says who we are and holds the job's key (copied).
 */
int net_connect(struct net_conn **out, uv_loop_t *loop, const char *ip, int port,
                uint64_t timeout_ms, const struct wire_hs_opts *hs, const struct net_opts *opts,
                const struct net_events *ev, void *arg, struct pd_err *err);

/* Frames over streams that need no handshake; on_open comes from the next loop turn. The two may be
 * the same handle. The conn owns (uv_close, free) both handles, which were allocated with malloc.
 */
int net_conn_over(struct net_conn **out, uv_stream_t *in, uv_stream_t *outs,
                  const struct net_opts *opts, const struct net_events *ev, void *arg,
                  struct pd_err *err);

/* A listener. Every accepted connection runs the handshake; once open it gets `ev` with `arg`
 * (net_set_arg may give it one of its own from on_open). One that never opens causes a log line and
 * no callback. At most 64 may be in the handshake at a time; a further one takes the place of one
 * that has been for more than a second, else it is closed. */
struct net_listener;
int net_listen(struct net_listener **out, uv_loop_t *loop, const char *ip, int port,
               const struct wire_hs_opts *hs, const struct net_opts *opts,
               const struct net_events *ev, void *arg, struct pd_err *err);
/* The same on a bound (not yet listening) or listening socket, which the listener then owns. */
int net_listen_fd(struct net_listener **out, uv_loop_t *loop, int fd, const struct wire_hs_opts *hs,
                  const struct net_opts *opts, const struct net_events *ev, void *arg,
                  struct pd_err *err);
int net_listener_port(const struct net_listener *l);
void net_listener_close(struct net_listener *l, void (*closed)(void *),
                        void *arg); /* accepted conns stay */

/* Bind (without SO_REUSEADDR and without listening, so nobody else can have the port) the first
 * free port at or after `port` (0: any). Returns the fd or PD_E*. */
int net_bind_first_free(const char *ip, int port, int tries, int *got, struct pd_err *err);

int net_bound_port(int fd); /* of a bound socket; -1 */

/* "::" (IPv4 as well) where this kernel has IPv6, else "0.0.0.0": all addresses of this host. */
const char *net_any_ip(void);

/* A numeric address, IPv4 or IPv6: 0, or -1 when `ip` is none. */
int net_ip_addr(const char *ip, int port, struct sockaddr_storage *sa);
int net_is_ip(const char *ip);
/* "10.0.0.1:7164", "[2001:db8::1]:7164"; returns `out`. */
enum { NET_ENDPOINT_MAX = 64 };
const char *net_endpoint(const char *ip, int port, char out[NET_ENDPOINT_MAX]);

struct net_sec {
    const void *p;
    size_t n;
};

/* Queue a frame. Bytes that the kernel takes at once are not copied; the rest is, unless `release`
 * is given: then the sections stay in use, and release(release_arg) says when they are free (also
 * on failure; it may come from inside this call). Sending on a closing conn drops the frame.
 * Returns 0 or PD_ENOMEM (conn closes). */
int net_send(struct net_conn *c, uint16_t type, uint16_t flags, uint64_t req,
             const struct net_sec *sec, uint32_t n_sec, void (*release)(void *), void *release_arg);
/* hold: what is sent from now on leaves together when hold is 0 again, or with something large: one
 * call, and the peer is woken once. Never without end: whoever holds lets go before it waits. */
void net_hold(struct net_conn *c, int hold);
/* An answer that carries a failure: WIRE_F_ERROR, section 0 = {code, message}. */
int net_send_error(struct net_conn *c, uint16_t type, uint64_t req, const struct pd_err *e);

/* A host that has vanished is found out in 11 s: by TCP keepalive while nothing is under way
 * (net_watch_host, once), else by looking at what has not been acknowledged (net_check_host, every
 * second or so, closes the connection with PD_ECLOSED). A process that is stopped, or takes nothing
 * for hours, is left alone, since its kernel answers; TCP_USER_TIMEOUT would end it. */
void net_watch_host(struct net_conn *c);
void net_check_host(struct net_conn *c);
/* TCP has sent something again because the peer's kernel has not acknowledged it yet: the network
 * is cut, or the host is gone. A process that is only stopped has a kernel that acknowledges. */
int net_unanswered(const struct net_conn *c);

/* The connector asks for it, once open; it takes effect when the peer, which has opts.share too,
 * has found the memory. What does not find room there goes through the socket, in the same order.
 */
void net_share(struct net_conn *c);
int net_shares(const struct net_conn *c); /* it has taken effect */
/* Sections that lie in the region are lent and not copied where memory is shared. Before net_share,
 * or the peer's; it outlives the connection. */
void net_lend(struct net_conn *c, const struct net_region *r);

uint64_t net_received_bytes(const struct net_conn *c); /* so far, of complete frames or not */
size_t net_queued_bytes(const struct net_conn *c);     /* not yet taken by the kernel */
void net_pause(struct net_conn *c);                    /* stop reading: back-pressure */
void net_resume(struct net_conn *c);
void net_close(struct net_conn *c); /* at once; what is queued may be lost */
void net_abort(struct net_conn
                   *c); /* the same, with a reset of TCP: the port is free at once (no TIME_WAIT) */
void net_close_after_flush(struct net_conn *c); /* when the queue is empty */
/* Another descriptor of its socket, for a caller that keeps using it after net_close; the peer must
 * have no unread data in flight. -1: none. */
int net_dup_fd(const struct net_conn *c);
void net_set_arg(struct net_conn *c, void *arg);
int net_was_refused(const struct net_conn *c); /* in on_close: nobody listens at that port */
const struct wire_hello *net_peer(
    const struct net_conn *c); /* what the peer said of itself; NULL without handshake */
const char *net_peer_addr(const struct net_conn *c); /* "10.0.0.2:41234" or "local" */
/* The bytes an acceptor put into its WELCOME (connector side, once open). */
const uint8_t *net_greeting(const struct net_conn *c, size_t *n);
/* The job's key and both nonces, hashed; the base for keys of an encrypted transport. 32 bytes. */
const uint8_t *net_session_key(const struct net_conn *c);

#endif
