/* SPDX-License-Identifier: Apache-2.0 */
/* listen.c - accepts connections, and finds a free port without a race for it. */
#include <sys/resource.h>
#include <sys/socket.h>

#include "net/conn_internal.h"

enum { LEAST_HANDSHAKES = 8, MOST_HANDSHAKES = 64, LOCK_SHARE = 64 };
enum { LONG_MS = 1000, BACKLOG = 1024, TELL_MS = 10000, AGAIN_MS = 100 };

struct net_listener {
    uv_tcp_t tcp;
    uv_timer_t again; /* until there is memory for a connection */
    int n_closing;
    int port;
    struct wire_hs_opts hs; /* with a copy of the greeting */
    struct net_opts opts;
    struct net_events ev;
    void *arg;
    struct net_conn *pending; /* accepted, not open yet */
    int n_pending, max_pending;
    uint64_t told_ms, n_untold; /* of refused connections: the last record, and those since then */
    void (*closed)(void *);
    void *closed_arg;
};

void net_listener_opened(struct net_conn *c) {
    struct net_listener *l = c->listener;
    if (!l)
        return;
    *(c->prev ? &c->prev->next : &l->pending) = c->next;
    if (c->next)
        c->next->prev = c->prev;
    c->prev = c->next = NULL;
    c->listener = NULL;
    l->n_pending--;
}

/* One record in TELL_MS: strangers cannot fill the disk with records. */
static void tell_refused(struct net_listener *l, const char *who, const char *why) {
    const uint64_t now = uv_now(l->tcp.loop);
    if (l->told_ms && now - l->told_ms < TELL_MS) {
        l->n_untold++;
        return;
    }
    if (l->n_untold)
        pd_warn(l->opts.log, "port %d: %llu more connections were refused in the last %llu s",
                l->port, (unsigned long long)l->n_untold,
                (unsigned long long)((now - l->told_ms) / 1000));
    pd_warn(l->opts.log, "%s: refused: %s", who, why);
    l->told_ms = now ? now : 1;
    l->n_untold = 0;
}

void net_listener_refused(struct net_conn *c) { tell_refused(c->listener, c->addr, c->why.msg); }

/* Closes c without callbacks; c may outlive the listener. */
static void drop_pending(struct net_conn *c) {
    static const struct net_events quiet;
    net_listener_opened(c);
    c->ev = quiet;
    net_close(c);
}

/* Each handshake may take a page of locked memory, of which a process often has 8 MiB. A server has
 * a listener for each thread, so the handshakes of a listener get a small share. */
static int max_handshakes(void) {
    struct rlimit r;
    if (getrlimit(RLIMIT_MEMLOCK, &r))
        return LEAST_HANDSHAKES;
    const rlim_t n = r.rlim_cur / (rlim_t)sysconf(_SC_PAGESIZE) / LOCK_SHARE;
    return n > MOST_HANDSHAKES ? MOST_HANDSHAKES : n < LEAST_HANDSHAKES ? LEAST_HANDSHAKES : (int)n;
}

/* Makes room for one more handshake. A peer with the key needs milliseconds, so the oldest
 * handshake is dropped if it takes long. */
static int has_room(struct net_listener *l) {
    if (l->n_pending < l->max_pending)
        return 1;
    struct net_conn *oldest = l->pending;
    while (oldest->next)
        oldest = oldest->next;
    if (oldest->closing ||
        uv_timer_get_due_in(&oldest->timer) + LONG_MS > net_conn_handshake_ms(oldest))
        return 0;
    tell_refused(l, oldest->addr, "handshake: no answer in time, and others wait");
    drop_pending(oldest);
    return 1;
}

static void free_handle(uv_handle_t *h) { free(h); }

static void on_connection(uv_stream_t *s, int status);

static void on_again(uv_timer_t *t) {
    struct net_listener *l = t->data;
    on_connection((uv_stream_t *)&l->tcp, 0);
}

/* libuv listens no further until a connection is accepted. */
static void on_connection(uv_stream_t *s, int status) {
    struct net_listener *l = s->data;
    uv_tcp_t *tcp = status ? NULL : pd_malloc(sizeof *tcp);
    if (!tcp || uv_tcp_init(s->loop, tcp)) {
        free(tcp);
        if (!status)
            uv_timer_start(&l->again, on_again, AGAIN_MS, 0);
        return;
    }
    struct net_conn *c = NULL;
    if (uv_accept(s, (uv_stream_t *)tcp) || !has_room(l) ||
        !(c = net_conn_new(s->loop, &l->hs, 0, &l->opts, &l->ev, l->arg))) {
        tell_refused(l, "a connection", "too many connections are in the handshake");
        uv_close((uv_handle_t *)tcp, free_handle);
        return;
    }
    net_tune(tcp);
    c->in = c->out = (uv_stream_t *)tcp;
    tcp->data = c;
    uv_timer_init(s->loop, &c->timer);
    c->timer.data = c;
    c->n_handles = 2;
    if (l->opts.background)
        net_background(c, 1);
    net_conn_set_addr(c);
    c->listener = l;
    c->next = l->pending;
    if (c->next)
        c->next->prev = c;
    l->pending = c;
    l->n_pending++;
    int rc = net_conn_begin(c);
    if (rc)
        net_conn_fail(c, PD_EIO, "%s", uv_strerror(rc));
}

