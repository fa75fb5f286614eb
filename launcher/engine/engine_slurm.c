/* SPDX-License-Identifier: Apache-2.0 */
/* engine_slurm.c - engine = slurm: the nodes of the Slurm allocation that paddlectl runs in. srun
 * starts a shell on each of them, as a step that shares the allocation with other steps. */

#include "launcher/engine/slurm.h"
#include "launcher/hosts/host_source.h"

/* --overlap, --mem=0: a step takes all of the allocation otherwise, and the next one waits.
 * --unbuffered: bytes pass at once, not line by line. --wait: srun may wait for ever otherwise. */
#define STEP "srun --overlap --mem=0 --mpi=none --cpu-bind=none --kill-on-bad-exit"
#define LAUNCH " --wait=30 --nodes=%lld --ntasks=%lld --ntasks-per-node=1"
#define CONNECT " --unbuffered --nodes=1 --ntasks=1 --nodelist=%h"

static int is_inside(void) {
    const char *nodes = getenv("SLURM_JOB_NODELIST");
    return nodes && *nodes;
}

/* In an allocation, all agents start by one step: a step per host costs the controller. Node i of
 * the list is rank i. Hosts or a command of the user's own: a step per host. */
static int options_of_launch(struct pd_options *o, struct pd_err *err) {
    const char *nodes = getenv("SLURM_JOB_NUM_NODES");
    struct pd_buf launch = {0};
    int64_t n;
    if (*o->allocation || !is_inside() || !nodes || pd_parse_i64(nodes, 1, INT32_MAX, &n) ||
        o->origin[pd_options_find("hosts", PD_LAUNCHER)].level != PD_FROM_DEFAULT ||
        (*o->connect &&
         o->origin[pd_options_find("connect", PD_LAUNCHER)].level != PD_FROM_DEFAULT))
        return 0;
    pd_put_fmt(&launch, STEP LAUNCH, (long long)n, (long long)n);
    pd_put_u8(&launch, 0);
    int rc = launch.failed ? pd_oom(err, "the options of engine = slurm")
                           : engine_set(o, "launch", (char *)launch.data, err);
    pd_buf_release(&launch);
    return rc;
}

static int options(struct pd_options *o, struct pd_err *err) {
    struct pd_buf hosts = {0}, connect = {0};
    pd_put_fmt(&connect, STEP);
    if (*o->allocation) {
        pd_put_fmt(&hosts, "$(squeue --noheader --format=%%N --jobs=");
        pd_put_quoted(&hosts, o->allocation);
        pd_put_fmt(&hosts, ")");
        pd_put_fmt(&connect, " --jobid=%s", o->allocation);
    } else {
        pd_put_fmt(&hosts, "slurm");
    }
    pd_put_u8(&hosts, 0);
    pd_put(&connect, CONNECT, sizeof CONNECT);
    int rc = hosts.failed || connect.failed ? pd_oom(err, "the options of engine = slurm") : 0;
    rc = rc ? rc : engine_set(o, "hosts", (char *)hosts.data, err);
    rc = rc ? rc : engine_set(o, "connect", (char *)connect.data, err);
    rc = rc ? rc : options_of_launch(o, err);
    /* the time limit ends the job as Ctrl-C does */
    rc = rc ? rc : engine_set(o, "save_on_stop", "1", err);
    pd_buf_release(&hosts);
    pd_buf_release(&connect);
    return rc;
}

/* "[D-]HH:MM:SS" or "MM:SS" -> seconds; -1: no time, as in "UNLIMITED" */
static int64_t seconds_of(const char *text) {
    int64_t days = 0, rest = 0, n;
    const char *dash = strchr(text, '-');
    char part[16];
    if (dash) {
        pd_fmt(part, sizeof part, "%.*s", (int)(dash - text), text);
        if (pd_parse_i64(part, 0, 100000, &days))
            return -1;
        text = dash + 1;
    }
    for (;; text++) {
        int len = (int)strcspn(text, ":");
        if (pd_fmt(part, sizeof part, "%.*s", len, text) || pd_parse_i64(part, 0, 100000, &n))
            return -1;
        rest = rest * 60 + n;
        text += len;
        if (!*text)
            return days * 86400 + rest;
    }
}

/* The kernel sends SIGTERM to this process save_time before the time limit: Slurm itself would only
 * signal the processes on the nodes, all at once. */
static int watch_time_limit(const struct pd_options *o, struct pd_err *err) {
    struct pd_buf text = {0};
    int rc = host_source_run("squeue --noheader --format=%L --jobs=\"$SLURM_JOB_ID\"",
                             "the time limit of the allocation", &text, err);
    pd_put_u8(&text, 0);
    int64_t left = rc || text.failed ? -1 : seconds_of(pd_trim((char *)text.data));
    pd_buf_release(&text);
    if (rc && err)
        err->code = rc = PD_EHOST;
    if (rc || left < 0)
        return rc;
    struct sigevent ev = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGTERM};
    struct itimerspec at = {.it_value.tv_nsec = 1};
    timer_t timer;
    if (left > (int64_t)o->save_time)
        at.it_value.tv_sec = left - (int64_t)o->save_time;
    if (timer_create(CLOCK_MONOTONIC, &ev, &timer) || timer_settime(timer, 0, &at, NULL))
        return pd_fail_errno(err, PD_EFAIL, errno, "cannot watch the allocation's time limit");
    return 0;
}

static int outside(const struct pd_options *o, const struct engine_call *call, int *status,
                   struct pd_err *err) {
    const int hosts = pd_options_find("hosts", PD_LAUNCHER);
    if (*o->allocation || o->origin[hosts].level != PD_FROM_DEFAULT || call->dry_run)
        return 0; /* the user knows where */
    if (is_inside())
        return watch_time_limit(o, err);
    int rc = engine_needs(o, call->detach ? "sbatch" : "salloc", err);
    if (rc)
        return rc;
    return call->detach ? slurm_batch(o, call->argv, status, err)
                        : slurm_allocation(o, call->argv, status, err);
}

static int prepare(struct engine_run *run, const struct pd_options *o, struct pd_err *err) {
    /* The options of salloc and sbatch for the tasks of a program are not meant for the agents,
     * which need all CPUs of a node. */
    static const char *const of_tasks[] = {
        "SLURM_CPUS_PER_TASK",   "SRUN_CPUS_PER_TASK",     "SLURM_NTASKS_PER_NODE",
        "SLURM_NTASKS_PER_CORE", "SLURM_THREADS_PER_CORE", "SLURM_DISTRIBUTION",
        "SLURM_EXACT",           "SLURM_EXCLUSIVE"};
    const char *text = getenv("SLURM_JOB_NUM_NODES");
    int64_t n;
    (void)run;
    for (size_t i = 0; i < sizeof of_tasks / sizeof of_tasks[0]; i++)
        unsetenv(of_tasks[i]);
    if (!*o->allocation && is_inside() && text && !pd_parse_i64(text, 0, INT64_MAX, &n) &&
        n < o->nodes)
        return pd_fail(err, PD_EHOST, "the Slurm allocation has %lld nodes, not %lld (%s)",
                       (long long)n, (long long)o->nodes,
                       o->origin[pd_options_find("nodes", PD_LAUNCHER)].where);
    return engine_needs(o, "srun", err);
}

const struct engine engine_slurm = {.name = "slurm",
                                    .options = options,
                                    .outside = outside,
                                    .ended = slurm_allocation_ended,
                                    .prepare = prepare};
