/* job.h - the job of this agent: set up by the client, run by the head, ended by either or by a lease.
 *
 *   client ──AG_JOB_*──▶ job ◀──HD_*, TCP──▶ other agents          (link.c)
 *                         ├── node: this node's processes           (node.h)
 *                         └── head: the coordinator, on node 0      (head.h)
 *
 * Head and node speak in messages on every node; on node 0 the messages to itself go through a queue instead of
 * TCP, so that both see the same order of events everywhere.
 */
#ifndef PD_AGENT_JOB_H
#define PD_AGENT_JOB_H

#include "agent/agent.h"
#include "agent/head.h"
#include "agent/logs.h"
#include "agent/node.h"
#include "agent/spec.h"

struct link;
struct post;
struct data;

struct job {
    struct agent *ag;
    struct spec spec;
    uint8_t key[32];
    uint64_t incarnation;
    char net_id[96], machine[96];
    json_t *addrs, *peers;  /* own addresses; AG_JOB_PEERS' array */
    struct node *node;
    struct head *head;      /* node 0 only */
    struct link *link;
    struct data *data;      /* with data files apart: data.h */
    struct post *posts, **posts_end; /* messages between head and node of this agent */
    uv_timer_t post_timer;
    uv_timer_t log_timer;   /* runs for a moment after the clients were sent what the logs had */
    int log_grew;           /* ... and they have more since */
    uv_signal_t on_child;
    uint64_t started_us, ended_us; /* on this node: the set-up, the result */
    unsigned restarts;
    int port;               /* where the other agents reach this one */
    int n_handles;
    int ran;                /* the head has begun: from here on a detached job needs no client */
    int started;            /* a process was started, somewhere in the job */
    int restarting;         /* the last HD_END was for a restart */
    int quitting;
    char end_status[16];    /* HD_END's */
    char failed[300];       /* this node's own failure, told again when the head is reached again */
    char failed_role[12];   /* ... and of which process; "": the agent's */
};

struct logs *agent_logs(struct agent *ag); /* NULL before the set-up of a job */
json_t *job_lost_nodes(const struct job *j); /* that it went on without, as node 0 knows: array of {node, host, reason}; j may be NULL */

void job_bye(struct agent *ag, int abandon);  /* a client said AG_BYE */
unsigned job_lease_ms(const struct agent *ag); /* silence of all clients that ends an attached job */
void job_tick(struct agent *ag, uint64_t passed_ms);              /* leases */
/* End the processes, then the agent. `reason` becomes the job's failure unless it is over. */
void job_end_and_quit(struct agent *ag, unsigned grace_ms, const char *reason);
void job_close(struct job *j);                /* part of agent_quit */
void job_cut(struct job *j);                  /* ... and its deadline: what is still open is closed at once */
void ag_job_free(struct job *j);                 /* once the loop has ended */

/* --- between job.c and link.c --- */

int link_new(struct link **out, struct job *j, int *port, struct pd_err *err); /* listens */
void ag_link_connect(struct link *l);              /* a member begins to join the head */
void ag_link_close(struct link *l);
void link_cut(struct link *l);
void link_tick(struct link *l);
void link_to_node(struct link *l, int node, uint16_t type, uint64_t req, json_t *body); /* head's */
void link_to_head(struct link *l, uint16_t type, uint64_t req, json_t *body);           /* member's */
void link_refuse(struct link *l, uint16_t type, uint64_t req, const struct pd_err *e);
uint64_t link_silent_ms(const struct link *l);  /* member: since the head was heard last; 0 on the head */
void link_ask_head(struct link *l, uint16_t type, uint64_t req, const void *p, size_t n); /* member: with these bytes; dropped when it is not joined */
int link_is_joined(const struct link *l);       /* member: the head hears it */
void link_replay_joins(struct link *l);         /* the head exists now: tell it who joined before */

void job_from_head(struct job *j, uint16_t type, uint64_t req, const json_t *body);
json_t *job_join_body(struct job *j);
void job_handle_closed(struct job *j);
void job_post(struct job *j, int to_head, uint16_t type, uint64_t req, json_t *body, const struct pd_err *refused);

/* probe.c: HD_PROBE, answered through link_to_head or the queue. */
void probe_begin(struct job *j, uint64_t req, const json_t *body);
void job_answer(struct job *j, uint16_t type, uint64_t req, json_t *body);

#endif
