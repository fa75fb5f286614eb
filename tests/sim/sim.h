/* SPDX-License-Identifier: Apache-2.0 */
/* sim.h - a job in one process, on a simulated clock and network: paddlectl, an agent on each node,
 * and the processes that the agents start.
 *
 *     job_run() ── link.c ── stream ── client.c ── agent.c, job.c, head, node        the product
 *     ─────────────────────────────────────────────────────────────────────────
 *     sim_loop.c   clock, events, libuv's timers, signals and loops                  simulated
 *     sim_net.c    TCP and ssh between machines: delay, loss, cuts, resets
 *     sim_proc.c   processes of nodes: fork, signals, waitpid, readiness
 *     sim_host.c   files, addresses and the terminal of a machine
 *     sim_faults.c the table of faults
 *     sim_run.c    one schedule per seed
 *     test_agent_sim.c, test_agent_sim_claims.c  the invariants
 *
 * The linker replaces the calls that leave the product (tests/sim/wraps: --wrap), so the product's
 * code is not changed for the simulation. A seed decides every delay, loss, order and crash: the
 * same seed gives the same run. */
#pragma once

#include <jansson.h>
#include <uv.h>

enum {
    SIM_NODES = 5,
    SIM_LAUNCHER = SIM_NODES, /* the index of paddlectl's machine */
    SIM_ONLOOKERS = 2,        /* of `paddlectl attach`: the machines behind that one */
    SIM_MACHINES = SIM_LAUNCHER + 1 + SIM_ONLOOKERS,
    SIM_ROLES = 2, /* as enum role: pserver, trainer */
    SIM_PASSES = 20000,
    SIM_PIDS = 3000,
};

#define MS UINT64_C(1000000) /* in nanoseconds */

/* An operating system's process with a loop: paddlectl, an agent, a relay that reads a result. */
struct actor {
    int machine;
    const char *name;
    uv_loop_t *loop;
    int alive;        /* handles and connections that keep its loop running */
    int dead;         /* killed: what it does has no effect any more; it only frees its memory */
    uint64_t stopped; /* until this time it does not run */
    uint64_t ended;   /* when its loop ended; 0: it runs */
    struct actor *next;
};

struct machine {
    struct actor *agent; /* NULL: none was started */
    int has_dir;         /* the job's folder exists */
    int down;            /* no power */
    int64_t clock_us;    /* its wall clock is ahead by so much */
    json_t *result;      /* result.json */
    int node;            /* its number in the job */
    char *log[3];        /* the bytes of the job's log streams */
    size_t log_n[3];
    uint64_t log_time[3]; /* of the last append */
    /* a listening port of the agent, and its unix socket */
    struct net_listener *listener;
    uv_stream_t *sock;
    uv_connection_cb on_connection;
    struct sim_stream *incoming; /* what uv_accept gets */
    int next_port;
    uint64_t acts_at;     /* its head had the right to act then */
    int no_exec, no_bind; /* the next so many starts of a process, or bindings of a port, fail */
};

/* The faults and times of a schedule; the seed decides them. */
struct sim_plan {
    int n, n_pservers, n_trainers;
    char pservers[40], trainers[40];
    int users[SIM_ROLES]; /* a program of the user */
    int restart, max_restarts, detach, save_on_stop, hangup_detach, wait_for_trainer;
    double attach_lease, detach_lease, heartbeat;
    uint64_t work_ms; /* of a trainer */
};

struct cause {
    int node, role, rank; /* role -1: the node or its agent */
    uint64_t at;
};

