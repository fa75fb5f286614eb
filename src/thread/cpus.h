/* cpus.h - the CPUs that a process may use, and how they make up physical cores and NUMA nodes.
 *
 *     DIR/cpu/cpuN/{online, topology/thread_siblings_list}   hyperthreads of one core
 *     DIR/node/nodeN/cpulist, DIR/node/has_memory            which memory is near
 *
 * DIR is normally PD_SYS_DEVICES. What it does not tell (a container may hide it) is taken as the
 * simplest machine: each CPU is a core, all are near to all memory.
 */
#ifndef PD_BASE_CPUS_H
#define PD_BASE_CPUS_H

#include <stddef.h>

#include "base/err.h"

enum { PD_CPUS_MAX = 4096, PD_CPU_WORDS = PD_CPUS_MAX / (8 * (int)sizeof(unsigned long)) };
#define PD_SYS_DEVICES "/sys/devices/system"

/* Bits as sched_setaffinity takes them; also used for sets of NUMA nodes. */
struct pd_cpuset {
    unsigned long w[PD_CPU_WORDS];
};

void pd_cpuset_add(struct pd_cpuset *s, int cpu); /* 0..PD_CPUS_MAX-1 */
int pd_cpuset_has(const struct pd_cpuset *s, int cpu);
int pd_cpuset_count(const struct pd_cpuset *s);
/* "0-3,8" as the kernel writes it, a newline at the end allowed; -1 when it is no such list or a
 * number is too large. */
int pd_cpuset_parse(struct pd_cpuset *s, const char *list);
/* The same back; what does not fit is left out, and "..." says so. */
void pd_cpuset_text(const struct pd_cpuset *s, char *out, size_t cap);
int pd_cpuset_mine(struct pd_cpuset *s); /* of the calling thread; 0 or -1 with errno */

struct pd_cpu {
    int id;
    int core; /* the lowest CPU of its physical core, which need not be one that may be used */
    int node; /* NUMA node */
};

/* Sorted by node, core, id: neighbours are near to each other. */
struct pd_cpus {
    struct pd_cpu *v;
    int n;
    struct pd_cpuset memory; /* NUMA nodes that have any */
    int n_memory;            /* 0: the machine does not tell */
};

/* Of the CPUs in `may` those that are online. PD_ENOMEM, or PD_EHOST when none is. */
int pd_cpus_read(struct pd_cpus *out, const char *dir, const struct pd_cpuset *may,
                 struct pd_err *err);
void pd_cpus_release(struct pd_cpus *c);

/* Pin the calling thread, the i-th of its process, to the i-th physical core of `c`, in turn. 0 or
 * -1 with errno. */
int pd_pin_thread(const struct pd_cpus *c, unsigned i);

#endif
