/* SPDX-License-Identifier: Apache-2.0 */
/* find.h - finds the jobs on the hosts, and selects the one that the user named.
 *
 * Only its nodes know a job: find_jobs asks every host of conf.ini (AG_LIST) and merges the
 * answers. Unreachable hosts are no error here; the caller names them (ask_all_report).
 *
 *     ask_all_init, find_jobs -> find_choose -> find_join, ask_all_run(...)
 *         -> ask_all_release, find_release
 */
#pragma once

#include "launcher/link/ask_all.h"

struct found_job {
    /* state: "running" while any agent of the job answers, "preparing" before it is set up; else
     * the result of the head, or of any node. Names are printable. */
    char id[64], name[64], user[64], state[16];
    int n_running, n_having; /* number of hosts that run the job, that have its folder */
    int n_nodes, attached;
    int head;                      /* the node of the head: the highest one that a node names */
    int64_t started_us, ended_us;  /* earliest start, latest end; 0: not known or not ended */
    json_t *progress;              /* of the lowest rank; NULL: none, or not asked for */
    json_t *lost;                  /* array of wire_lost_node, as the head says; NULL: none */
    int64_t few_copies, few_bytes; /* data files with fewer copies than data_copies */
    struct found_host {
        int node; /* node id in the job; -1: unknown, or the host has no such job */
        int has_job, runs;
        char state[16];
    } * host; /* index: host of conf.ini */
};

struct found {
    struct found_job *v; /* newest first */
    size_t n, cap;
    size_t *places, n_places; /* while answers are merged: 1 + index in v, by a hash of the id */
    int n_unreachable;        /* hosts that did not answer: they may have jobs */
};

/* Ask all hosts, with `progress` also for the last progress of each job; keeps their links open for
 * find_join. Returns PD_ECANCELED after Ctrl-C, PD_ENOMEM. */
int find_jobs(struct ask_all *g, int progress, struct found *out, struct pd_err *err);
/* For a node on this machine: reads its jobs from its folder into n->data, and, unless `others` is
 * NULL, those of all users on this machine (wire_other_job). 1, or 0: paddle_agent has to look. */
int find_here(struct ask_all_node *n, int progress, json_t **others);
/* Add the answer of one of n_hosts (AG_LIST). Ignores entries whose id is no valid folder name.
 * Returns 0 or PD_ENOMEM. */
int find_add(struct found *f, const json_t *jobs, size_t host, size_t n_hosts);
int find_is_id(const char *s); /* whether a job may have this id: it is a valid folder name */
/* Merge the answers that g's nodes have in `data` (AG_LIST's `jobs`; NULL: none). 0 or PD_ENOMEM.
 */
int find_merge(const struct ask_all *g, struct found *out, struct pd_err *err);
void find_release(struct found *f);

/* The job that is meant if the user names none. FIND_RUNNING: the only running job. FIND_NEWEST:
 * the only running job, or the newest job if none or several run. */
enum find_which { FIND_RUNNING, FIND_NEWEST };

/* The job that `want` names: an id, a unique beginning (with or without JOB) or end of an id,
 * "latest", the name that --name gave (of several jobs the one that runs, else the newest), or NULL
 * (see find_which). PD_EUSAGE: several jobs match; the message lists them.
 * PD_ENOENT: no job matches. */
int find_choose(const struct found *f, const char *want, enum find_which which,
                const struct found_job **job, struct pd_err *err);

/* Make the next ask_all_run connect to the agents of this job, once per node: on the hosts that
 * have the job, or with `running` on those that run it. Returns the number of nodes. */
int find_join(struct ask_all *g, const struct found_job *job, int running);
