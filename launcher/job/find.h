/* find.h - the jobs that the nodes know of, and the one that the user means.
 *
 * All that is known of a job lies on its nodes: every host of conf.ini is asked (AG_LIST) and what
 * they say is put together. Hosts that can't be reached are the caller's to name (ask_all_report);
 * the rest is done all the same.
 *
 *     ask_all_init, find_jobs -> find_choose -> find_join, ask_all_run(...) -> ask_all_release,
 * find_release
 */
#ifndef LAUNCHER_FIND_H
#define LAUNCHER_FIND_H

#include "launcher/link/ask_all.h"

struct found_job {
    char id[64], user[64],
        state[16]; /* "running" while an agent anywhere answers; else node 0's result, or any */
    int n_running, n_here; /* hosts that run it, that have it */
    int n_nodes, attached;
    int64_t started_us, ended_us; /* the earliest, the latest; 0: not known or not yet */
    struct found_at {
        int node; /* the job's id of this node; -1: unknown, or the job is not here */
        int here, runs;
        char state[16];
    } * at; /* index: host of conf.ini */
};

struct found {
    struct found_job *v; /* the newest first */
    size_t n;
};

/* Ask all hosts; their links are kept for find_join. Returns PD_ECANCELED when interrupted,
 * PD_ENOMEM. */
int find_jobs(struct ask_all *g, struct found *out, struct pd_err *err);
/* What one of n_hosts says of its jobs (AG_LIST). An entry whose id can't name a folder is not
 * taken. 0 or PD_ENOMEM. */
int find_add(struct found *f, const json_t *jobs, size_t host, size_t n_hosts);
void find_release(struct found *f);

/* Which job is meant when none is named: the only one that runs; or, when that is none or several,
 * the newest. */
enum find_which { FIND_RUNNING, FIND_NEWEST };

/* The job that `want` names: an id, a unique prefix of one (with or without JOB) or a unique end,
 * "latest", or NULL. PD_EUSAGE when it may be several, which are listed; PD_ENOENT when it is none.
 */
int find_choose(const struct found *f, const char *want, enum find_which which,
                const struct found_job **job, struct pd_err *err);

/* The next ask_all_run talks to the agents of this job, on the hosts that have it (`running`: that
 * run it), once for each node of the job. Returns how many these are. */
int find_join(struct ask_all *g, const struct found_job *job, int running);

#endif
