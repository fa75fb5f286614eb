/* SPDX-License-Identifier: Apache-2.0 */
/* ssh_connect.c - the steps from a name to a connection with keys exchanged.
 *
 * A connection is a TCP socket (to each address of the name in turn), a channel of a jump host, or
 * the stdin and stdout of a ProxyCommand. libssh gets a duplicate of the file descriptor: its own
 * name resolution and connect would block the loop.
 */
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "launcher/ssh/ssh_internal.h"

enum { LOST_AFTER_MS = 8000, KEEPALIVE_IDLE_S = 5, KEEPALIVE_EVERY_S = 3 };

/* --- names --- */

static void on_resolved(uv_getaddrinfo_t *req, int status, struct addrinfo *res) {
    struct session *s = req->data;
    req->data = NULL;
    if (s->step == STEP_CLOSING) {
        uv_freeaddrinfo(res);
        session_handle_gone(s);
        return;
    }
    s->n_handles--; /* not the last handle: the timers are open */
    s->addrs = s->addr = res;
    for (struct addrinfo *a = res; a; a = a->ai_next)
        s->n_addrs_left++;
    if (status)
        session_fail(s, PD_EHOST, "cannot resolve the name: %s", uv_strerror(status));
    session_drive(s);
}

enum ssh_step run_resolve(struct session *s) {
    if (s->why.code)
        return STEP_FAILED;
    if (s->addrs)
        return STEP_CONNECT;
    if (s->resolve.data) /* the request runs */
        return STEP_RESOLVE;
    char port[16];
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_family = s->target.family};
    pd_fmt(port, sizeof port, "%d", s->target.port);
    int rc = uv_getaddrinfo(s->pool->loop, &s->resolve, on_resolved, s->target.host, port, &hints);
    if (rc)
        return session_fail(s, PD_EHOST, "cannot resolve the name: %s", uv_strerror(rc));
    s->resolve.data = s;
    s->n_handles++;
    return STEP_RESOLVE;
}

void connect_release(struct session *s) {
    if (s->resolve.data)
        uv_cancel((uv_req_t *)&s->resolve); /* the callback comes in any case */
    if (s->addrs)
        uv_freeaddrinfo(s->addrs);
    s->addrs = s->addr = NULL;
}

/* --- ProxyCommand --- */

static void on_proxy_closed(uv_handle_t *h) {
    struct session *s = h->data;
    free(h);
    session_handle_gone(s);
}

static void on_proxy_exit(uv_process_t *p, int64_t status, int signal) {
    struct session *s = p->data;
    (void)status; /* the session sees the end of its stdout */
    (void)signal;
    if (s->proxy == p)
        s->proxy = NULL;
    uv_close((uv_handle_t *)p, on_proxy_closed);
}

static enum ssh_step proxy_begin(struct session *s) {
    int pair[2];
    char command[2000];
    uv_process_t *p = pd_calloc(1, sizeof *p);
    if (!p || pd_fmt(command, sizeof command, "exec %s", s->target.proxy) ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) {
        const char *why = !p ? "out of memory" : command[0] ? strerror(errno) : "it is too long";
        free(p);
        return session_fail(s, PD_EHOST, "cannot start its ProxyCommand: %s", why);
    }
    const char *shell = getenv("SHELL");
    shell = shell && *shell ? shell : "/bin/sh";
    char *argv[] = {(char *)(uintptr_t)shell, (char *)(uintptr_t) "-c", command, NULL};
    uv_stdio_container_t io[3] = {{.flags = UV_INHERIT_FD, .data.fd = pair[1]},
                                  {.flags = UV_INHERIT_FD, .data.fd = pair[1]},
                                  {.flags = UV_INHERIT_FD, .data.fd = 2}};
    uv_process_options_t o = {.file = shell,
                              .args = argv,
                              .exit_cb = on_proxy_exit,
                              .stdio = io,
                              .stdio_count = 3,
                              .flags =
                                  UV_PROCESS_DETACHED}; /* the terminal's Ctrl-C must not end it */
    p->data = s;
    s->n_handles++;
    int rc = uv_spawn(s->pool->loop, p, &o);
    close(pair[1]);
    s->fd = pair[0];
    if (rc) {
        uv_close((uv_handle_t *)p, on_proxy_closed);
        return session_fail(s, PD_EHOST, "cannot start its ProxyCommand: %s", uv_strerror(rc));
    }
    s->proxy = p;
    if (fcntl(s->fd, F_SETFL, O_NONBLOCK) || session_watch(s, s->fd))
        return session_fail(s, PD_ENOMEM, "out of memory");
    return STEP_KEX;
}

