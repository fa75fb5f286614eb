/* SPDX-License-Identifier: Apache-2.0 */
/* job.h - the job of this agent. A client sets it up, the head runs it, and either of them or a
 * lease ends it.
 *
 *   client ──AG_JOB_*──▶ job ◀──HD_*, TCP──▶ other agents          (peer_link.h)
 *                         ├── node: this node's processes           (node.h)
 *                         └── head: the coordinator, on one node    (head.h)
 *
 * The head and a node exchange messages. On the head's node these messages go through a queue
 * instead of TCP, so that both sides see the same order of events on every node. */
#pragma once

#include "agent/client/client.h"
#include "agent/files/file_fetch.h"
#include "agent/client/log_send.h"
#include "agent/report/status.h"

struct ag_job;

struct ag_job_events {
    void (*on_state)(void *arg, const char *state, const char *text);
    /* How the job ended on this node; called once; `result` is borrowed */
    void (*on_over)(void *arg, json_t *result);
    /* The agent must end. now 0: it sends pending answers first. */
    void (*on_quit)(void *arg, int now);
};

struct ag_job_opts {
    struct agent_core *core;
    struct clients *clients;
    struct log_source *logs; /* filled in by AG_JOB_SETUP */
    struct kept_data *kept;
    unsigned first_lease_ms; /* the client's lease until AG_JOB_SETUP sets another */
    const struct ag_job_events *events;
    void *arg;
};

/* Handles AG_JOB_SETUP, AG_JOB_PEERS, AG_JOB_RUN, AG_JOB_HEAD, AG_STOP. The context is the struct
 * ag_job *, or NULL if this agent runs no job. */
extern const struct client_service ag_job_service;

int ag_job_new(struct ag_job **out, const struct ag_job_opts *o, struct pd_err *err);
void ag_job_free(struct ag_job *j); /* after the loop has ended; NULL is allowed */

void ag_job_tick(struct ag_job *j, uint64_t passed_ms); /* leases */
/* The job runs, and its leases are long: the next tick may come so much later. 0: it may not. */
uint64_t ag_job_calm_ms(const struct ag_job *j);
/* A client sent AG_BYE. Before AG_JOB_SETUP the agent quits then, unless the client is spare
 * (client_is_spare) and does not abandon the job. */
void ag_job_bye(struct ag_job *j, int abandon, int detach, int is_spare);
/* Ends the processes, then the agent. Unless the job is over, `reason` becomes its failure. With
 * role "agent" the node leaves the job, and a job that may restart continues without it. */
void ag_job_end(struct ag_job *j, unsigned grace_ms, const char *role, const char *reason);
void ag_job_close(struct ag_job *j); /* the agent ends: closes every handle */
/* Some time after ag_job_close: closes the remaining connections at once. */
void ag_job_cut(struct ag_job *j);

/* The context of file_fetch_service. */
struct file_fetch *const *ag_job_files(const struct ag_job *j);
/* The lost nodes, known to the head only: array of {node, host, reason}. A new reference. */
json_t *ag_job_lost_nodes(const struct ag_job *j);
/* Data files with fewer copies than data_copies, known to the head only. */
struct file_few ag_job_few(const struct ag_job *j);
/* The result of status_state (a new reference). NULL: the job is not set up, or is being closed. */
json_t *ag_job_state(const struct ag_job *j);
/* The node of the head, as far as this node knows. */
int ag_job_head(const struct ag_job *j);
/* The result is in no file: the disk is full or read-only. */
int ag_job_unwritten(const struct ag_job *j);
/* This node has started a process; on the head's node: any node has. */
int ag_job_started(const struct ag_job *j);
