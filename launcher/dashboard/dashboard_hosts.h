/* SPDX-License-Identifier: Apache-2.0 */
/* dashboard_hosts.h - the jobs on the hosts of conf.ini, also those that another user or another
 * folder has started, as `paddlectl ps` sees them:
 *
 *     agents <── AG_LIST ── dashboard_hosts.c (a thread) ── hosts_picture ──> the server's thread
 *
 * The thread joins no job and claims none: it keeps one connection to each host, and asks for the
 * list of jobs. A host that does not answer is asked again, after 5 s at first, a minute at most.
 * The thread asks only while somebody reads the page or the metrics, and takes at most about
 * 0.2 % of a core: the time until it asks again is 500 times the CPU time of the last round, at
 * least 2 s and at most a minute. A host with many jobs is asked less often, for the sake of that
 * host. */
#pragma once

#include "conf/options.h"
#include "launcher/view/progress.h"

/* Jobs that are shown: those that run, and the newest that have ended. */
enum { DASHBOARD_HOST_JOBS = 64, DASHBOARD_HOST_ENDED = 8 };

/* A page asks once a minute at least. Without a question for so long no host is asked, and an older
 * picture is no longer shown. */
enum { HOSTS_LOOKED_US = 90000000 };

struct host_job { /* as the agents say; texts are UTF-8 without control characters */
    char id[64], name[64], user[64], state[16];
    int n_running, n_having, n_nodes, n_lost, is_attached, has_progress;
    int is_elsewhere; /* under another root_dir: only id, user, start and hosts are known */
    int64_t started_ms, ended_ms; /* 0: not known, or not ended */
    int64_t changed_ms;           /* when this dashboard saw the job's progress move; 0: never */
    struct progress progress;
};

struct host_state {
    char *name, *error; /* error: why it does not answer; NULL: it does, or was not asked yet */
    int has_answered;   /* its jobs are in the picture */
};

struct hosts_picture {
    struct host_job *jobs; /* the newest first, then those of other root_dirs */
    size_t n_jobs, n_all;  /* those that are shown; all jobs that the hosts have */
    int64_t made_us;       /* monotonic clock */
    struct host_state *hosts;
    size_t n_hosts, n_answered;
};

struct dashboard_hosts;

/* Starts the thread. Signals are blocked in the caller. `o` stays in use. An error is one of the
 * configuration; the hosts cannot be asked. */
int dashboard_hosts_start(struct dashboard_hosts **out, const struct pd_options *o,
                          struct pd_err *err);
void dashboard_hosts_stop(struct dashboard_hosts *h); /* NULL is fine */
/* Somebody looks: the newest picture, which the caller releases; NULL: nothing new since the last
 * call. From any one thread. */
struct hosts_picture *dashboard_hosts_take(struct dashboard_hosts *h);
void hosts_picture_release(struct hosts_picture *p); /* NULL is fine */