enum ssh_step run_forward(struct session *s) {
    struct pd_err err = {0};
    int fd;
    if (ssh_forward_open(s, &fd, &err))
        return session_fail(s, err.code, "%s", err.msg);
    if (fd < 0)
        return STEP_FORWARD;
    s->fd = fd;
    return session_watch(s, fd) ? session_fail(s, PD_ENOMEM, "out of memory") : STEP_KEX;
}

/* --- sockets --- */

static void set_socket_options(int fd) {
    int one = 1, ms = LOST_AFTER_MS, idle = KEEPALIVE_IDLE_S, every = KEEPALIVE_EVERY_S;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    /* To notice a lost peer: sent bytes must be acknowledged within LOST_AFTER_MS, and the kernel
     * probes an idle connection. */
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every, sizeof every);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof ms);
}

static int bind_to(struct session *s) { /* 0 or an errno */
    struct addrinfo hints = {
        .ai_family = s->addr->ai_family, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST};
    struct addrinfo *local = NULL;
    if (!s->target.bind)
        return 0;
    int e = getaddrinfo(s->target.bind, NULL, &hints, &local) ? EADDRNOTAVAIL : 0;
    if (!e && bind(s->fd, local->ai_addr, local->ai_addrlen))
        e = errno;
    if (local)
        freeaddrinfo(local);
    return e;
}

static int connect_begin(struct session *s) { /* 0 or an errno */
    s->fd = socket(s->addr->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (s->fd < 0)
        return errno;
    set_socket_options(s->fd);
    int e = bind_to(s);
    if (e)
        return e;
    if (connect(s->fd, s->addr->ai_addr, s->addr->ai_addrlen) && errno != EINPROGRESS)
        return errno;
    if (session_watch(s, s->fd))
        return ENOMEM;
    /* The remaining addresses share the remaining time. */
    uint64_t now = uv_now(s->pool->loop), spent = now - s->started_ms;
    uint64_t share = (s->budget_ms > spent ? s->budget_ms - spent : 0) / (uint64_t)s->n_addrs_left;
    s->addr_until_ms = now + share;
    if (s->n_addrs_left > 1)
        session_wake_after(s, share + 1);
    return 0;
}

static void next_address(struct session *s) {
    session_drop(s);
    s->addr = s->addr->ai_next;
    s->n_addrs_left--;
}

enum ssh_step run_connect(struct session *s) {
    int e = 0;
    if (s->target.proxy)
        return proxy_begin(s);
    if (s->fd >= 0) {
        socklen_t n = sizeof e;
        struct sockaddr_storage peer;
        socklen_t peer_len = sizeof peer;
        if (getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &e, &n))
            e = errno;
        if (!e && !getpeername(s->fd, (struct sockaddr *)&peer, &peer_len))
            return STEP_KEX;
        if (!e && (s->n_addrs_left <= 1 || uv_now(s->pool->loop) < s->addr_until_ms))
            return STEP_CONNECT; /* still connecting */
        e = e ? e : ETIMEDOUT;
        next_address(s);
    }
    while (s->addr) {
        e = connect_begin(s);
        if (!e)
            return STEP_CONNECT;
        next_address(s);
    }
    return session_fail(s, PD_EHOST, "cannot connect to port %d: %s%s", s->target.port, strerror(e),
                        e == ECONNREFUSED ? " (the port of its sshd is written user@host:port)"
                                          : "");
}

/* --- keys --- */

