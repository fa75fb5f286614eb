/* node_int.h - what node.c, node_role.c, node_bind.c, port_ready.c and process_end.c share. */
#ifndef PD_AGENT_NODE_INT_H
#define PD_AGENT_NODE_INT_H

#include "agent/core/bind.h"
#include "agent/process/node.h"
#include "agent/process/proc.h"
#include "net/conn.h"
#include "wire/bodies.h"

struct end_waiter {
    void (*done)(void *);
    void *arg;
    int for_restart; /* it waits for that end only, the others for the last one */
    struct end_waiter *next;
};

struct node_role {
    struct ag_node *node;
    enum role role;
    int rank, started, ready;
    pid_t pid; /* its number, also after its end */
    uint64_t started_us;
    struct proc *proc; /* kept after its end: its pipes may still bring output */
    json_t *exit_body; /* HD_EXITED once it has ended */
    int final;         /* it said that another try would fail, too */
    int told_to_save;
    int trained;         /* it told of progress */
    uint64_t stopped_ms; /* for so long it has been seen stopped */
    int alone;           /* how often it was started again without the others */
    char saved[200];     /* the last model that it told of */
    uint64_t log_from;   /* where its output begins in the stream */
    int ports[2 * JOB_SPEC_MAX_PORTS];
    int fds[2 * JOB_SPEC_MAX_PORTS]; /* bound, held until the process starts */
    unsigned n_fds;
    int claims[2 * JOB_SPEC_MAX_PORTS]; /* of a user's own program's ports, held until it ends */
    unsigned n_claims;
    struct bind_set bind;
    /* port_ready.c */
    uv_timer_t ready_timer;
    uv_tcp_t *probe; /* the attempt under way */
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
    char addr[48], bind_ip[48];
    int bound, log_failed;
    uint64_t unseen_ms; /* since node_tick looked at the processes */
    /* process_end.c */
    uv_timer_t end_timer;
    int ending;       /* no process is started any more ... */
    int for_restart;  /* ... until this end is complete */
    int servers_stay; /* ... and the pserver runs until it is told too, since trainers may still
                         need it */
    uint64_t kill_at_ns;
    struct end_waiter *waiters;
    int n_handles, freeing;
};

/* --- node_role.c --- */

void node_handle_closed(void *node); /* a handle of a node that is being freed */
void node_close_sockets(struct node_role *r);
void node_drop_claims(struct node_role *r);
void node_forget_process(struct node_role *r); /* it has ended, and another one may be started */
void node_forget_processes(struct ag_node *n); /* all have ended, and others may be started */

/* --- the others --- */

void node_on_bind(struct ag_node *n, uint64_t req, const json_t *body); /* HD_BIND */

/* Poll PADDLE_PORT until it accepts, then HD_READY; too late is HD_FAIL. */
void port_ready_init(struct node_role *r);
void port_ready_start(struct node_role *r);
void port_ready_stop(struct node_role *r);
void port_ready_close(struct node_role *r);

/* A child was reaped: is the end complete? */
void process_end_check(struct ag_node *n);

#endif
