/* SPDX-License-Identifier: Apache-2.0 */
/* job_internal.h - types and functions shared by job.c (messages, leases, the end) and
 * job_requests.c (a client's requests), job_head.c (a new head) and job_vote.c (its election). */
#pragma once

#include "agent/core/passes.h"
#include "agent/head/election.h"
#include "agent/head/head.h"
#include "agent/job.h"
#include "agent/process/node.h"
#include "agent/peer_link.h"
#include "wire/client_bodies.h"

struct ag_job_post; /* a message between head and node of this agent */
struct vote_call;   /* job_vote.c */

struct ag_job {
    struct ag_job_opts o;
    int set_up; /* AG_JOB_SETUP came; the fields below are valid */
    int quitting;
    struct spec spec;
    struct peer_id self;
    char net_id[96], machine[96];
    json_t *addrs,
        *peers; /* addrs: this node's own. peers: `nodes` of AG_JOB_PEERS or AG_JOB_HEAD */
    struct ag_node *node;
    int head_node;        /* where the head runs: node 0 until AG_JOB_HEAD names another one */
    struct ag_head *head; /* on that node only */
    struct peer_link *link;
    struct file_fetch *data; /* NULL unless the spec has data_apart; file_fetch.h */
    int few_due,
        few_told;    /* job_files.c: state.json is to be written; AG_STATE said that some are few */
    uint64_t few_ns; /* when it was written */
    struct logs logs;
    int logs_open;
    struct ag_job_post *posts, **posts_end; /* messages between head and node of this agent */
    uv_timer_t post_timer;
    uv_timer_t log_timer; /* runs for LOG_TURN_MS after each message to the clients */
    int log_grew;         /* the logs have grown since that message */
    uv_signal_t on_child;
    uint64_t started_us, ended_us; /* wall clock of this node: at the set-up, at the result */
    unsigned restarts;
    int port;               /* the port on which other agents reach this agent */
    int ran;                /* the head has begun: a detached job needs no client any more */
    int started;            /* this node has started a process; on the head's node: any has */
    struct passes passes;   /* on the head's node */
    int restarting;         /* the last HD_END was for a restart */
    struct end_waiter quit; /* the agent quits when the processes have ended */
    int ending;             /* a lease or a signal ends the job */
    int stopping;           /* a client has stopped the job at once: no other head continues it */
    int said_bye;           /* the job is over, and a client needs nothing more */
    json_t *save_stop;      /* a member: the HD_STOP_JOB that saves, repeated when it joins again */
    json_t *result;         /* NULL until the job is over on this node */
    int unwritten;          /* result.json could not be written */
    char end_status[16];    /* the status in HD_END */
    char failed[300];       /* this node's own failure; HD_JOIN repeats it */
    char failed_role[12];   /* the role of the process that failed; "agent": this node leaves; "" */
    int lost_head;          /* the head's node is the failure */
    int lease_over;         /* no client was heard for attach_lease, or no head for detach_lease */
    int left;               /* this node has left the job, which may go on */
    /* job_vote.c; unused unless head_may_be_chosen */
    struct election election;
    json_t *kept_nodes, *kept_lost; /* of the last HD_KEEP; NULL: none came */
    json_t *heard;                  /* reports of passes, array of heard_pass: the newest */
    size_t heard_bytes;
    size_t n_lost; /* a head: lost nodes that the voters know */
    int keep_due;  /* a head: the voters get HD_KEEP */
    int waits;  /* the head was silent for its lease: no process runs until there is another one */
    int fenced; /* a head: no majority answers it */
    struct vote_call *calls;
    unsigned n_calls, round;
    uint64_t called_ms;
    int called_next; /* a head that was chosen: the node that is called first */
};

/* job.c handles the events of a job's parts; their `arg` is the struct ag_job *. */
extern const struct node_io ag_job_node_io;
extern const struct head_io ag_job_head_io;
extern const struct peer_events ag_job_peer_events;
extern const struct file_fetch_io ag_job_file_io;

static inline int ag_job_is_live(const struct ag_job *j) { return j->set_up && !j->quitting; }
static inline struct pd_log *ag_job_log(const struct ag_job *j) { return &j->o.core->log; }
static inline void ag_job_quit(struct ag_job *j, int now) { j->o.events->on_quit(j->o.arg, now); }

static inline int ag_job_is_head(const struct ag_job *j) { return j->spec.node == j->head_node; }
/* The job if it is set up and the agent is not quitting; else NULL and PD_EPROTO. */
struct ag_job *ag_job_usable(const struct client *c, struct pd_err *err);
/* Creates the head of this node; *out stays unchanged on failure. */
int ag_job_make_head(struct ag_job *j, json_t *peers, struct ag_head **out, struct pd_err *err);
void ag_job_join_head(struct ag_job *j); /* this node joins its own head */
/* AG_JOB_HEAD */
int ag_job_on_head(struct client *c, const struct wire_frame *f, const json_t *body,
                   struct pd_err *err);

/* This node has the job's description since AG_JOB_SETUP. `peers` is taken over. */
int ag_job_become_head(struct ag_job *j, const struct ag_job_head *m, json_t *peers,
                       struct pd_err *err);
void ag_job_follow_head(struct ag_job *j, int head, json_t *peers); /* takes `peers` over */
/* 1: the entries that this node needs: of all nodes for the head, else of the head alone. */
int ag_job_has_entries(const struct ag_job *j, const struct ag_job_head *m, struct pd_err *err);

/* job_files.c */
/* A message about a data file. 0: it is another message. */
int ag_job_file_message(struct ag_job *j, int node, const struct wire_frame *f, const json_t *body,
                        const struct pd_err *refused);
/* The number of files with too few copies has changed: clients and state.json say so. */
void ag_job_few_tick(struct ag_job *j);

/* job_vote.c */
void ag_vote_init(struct ag_job *j);
void ag_vote_tick(struct ag_job *j);
void ag_vote_joined(struct ag_job *j, int node); /* a head: the node has joined */
void ag_vote_heard(struct ag_job *j, int node, const json_t *pass); /* a head: HD_PASS */
void ag_vote_detached(struct ag_job *j);
/* A message between head and voter. 0: it is another message. */
int ag_vote_message(struct ag_job *j, int node, const struct wire_frame *f, const json_t *body,
                    const struct pd_err *refused);
void ag_vote_asked(void *job, struct net_conn *c, const struct wire_frame *f); /* on_vote */
/* The head was silent for detach_lease. 1: this node has no processes, and waits for another head.
 */
int ag_vote_waits(struct ag_job *j);
/* A head that leaves: the other nodes can choose another one. */
int ag_vote_goes_on(const struct ag_job *j);
void ag_vote_close(struct ag_job *j);
void ag_vote_release(struct ag_job *j);

/* The job is over on this node. reason "": there is none, or only the head knows it. */
void ag_job_over_with_reason(struct ag_job *j, const char *status, const char *reason);
json_t *ag_job_join_body(void *job); /* the body of HD_JOIN, a new reference */
void ag_job_save_state(struct ag_job *j);

/* The time between SIGTERM and SIGKILL of the processes when a lease is over: at most a second, so
 * that the job is over within two. */
static inline unsigned ag_job_lease_grace_ms(const struct ag_job *j) {
    return j->spec.job.grace_ms < 1000 ? (unsigned)j->spec.job.grace_ms : 1000;
}
