/* SPDX-License-Identifier: Apache-2.0 */
/* bind.h - divides a machine's CPUs among the processes of a node. A process gets whole physical
 * cores or whole NUMA nodes, in proportion to its threads. With BIND_AUTO, all processes of a node
 * get the node's part of a machine that several nodes share.
 *
 *     CPUs that the agent may use ─▶ cores or NUMA nodes, neighbours adjacent
 *        ─▶ one contiguous range for each agent of the machine that has processes
 *           ─▶ one contiguous range for each process
 *
 * The sets are disjoint if there are enough cores (NUMA nodes). Otherwise first processes, then
 * agents share them, and `shared` is set.
 *
 * BIND_AUTO omits the last step: the processes of an agent share its range, because a server works
 * while its trainer waits. BIND_AUTO binds only if several agents share a machine and its cores can
 * be divided evenly. The kernel wakes a process on the core of its waker. Without binding, the
 * servers of two agents end up on one core (measured: a fifth of a step with 2 trainers, 2 servers,
 * 2 cores). */
#pragma once

#include "thread/cpus.h"

enum { BIND_MAX = 8 }; /* processes of a node */
enum bind_how { BIND_NONE, BIND_AUTO, BIND_CORES, BIND_NUMA, N_BINDS };
extern const char *const bind_names[N_BINDS]; /* "none", "auto", "cores", "numa" */
int bind_of(const char *name);                /* -1: not a name of bind_names */

struct bind_set {
    int on; /* 0: the process is not bound; the other fields are empty */
    struct pd_cpuset cpus;
    struct pd_cpuset memory; /* NUMA nodes to prefer; empty: no policy */
    int shared; /* 1: another process of this node or another agent has the same CPUs */
};

/* Divides the part of agent `index` of the `count` agents on this machine among its n processes.
 * weight[i] is the number of threads of process i, at least 1; 0 < n <= BIND_MAX (asserted). */
void bind_deal(const struct pd_cpus *c, enum bind_how how, int index, int count,
               const unsigned weight[], int n, struct bind_set out[]);

/* The number of CPUs in the part of an agent: the threads of a program that starts one for each
 * CPU. */
int bind_agent_cpus(const struct pd_cpus *c, enum bind_how how, int index, int count);

/* Binds the calling process; exec inherits it. Async-signal-safe. 0, or -1 with errno. A kernel
 * without the memory policy ignores that part. */
int bind_apply(const struct bind_set *s);
