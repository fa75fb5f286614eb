/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_run.c - paddlectl run: parses the options and calls job_run. */
#include "launcher/cmd/cmd.h"
#include "launcher/engine/engine.h"
#include "launcher/job/job.h"
#include "launcher/outputs/profile.h"
#include "launcher/tensorboard/tensorboard.h"

/* The number of words after "--". */
static int count_own(int argc, char **argv) {
    int i = 1;
    while (i < argc && strcmp(argv[i], "--"))
        i++;
    return i < argc ? argc - i - 1 : 0;
}

/* Append the words to trainer_command, quoted for its shell. */
static int add_words(struct pd_options *o, const char *const *words, int n, struct pd_err *err) {
    struct pd_buf b = {0};
    if (n && !*o->trainer_command)
        return pd_fail(err, PD_EUSAGE,
                       "the words after -- are options of a program of your own: set "
                       "trainer_command, or leave out the --");
    pd_put_fmt(&b, "%s", o->trainer_command);
    for (int i = 0; i < n; i++) {
        pd_put_u8(&b, ' ');
        pd_put_quoted(&b, words[i]);
    }
    pd_put_u8(&b, 0);
    char *command = b.failed ? NULL : pd_strdup((char *)b.data);
    pd_buf_release(&b);
    if (!command)
        return pd_oom(err, "trainer_command");
    free(o->trainer_command);
    o->trainer_command = command;
    return 0;
}

/* Slurm and `launch` start something before the nodes are known; then a mistake would be found only
 * after that. */
static int check_first(const struct pd_options *o, const struct job_flags *f, struct pd_err *err) {
    const int starts = *o->launch || o->engine == PD_ENGINE_SLURM;
    if (f->tensorboard && !f->dry_run && tensorboard_root(f->tensorboard, err))
        return err->code;
    if (o->profile && !f->dry_run && outputs_profile_check(o->profile_file, err))
        return err->code;
    return starts && !f->dry_run ? job_check_unstarted(o, err) : 0;
}

/* --dry-run=yaml: the manifests of an engine that makes its nodes. */
static int print_manifest(const struct pd_options *o, const char *form, struct pd_err *err) {
    struct pd_buf b = {0};
    int rc = strcmp(form, "yaml")
                 ? pd_fail(err, PD_EUSAGE, "--dry-run is 0, 1 or yaml, not '%s'", form)
                 : engine_manifest(&b, o, err);
    if (!rc)
        fwrite(b.data, 1, b.len, stdout);
    pd_buf_release(&b);
    return rc ? cmd_fail(err) : 0;
}

int cmd_run(int argc, char **argv) {
    struct job_flags f = {0};
    const char *form = NULL;
    const int n_own = count_own(argc, argv);
    const struct pd_extra_option extra[] = {
        {"detach", &f.detach, NULL,
         "print the id of the job when all processes have started, and leave the job running"},
        {"wait", &f.wait, NULL,
         "queue behind the jobs of all users that run on the hosts: first come, first served"},
        {"dry_run", &f.dry_run, &form,
         "show what the command would do, and do nothing. --dry-run=yaml: the manifests of engine "
         "= "
         "kubernetes"},
        {"verbose", &f.verbose, NULL,
         "keep date, source file and line of log lines on a terminal; with --dry-run: also list "
         "the "
         "data files of each trainer"},
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
        .usage =
            "paddlectl run [options] [-- WORD...]\n"
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
            "Other jobs on the hosts are named, with their users. With --wait the job begins when "
            "none runs on its hosts any more. A job that ends in any way gives its turn to the "
            "next, and Ctrl-C leaves the queue.\n"
            "\n"
            "If a connection is lost while the job runs, paddlectl connects again for up to "
            "attach_lease seconds. No line of the logs is lost.\n"
            "\n"
            "The words after -- are appended to trainer_command, untouched.\n",
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
                    "paddlectl run --wait\twhen the colleagues' jobs are over\n"
                    "paddlectl run --min-nodes=14\twith at least 14 of the hosts\n"
                    "paddlectl run --tensorboard=events\twith curves for 'tensorboard "
                    "--logdir=events'\n",
        .extra = extra,
        .sections = "cluster slurm ssh job train",
        .who = PD_LAUNCHER,
        .needs_conf = 1,
        .max_rest = n_own ? CMD_REST_MAX : 0,
    };
    struct pd_options o;
    const char *rest[CMD_REST_MAX];
    int n_rest, rc = cmd_parse(&line, argc, argv, &o, rest, &n_rest);
    if (rc != CMD_GO_ON)
        return rc;
    struct pd_err err = {0};
    if (n_rest > n_own)
        pd_fail(&err, PD_EUSAGE, "unexpected word '%s'; see 'paddlectl run --help'", rest[0]);
    const struct engine_call call = {.argv = argv, .detach = f.detach, .dry_run = f.dry_run};
    int status = 0, over = 0;
    if (err.code || add_words(&o, rest, n_own, &err) || check_first(&o, &f, &err) ||
        (over = engine_outside(&o, &call, &status, &err)) < 0)
        rc = cmd_fail(&err);
    else if (form)
        rc = print_manifest(&o, form, &err);
    else
        rc = over ? status : job_run(&o, &f);
    if (!over)
        engine_ended(&o, rc);
    pd_options_release(&o);
    return rc;
}
