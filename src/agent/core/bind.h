/* bind.h - which CPUs the processes of a node get: whole physical cores or whole NUMA nodes, dealt
 * by their threads, or the node's part of a machine that several nodes of the job share.
 *
 *     CPUs that the agent may use ─▶ cores or NUMA nodes, in order of nearness
 *        ─▶ one run of them for each agent of the machine that has processes ─▶ one run for each process
 *
 * Sets are disjoint while there are enough cores (nodes); else processes, then agents, share them
 * and `shared` says so. BIND_AUTO stops before the last step: the processes of an agent share its
 * run of cores. They take turns, a server works while its trainer waits, and the kernel, which
 * wakes a process where its waker runs, is kept from putting the servers of two agents on one core
 * (measured: a fifth of a step in a lockstep of 2 trainers and 2 servers on two cores). It binds
 * only where several agents share a machine and its cores can be divided evenly.
 */
#ifndef PD_AGENT_BIND_H
#define PD_AGENT_BIND_H

#include "thread/cpus.h"

enum { BIND_MAX = 8 }; /* processes of a node */
enum bind_how { BIND_NONE, BIND_AUTO, BIND_CORES, BIND_NUMA, N_BINDS };
extern const char *const bind_names[N_BINDS]; /* "none", "auto", "cores", "numa" */
int bind_of(const char *name);                /* -1: none of them */

struct bind_set {
    int on; /* 0: all CPUs, as before; the rest is empty */
    struct pd_cpuset cpus;
    struct pd_cpuset memory; /* NUMA nodes to prefer; empty: no policy */
    int shared;              /* with another process of this node or another agent */
};

/* The part of agent `index` of the `count` that share this machine. Every weight is at least 1; 0 <
 * n <= BIND_MAX. */
void bind_deal(const struct pd_cpus *c, enum bind_how how, int index, int count,
               const unsigned weight[], int n, struct bind_set out[]);

/* How many of these CPUs are an agent's: what a program that starts a thread for each would start.
 */
int bind_agent_cpus(const struct pd_cpus *c, enum bind_how how, int index, int count);

/* For the calling process, to be inherited by exec. Async-signal-safe. bind_apply: 0 or -1 with
 * errno; the memory policy is a wish: a kernel that knows none, or not this one, changes nothing.
 */
int bind_apply(const struct bind_set *s);

#endif
