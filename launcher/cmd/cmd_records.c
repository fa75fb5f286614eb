/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_records.c - the frame of the commands that read records of runs; see cmd.h. */
#include "launcher/cmd/cmd.h"
#include "launcher/record/runs.h"

int cmd_runs_main(const struct cmd_line *line, int argc, char **argv, cmd_runs_action *run,
                  void *arg) {
    static const int without_conf = 1;
    struct cmd_line full = *line;
    struct pd_options o;
    struct pd_err err = {0};
    struct runs all;
    const char *words[CMD_REST_MAX];
    int n_words;
    full.sections = "job.outputs";
    full.who = PD_LAUNCHER;
    full.needs_conf = 1;
    full.without_conf = &without_conf;
    int rc = cmd_parse(&full, argc, argv, &o, words, &n_words);
    if (rc != CMD_GO_ON)
        return rc;
    rc = runs_load(&all, o.outputs, &err);
    if (!rc) {
        rc = run(arg, &all, words, n_words, &err);
        runs_release(&all);
    }
    pd_options_release(&o);
    return err.code ? cmd_fail(&err) : rc;
}
