/* cmd_run.c - paddlectl run. */
#include "launcher/cmd/cmd.h"
#include "launcher/job/job.h"

int cmd_run(int argc, char **argv) {
    static const struct cmd_line line = {
        .usage = "paddlectl run [options]\n"
                 "Sends the workspace to the hosts of conf.ini, starts pservers and trainers there, shows their logs until they\n"
                 "end, and fetches what they wrote into output/<job id>. Ctrl-C stops the job; a second one without grace.",
        .examples = "paddlectl run\tthe job of ./conf.ini\n"
                    "paddlectl run --conf=try.ini --num_passes=5\tanother one, and other values\n"
                    "paddlectl run --hosts='local*2'\ton this machine\n",
        .sections = "cluster ssh job train",
        .who = PD_LAUNCHER,
        .needs_conf = 1,
    };
    struct pd_options o;
    const char *rest[CMD_REST_MAX];
    int n_rest, rc = cmd_parse(&line, argc, argv, &o, rest, &n_rest);
    if (rc != CMD_GO_ON)
        return rc;
    rc = job_run(&o);
    pd_options_release(&o);
    return rc;
}
