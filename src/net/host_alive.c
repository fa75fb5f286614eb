/* SPDX-License-Identifier: Apache-2.0 */
/* host_alive.c - detects that the host at the other end is gone. See conn.h. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "net/conn_internal.h"

enum { IDLE_S = 5, INTERVAL_S = 2, PROBES = 3, UNANSWERED = 3 };

static int fd_of(const struct net_conn *c) {
    uv_os_fd_t fd;
    return c->closing || c->in != c->out || c->in->type != UV_TCP ||
                   uv_fileno((const uv_handle_t *)c->in, &fd)
               ? -1
               : fd;
}

void net_watch_host(struct net_conn *c) {
    const struct {
        int level, name, value;
    } set[] = {{SOL_SOCKET, SO_KEEPALIVE, 1},
               {IPPROTO_TCP, TCP_KEEPIDLE, IDLE_S},
               {IPPROTO_TCP, TCP_KEEPINTVL, INTERVAL_S},
               {IPPROTO_TCP, TCP_KEEPCNT, PROBES}};
    int fd = fd_of(c);
    for (size_t i = 0; fd >= 0 && i < sizeof set / sizeof set[0]; i++)
        (void)setsockopt(fd, set[i].level, set[i].name, &set[i].value, sizeof set[i].value);
}

static int get_tcp_info(const struct net_conn *c, struct tcp_info *info) {
    socklen_t n = sizeof *info;
    int fd = fd_of(c);
    return fd < 0 || getsockopt(fd, IPPROTO_TCP, TCP_INFO, info, &n);
}

int net_has_unacknowledged(const struct net_conn *c) {
    struct tcp_info info = {0};
    return !get_tcp_info(c, &info) && (info.tcpi_retransmits || info.tcpi_probes);
}

void net_check_host(struct net_conn *c) {
    enum { LIMIT_MS = 1000 * (IDLE_S + INTERVAL_S * PROBES) };
    struct tcp_info info = {0};
    if (get_tcp_info(c, &info))
        return;
    /* The kernel has sent data, or probes of a closed window, again and again, and nothing has come
     * back. */
    if ((info.tcpi_retransmits >= UNANSWERED || info.tcpi_probes >= UNANSWERED) &&
        info.tcpi_last_ack_recv > LIMIT_MS)
        net_conn_fail(c, PD_ECLOSED, "its host has acknowledged nothing for %u s",
                      info.tcpi_last_ack_recv / 1000);
}
