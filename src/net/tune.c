/* SPDX-License-Identifier: Apache-2.0 */
/* tune.c - socket options of a connection. All of them are hints; without them a connection is only
 * slower. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "net/conn_internal.h"

static int on_this_machine(const struct sockaddr_storage *own,
                           const struct sockaddr_storage *peer) {
    if (own->ss_family != peer->ss_family)
        return 0;
    if (own->ss_family == AF_INET) {
        const uint32_t a = ntohl(((const struct sockaddr_in *)own)->sin_addr.s_addr);
        const uint32_t b = ntohl(((const struct sockaddr_in *)peer)->sin_addr.s_addr);
        return a == b || (a >> 24 == IN_LOOPBACKNET && b >> 24 == IN_LOOPBACKNET);
    }
    return own->ss_family == AF_INET6 &&
           !memcmp(&((const struct sockaddr_in6 *)own)->sin6_addr,
                   &((const struct sockaddr_in6 *)peer)->sin6_addr, sizeof(struct in6_addr));
}

int net_same_machine(uv_stream_t *s) {
    struct sockaddr_storage own = {0}, peer = {0};
    int n_own = sizeof own, n_peer = sizeof peer;
    const uv_tcp_t *tcp = (const uv_tcp_t *)s;
    return s->type == UV_TCP && !uv_tcp_getsockname(tcp, (struct sockaddr *)&own, &n_own) &&
           !uv_tcp_getpeername(tcp, (struct sockaddr *)&peer, &n_peer) &&
           on_this_machine(&own, &peer);
}

/* Within a machine no packet is lost and no link is shared, so a congestion control that paces
 * (BBR, the default of many systems) only adds delays by its timers. Every kernel has "reno", and
 * any user may choose it. */
static void dont_pace(int fd) {
    static const char reno[] = "reno";
    (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, reno, sizeof reno - 1);
}

void net_tune(uv_tcp_t *tcp) {
    uv_os_fd_t fd;
    (void)uv_tcp_nodelay(tcp, 1);
    if (net_same_machine((uv_stream_t *)tcp) && !uv_fileno((const uv_handle_t *)tcp, &fd))
        dont_pace(fd);
}
