/* SPDX-License-Identifier: Apache-2.0 */
/* ps_cutter.h - a TCP proxy in front of a pserver's ports. It cuts one connection at one place:
 * before, inside or after the n-th message of one direction. The servers listen on 127.0.0.1. The
 * proxy listens on the same ports of 127.0.0.2, because a server's greeting contains its ports. */
#pragma once

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>

enum { CUTTER_PORTS = 8, CUTTER_PAIRS = 64 };
enum cut_place { CUT_IN_HEADER, CUT_IN_MIDDLE, CUT_BEHIND, CUT_PLACES };

struct cut_at {
    int port, down; /* port: whose connection is cut; down: 1: the server's direction */
    int frame;      /* counted from 0 for the port and direction; -1: no cut */
    enum cut_place place;
    int reset; /* 1: RST, 0: FIN */
};

struct cutter {
    int n_ports, listener[CUTTER_PORTS], ports[CUTTER_PORTS];
    struct cut_at at;
    int every; /* cut again after so many frames; 0: cut once */
    int frames[CUTTER_PORTS][2], cuts;
    struct cut_pair {
        int fd[2]; /* trainer, server; -1: closed */
        int port;
        struct {
            uint8_t header[64];
            size_t n_header;
            uint64_t left; /* bytes left of the frame */
        } dir[2];
    } pairs[CUTTER_PAIRS];
    int stop[2]; /* a pipe that stops the proxy */
    pthread_t thread;
};

static inline void cutter_close(struct cut_pair *p, int reset) {
    struct linger now = {1, 0};
    for (int k = 0; k < 2; k++) {
        if (reset)
            setsockopt(p->fd[k], SOL_SOCKET, SO_LINGER, &now, sizeof now);
        close(p->fd[k]);
        p->fd[k] = -1;
    }
}

static inline int cutter_is_there(const struct cutter *c, const struct cut_pair *p, int down,
                                  enum cut_place place) {
    if (c->at.port != p->port || c->at.down != down || c->at.place != place)
        return 0;
    int frame = c->frames[p->port][down];
    return frame == c->at.frame ||
           (c->every && frame > c->at.frame && (frame - c->at.frame) % c->every == 0);
}

/* Returns how many of the n bytes pass. *cut becomes 1 if the cut comes after them. */
static inline size_t cutter_pass(struct cutter *c, struct cut_pair *p, int down,
                                 const uint8_t *data, size_t n, int *cut) {
    size_t at = 0;
    while (at < n) {
        uint8_t *h = p->dir[down].header;
        size_t *have = &p->dir[down].n_header;
        uint64_t *left = &p->dir[down].left;
        if (*have < 64) {
            h[(*have)++] = data[at++];
            if (*have == 10 && cutter_is_there(c, p, down, CUT_IN_HEADER)) {
                *cut = 1;
                return at;
            }
            if (*have == 64) {
                memcpy(left, h + 16, 8);
                *left -= 64;
            }
        } else {
            uint64_t total;
            memcpy(&total, h + 16, 8);
            uint64_t middle = *left > total / 2 ? *left - total / 2 : *left,
                     k = n - at < middle ? n - at : middle;
            int was_above = *left > total / 2;
            *left -= k;
            at += k;
            if (was_above && *left <= total / 2 && *left &&
                cutter_is_there(c, p, down, CUT_IN_MIDDLE)) {
                *cut = 1;
                return at;
            }
        }
        if (*have == 64 && !*left) {
            if (cutter_is_there(c, p, down, CUT_BEHIND))
                *cut = 1;
            *have = 0;
            c->frames[p->port][down]++;
            if (*cut)
                return at;
        }
    }
    return at;
}

