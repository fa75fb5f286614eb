/* job_int.h - what job.c (messages, leases, the end) and job_requests.c (a client's requests)
 * share. */
#ifndef PD_AGENT_JOB_INT_H
#define PD_AGENT_JOB_INT_H

#include "agent/head/head.h"
#include "agent/job.h"
#include "agent/process/node.h"
#include "agent/peer_link.h"
#include "wire/bodies.h"

struct ag_job_post; /* a message between head and node of this agent */

struct ag_job {
    struct ag_job_opts o;
    int set_up; /* from AG_JOB_SETUP on; what is below is set from there on */
    int quitting;
    struct spec spec;
    struct peer_id self;
    char net_id[96], machine[96];
    json_t *addrs, *peers; /* own addresses; AG_JOB_PEERS' array */
    struct ag_node *node;
    struct ag_head *head; /* node 0 only */
    struct peer_link *link;
    struct file_fetch *data; /* with data files apart: file_fetch.h */
    struct logs logs;
    int logs_open;
    struct ag_job_post *posts, **posts_end; /* messages between head and node of this agent */
    uv_timer_t post_timer;
    uv_timer_t log_timer; /* runs for a moment after the clients were sent what the logs had */
    int log_grew;         /* ... and they have more since */
    uv_signal_t on_child;
    uint64_t started_us, ended_us; /* on this node: the set-up, the result */
    unsigned restarts;
    int port;             /* where the other agents reach this one */
    int ran;              /* the head has begun: from here on a detached job needs no client */
    int started;          /* a process was started, somewhere in the job */
    int restarting;       /* the last HD_END was for a restart */
    int ending;           /* a lease or a signal ends the job */
    int said_bye;         /* a client has all it wants of a job that is over */
    json_t *result;       /* once it is over on this node */
    char end_status[16];  /* HD_END's */
    char failed[300];     /* this node's own failure, told again when the head is reached again */
    char failed_role[12]; /* ... and of which process; "": the agent's */
};

/* What the parts of a job say goes to job.c; their `arg` is the struct ag_job *. */
extern const struct node_io ag_job_node_io;
extern const struct head_io ag_job_head_io;
extern const struct peer_events ag_job_peer_events;
extern const struct file_fetch_io ag_job_file_io;

static inline int ag_job_is_live(const struct ag_job *j) { return j->set_up && !j->quitting; }
static inline struct pd_log *ag_job_log(const struct ag_job *j) { return &j->o.core->log; }
static inline void ag_job_quit(struct ag_job *j, int now) { j->o.events->on_quit(j->o.arg, now); }

/* The job is over on this node. Reason "": none, or node 0 knows it. */
void ag_job_over_with_reason(struct ag_job *j, const char *status, const char *reason);
json_t *ag_job_join_body(void *job); /* of HD_JOIN */
void ag_job_save_state(struct ag_job *j);

#endif
