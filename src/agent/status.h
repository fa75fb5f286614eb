/* status.h - what can be said of a job on this node, while it runs and afterwards: AG_STATUS and the rows of AG_LIST.
 *
 *     ROOT/JOB/.agent/state.json   what result.json does not tell and a client asks for later: times, processes and how
 *                                  they ended. Written again whenever it changes; it outlives the agent.
 *
 * A job without an agent and without a result is "lost": agent and guardians were killed, or the machine was.
 */
#ifndef PD_AGENT_STATUS_H
#define PD_AGENT_STATUS_H

#include <jansson.h>

#include "agent/agent.h"

/* Write state.json; a job that was not set up has none. A failure is logged, it fails nothing. */
void status_save(struct agent *ag);

/* state.json of a job (NULL: none that can be read). */
json_t *status_read(const struct place *p);

/* A row of AG_LIST. NULL: out of memory. */
json_t *status_brief(const struct place *p);

/* The body of AG_STATUS. `clients`: how many others there are. NULL: out of memory. */
json_t *status_full(struct agent *ag, unsigned clients);

#endif
