/* SPDX-License-Identifier: Apache-2.0 */
/* head_internal.h - types and functions shared by head.c (states and messages), head_ask.c
 * (requests), head_fail.c (failures, restarts) and head_lost.c (lost nodes). */
#pragma once

#include "agent/head/head.h"
#include "wire/bodies.h"

enum { FAILURE_WINDOW_MS = 300, HEARD_WINDOW_MS = 2000 };

enum head_state {
    HEAD_IDLE,
    HEAD_CONNECTING,
    HEAD_PROBING,
    HEAD_BINDING,
    HEAD_PSERVERS,
    HEAD_TRAINERS,
    HEAD_SAVING,     /* a stop that saves: the trainers save the model and end */
    HEAD_RESTARTING, /* the nodes end every process */
    HEAD_BACKOFF,
    HEAD_ENDING,
    HEAD_STOPPING, /* a client stopped the job: the trainers end first */
    HEAD_CLOSING,
    HEAD_OVER,
    N_HEAD_STATES
};

struct head_node {
    int joined, ever_joined;
    int64_t incarnation;
    char net_id[96], machine[96];
    char addr[48];       /* the address that its prober has reached */
    int ports[N_ROLES];  /* first port of each role */
    int probes;          /* the node whose addresses this node tries */
    int asked, answered; /* the current state's request */
    int paced;           /* asked, and one of the PACE nodes on this machine */
    uint64_t req;
    int ready; /* its pserver listens */
    int exited[N_ROLES];
    int alone;        /* how often its trainer alone was restarted in this attempt */
    int64_t n_passes; /* HD_PASS that it has sent */
    int trained;      /* its trainer had completed steps before it failed */
    uint64_t lost_ns; /* when its connection broke; 0: it is not away, or was given up */
};

struct ag_head {
    uv_loop_t *loop;
    const struct spec *spec;
    json_t *peers;
    const struct pd_log *log;
    struct head_io io;
    void *arg;
    enum head_state state;
    struct head_node *node;
    struct roles roles; /* the roles of this attempt */
    char *gone; /* by node: 1: lost for good, the job continues without it. Only head_lost.c writes
                   it */
    json_t *lost_nodes; /* the result of head_lost_nodes */
    uint64_t next_req;
    int n_paced, next_paced; /* head.c */
    uv_timer_t deadline, lost, window, notice, early;
    int early_node; /* the node whose pserver exited with 0 while trainers were running */
    json_t *early_exit;
    int64_t early_time;
    char text[400]; /* the last text of AG_STATE */
    int n_handles;
    unsigned grace_ms;
    int stopped, aborted; /* aborted: head_abort was called */
    int left;             /* head_leave was called */
    uint64_t gave_up_ns;  /* when a node was given up, before the next attempt; 0: none was */
    int probed;           /* the addresses of all nodes are known */
    int took_over;        /* this head has taken an earlier head's part */
    unsigned save_ms;
    uint64_t save_until_ns;   /* 0: no model is to be saved */
    char *endpoints[N_ROLES]; /* head_ask.c */
    /* head_fail.c */
    json_t *unnamed; /* the failure that is reported if memory is out when one is written */
    json_t *failure;
    int failure_rank, failure_node;
    int later;     /* failures of other causes */
    int others;    /* processes that failed besides the first one, and not because of another one */
    int witnesses; /* processes that ended because of another one */
    int64_t failure_time;
    int no_retry;           /* a failure that a restart would not cure */
    int restarts;           /* restarts of all processes, and of single trainers */
    int attempt;            /* the value of `restarts` when all processes were last started */
    char restart_text[620]; /* "restart 1 of 3 after trainer 2 on gpu-02: exit status 1" */
    char moves[300]; /* "; its pserver goes to node 2 (gpu-03)": the end of the next restart_text */
};

const char *head_host(const struct ag_head *h, int node); /* the name that the user wrote */
/* Takes `failure` over. `retry`: the job may be restarted after this failure, if its configuration
 * allows restarts. */
void head_note_failure(struct ag_head *h, int node, json_t *failure, int64_t exit_time_us,
                       int retry);
json_t *head_process_failure(const struct ag_head *h, int node, const struct hd_exited *x,
                             const char *reason);
/* A process ended with another status than 0. */
void head_note_exit(struct ag_head *h, int node, const struct hd_exited *x);
json_t *head_reason_failure(const struct ag_head *h, int node, const char *reason);
void head_ask_again(struct ag_head *h, int node); /* sends the request of the current state again */
uint64_t head_backoff_ms(const struct ag_head *h);
int head_may_restart(const struct ag_head *h);
/* All processes end and start again because of h->failure. */
void head_restart(struct ag_head *h);
/* "trainer 2 on gpu-02": the process, or "node 1 (gpu-01)": the agent, of the first failure. "":
 * there is none. */
void head_name_cause(const struct ag_head *h, char *out, size_t cap);
void head_name_restart(struct ag_head *h, const json_t *failure); /* restart_text */

/* The job continues without the node if it may be restarted. Otherwise, and always for the head's
 * own node, the job fails with this reason. */
void head_give_up(struct ag_head *h, int node, const char *reason);
/* 1: the node is lost for good; the call tells it to leave. */
int head_is_gone(struct ag_head *h, int node);
/* At the end: spare nodes that are away, or do not answer, become lost nodes. */
void head_note_lost_spares(struct ag_head *h);
/* 1: every node that has not answered is away, and the job may continue without these nodes. The
 * lease decides. */
int head_waits_for_lost(const struct ag_head *h);

/* A body of HD_PASS. A repeated report has no effect. 0 or PD_EPROTO. */
int head_take_pass(struct ag_head *h, int node, const json_t *body, struct pd_err *err);

void head_enter(struct ag_head *h, enum head_state state);
void head_pace(struct ag_head *h, int node); /* the node has answered, or is away: ask the next */
void head_close(struct ag_head *h);          /* enters closing, unless the head is there already */
void head_check(struct ag_head *h);          /* enters the next state if every node is done */
/* A node has joined: it gets the request of the current state. */
void head_asks_too(struct ag_head *h, int node);
void head_publish(struct ag_head *h, const char *text); /* AG_STATE */

/* The body of the HD_ message for a node; `type` is set. NULL: no request for this node. */
json_t *head_ask_probe(struct ag_head *h, int node, uint16_t *type);
json_t *head_ask_bind(struct ag_head *h, int node, uint16_t *type);
json_t *head_ask_pserver(struct ag_head *h, int node, uint16_t *type);
json_t *head_ask_trainer(struct ag_head *h, int node, uint16_t *type);
json_t *head_ask_save(struct ag_head *h, int node, uint16_t *type);
json_t *head_ask_stop(struct ag_head *h, int node, uint16_t *type);
json_t *head_ask_restart(struct ag_head *h, int node, uint16_t *type);
json_t *head_ask_end(struct ag_head *h, int node, uint16_t *type);
/* For a lost node that has joined again. */
json_t *head_ask_leave(struct ag_head *h, int node, uint16_t *type);
json_t *head_candidates(const struct ag_head *h, int node); /* addresses to try */
unsigned head_end_grace_ms(const struct ag_head *h);
/* Decides which node probes which, when all have joined. */
void head_plan_probes(struct ag_head *h);
void head_forget_endpoints(struct ag_head *h);
