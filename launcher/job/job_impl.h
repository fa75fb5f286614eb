/* job_impl.h - what job.c (phases and steps), job_setup.c (what is sent to the nodes) and job_watch.c (logs, results,
 * messages) share. */
#ifndef LAUNCHER_JOB_IMPL_H
#define LAUNCHER_JOB_IMPL_H

#include "launcher/cluster/cluster.h"
#include "launcher/job/job.h"
#include "launcher/cluster/package.h"
#include "launcher/view/follow.h"
#include "launcher/view/live.h"

enum node_step {
    NODE_NEW, NODE_CONNECT, NODE_WORKER_QUERY, NODE_WORKER_SEND, NODE_WORKSPACE, NODE_SETUP, NODE_READY, NODE_PEERS,
    NODE_PEERED, NODE_RUNNING, NODE_ENDED, NODE_STOPPING, NODE_STOPPED, NODE_DRAIN, NODE_DRAINED, NODE_FETCH, NODE_FETCHED,
    NODE_BYE, NODE_FAILED, NODE_GONE, N_NODE_STEPS,
};

enum job_phase {
    JOB_PREPARE, JOB_PEERS, JOB_RUN, JOB_FOLLOW, JOB_STOP, JOB_DRAIN, JOB_FETCH, JOB_BYE, JOB_OVER, N_JOB_PHASES,
};

struct job;

struct node {
    struct job *job;
    int id;
    const struct host *host;
    struct link *link; /* NULL before it is opened and once it is closed */
    int greeted;       /* AG_HELLO came */
    enum node_step step;
    struct pd_err err; /* why it failed */
    char job_dir[1100];
    json_t *addrs;
    int port;
    int subscribed, has_result;
};

struct job {
    struct cluster c;
    const struct pd_options *opts;
    char id[64], output_dir[4096], aside[4200];
    uint8_t key[WIRE_KEY_BYTES];
    struct package worker, workspace;
    char worker_path[4096];
    int needs_worker, sends_workspace;
    json_t *spec;
    struct node *nodes;
    int n_nodes;
    enum job_phase phase;
    uv_timer_t check, deadline, patience, ping;
    uv_signal_t signals[3];
    struct view *view;
    struct live *live;
    struct follow *follow;
    struct follow_node *names; /* the hosts as the log shows them */
    char state[400], shown_state[400]; /* the head's last AG_STATE */
    int ran;                 /* AG_JOB_RUN was sent: there may be processes */
    int stopped_by_user;     /* how many times a signal came */
    json_t *failure;         /* the first failure, as the AG_RESULT that knows most of it says */
    int failure_worth;
    json_int_t n_later, n_restarts;
    char saved[200];         /* the last model, as node 0's result says */
    int failed, stopped;     /* what the results said */
    int fetched;
    struct pd_err err;       /* of our own doing */
};

/* job.c */
void node_enter(struct node *n, enum node_step step);
void node_fail(struct node *n, const struct pd_err *err); /* keeps the node's first error */
void node_has_result(struct node *n);

/* job_setup.c: the requests that bring a node up; their answers enter the next step */
int job_describe(struct job *j, struct pd_err *err); /* id, key, packages, spec; nothing on the nodes yet */
void send_worker_query(struct node *n);
void send_worker(struct node *n);
void send_workspace(struct node *n);
void send_setup(struct node *n);
void send_peers(struct node *n);

/* job_watch.c */
int watch_open(struct job *j, struct pd_err *err); /* the view, and what fills it */
void watch_close(struct job *j);                   /* its part of the loop */
void watch_free(struct job *j, uint64_t wait_ms);  /* after the loop: show what there is, as long as somebody reads it */
void watch_lost(struct node *n);                   /* its connection is lost, it may come back */
void watch_gone(struct node *n);
int watch_is_moving(struct job *j);                /* logs come, or the output has not taken them yet */
void watch_subscribe(struct node *n);
void watch_frame(struct link *l, struct wire_frame *f, json_t *body, void *arg);
void watch_show_state(struct job *j);
int watch_drained(const struct node *n);
int watch_conclude(struct job *j); /* says how it ended, on stderr; the exit status */

#endif
