/* server_int.h - what server.c and server_thread.c share. */
#ifndef PD_PS_SERVER_INT_H
#define PD_PS_SERVER_INT_H

#include <stdatomic.h>
#include <uv.h>

#include "net/conn.h"
#include "ps/server/server.h"
#include "ps/shard/shard.h"

/* serving --(all have left | failure)--> lingering --(connections closed, or late)--> closing */
enum thread_state { THREAD_SERVING, THREAD_LINGERING, THREAD_CLOSING };

struct trainer_conn;
struct server_beat;
struct taken;

/* A trainer's place in a server thread. */
struct seat {
    struct trainer_conn *peer; /* its connection, once it has declared */
    uint64_t incarnation;      /* of the process that has declared last */
    struct pd_err *lost;       /* why that is gone, while the trainer may come back */
    uint64_t lost_ms;
    int said; /* a warning has told of it */
};

struct server_thread {
    struct ps_server *server;
    uint32_t index; /* over dense, then sparse */
    int alive;      /* under server->lock: `wake` may be sent */
    int ran, has_loop;
    uv_thread_t thread;
    uv_loop_t loop;
    uv_async_t wake; /* look at server_verdict */
    uv_timer_t tick; /* once a second: long waits; then the end of lingering */
    struct net_listener *listener;
    struct ps_shard *shard;
    struct server_saving *savings; /* parts that are being written */
    struct pd_pool *pool;          /* of everything large in this thread */
    enum thread_state state;
    int verdict;                  /* it lingers because of a failure */
    struct trainer_conn *peers;   /* all connections */
    struct seat *seats;           /* [n_trainers] */
    struct trainer_conn *current; /* whose frame is in the shard right now */
    uv_prepare_t before;          /* the loop waits: answers that were held leave */
    int holds;
    uint32_t n_members, n_lost; /* trainers that are connected, that may come back */
    uv_timer_t patience;        /* runs while n_lost > 0 */
    uint64_t progress, stalled_ms, said_ms;
    uint32_t n_absent;  /* trainers that have never been here */
    uint64_t absent_ms; /* since the last other one came */
};

struct ps_server {
    struct ps_server_opts opts;
    uint64_t epoch;
    uv_mutex_t lock;
    atomic_int ending; /* the job is being stopped: trainers that go away are no trouble */
    int stop;          /* under lock, as what follows */
    struct pd_err err; /* the first failure */
    struct given_up {  /* trainers that a thread has given up: the others do, too */
        uint64_t incarnation;
        struct pd_err why;
    } * *given_up;       /* [n_trainers], NULL: not */
    struct taken *taken; /* heartbeats' connections on their way to the main thread */
    int beats_over;
    uint32_t n_ended;
    uint32_t n_threads; /* started */
    uv_loop_t loop;
    int has_loop, abandoned;
    uv_async_t ended;
    /* server_beat.c, the main thread's */
    uv_async_t beat_taken;
    uv_timer_t beat_tick;
    struct server_beat **beats; /* [n_trainers] */
    /* [n_trainers]: incarnation that was silent for half of heartbeat_ms; 0: none. Written by the
     * main thread */
    _Atomic uint64_t *doubted;
    uv_signal_t term, intr, told;
    uv_timer_t late;
    struct server_thread *threads;
    uint16_t *ports; /* of all threads */
    uint32_t first;  /* threads from here on are initialised */
};

/* The level of trouble with trainers: PD_INFO while the job is being stopped. From any thread. */
enum pd_level server_level(struct ps_server *s, enum pd_level level);
/* This process of a trainer has no place any more; every thread hears of it. From any thread. 0 or
 * PD_ENOMEM. */
int server_give_up(struct ps_server *s, uint32_t trainer, uint64_t incarnation,
                   const struct pd_err *why);
int server_given_up(struct ps_server *s, uint32_t trainer, const uint64_t *incarnation,
                    struct pd_err *why); /* 1: it is, and why; NULL: any process of it */
/* The first failure ends the server; every thread hears of it. From any thread. */
void server_fail(struct ps_server *s, const struct pd_err *why);
int server_verdict(struct ps_server *s, struct pd_err *why); /* 1: stop now; why->code: a failure */
void server_thread_ends(struct server_thread *t);            /* no more wakes */

/* server_beat.c */
int server_beats_init(struct ps_server *s);
void server_beats_close(struct ps_server *s);
/* Was this process of the trainer silent for half of heartbeat_ms? From any thread. */
int server_beat_doubts(const struct ps_server *s, uint32_t trainer, uint64_t incarnation);
/* Takes fd (-1: none): the main thread answers this trainer's heartbeats there. From any thread. */
void server_beat_take(struct ps_server *s, int fd, uint32_t trainer, uint64_t incarnation);

/* server_save.c */
int server_save(void *arg, struct ps_saving *j,
                struct pd_err *err);            /* for ps_shard_ops, arg a server_thread */
void server_saves_end(struct server_thread *t); /* those under way end without a result */

int server_thread_init(struct ps_server *s, uint32_t index, const int *fds,
                       struct pd_err *err); /* takes fds[index] */
void server_thread_run(struct server_thread *t);
void server_thread_release(struct server_thread *t);

#endif
