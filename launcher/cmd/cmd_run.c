/* cmd_run.c - paddlectl run: parses the options and calls job_run. */
#include "launcher/cmd/cmd.h"
#include "launcher/job/job.h"

int cmd_run(int argc, char **argv) {
    struct job_flags f = {0};
    const struct pd_extra_option extra[] = {
        {"detach", &f.detach, NULL,
         "print the id of the job when all processes have started, and leave the job running"},
        {"dry_run", &f.dry_run, NULL, "show what the command would do, and do nothing"},
        {"verbose", &f.verbose, NULL,
         "keep date, source file and line of log lines on a terminal; with --dry-run: also list "
         "the "
         "data files of each trainer"},
        {"no_fold", &f.no_fold, NULL,
         "on a terminal: show equal lines of several nodes separately, each when it arrives"},
        {"json", &f.json, NULL,
         "print one JSON object per line: state, log, progress, message, result"},
        {0},
    };
    const struct cmd_line line = {
        .usage =
            "paddlectl run [options]\n"
            "Sends the workspace to the hosts of conf.ini, starts pservers and trainers "
            "there, shows their logs until they end, and copies their outputs to output/<job "
            "id>. Ctrl-C stops the job; a second Ctrl-C kills its processes at once. On a terminal "
            "the key d detaches (the job goes on), q asks and stops, ? shows help.",
        .about =
            "With --detach the job no longer needs this machine. Stdout gets only the id of the "
            "job; 'attach', 'status', 'stop' and 'fetch' find the job from any machine with the "
            "same conf.ini. If the processes end at once, the command reports a failure.\n"
            "\n"
            "When the terminal closes, on_hangup decides: the job ends, or goes on as after the "
            "key d. "
            "If paddlectl is stopped (Ctrl-Z, a laptop that sleeps) for longer than attach_lease, "
            "the "
            "nodes end the job; paddlectl says so when it continues.\n"
            "\n"
            "If a connection is lost while the job runs, paddlectl connects again for up to "
            "attach_lease seconds. No line of the logs is lost.\n",
        .examples = "paddlectl run\tthe job of ./conf.ini\n"
                    "paddlectl run --conf=try.ini --num_passes=5\tanother configuration, with one "
                    "value changed\n"
                    "paddlectl run --set layer.hidden.size=512\twith one key of train.ini changed\n"
                    "paddlectl run --hosts='local*2'\ton this machine\n"
                    "job=$(paddlectl run --detach)\tin the background\n"
                    "paddlectl run --resume=JOB20261121014307-08c4\tcontinue from that job's last "
                    "checkpoint\n"
                    "paddlectl run --resume=output/latest --num_passes=10\tthe same, from the "
                    "outputs that were copied to this machine\n"
                    "paddlectl run --min-nodes=14\twith at least 14 of the hosts\n",
        .extra = extra,
        .sections = "cluster ssh job train",
        .who = PD_LAUNCHER,
        .needs_conf = 1,
    };
    struct pd_options o;
    const char *rest[CMD_REST_MAX];
    int n_rest, rc = cmd_parse(&line, argc, argv, &o, rest, &n_rest);
    if (rc != CMD_GO_ON)
        return rc;
    rc = job_run(&o, &f);
    pd_options_release(&o);
    return rc;
}
