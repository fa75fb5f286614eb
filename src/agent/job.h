/* job.h - the job of this agent: set up by a client, run by the head, ended by either or by a
 * lease.
 *
 *   client ──AG_JOB_*──▶ job ◀──HD_*, TCP──▶ other agents          (peer_link.h)
 *                         ├── node: this node's processes           (node.h)
 *                         └── head: the coordinator, on node 0      (head.h)
 *
 * Head and node speak in messages on every node; on node 0 the messages to itself go through a
 * queue instead of TCP, so that both see the same order of events everywhere.
 */
#ifndef PD_AGENT_JOB_H
#define PD_AGENT_JOB_H

#include "agent/client/client.h"
#include "agent/files/file_fetch.h"
#include "agent/client/log_send.h"
#include "agent/report/status.h"

struct ag_job;

struct ag_job_events {
    void (*on_state)(void *arg, const char *state, const char *text);
    void (*on_over)(void *arg, json_t *result); /* how the job ended on this node, borrowed; once */
    void (*on_quit)(void *arg,
                    int now); /* the agent is to end; not now: an answer can still be sent */
};

struct ag_job_opts {
    struct agent_core *core;
    struct clients *clients;
    struct log_source *logs; /* filled in when the job is set up */
    struct kept_data *kept;
    unsigned first_lease_ms; /* the lease until AG_JOB_SETUP names it */
    const struct ag_job_events *events;
    void *arg;
};

/* AG_JOB_SETUP, AG_JOB_PEERS, AG_JOB_RUN, AG_STOP. The context is the struct ag_job *; NULL: this
 * agent runs no job. */
extern const struct client_service ag_job_service;

int ag_job_new(struct ag_job **out, const struct ag_job_opts *o, struct pd_err *err);
void ag_job_free(struct ag_job *j); /* once the loop has ended; NULL is fine, as below */

void ag_job_tick(struct ag_job *j, uint64_t passed_ms); /* leases */
void ag_job_bye(struct ag_job *j, int abandon);         /* a client said AG_BYE */
/* End the processes, then the agent. `reason` becomes the job's failure unless it is over. */
void ag_job_end(struct ag_job *j, unsigned grace_ms, const char *reason);
void ag_job_close(struct ag_job *j); /* the agent ends: every handle is closed */
void ag_job_cut(struct ag_job *j);   /* what is still open some time after that is closed at once */

/* The context of file_fetch_service. */
struct file_fetch *const *ag_job_files(const struct ag_job *j);
json_t *ag_job_lost_nodes(const struct ag_job *j); /* that it went on without, as node 0 knows:
                                                      array of {node, host, reason} */
/* status_state; NULL: it was not set up, or is being closed. */
json_t *ag_job_state(const struct ag_job *j);
int ag_job_started(const struct ag_job *j); /* a process was started, somewhere in the job */

#endif
