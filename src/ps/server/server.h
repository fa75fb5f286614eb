/* SPDX-License-Identifier: Apache-2.0 */
/* server.h - a pserver: dense and sparse server threads, each with its own loop, port and shard.
 *
 * The threads share only the end of the server. The first failure of any thread is sent to every
 * trainer and ends the server. Otherwise the server ends, with 0, when all trainers have sent
 * PS_BYE or when it is stopped.
 *
 * enum ps_lost says whether a trainer that is gone for good is a failure. A trainer that one thread
 * has given up is given up by all threads. */
#pragma once

#include "ps/shard/shard.h"
#include "thread/cpus.h"

enum { PS_SERVER_THREADS_MAX = 500 }; /* of one server: the greeting lists its ports */

/* The load of a server: its threads together. The part of the other threads is up to 1 s old. */
enum { PS_SERVING_TABLES = 32 };
struct ps_serving {
    uint64_t sent, received; /* bytes of frames since the start */
    uint64_t waiting;        /* requests that wait for a step */
    uint64_t queued;         /* bytes of answers that trainers have not taken yet */
    uint32_t n_tables;       /* the first ones, if there are more */
    uint64_t rows[PS_SERVING_TABLES];
};

struct ps_server_opts {
    const int *fds; /* bound sockets, dense first, then sparse. The server owns them, even if
                       ps_server_new fails */
    uint32_t n_dense, n_sparse; /* n_dense at least 1 */
    uint32_t n_trainers;
    const char *job;
    const uint8_t *key; /* 32 bytes */
    int plain;          /* encrypt = off; also at all trainers */
    int signals;        /* 1: SIGTERM and SIGINT stop the server; SIGUSR1 says that the job is being
                           stopped and that trainers will disconnect */
    enum ps_lost on_lost;  /* what happens when a trainer is gone for good */
    uint64_t reconnect_ms; /* time for a trainer to reconnect after its connection broke; 0: 10 s */
    uint64_t heartbeat_ms; /* a trainer without heartbeats (server_beat.c) for this time is gone for
                              good; 0: heartbeats are not checked */
    uint64_t start_ms; /* limit of the wait for trainers that never connected, counted from the last
                          new trainer; 0: 30 minutes */
    uint64_t wait_log_ms;   /* a wait of this length is logged with the missing trainers; 0: 10 s */
    const char *output_dir; /* see struct ps_shard_opts; may be NULL; must outlive the server */
    const struct ps_folders *folders; /* see struct ps_shard_opts; must outlive the server */
    const struct pd_cpus *
        cpus; /* thread i is pinned to core i, in turn; NULL: no pinning; must outlive the server */
    struct pd_spans *spans; /* profile = 1: of this process; or NULL */
    /* Called once a second from a server thread; may be NULL. `name`: of the tables, valid during
     * the call. */
    void (*on_serving)(void *arg, const struct ps_serving *s, const char *const *name);
    void *on_serving_arg;
    const struct pd_log *log; /* may be NULL; must outlive the server */
};

struct ps_server;
/* Creates a server. When it returns 0, all ports accept connections; the first dense port is the
 * last to begin. Returns 0, PD_ENOMEM or an error of listening. */
int ps_server_new(struct ps_server **out, const struct ps_server_opts *opts, struct pd_err *err);
/* BLOCKS until the server ends; call once. Returns 0 or the first failure. */
int ps_server_run(struct ps_server *s, struct pd_err *err);
void ps_server_stop(struct ps_server *s); /* from any thread */
void ps_server_free(struct ps_server *s);
