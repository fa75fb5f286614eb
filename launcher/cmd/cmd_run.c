/* cmd_run.c - paddlectl run. */
#include "launcher/cmd/cmd.h"
#include "launcher/job/job.h"

int cmd_run(int argc, char **argv) {
    struct job_flags f = {0};
    const struct pd_extra_option extra[] = {
        {"detach", &f.detach, NULL, "print the job's id once it runs, and leave it running"},
        {"dry_run", &f.dry_run, NULL, "say what would be done, and do nothing"},
        {"verbose", &f.verbose, NULL,
         "with --dry-run: also list the data files that each trainer gets"},
        {"json", &f.json, NULL, "one JSON object a line: state, log, progress, message, result"},
        {0},
    };
    const struct cmd_line line = {
        .usage = "paddlectl run [options]\n"
                 "Sends the workspace to the hosts of conf.ini, starts pservers and trainers "
                 "there, shows their logs until they\n"
                 "end, and fetches what they wrote into output/<job id>. Ctrl-C stops the job; a "
                 "second one without grace.",
        .about = "With --detach the job does not need this machine any more: its id, alone, goes "
                 "to stdout, and 'attach', 'status',\n"
                 "'stop' and 'fetch' find it from any machine with the same conf.ini. A job whose "
                 "processes end at once is reported\n"
                 "as failed.\n"
                 "\n"
                 "A connection that is lost while the job runs is made again for attach_lease "
                 "seconds, and no line is lost.\n",
        .examples = "paddlectl run\tthe job of ./conf.ini\n"
                    "paddlectl run --conf=try.ini --num_passes=5\tanother one, and other values\n"
                    "paddlectl run --hosts='local*2'\ton this machine\n"
                    "job=$(paddlectl run --detach)\tin the background\n"
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
