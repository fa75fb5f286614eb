/* SPDX-License-Identifier: Apache-2.0 */
/* ports.c - see ports.h. */
#include "agent/host/ports.h"

#include <sys/socket.h>
#include <sys/un.h>

#include "net/conn.h"

enum { TRIES = 2000 };

/* Returns a descriptor, or -1 if another process holds the claim. */
static int claim_port(int port) {
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    int n = snprintf(sa.sun_path + 1, sizeof sa.sun_path - 1, "paddlectl/port/%d", port);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || !bind(fd, (struct sockaddr *)&sa,
                        (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)))
        return fd;
    close(fd);
    return -1;
}

int ports_bind(const char *ip, int from, int *port, int *claim, struct pd_err *err) {
    for (int i = 0; i < TRIES; i++) {
        int fd = net_bind_first_free(ip, from, TRIES, port, err);
        if (fd < 0)
            return fd;
        int held = claim_port(*port);
        if (held >= 0) {
            if (claim)
                *claim = held;
            else
                close(held);
            return fd;
        }
        close(fd);
        from = from ? *port + 1 : 0;
    }
    return pd_fail(err, PD_EIO, "no free port on %s from %d on", ip, from);
}
