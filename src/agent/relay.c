/* SPDX-License-Identifier: Apache-2.0 */
/* relay.c - see relay.h. One poll loop, and one buffer per direction. Backpressure: a buffer that
 * is not empty stops reading, so a slow reader slows the writer down, and memory is bounded. */
#include "agent/relay.h"

#include <poll.h>
#include <sys/socket.h>

enum { RELAY_BUF = 256 << 10 };

struct flow {
    char buf[RELAY_BUF];
    size_t off, len; /* bytes [off, len) are not written yet */
    int eof;
};

static int would_block(int e) { return e == EAGAIN || e == EWOULDBLOCK || e == EINTR; }

static void flow_read(struct flow *f, int fd) {
    ssize_t k = read(fd, f->buf, sizeof f->buf);
    f->off = 0;
    f->len = k > 0 ? (size_t)k : 0;
    if (k == 0 || (k < 0 && !would_block(errno)))
        f->eof = 1;
}

static int flow_write(struct flow *f, int fd) {
    ssize_t k = write(fd, f->buf + f->off, f->len - f->off);
    if (k < 0)
        return would_block(errno) ? 0 : -1;
    f->off += (size_t)k;
    return 0;
}

static int flow_empty(const struct flow *f) { return f->off == f->len; }

static int relay_loop(int in, int out, int sock, uint64_t linger_ms, struct flow *up,
                      struct flow *down) {
    uint64_t deadline = 0;
    int shut = 0;
    for (;;) {
        if (down->eof && flow_empty(down))
            return 0;
        if (up->eof && flow_empty(up) && !shut) {
            shutdown(sock, SHUT_WR);
            shut = 1;
        }
        if (up->eof && !deadline)
            deadline = pd_mono_ns() + linger_ms * 1000000u;
        if (deadline && pd_mono_ns() >= deadline)
            return 0;
        struct pollfd p[3] = {
            {.fd = !up->eof && flow_empty(up) ? in : -1, .events = POLLIN},
            {.fd = out,
             .events =
                 flow_empty(down) ? 0 : POLLOUT}, /* 0: poll only for the loss of the reader */
            {.fd = sock,
             .events = (short)((!down->eof && flow_empty(down) ? POLLIN : 0) |
                               (flow_empty(up) ? 0 : POLLOUT))},
        };
        if (!p[2].events)
            p[2].fd = -1;
        if (poll(p, 3, deadline ? 20 : -1) < 0 && errno != EINTR)
            return -1;
        if (p[0].revents)
            flow_read(up, in);
        if (p[2].revents & (POLLIN | POLLHUP | POLLERR) && p[2].events & POLLIN)
            flow_read(down, sock);
        if (p[2].revents & POLLOUT && flow_write(up, sock)) {
            up->eof = 1; /* the agent is gone; its last messages are still read */
            up->off = up->len;
        }
        if ((p[1].revents & (POLLERR | POLLHUP | POLLNVAL)) ||
            (p[1].revents & POLLOUT && flow_write(down, out)))
            return 0;
    }
}

int relay_run(int in, int out, int sock, uint64_t linger_ms) {
    struct flow *up = pd_calloc(1, sizeof *up), *down = pd_calloc(1, sizeof *down);
    int rc = -1, e = ENOMEM;
    signal(SIGPIPE, SIG_IGN); /* after a failed write, the agent's last messages are still read */
    if (up && down) {
        const int fds[] = {in, out, sock};
        for (int i = 0; i < 3; i++)
            fcntl(fds[i], F_SETFL, fcntl(fds[i], F_GETFL) | O_NONBLOCK);
        pd_widen_pipe(in);
        rc = relay_loop(in, out, sock, linger_ms, up, down);
        e = errno;
    }
    free(up);
    free(down);
    close(sock);
    errno = e;
    return rc;
}
