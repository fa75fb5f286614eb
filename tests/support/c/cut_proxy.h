/* SPDX-License-Identifier: Apache-2.0 */
/* cut_proxy.h - a TCP proxy that breaks connections. It is a process of its own, with one more
 * process for each connection. A seed determines its behaviour.
 *
 * The behaviour of connection i is a pure function of (seed, i). After `bytes` bytes from the
 * server the connection continues, ends, is reset, or falls silent. */
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum cut_kind { CUT_NEVER, CUT_END, CUT_RESET, CUT_SILENCE, CUT_N_KINDS };

struct cut {
    enum cut_kind kind;
    size_t bytes;
};

struct cut_proxy {
    pid_t pid;
    int port;
};

static inline struct cut cut_of(uint64_t seed, uint64_t i) {
    static const size_t ranges[] = {
        1, 60, 1200, 6000, 20000}; /* before the greeting, in it, in the key exchange, ... */
    uint64_t h = (seed + i * 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
    h ^= h >> 29;
    h *= 0x94d049bb133111ebu;
    h ^= h >> 32;
    return (struct cut){.kind = (enum cut_kind)(h % CUT_N_KINDS),
                        .bytes = (h >> 20) % ranges[(h >> 8) % 5]};
}

static inline void cut_finish(int client, enum cut_kind kind) {
    struct linger hard = {.l_onoff = 1};
    char sink[4096];
    if (kind == CUT_RESET)
        setsockopt(client, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    while (kind == CUT_SILENCE &&
           read(client, sink, sizeof sink) > 0) /* reads all bytes and sends none */
        ;
    _exit(0); /* closes the connections */
}

static inline void cut_relay(int client, const struct sockaddr_in *to, struct cut c) {
    int server = socket(AF_INET, SOCK_STREAM, 0);
    char buf[16384];
    size_t passed = 0;
    alarm(60);
    if (c.kind != CUT_NEVER && !c.bytes)
        cut_finish(client, c.kind);
    if (connect(server, (const struct sockaddr *)to, sizeof *to))
        _exit(1);
    for (;;) {
        struct pollfd p[2] = {{.fd = client, .events = POLLIN}, {.fd = server, .events = POLLIN}};
        if (poll(p, 2, -1) < 0)
            _exit(1);
        for (int i = 0; i < 2; i++) {
            size_t max = sizeof buf;
            if (!p[i].revents)
                continue;
            if (i == 1 && c.kind != CUT_NEVER && max > c.bytes - passed)
                max = c.bytes - passed;
            ssize_t n = read(p[i].fd, buf, max);
            if (n <= 0)
                _exit(0);
            for (ssize_t at = 0, k; at < n; at += k)
                if ((k = send(p[!i].fd, buf + at, (size_t)(n - at), MSG_NOSIGNAL)) <= 0)
                    _exit(0);
            passed += i == 1 ? (size_t)n : 0;
            if (i == 1 && c.kind != CUT_NEVER && passed == c.bytes) {
                close(server);
                cut_finish(client, c.kind);
            }
        }
    }
}

/* Forwards to 127.0.0.1:`port`, and listens on every address. If `one` is not NULL, it applies to
 * every connection. Must be called before the test has threads. */
static inline struct cut_proxy cut_proxy_start(int port, uint64_t seed, const struct cut *one) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                             .sin_port = htons((uint16_t)port)};
    socklen_t n = sizeof a;
    struct cut_proxy p = {.pid = -1};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof a) || listen(fd, 256) ||
        getsockname(fd, (struct sockaddr *)&a, &n))
        return p;
    p.port = ntohs(a.sin_port);
    p.pid = fork();
    if (!p.pid) {
        setpgid(0, 0);
        signal(SIGCHLD, SIG_IGN);
        for (uint64_t i = 0;; i++) {
            int c = accept(fd, NULL, NULL);
            if (c >= 0 && !fork()) {
                close(fd);
                cut_relay(c, &to, one ? *one : cut_of(seed, i));
            }
            if (c >= 0)
                close(c);
        }
    }
    setpgid(p.pid, p.pid);
    close(fd);
    return p;
}

static inline void cut_proxy_stop(struct cut_proxy *p) {
    if (p->pid <= 0)
        return;
    kill(-p->pid, SIGKILL);
    waitpid(p->pid, NULL, 0);
    p->pid = -1;
}
