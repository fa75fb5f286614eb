/* head_int.h - what head.c (states and messages), head_ask.c (requests), head_fail.c (failures,
 * restarts) and head_lost.c (nodes that are lost) share. */
#ifndef PD_AGENT_HEAD_INT_H
#define PD_AGENT_HEAD_INT_H

#include "agent/head/head.h"
#include "wire/bodies.h"

enum { FAILURE_WINDOW_MS = 300 };

enum head_state {
    HEAD_IDLE,
    HEAD_CONNECTING,
    HEAD_PROBING,
    HEAD_BINDING,
    HEAD_PSERVERS,
    HEAD_TRAINERS,
    HEAD_SAVING,     /* stopped: the trainers save the model and end */
    HEAD_RESTARTING, /* every process is ended */
    HEAD_BACKOFF,
    HEAD_ENDING,
    HEAD_STOPPING, /* by a client: the trainers end first */
    HEAD_CLOSING,
    HEAD_OVER,
    N_HEAD_STATES
};

struct head_node {
    int joined, ever_joined;
    int64_t incarnation;
    char net_id[96], machine[96];
    char addr[48];       /* the one that its peer could reach */
    int ports[N_ROLES];  /* first port of each role */
    int probes;          /* the node whose addresses it tries */
    int asked, answered; /* the state's request */
    uint64_t req;
    int ready; /* its pserver listens */
    int exited[N_ROLES];
    int alone;   /* how often its trainer was started again without the others, in this attempt */
    int trained; /* that trainer had ended steps before it failed */
    uint64_t lost_ns; /* since when it is not joined again */
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
    struct roles roles; /* of this attempt */
    char *gone; /* by node: it is lost for good, and the job goes on without it; head_lost.c alone
                   sets it */
    json_t *lost_nodes; /* the same for others: head_lost_nodes */
    uint64_t next_req;
    uv_timer_t deadline, lost, window, notice, early;
    int early_node; /* its pserver ended with 0 while trainers were running */
    json_t *early_exit;
    int64_t early_time;
    char text[400]; /* what AG_STATE said last */
    int n_handles;
    unsigned grace_ms;
    int stopped, aborted; /* aborted: without a client there is nobody to wait for the others */
    unsigned save_ms;
    uint64_t save_until_ns; /* 0: nothing is to be saved */
    char saved[200];
    char *endpoints[N_ROLES]; /* head_ask.c */
    /* head_fail.c */
    json_t *failure;
    int failure_rank, failure_node, later;
    int64_t failure_time;
    int no_retry;           /* one of the failures would come again */
    int restarts;           /* of all processes, or of one trainer */
    int attempt;            /* the value of restarts when all were started last */
    char restart_text[520]; /* "restart 1 of 3 after trainer 2 on gpu-02: exit status 1" */
    char moves[200]; /* "; its pserver goes to node 2 (gpu-03)": the next one's text ends so */
};

const char *head_host(const struct ag_head *h, int node); /* as the user wrote it */
/* Takes `failure` over. `retry`: the job may be started again after it, if its configuration says
 * so. */
void head_note_failure(struct ag_head *h, int node, json_t *failure, int64_t exit_time_us,
                       int retry);
json_t *head_process_failure(const struct ag_head *h, int node, const struct hd_exited *x,
                             const char *reason);
json_t *head_reason_failure(const struct ag_head *h, int node, const char *reason);
void head_ask_again(struct ag_head *h, int node); /* the state's request, once more */
uint64_t head_backoff_ms(const struct ag_head *h);
int head_may_restart(const struct ag_head *h);
void head_name_restart(struct ag_head *h, const json_t *failure); /* restart_text */

/* The job goes on without the node, if it may and can. Otherwise, and always for node 0, it fails
 * with this reason. */
void head_give_up(struct ag_head *h, int node, const char *reason);
int head_is_gone(struct ag_head *h, int node); /* 1: and what it is told is to leave */
void head_note_lost_spares(struct ag_head *h); /* at the end: those that are away and ran nothing */
int head_waits_for_lost(const struct ag_head *h); /* a node is away that may come back, or that the
                                                     job can do without: its lease decides */

void head_enter(struct ag_head *h, enum head_state state);
void head_close(struct ag_head *h); /* to closing, unless it is there already */
void head_check(struct ag_head *h); /* to the next state, if every node is done */
void head_publish(struct ag_head *h, const char *text); /* AG_STATE */

/* HD_ messages; NULL: nothing to ask of this node. */
json_t *head_ask_probe(struct ag_head *h, int node, uint16_t *type);
json_t *head_ask_bind(struct ag_head *h, int node, uint16_t *type);
json_t *head_ask_pserver(struct ag_head *h, int node, uint16_t *type);
json_t *head_ask_trainer(struct ag_head *h, int node, uint16_t *type);
json_t *head_ask_save(struct ag_head *h, int node, uint16_t *type);
json_t *head_ask_stop(struct ag_head *h, int node, uint16_t *type);
json_t *head_ask_restart(struct ag_head *h, int node, uint16_t *type);
json_t *head_ask_end(struct ag_head *h, int node, uint16_t *type);
/* For a lost node that is back. */
json_t *head_ask_leave(struct ag_head *h, int node, uint16_t *type);
json_t *head_candidates(const struct ag_head *h, int node); /* addresses to try */
unsigned head_end_grace_ms(const struct ag_head *h);
void head_plan_probes(struct ag_head *h); /* who probes whom, once all have joined */
void head_forget_endpoints(struct ag_head *h);

#endif