static int open_session(struct session *s) {
    int off = 0;
    long seconds = (long)(s->budget_ms / 1000) + 1;
    /* GCM first: with AES instructions it costs two thirds of the CPU time of ChaCha20. */
    const char *ciphers =
        "aes128-gcm@openssh.com,aes256-gcm@openssh.com,chacha20-poly1305@openssh.com,"
        "aes128-ctr,aes256-ctr";
    /* sshd computes curve25519 in portable C and P-256 in OpenSSL's assembly, which saves 5 of
     * about 35 ms of CPU per log-in. If libssh gets post-quantum exchanges (0.10 has none), they
     * should come first. */
    const char *exchanges = "ecdh-sha2-nistp256,curve25519-sha256,curve25519-sha256@libssh.org,"
                            "ecdh-sha2-nistp384,ecdh-sha2-nistp521,"
                            "diffie-hellman-group18-sha512,diffie-hellman-group16-sha512,diffie-"
                            "hellman-group-exchange-sha256,"
                            "diffie-hellman-group14-sha256";
    /* libssh closes its descriptor when the socket fails. Ours is polled, so it must stay open: its
     * number could be reused. */
    int theirs = fcntl(s->fd, F_DUPFD_CLOEXEC, 0);
    s->ssh = ssh_new();
    if (!s->ssh || theirs < 0 || ssh_options_set(s->ssh, SSH_OPTIONS_FD, &theirs)) {
        pd_close(theirs);
        return PD_EFAIL;
    }
    s->packets = (struct ssh_counter_struct){0};
    ssh_set_counters(s->ssh, NULL, &s->packets);
    ssh_set_blocking(s->ssh, 0);
    /* ssh_hostkey.c checks host keys: libssh would read known_hosts twice per host. libssh needs no
     * host name either, and refuses some names that resolve. */
    if (ssh_options_set(s->ssh, SSH_OPTIONS_PROCESS_CONFIG, &off) ||
        ssh_options_set(s->ssh, SSH_OPTIONS_HOST, "host") ||
        ssh_options_set(s->ssh, SSH_OPTIONS_USER, s->target.user) ||
        ssh_options_set(s->ssh, SSH_OPTIONS_PORT, &s->target.port) ||
        ssh_options_set(s->ssh, SSH_OPTIONS_TIMEOUT, &seconds) ||
        ssh_options_set(s->ssh, SSH_OPTIONS_KNOWNHOSTS, "/dev/null") ||
        ssh_options_set(s->ssh, SSH_OPTIONS_GLOBAL_KNOWNHOSTS, "/dev/null") ||
        ssh_options_set(s->ssh, SSH_OPTIONS_KEY_EXCHANGE, exchanges) ||
        ssh_options_set(s->ssh, SSH_OPTIONS_CIPHERS_C_S, ciphers) ||
        ssh_options_set(s->ssh, SSH_OPTIONS_CIPHERS_S_C, ciphers) ||
        ssh_options_set(s->ssh, SSH_OPTIONS_COMPRESSION, "no"))
        return PD_EFAIL;
    if (s->hostkey_types[0] && ssh_options_set(s->ssh, SSH_OPTIONS_HOSTKEYS, s->hostkey_types))
        return PD_EFAIL;
    return 0;
}

enum ssh_step run_kex(struct session *s) {
    if (!s->ssh && open_session(s))
        return session_fail(s, PD_EHOST, "cannot set up ssh: %s",
                            s->ssh ? ssh_get_error(s->ssh) : "out of memory");
    int rc = ssh_connect(s->ssh);
    fcntl(s->fd, F_SETFL, fcntl(s->fd, F_GETFL) | O_NONBLOCK); /* ssh_connect clears it */
    if (rc == SSH_AGAIN)
        return STEP_KEX;
    if (rc == SSH_OK)
        return STEP_HOST_KEY;
    const char *jump = jump_failure(s);
    if (jump)
        return session_fail(s, PD_EHOST, "%s", jump);
    if (s->hostkey_types[0] && strstr(ssh_get_error(s->ssh), "no match for method server host key"))
        return session_fail(
            s, PD_EHOST,
            "HOST KEY CHANGED: known_hosts lists other types of keys (%s) than the server has; "
            "connection refused",
            s->hostkey_types);
    if (s->target.proxy)
        return session_fail(s, PD_EHOST, "ssh by the ProxyCommand '%.300s': %s", s->target.proxy,
                            ssh_get_error(s->ssh));
    /* Closed before the greeting: sshd has reached its MaxStartups. */
    s->dropped_early = !ssh_get_serverbanner(s->ssh);
    return session_fail(s, PD_EHOST, "ssh: %s",
                        s->dropped_early ? "the server closed the connection before its greeting"
                                         : ssh_get_error(s->ssh));
}
