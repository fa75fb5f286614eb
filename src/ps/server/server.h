/* server.h - a pserver: dense and sparse server threads, each with its own loop, port and shard.
 *
 * The threads share nothing but the end: the first failure anywhere is sent to every trainer, and
 * the server ends with it. It ends with 0 when all trainers have said PS_BYE, or when it is told to
 * stop. Whether a trainer that is gone for good is a failure is enum ps_lost; one that a thread has
 * given up has no place in the others either.
 */
#ifndef PD_PS_SERVER_H
#define PD_PS_SERVER_H

#include <stdint.h>

#include "base/err.h"
#include "base/log.h"
#include "ps/shard/shard.h"
#include "thread/cpus.h"

enum { PS_SERVER_THREADS_MAX = 500 }; /* of one server: its ports travel in the greeting */

struct ps_server_opts {
    const int *fds; /* bound sockets, dense first, then sparse; the server owns them, also when
                       ps_server_new fails */
    uint32_t n_dense, n_sparse; /* n_dense at least 1 */
    uint32_t n_trainers;
    const char *job;
    const uint8_t *key; /* 32 bytes */
    int signals; /* 1: SIGTERM and SIGINT stop it; SIGUSR1 says that the job is being stopped and
                    trainers will go away */
    enum ps_lost on_lost; /* what a trainer that is gone for good means */
    uint64_t
        reconnect_ms; /* how long a trainer whose connection broke may take to come back; 0: 10 s */
    uint64_t heartbeat_ms; /* a trainer whose heartbeats (server_beat.c) stop for so long is gone
                              for good; 0: never */
    uint64_t start_ms; /* limit of the wait for trainers that never connected, counted from the last
                          new trainer; 0: half an hour */
    uint64_t wait_log_ms;   /* a wait that lasts so long is logged with who is missing; 0: 10 s */
    const char *output_dir; /* see struct ps_shard_opts; must outlive the server, may be NULL */
    const struct pd_cpus
        *cpus; /* pin thread i to its i-th core, in turn; NULL: no; must outlive the server */
    const struct pd_log *log; /* may be NULL; must outlive the server */
};

struct ps_server;
/* When this returns 0, all ports accept; the first dense one is the last to begin. */
int ps_server_new(struct ps_server **out, const struct ps_server_opts *opts, struct pd_err *err);
int ps_server_run(struct ps_server *s, struct pd_err *err); /* BLOCKS until it ends; once */
void ps_server_stop(struct ps_server *s);                   /* from any thread */
void ps_server_free(struct ps_server *s);

#endif
