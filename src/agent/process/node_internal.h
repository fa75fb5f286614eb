/* SPDX-License-Identifier: Apache-2.0 */
/* node_internal.h - types and functions shared by the files of node.h: node.c, node_role.c,
 * node_bind.c, node_report.c, port_ready.c and process_end.c. */
#pragma once

#include "agent/host/bind.h"
#include "agent/process/node.h"
#include "agent/process/proc.h"
#include "agent/process/process_program.h"
#include "net/conn.h"
#include "wire/bodies.h"

/* HD_END that is not answered yet. */
struct end_request {
    struct ag_node *n;
    uint64_t req;
    struct end_waiter wait;
    int used;
};
enum { END_REQUESTS_MAX = 8 };

struct node_role {
    struct ag_node *node;
    enum role role;
    int rank, started, ready;
    pid_t pid; /* kept after the process has ended */
    uint64_t started_us;
    struct proc *proc;      /* kept after the process has ended: its pipes may still hold output */
    json_t *exit_body;      /* the body of HD_EXITED; NULL while the process runs */
    json_t *short_exit;     /* the same without texts, made at the start: memory may be out later */
    int final;              /* the process reported that a restart would fail, too */
    char failed_from[80];   /* the process whose failure ended this one; "": its own */
    char failed_text[1000]; /* the error, as the process reported it */
    int told_to_save;
    int trained;         /* the process has reported progress */
    uint64_t stopped_ms; /* for how long node_tick has seen it stopped */
    int alone;           /* how often it alone was restarted */
    uint64_t log_from;   /* the offset of its output in the log stream */
    int ports[2 * JOB_SPEC_MAX_PORTS];
    int fds[2 * JOB_SPEC_MAX_PORTS]; /* bound, held until the process starts */
    unsigned n_fds;
    int claims[2 * JOB_SPEC_MAX_PORTS]; /* of the ports of a user's program, held until the program
                                           ends */
    unsigned n_claims;
    struct bind_set bind;
    /* port_ready.c */
    uv_timer_t ready_timer;
    uv_tcp_t *probe; /* the connection attempt in progress */
    uint64_t ready_started_ns, ready_wait_ms;
    unsigned ready_tries;
};

struct ag_node {
    uv_loop_t *loop;
    const struct node_paths *paths;
    const struct spec *spec;
    struct logs *logs;
    const struct pd_log *log;
    struct node_io io;
    void *arg;
    struct node_role role[N_ROLES];
    json_t *passes; /* the last bodies of HD_PASS; HD_JOIN repeats them */
    int64_t n_passes;
    struct process_program worker;
    char addr[48], bind_ip[48];
    int bound, log_failed;
    uint64_t unseen_ms; /* the time since node_tick last checked the processes */
    /* process_end.c */
    uv_timer_t end_timer;
    int ending; /* no process is started any more. 1 until the end is complete before a restart;
                   then for ever */
    int for_restart;  /* this end comes before a restart */
    int servers_stay; /* the pserver gets TERM later, because trainers may still need it */
    uint64_t kill_at_ns;
    struct end_waiter *waiters;
    struct end_request end_requests[END_REQUESTS_MAX];
    int n_handles, freeing;
};

/* --- node_role.c --- */

/* A handle is closed; the last one frees a node that is being freed. */
void node_handle_closed(void *node);
void node_close_sockets(struct node_role *r);
void node_drop_claims(struct node_role *r);
/* The process has ended, and another may be started. */
void node_forget_process(struct node_role *r);
/* All processes have ended, and others may be started. */
void node_forget_processes(struct ag_node *n);

/* --- the others --- */

void node_on_bind(struct ag_node *n, uint64_t req, const json_t *body); /* HD_BIND */

/* Try PADDLE_PORT until it accepts, then send HD_READY; after ready_ms send HD_FAIL. */
void port_ready_init(struct node_role *r);
void port_ready_start(struct node_role *r);
void port_ready_stop(struct node_role *r);
void port_ready_close(struct node_role *r);

/* A child was reaped: finishes the end if no process is left. */
void process_end_check(struct ag_node *n);
