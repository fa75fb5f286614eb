/* job.h - the client of a job: brings it up on all nodes, follows it to its end, fetches what it wrote.
 *
 *   prepare ─▶ peers ─▶ run ─▶ follow ─▶ drain ─▶ fetch ─▶ bye ─▶ over
 *      │         │       │        │        ▲                ▲
 *      │         │       └▶ stop ◀┘ ───────┘                │
 *      └─────────┴──────────────────────────────────────────┘
 *
 * All or nothing: a phase is over when every node has done its part. When one can't before the job runs, every bad host
 * is named, and goodbye takes away what the others have set up.
 */
#ifndef LAUNCHER_JOB_H
#define LAUNCHER_JOB_H

#include "conf/options.h"

/* Run the job that the options describe, to its end. Returns the exit status; what went wrong has been said on stderr. */
int job_run(const struct pd_options *opts);

#endif
