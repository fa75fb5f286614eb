/* SPDX-License-Identifier: Apache-2.0 */
/* status.h - the state of a job on this node, during and after its run: AG_STATUS, and the rows of
 * AG_LIST.
 *
 *     ROOT/JOB/.agent/state.json   times, processes and their ends: the facts for later clients
 *                                  that result.json lacks. Rewritten whenever the state changes;
 *                                  outlives the agent.
 *
 * A job without an agent and without a result is "lost": its agent and guardians were killed, or
 * the machine was restarted. */
#pragma once

#include <jansson.h>

#include "agent/core/agent_core.h"
#include "agent/logs/logs.h"

/* A job that was set up. Times are microseconds since 1970; 0: not yet. */
struct status_job {
    const char *name;
    int node, n_nodes, head, attached;
    uint64_t started_us, ended_us;
    unsigned restarts;
    json_t *processes;             /* from node_processes; status_state takes it over */
    json_t *lost;                  /* the head: the lost nodes; taken over, too */
    int64_t few_copies, few_bytes; /* the head: data files with too few copies */
};

/* The content of state.json, a new reference. NULL: out of memory. */
json_t *status_state(const struct agent_core *core, const struct status_job *j);
/* Writes state.json and takes `state` over. A failure is only logged. */
void status_save(const struct agent_core *core, json_t *state);
/* The state.json of a job, a new reference. NULL: it can't be read. */
json_t *status_read(const struct node_paths *p);

/* 1: the agent that began at `since` (ticks since boot; 0: unknown) still exists here, or an agent
 * of the job answers. A connection would cost each of a thousand agents an AG_HELLO. */
int status_agent_lives(const struct node_paths *p, uint64_t since);

/* The rows of AG_LIST, a new reference: the jobs below `root`. With `progress` they have the node's
 * last progress event. Sets *orphans to 1 if processes of a job without an agent may run here
 * (orphans_reap). NULL: out of memory. */
json_t *status_list(const char *root, int progress, int *orphans);

struct status_now {
    const char *state, *text; /* as in AG_STATE */
    json_t *job;              /* from status_state, taken over; NULL: state.json is read instead */
    json_t *lost;             /* the lost nodes; taken over */
    struct logs *logs;        /* NULL: none */
    unsigned clients;         /* number of other clients */
};

/* The body of AG_STATUS, a new reference. NULL: out of memory. */
json_t *status_full(const struct agent_core *core, struct status_now *now);

/* A new reference. */
json_t *status_user_name(uid_t id);
