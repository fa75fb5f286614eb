/* SPDX-License-Identifier: Apache-2.0 */
/* server_internal.h - shared by server.c, server_thread.c, server_answers.c, server_save.c,
 * server_serving.c and server_beat.c. */
#pragma once

#include <uv.h>

#include "net/conn.h"
#include "ps/server/server.h"
#include "ps/shard/shard.h"

/* serving --(all have left | failure)--> lingering --(connections closed, or timeout)--> closing */
enum thread_state { THREAD_SERVING, THREAD_LINGERING, THREAD_CLOSING };

struct server_beat;
struct taken;

struct trainer_conn {
    struct server_thread *t;
    struct net_conn *conn;
    struct trainer_conn *prev, *next;
    uint32_t trainer;
    int joined;  /* 1: it has declared and is a member of the barrier */
    int refused; /* 1: an error was sent; its frames are ignored */
    int choked;  /* 1: it does not read its answers, so reading from it is paused */
};

/* A trainer's place in a server thread. */
struct seat {
    struct trainer_conn *peer; /* the trainer's connection, once it has declared; else NULL */
    uint64_t incarnation;      /* of the process that declared last */
    struct pd_err
        *lost; /* why the connection was lost, while the trainer may come back; else NULL */
    uint64_t lost_ms;
    int said; /* 1: a warning about the loss was logged */
};

struct server_thread {
    struct ps_server *server;
    uint32_t index; /* number of the thread: dense threads first, then sparse */
    int alive;      /* under server->lock; 1: `wake` may be sent */
    int ran, has_loop;
    uv_thread_t thread;
    uv_loop_t loop;
    uv_async_t wake; /* makes the thread look at server_verdict */
    uv_timer_t tick; /* once a second: long waits; later: the limit of lingering */
    struct net_listener *listener;
    struct ps_shard *shard;
    struct server_saving *savings; /* parts that are being written */
    struct pd_pool *pool;          /* all large memory of this thread */
    enum thread_state state;
    int verdict;                  /* 1: it lingers because of a failure */
    struct trainer_conn *peers;   /* all connections */
    struct seat *seats;           /* [n_trainers] */
    struct trainer_conn *current; /* the connection whose frame the shard is handling; else NULL */
    uv_prepare_t before;          /* before the loop waits: sends the answers that were held */
    int holds;
    uint32_t n_members, n_lost; /* trainers that are connected; that may come back */
    uv_timer_t patience;        /* runs while n_lost > 0 */
    uint64_t progress, stalled_ms, said_ms;
    struct ps_serving serving; /* of this thread; under server->lock, for thread 0 */
    uint64_t sent, received;   /* bytes of frames */
    uint32_t n_absent;         /* trainers that have never connected */
    uint64_t absent_ms;        /* time since the last new trainer connected */
};

struct ps_server {
    struct ps_server_opts opts;
    uint64_t epoch;
    uv_mutex_t lock;
    atomic_int ending; /* 1: the job is being stopped, and trainers that disconnect are expected */
    int stop;          /* under lock, like the fields up to ended */
    int failed;        /* err came before the stop */
    struct pd_err err; /* the first failure */
    struct given_up {  /* trainers that a thread has given up; all threads do the same */
        uint64_t incarnation;
        struct pd_err why;
    } * *given_up;       /* [n_trainers], NULL: not given up */
    struct taken *taken; /* heartbeat connections on their way to the main thread */
    int beats_over;
    uint32_t n_ended;
    uint32_t n_threads; /* number of started threads */
    uv_loop_t loop;
    int has_loop, abandoned;
    uv_async_t ended;
    /* used by server_beat.c, in the main thread */
    uv_async_t beat_taken;
    uv_timer_t beat_tick;
    struct server_beat **beats; /* [n_trainers] */
    /* [n_trainers]: incarnation of a process that was silent for half of heartbeat_ms; 0: none.
     * Written by the main thread. */
    _Atomic uint64_t *doubted;
    uv_signal_t term, intr, told;
    uv_timer_t late;
    struct server_thread *threads;
    uint16_t *ports; /* of all threads */
    uint32_t first;  /* threads from this number on are initialised */
};

/* The log level for trouble with trainers: PD_INFO while the job is being stopped, else `level`.
 * From any thread. */
enum pd_level server_level(struct ps_server *s, enum pd_level level);
/* Gives up this process of a trainer and wakes every thread. From any thread. Returns 0 or
 * PD_ENOMEM. */
int server_give_up(struct ps_server *s, uint32_t trainer, uint64_t incarnation,
                   const struct pd_err *why);
/* 1: given up, with the reason in *why; incarnation NULL: any process of the trainer. */
int server_given_up(struct ps_server *s, uint32_t trainer, const uint64_t *incarnation,
                    struct pd_err *why);
/* Ends the server with a failure and wakes every thread; only the first failure counts. From any
 * thread. */
void server_fail(struct ps_server *s, const struct pd_err *why);
/* 1: the server was stopped; why->code: the first failure, or 0. */
int server_verdict(struct ps_server *s, struct pd_err *why);
void server_thread_ends(struct server_thread *t); /* after this, `wake` is no longer sent */

/* server_beat.c */
int server_beats_init(struct ps_server *s);
void server_beats_close(struct ps_server *s);
/* Returns 1 if this process of the trainer was silent for half of heartbeat_ms. From any thread. */
int server_beat_doubts(const struct ps_server *s, uint32_t trainer, uint64_t incarnation);
/* Takes the connection. The main thread answers the heartbeats of this trainer there. From any
 * thread. */
void server_beat_take(struct ps_server *s, struct net_moved *conn, uint32_t trainer,
                      uint64_t incarnation);

/* server_answers.c */
extern const struct ps_shard_ops server_shard_ops; /* arg is a server_thread */
void server_send_held(uv_prepare_t *h);            /* before the loop waits */

/* server_serving.c */
void server_serving(struct server_thread *t); /* once a second: for ps_server_opts.on_serving */

/* server_save.c */
/* For ps_shard_ops; arg is a server_thread. */
int server_save(void *arg, struct ps_saving *j, struct pd_err *err);
void server_saves_end(struct server_thread *t); /* ends the saves under way without a result */

/* Takes fds[index]; 0 or PD_E*. */
int server_thread_init(struct ps_server *s, uint32_t index, const int *fds, struct pd_err *err);
void server_thread_run(struct server_thread *t);
void server_thread_release(struct server_thread *t);
