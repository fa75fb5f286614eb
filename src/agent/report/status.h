/* status.h - what can be said of a job on this node, while it runs and afterwards: AG_STATUS, and
 * the rows of AG_LIST.
 *
 *     ROOT/JOB/.agent/state.json   times, processes and how they ended: what a client asks for
 *                                  later and result.json does not tell. Written again whenever it
 *                                  changes; it outlives the agent.
 *
 * A job without an agent and without a result is "lost": its agent and guardians were killed, or
 * the machine was.
 */
#ifndef PD_AGENT_STATUS_H
#define PD_AGENT_STATUS_H

#include <jansson.h>

#include "agent/core/agent_core.h"
#include "agent/logs/logs.h"

/* A job that was set up. Times are microseconds since 1970, 0: not yet. */
struct status_job {
    int node, n_nodes, attached;
    uint64_t started_us, ended_us;
    unsigned restarts;
    json_t *processes; /* node_processes; taken over by status_state */
};

/* The content of state.json. NULL: out of memory. */
json_t *status_state(const struct agent_core *core, const struct status_job *j);
/* Writes it and takes it over. A failure is logged, it fails nothing. */
void status_save(const struct agent_core *core, json_t *state);
/* state.json of a job (NULL: none that can be read). */
json_t *status_read(const struct node_paths *p);

/* A row of AG_LIST. NULL: out of memory. */
json_t *status_brief(const struct node_paths *p);

struct status_now {
    const char *state, *text; /* of AG_STATE */
    json_t *job;              /* status_state, taken over; NULL: state.json has what is known */
    json_t *lost;             /* nodes that the job went on without; taken over */
    struct logs *logs;        /* NULL: none */
    unsigned clients;         /* how many others there are */
};

/* The body of AG_STATUS. NULL: out of memory. */
json_t *status_full(const struct agent_core *core, struct status_now *now);

#endif
