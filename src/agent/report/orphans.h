/* orphans.h - jobs whose agent and guardians were all killed. Their processes are found by the
 * job's id in their environment, and ended. */
#ifndef PD_AGENT_ORPHANS_H
#define PD_AGENT_ORPHANS_H

#include <stdint.h>

#include "agent/core/node_paths.h"

/* The job's agent answers; or, although nobody does, it may be there: stopped, or on another
 * machine that has this folder. */
int orphans_may_run(const struct node_paths *p);

/* End what is left of one job's node, among the processes that started at `since` (ticks since
 * boot) or later. Returns how many there were. */
int orphans_end(const struct node_paths *p, uint64_t since, unsigned grace_ms);

/* The same for every lost job under root that ran on this boot of this machine; says on stderr, and
 * in the job's log/agent.log, what it ended. Called by whatever command comes to this node next. */
void orphans_reap(const char *root);

#endif
