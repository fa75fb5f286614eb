/* job.h - the client of a job: brings it up on all nodes, follows it to its end, fetches what it
 * wrote.
 *
 *   prepare ─▶ setup ─▶ peers ─▶ run ─▶ follow ─▶ drain ─▶ fetch ─▶ bye ─▶ over
 *      │         │        │       │      ▲  │      ▲                ▲
 *      │         │        │       └▶ stop┼◀─┘ ─────┘                │
 *      └─────────┴────────┴──────────────┼─────────────────────────┘
 *                                join ───┘                               a job that was found running
 *
 * All or nothing: a phase is over when every node has done its part. When one can't before the job
 * runs, every bad host is named, and goodbye takes away what the others have set up. With
 * min_nodes, hosts that can't be prepared are left out.
 */
#ifndef LAUNCHER_JOB_H
#define LAUNCHER_JOB_H

#include <stdint.h>

#include "conf/options.h"

struct job_flags {
    int detach;    /* leave once it runs; its id goes to stdout, all else to stderr */
    int json;      /* one object a line: state, log, progress, message, result */
    int dry_run;   /* say what would happen */
    int verbose;   /* dry_run: list each trainer's data files */
    unsigned tail; /* attach: begin with so many lines of what there was; 0: all */
};

/* Run the job that the options describe, to its end. Returns the exit status; what went wrong has
 * been said on stderr. */
int job_run(const struct pd_options *opts, const struct job_flags *flags);

/* Follow a job that runs, as job_run does; `want` as in find.h. The exit status is the job's, 130
 * after Ctrl-C: the job goes on. */
int job_attach(const struct pd_options *opts, const struct job_flags *flags, const char *want);

#endif
