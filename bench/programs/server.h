/* SPDX-License-Identifier: Apache-2.0 */
/* server.h - a pserver for benchmarks, in a process of its own. */
#pragma once

#include "bench/programs/place.h"
#include "net/conn.h"
#include "ps/server/server.h"

static const uint8_t key32[32] = "a key for benchmarks, 32 bytes.";

static inline void server_check(int rc, const char *what, const struct pd_err *err) {
    if (rc >= 0)
        return;
    fprintf(stderr, "bench: %s: %s\n", what, err->msg);
    exit(1);
}

/* Starts a pserver with one dense and one sparse thread for one trainer of job "bench". Returns its
 * pid, and in `list` its address for ps_client_opts. The pserver ends when the trainer says
 * goodbye. The caller moves to the place of trainers (place.h). */
static inline pid_t start_server(char *list, size_t cap) {
    struct pd_err err = {0};
    int fds[2], port = 0, first = 0;
    const char *address = bench_place(BENCH_SERVERS);
    for (int i = 0; i < 2; i++) {
        server_check(fds[i] = net_bind_first_free(address, 0, 1, &port, &err), "bind", &err);
        first = i ? first : port;
    }
    snprintf(list, cap, "%s:%d", address, first);
    pid_t pid = fork();
    if (pid) {
        close(fds[0]), close(fds[1]);
        bench_place(BENCH_TRAINERS);
        return pid;
    }
    struct ps_server *s;
    struct ps_server_opts o = {.fds = fds,
                               .n_dense = 1,
                               .n_sparse = 1,
                               .n_trainers = 1,
                               .job = "bench",
                               .key = key32,
                               .plain = bench_plain()};
    server_check(ps_server_new(&s, &o, &err), "server", &err);
    server_check(ps_server_run(s, &err), "server", &err);
    ps_server_free(s);
    _exit(0);
}
