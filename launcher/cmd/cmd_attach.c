/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_attach.c - paddlectl attach. */
#include "launcher/cmd/cmd.h"
#include "launcher/job/job.h"
#include "launcher/tensorboard/tensorboard.h"

enum { LINES = 10, LINES_MAX = 10000 };

int cmd_attach(int argc, char **argv) {
    struct job_flags f = {.tail = LINES};
    const char *lines = NULL;
    const struct pd_extra_option extra[] = {
        {"lines=N|all", NULL, &lines,
         "begin with the last N earlier lines, or all of them; default: 10"},
        {"verbose", &f.verbose, NULL, "keep date, source file and line of log lines on a terminal"},
        {"no_fold", &f.no_fold, NULL,
         "on a terminal: show equal lines of several nodes separately, each when it arrives"},
        {"tensorboard=DIR", NULL, &f.tensorboard,
         "also write event files for TensorBoard while the job runs: "
         "DIR/JOB/events.out.tfevents.*"},
        {"json", &f.json, NULL,
         "print one JSON object per line: state, log, progress, message, result"},
        {0},
    };
    const struct cmd_line line = {
        .usage = "paddlectl attach [options] [JOB]\n"
                 "Follows a running job as 'run' does, from any machine: shows its logs and its "
                 "progress until the job ends. The exit status is that of the job. Without JOB: "
                 "the only running job. Ctrl-C and the key d leave the job running, q asks and "
                 "stops it. If the paddlectl that started an attached job is gone, this one keeps "
                 "the job alive.",
        .examples = "paddlectl attach\tthe only running job\n"
                    "paddlectl attach --lines=all latest\tthe newest job, from its first line\n",
        .extra = extra,
        .who = PD_LAUNCHER,
        .max_rest = 1,
        .needs_conf = 1,
    };
    struct pd_options o;
    struct pd_err err = {0};
    const char *rest[CMD_REST_MAX];
    uint64_t n;
    int n_rest, rc = cmd_parse(&line, argc, argv, &o, rest, &n_rest);
    if (rc != CMD_GO_ON)
        return rc;
    if (lines && !strcmp(lines, "all"))
        f.tail = 0;
    else if (lines && (pd_parse_u64(lines, LINES_MAX, &n) || !n))
        pd_fail(&err, PD_EUSAGE, "lines must be 1..%d or all, not '%s'", LINES_MAX, lines);
    else if (lines)
        f.tail = (unsigned)n;
    if (!err.code && f.tensorboard)
        tensorboard_root(f.tensorboard, &err);
    rc = err.code ? cmd_fail(&err) : job_attach(&o, &f, n_rest ? rest[0] : NULL);
    pd_options_release(&o);
    return rc;
}