static void on_listener_closed(uv_handle_t *h) {
    struct net_listener *l = h->data;
    if (--l->n_closing)
        return;
    if (l->closed)
        l->closed(l->closed_arg);
    free((void *)(uintptr_t)l->hs.greeting);
    explicit_bzero(&l->hs, sizeof l->hs);
    free(l);
}

void net_listener_close(struct net_listener *l, void (*closed)(void *), void *arg) {
    l->closed = closed;
    l->closed_arg = arg;
    while (l->pending)
        drop_pending(l->pending);
    if (l->n_untold)
        pd_warn(l->opts.log, "port %d: %llu more connections were refused", l->port,
                (unsigned long long)l->n_untold);
    l->n_closing = 2;
    uv_close((uv_handle_t *)&l->tcp, on_listener_closed);
    uv_close((uv_handle_t *)&l->again, on_listener_closed);
}

int net_listener_port(const struct net_listener *l) { return l->port; }

int net_bound_port(int fd) {
    struct sockaddr_storage sa;
    socklen_t n = sizeof sa;
    if (getsockname(fd, (struct sockaddr *)&sa, &n))
        return -1;
    return ntohs(sa.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&sa)->sin6_port
                                          : ((struct sockaddr_in *)&sa)->sin_port);
}

int net_listen_fd(struct net_listener **out, uv_loop_t *loop, int fd, const struct wire_hs_opts *hs,
                  const struct net_opts *opts, const struct net_events *ev, void *arg,
                  struct pd_err *err) {
    struct net_listener *l = pd_calloc(1, sizeof *l);
    void *greeting = l && hs->greeting_len ? pd_malloc(hs->greeting_len) : NULL;
    if (!l || (hs->greeting_len && !greeting)) {
        free(l);
        close(fd);
        return pd_oom(err, "a listener");
    }
    if (greeting)
        memcpy(greeting, hs->greeting, hs->greeting_len);
    pd_secret_pages(&l->hs, sizeof l->hs);
    l->hs = *hs;
    l->hs.greeting = greeting;
    l->opts = *opts;
    l->ev = *ev;
    l->arg = arg;
    l->port = net_bound_port(fd);
    l->max_pending = max_handshakes();
    uv_tcp_init(loop, &l->tcp);
    uv_timer_init(loop, &l->again);
    l->again.data = l;
    l->tcp.data = l;
    if (opts->background) {
        uv_unref((uv_handle_t *)&l->tcp);
        uv_unref((uv_handle_t *)&l->again);
    }
    int rc = uv_tcp_open(&l->tcp, fd);
    if (rc)
        close(fd);
    else
        rc = uv_listen((uv_stream_t *)&l->tcp, BACKLOG, on_connection);
    if (rc) {
        pd_fail(err, PD_EIO, "cannot listen on port %d: %s", l->port, uv_strerror(rc));
        net_listener_close(l, NULL, NULL);
        return PD_EIO;
    }
    *out = l;
    return 0;
}

int net_ip_addr(const char *ip, int port, struct sockaddr_storage *sa) {
    memset(sa, 0, sizeof *sa);
    return uv_ip4_addr(ip, port, (struct sockaddr_in *)sa) &&
                   uv_ip6_addr(ip, port, (struct sockaddr_in6 *)sa)
               ? -1
               : 0;
}

int net_is_ip(const char *ip) {
    struct sockaddr_storage sa;
    return !net_ip_addr(ip, 0, &sa);
}

const char *net_endpoint(const char *ip, int port, char out[NET_ENDPOINT_MAX]) {
    snprintf(out, NET_ENDPOINT_MAX, strchr(ip, ':') ? "[%.45s]:%d" : "%.45s:%d", ip, port);
    return out;
}

const char *net_any_ip(void) {
    struct sockaddr_in6 sa = {.sin6_family = AF_INET6};
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0), off = 0;
    int ok = fd >= 0 && !setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) &&
             !bind(fd, (struct sockaddr *)&sa, sizeof sa);
    pd_close(fd);
    return ok ? "::" : "0.0.0.0";
}

static int bind_one(const char *ip, int port, int reuse) {
    struct sockaddr_storage sa;
    if (net_ip_addr(ip, port, &sa)) {
        errno = EINVAL;
        return -1;
    }
    int fd = socket(sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1,
        only = strcmp(ip, "::") != 0;
    if (fd < 0)
        return -1;
    if (sa.ss_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof only);
    if (reuse)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, (struct sockaddr *)&sa,
             sa.ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in))) {
        int e = errno;
        close(fd);
        errno = e;
        return -1;
    }
    return fd;
}

int net_bind_first_free(const char *ip, int port, int tries, int *got, struct pd_err *err) {
    int fd = -1, p = port;
    for (int i = 0; i < tries && p <= 65535; i++, p++) {
        fd = bind_one(ip, p, 0);
        if (fd >= 0 || (errno != EADDRINUSE && errno != EACCES) || port == 0)
            break;
    }
    if (fd < 0)
        return pd_fail_errno(err, PD_EIO, errno, "no free port on %s from %d on (%d tried)", ip,
                             port, tries);
    *got = net_bound_port(fd);
    return fd;
}

int net_bind(const char *ip, int port, struct pd_err *err) {
    const int fd = bind_one(ip, port, 1);
    return fd < 0 ? pd_fail_errno(err, PD_EIO, errno, "cannot bind %s:%d", ip, port) : fd;
}
