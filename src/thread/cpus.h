/* SPDX-License-Identifier: Apache-2.0 */
/* cpus.h - the CPUs that a process may use, and how they form physical cores and NUMA nodes.
 *
 *     DIR/cpu/cpuN/{online, topology/thread_siblings_list}   hyperthreads of one core
 *     DIR/node/nodeN/cpulist, DIR/node/has_memory            which memory is near
 *
 * DIR is normally PD_SYS_DEVICES. Where files are missing (a container may hide them) the simplest
 * machine is assumed: each CPU is a core, and all memory is equally near. */
#pragma once

enum { PD_CPUS_MAX = 4096, PD_CPU_WORDS = PD_CPUS_MAX / (8 * (int)sizeof(unsigned long)) };
#define PD_SYS_DEVICES "/sys/devices/system"

/* Bits as sched_setaffinity takes them. Also a set of NUMA nodes. */
struct pd_cpuset {
    unsigned long w[PD_CPU_WORDS];
};

void pd_cpuset_add(struct pd_cpuset *s, int cpu); /* 0..PD_CPUS_MAX-1 */
int pd_cpuset_has(const struct pd_cpuset *s, int cpu);
int pd_cpuset_count(const struct pd_cpuset *s);
/* Parse "0-3,8" as the kernel writes it, with or without a newline at the end; -1: not such a list,
 * or a number is too large. */
int pd_cpuset_parse(struct pd_cpuset *s, const char *list);
/* Format as such a list. If `out` is too small, the list is cut and ends with "...". */
void pd_cpuset_text(const struct pd_cpuset *s, char *out, size_t cap);
/* The CPUs of the calling thread; 0, or -1 with errno. */
int pd_cpuset_mine(struct pd_cpuset *s);

struct pd_cpu {
    int id;
    int core; /* lowest CPU of the physical core, even if this process may not use that CPU */
    int node; /* NUMA node */
};

/* Sorted by node, core and id, so that neighbours in the list are near each other. */
struct pd_cpus {
    struct pd_cpu *v;
    int n;
    struct pd_cpuset memory; /* NUMA nodes with memory */
    int n_memory;            /* 0: unknown */
};

/* Read the CPUs of `may` that are online. PD_ENOMEM; PD_EHOST: none is online. */
int pd_cpus_read(struct pd_cpus *out, const char *dir, const struct pd_cpuset *may,
                 struct pd_err *err);
void pd_cpus_release(struct pd_cpus *c);

/* Pin the calling thread, the i-th of its process, to physical core i modulo the number of cores in
 * `c`. 0, or -1 with errno. */
int pd_pin_thread(const struct pd_cpus *c, unsigned i);
