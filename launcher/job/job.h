/* SPDX-License-Identifier: Apache-2.0 */
/* job.h - the client of a job: starts the job on all nodes, follows it to its end and fetches its
 * outputs.
 *
 *   prepare ─▶ setup ─▶ peers ─▶ run ─▶ follow ─▶ drain ─▶ fetch ─▶ bye ─▶ over
 *      │         │        │       │      ▲  │      ▲                ▲
 *      │         │        │       └▶ stop┼◀─┘ ─────┘                │
 *      └─────────┴────────┴──────────────┼─────────────────────────┘
 *                                join ───┘                               attach to a running job
 *
 * All or nothing: a phase ends when every node has done its part. If a node fails before the job
 * runs, the report names every bad host, and the phase bye removes the set-up of the other nodes.
 * With min_nodes, hosts that cannot be prepared are left out.
 */
#pragma once

#include "conf/options.h"

struct job_flags {
    int wait;    /* queue behind the jobs that run on the hosts */
    int detach;  /* leave when the job runs; its id goes to stdout, all else to stderr */
    int json;    /* one object per line: state, log, progress, message, result */
    int dry_run; /* only print the plan */
    int verbose; /* keep date, source file and line of log lines on a terminal; with dry_run: list
                  * the data files of each trainer */
    int no_fold; /* on a terminal: show equal lines of several nodes separately */
    const char *tensorboard; /* write event files below this folder; NULL: none */
    unsigned tail;           /* attach: begin with so many earlier lines; 0: all */
};

/* Run the job that the options describe to its end. --resume adds the --set of the earlier job to
 * them. Returns the exit status; errors have been
 * printed to stderr. */
int job_run(struct pd_options *opts, const struct job_flags *flags);

/* Finds errors of conf.ini and train.ini before an engine starts the nodes, whose names and number
 * may not be known yet. job_run checks the settings that depend on them. */
int job_check_unstarted(const struct pd_options *opts, struct pd_err *err);

/* Takes the --set of the checkpoint that `resume` names, as job_run does, but asks no host: from
 * the folder, or from the job's outputs on this machine. note: which keys, or that its hosts know
 * them;
 * "": `resume` names no such checkpoint. */
enum { JOB_RESUME_NOTE = 1000 };
int job_resume_settings(struct pd_options *opts, char note[JOB_RESUME_NOTE], struct pd_err *err);

/* Follow a running job as job_run does; `want` as in find.h. Returns the exit status of the job, or
 * 130 after Ctrl-C, which leaves the job running. */
int job_attach(const struct pd_options *opts, const struct job_flags *flags, const char *want);
