/* SPDX-License-Identifier: Apache-2.0 */
/* orphans.h - lost jobs, whose agent and guardians were all killed. Finds their processes by the
 * job's id in the environment, and ends them. */
#pragma once

#include "agent/core/node_paths.h"

/* 1: the job's agent answers, or may exist. An agent that does not answer may be stopped, or run on
 * another machine that shares this folder. */
int orphans_may_run(const struct node_paths *p);

/* Ends the remaining processes of one node of a job, if they started at `since` (ticks since boot)
 * or later. Blocks. Returns the number of processes found. */
int orphans_end(const struct node_paths *p, uint64_t since, unsigned grace_ms);

/* The same for every lost job under root that ran since this machine's last boot. Reports the ended
 * processes on stderr and in the job's log/agent.log. The next command that reaches this node calls
 * this function. */
void orphans_reap(const char *root);
