/* SPDX-License-Identifier: Apache-2.0 */
/* bind.c - see bind.h. */
#include "agent/host/bind.h"

#include <sched.h>
#include <sys/syscall.h>

/* <linux/mempolicy.h> is not installed everywhere. */
enum { POLICY_PREFERRED = 1, POLICY_PREFERRED_MANY = 5 };

const char *const bind_names[N_BINDS] = {"none", "auto", "cores", "numa"};

int bind_of(const char *name) {
    for (int i = 0; i < N_BINDS; i++)
        if (!strcmp(name, bind_names[i]))
            return i;
    return -1;
}

/* The CPUs are sorted: a new core or NUMA node begins where its number changes. */
static int begins_unit(const struct pd_cpus *c, enum bind_how how, int i) {
    const struct pd_cpu *v = c->v;
    return !i || v[i].node != v[i - 1].node || (how != BIND_NUMA && v[i].core != v[i - 1].core);
}

static int count_units(const struct pd_cpus *c, enum bind_how how) {
    int n = 0;
    for (int i = 0; i < c->n; i++)
        n += begins_unit(c, how, i);
    return n;
}

/* Units [lo, hi) of agent `index`. If there are fewer units than agents, neighbouring agents share
 * a unit. */
static void agent_units(int units, int index, int count, int *lo, int *hi) {
    *lo = (int)((long)units * index / count);
    *hi = (int)((long)units * (index + 1) / count);
    if (*hi == *lo)
        *hi = *lo + 1;
}

static void fill(const struct pd_cpus *c, enum bind_how how, int lo, int hi, struct bind_set *s) {
    int unit = -1;
    for (int i = 0; i < c->n; i++) {
        unit += begins_unit(c, how, i);
        if (unit < lo || unit >= hi)
            continue;
        pd_cpuset_add(&s->cpus, c->v[i].id);
        if (how == BIND_NUMA && pd_cpuset_has(&c->memory, c->v[i].node))
            pd_cpuset_add(&s->memory, c->v[i].node);
    }
}

void bind_deal(const struct pd_cpus *c, enum bind_how how, int index, int count,
               const unsigned weight[], int n, struct bind_set out[]) {
    int units = count_units(c, how), lo, hi, share[BIND_MAX];
    assert(n > 0 && n <= BIND_MAX);
    agent_units(units, index, count, &lo, &hi);
    if (how == BIND_AUTO) {
        for (int i = 0; i < n; i++) {
            out[i] = (struct bind_set){.on = count > 1 && units % count == 0};
            if (out[i].on)
                fill(c, how, lo, hi, &out[i]);
        }
        return;
    }
    int crowded = hi - lo < n;
    for (int i = 0; i < n; i++)
        share[i] = 1;
    for (int left = hi - lo - n; left > 0;
         left--) { /* the next unit goes to the process with the fewest units per thread */
        int best = 0;
        for (int i = 1; i < n; i++)
            if ((uint64_t)weight[i] * (uint64_t)(share[best] + 1) >
                (uint64_t)weight[best] * (uint64_t)(share[i] + 1))
                best = i;
        share[best]++;
    }
    for (int i = 0, at = lo; i < n; at += share[i], i++) {
        out[i] = (struct bind_set){.on = 1, .shared = crowded || units < count};
        fill(c, how, crowded ? lo : at, crowded ? hi : at + share[i], &out[i]);
    }
}

int bind_agent_cpus(const struct pd_cpus *c, enum bind_how how, int index, int count) {
    struct bind_set s;
    const unsigned one = 1;
    bind_deal(c, how, index, count, &one, 1, &s);
    return pd_cpuset_count(&s.cpus);
}

int bind_apply(const struct bind_set *s) {
    if (sched_setaffinity(0, sizeof s->cpus.w, (const cpu_set_t *)s->cpus.w))
        return -1;
    int n = pd_cpuset_count(&s->memory);
    if (n)
        (void)syscall(SYS_set_mempolicy, n > 1 ? POLICY_PREFERRED_MANY : POLICY_PREFERRED,
                      s->memory.w, (unsigned long)PD_CPUS_MAX);
    return 0;
}
