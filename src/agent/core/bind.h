/* bind.h - which CPUs the processes of a node get: whole physical cores or whole NUMA nodes, dealt
 * by the processes' threads, or the node's part of a machine that several nodes of the job share.
 *
 *     CPUs that the agent may use ─▶ cores or NUMA nodes, in order of nearness
 *        ─▶ one run of them for each agent of the machine that has processes
 *           ─▶ one run for each process
 *
 * Sets are disjoint while there are enough cores (NUMA nodes). Otherwise processes, then agents,
 * share them, and `shared` says so.
 *
 * BIND_AUTO stops before the last step: the processes of an agent share its run of cores, since a
 * server works while its trainer waits. It binds only where several agents share a machine and its
 * cores can be divided evenly. The kernel wakes a process on the core of its waker; without the
 * binding it puts the servers of two agents on one core (measured: a fifth of a step with 2
 * trainers, 2 servers, 2 cores).
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

/* The part of agent `index` of the `count` agents that share this machine. Every weight is at least
 * 1; 0 < n <= BIND_MAX. */
void bind_deal(const struct pd_cpus *c, enum bind_how how, int index, int count,
               const unsigned weight[], int n, struct bind_set out[]);

/* How many of these CPUs an agent has. A program that starts a thread for each CPU starts so many.
 */
int bind_agent_cpus(const struct pd_cpus *c, enum bind_how how, int index, int count);

/* Binds the calling process; exec inherits it. Async-signal-safe. 0, or -1 with errno. A kernel
 * without the memory policy ignores that part. */
int bind_apply(const struct bind_set *s);

#endif