/* Forwards bytes from one side to the other. */
static inline void cutter_pump(struct cutter *c, struct cut_pair *p, int from) {
    static uint8_t data[65536];
    ssize_t n = read(p->fd[from], data, sizeof data);
    int cut = 0;
    if (n <= 0) {
        cutter_close(p, n < 0);
        return;
    }
    size_t pass = cutter_pass(c, p, from, data, (size_t)n, &cut);
    for (size_t at = 0; at < pass;) {
        ssize_t k = send(p->fd[!from], data + at, pass - at, MSG_NOSIGNAL);
        if (k <= 0) {
            cutter_close(p, 1);
            return;
        }
        at += (size_t)k;
    }
    if (cut) {
        c->cuts++;
        if (!c->every)
            c->at.frame = -1;
        else if (c->at.place != CUT_BEHIND)
            c->frames[p->port][from]++; /* the next frame must not match again */
        cutter_close(p, c->at.reset);
    }
}

static inline void cutter_accept(struct cutter *c, int port) {
    struct sockaddr_in sa = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)c->ports[port]),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = accept(c->listener[port], NULL, NULL),
        up = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct cut_pair *p = c->pairs;
    while (p < c->pairs + CUTTER_PAIRS && p->fd[0] >= 0)
        p++;
    if (p == c->pairs + CUTTER_PAIRS || fd < 0 || connect(up, (struct sockaddr *)&sa, sizeof sa)) {
        close(fd);
        close(up);
        return;
    }
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(up, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    memset(p, 0, sizeof *p);
    p->fd[0] = fd;
    p->fd[1] = up;
    p->port = port;
}

static inline void *cutter_main(void *arg) {
    struct cutter *c = arg;
    for (;;) {
        struct pollfd fds[1 + CUTTER_PORTS + 2 * CUTTER_PAIRS];
        int n = 0;
        fds[n++] = (struct pollfd){c->stop[0], POLLIN, 0};
        for (int i = 0; i < c->n_ports; i++)
            fds[n++] = (struct pollfd){c->listener[i], POLLIN, 0};
        for (int i = 0; i < CUTTER_PAIRS; i++)
            for (int k = 0; k < 2; k++)
                fds[n++] = (struct pollfd){c->pairs[i].fd[k], POLLIN, 0}; /* poll ignores -1 */
        if (poll(fds, (nfds_t)n, -1) < 0 || fds[0].revents)
            return NULL;
        for (int i = 0; i < c->n_ports; i++)
            if (fds[1 + i].revents)
                cutter_accept(c, i);
        for (int i = 0; i < CUTTER_PAIRS; i++)
            for (int k = 0; k < 2; k++)
                if (fds[1 + c->n_ports + 2 * i + k].revents &&
                    c->pairs[i].fd[k] == fds[1 + c->n_ports + 2 * i + k].fd)
                    cutter_pump(c, &c->pairs[i], k);
    }
}

/* Starts the proxy for these ports of 127.0.0.1. 0, or -1 if a port is in use on 127.0.0.2. */
static inline int cutter_start(struct cutter *c, const int *ports, int n, struct cut_at at,
                               int every) {
    memset(c, 0, sizeof *c);
    c->at = at;
    c->every = every;
    for (int i = 0; i < CUTTER_PAIRS; i++)
        c->pairs[i].fd[0] = c->pairs[i].fd[1] = -1;
    for (; c->n_ports < n; c->n_ports++) {
        struct sockaddr_in sa = {.sin_family = AF_INET,
                                 .sin_port = htons((uint16_t)ports[c->n_ports]),
                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1)};
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
        if (bind(fd, (struct sockaddr *)&sa, sizeof sa) || listen(fd, 64)) {
            close(fd);
            return -1;
        }
        c->listener[c->n_ports] = fd;
        c->ports[c->n_ports] = ports[c->n_ports];
    }
    if (pipe(c->stop))
        return -1;
    return pthread_create(&c->thread, NULL, cutter_main, c) ? -1 : 0;
}

static inline void cutter_stop(struct cutter *c) {
    if (write(c->stop[1], "x", 1) == 1)
        pthread_join(c->thread, NULL);
    for (int i = 0; i < CUTTER_PAIRS; i++)
        if (c->pairs[i].fd[0] >= 0)
            cutter_close(&c->pairs[i], 0);
    for (int i = 0; i < c->n_ports; i++)
        close(c->listener[i]);
    close(c->stop[0]);
    close(c->stop[1]);
}