struct sim {
    uint64_t seed, rng, now; /* now: nanoseconds */
    int trace;
    struct actor *here; /* whose code runs */
    struct actor *actors, *launcher;
    struct job *jobs[SIM_MACHINES]; /* of each paddlectl */
    /* when a ping was sent that a node answered last as that paddlectl's; ms */
    uint64_t ours_ms[SIM_MACHINES][SIM_NODES];
    void (*on_pinged)(void); /* a paddlectl has taken an answer; may be NULL */
    struct machine m[SIM_MACHINES];
    struct sim_plan plan;
    /* the network between two machines, by [from][to] */
    uint64_t delay_ns[SIM_MACHINES][SIM_MACHINES], slow_until[SIM_MACHINES][SIM_MACHINES];
    int blocked[SIM_MACHINES][SIM_MACHINES]; /* nested cuts */
    int loss;                                /* in 1000 */
    /* what has happened */
    struct cause causes[64];
    int n_causes, n_faults;
    uint64_t fault_ends, faults_seen;
    int is_final;        /* a fault happened that no restart cures */
    int head, n_elected; /* the newest head; heads that were chosen without paddlectl */
    int n_fatal, n_cut, left, is_soft; /* is_soft: a node has left, and its processes had time */
    uint64_t was_stopped;              /* ms, all actors */
    uint64_t stop_at, stop_again_at, launcher_ended;
    int stop_signal, launcher_dead;
    int n_started, n_ended, exit_status;
    int n_passes_sent, n_passes_seen;
    uint8_t passes_seen[SIM_NODES][SIM_PASSES]; /* by the node of the head */
    char *text;                                 /* what paddlectl has printed */
    size_t text_n, text_cap;
};

extern struct sim S;

/* --- sim_loop.c --- */

uint64_t sim_rand(void);
uint64_t sim_below(uint64_t n); /* 0 .. n-1 */
uint64_t sim_between(uint64_t lo, uint64_t hi);
int sim_chance(int percent);
uint64_t sim_wait_ms(void); /* a node of a detached job waits so long for its head */
/* Calls fn(arg) after `delay`, as a part of actor `a` (NULL: of the world). */
void sim_after(struct actor *a, uint64_t delay_ns, void (*fn)(void *arg), void *arg);
/* The same; `arg` came from malloc, and is freed after the call. */
void sim_after_once(struct actor *a, uint64_t delay_ns, void (*fn)(void *arg), void *arg);
struct actor *sim_actor(int machine, const char *name);
void sim_alive(struct actor *a, int change);
int sim_step(void);                            /* the next event; 0: there is none */
void sim_signal(struct actor *a, int sig);     /* its handler, if it has one */
void sim_trace_handles(const struct actor *a); /* that keep it running */
void sim_loop_reset(void);
void sim_trace(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* An invariant is violated: prints it with the command that repeats the schedule, and exits. */
void sim_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));

/* --- sim_run.c --- */

struct pd_options;
struct sim_test {
    void (*run)(void);  /* one schedule: S.seed */
    uint64_t schedules; /* without other wishes */
    const int *count;   /* what must have happened in some of many schedules */
    const char *what;
};
int sim_main(int argc, char **argv, const struct sim_test *test);
void sim_describe(struct pd_options *o); /* the job of S.plan */
void sim_run_job(void);                  /* paddlectl run, to its end */
void sim_run_rest(void);
void sim_check_processes(void);

/* --- sim_terminal.c --- */

void sim_terminal_reset(void);
void sim_check_lines(void); /* at the end: all lines of the logs were shown */

/* --- sim_net.c --- */

enum { FAKE_FD = 1000000 }; /* descriptors of bound ports: FAKE_FD + port */

void sim_net_reset(void);
int sim_reaches(int from, int to);
void sim_cut(int from, int to, int change);    /* +1: cut; -1: not any more */
void sim_net_kill(struct actor *a, int power); /* its connections end; power: without a word */
/* Resets a random connection between two machines. */
void sim_net_reset_one(int a, int b);

/* --- sim_proc.c --- */

void sim_proc_reset(void);
void sim_proc_kill_all(int machine);
/* Harms a random process that runs. */
enum harm { HARM_KILL, HARM_SEGV, HARM_EXIT1, HARM_FINAL, HARM_EXIT0, HARM_STOP, HARM_DEAF };
void sim_proc_harm(enum harm h);
int sim_proc_running(int machine);  /* -1: on all */
int sim_proc_trains(void);          /* all trainers run */
void sim_proc_network(int machine); /* the machine was cut off: processes may notice */

/* --- sim_host.c --- */

void sim_host_reset(void);
int sim_log_lines(int machine, int stream);
void sim_spawn_agent(int machine, const char *job, unsigned lease_ms);
void sim_kill_actor(struct actor *a, int power);

/* --- sim_faults.c --- */

void sim_faults_plan(void);
void sim_cause(int node, int role, int rank);
