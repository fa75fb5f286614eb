/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - paddlectl: the table of subcommands. */
#include <locale.h>
#include <sodium.h>
#include <sys/resource.h>

#include "thread/malloc_tune.h"
#include "base/version.h"
#include "launcher/cmd/cmd.h"

static const struct command commands[] = {
    {"run", cmd_run,
     "dispatch, start, follow until the end, fetch the outputs; Ctrl-C stops the job"},
    {"check", cmd_check, "test whether the hosts can run a job; name each problem and its remedy"},
    {"dispatch", cmd_dispatch, "only deploy the workspace, and print its path for --job_workspace"},
    {"ps", cmd_ps, "list the jobs on the hosts: owner, state, start, progress"},
    {"status", cmd_status,
     "show one job node by node: processes, CPUs, memory, speed, the first failure"},
    {"top", cmd_top, "watch the processes of a job that runs: who holds the others up?"},
    {"logs", cmd_logs, "show the logs of a job's processes, all nodes merged by time"},
    {"attach", cmd_attach, "follow a running job; Ctrl-C leaves the job running"},
    {"stop", cmd_stop, "end all processes of a job on all nodes"},
    {"fetch", cmd_fetch, "copy the outputs of a job, and its logs, to this machine"},
    {"runs", cmd_runs, "list earlier runs: settings, passes, best and last test"},
    {"compare", cmd_compare, "show how runs differ: settings, files, tests"},
    {"sweep", cmd_sweep, "run a job with several settings, and show which ones are best"},
    {"plot", cmd_plot, "draw the curves of runs in the terminal, also while they run"},
    {"report", cmd_report, "write runs as a page: curves, time, memory, events, settings"},
    {"dashboard", cmd_dashboard, "show runs in a browser while they go on; metrics for Prometheus"},
    {"exec", cmd_exec, "run a command on the hosts; equal outputs are shown once"},
    {"clean", cmd_clean,
     "remove the files of earlier jobs from the hosts; running and newest jobs stay"},
    {"prepare", cmd_prepare, "make shards, dictionaries and ids of data files"},
    {"split", cmd_split, "distribute the lines of files over shards"},
    {"infer", cmd_infer,
     "print the predictions of a saved model, on this machine, without a cluster"},
    {"export", cmd_export,
     "write a saved model in the format of numpy, word2vec or the original system"},
    {"init", cmd_init, "create a folder with a conf.ini and a workspace from a template"},
    {"import", cmd_import, "make a conf.ini of the conf.py of PaddlePaddle's Fabric launcher"},
    {"conf", cmd_conf, "show the effective configuration and where each value comes from"},
    {"help", NULL, "show what a command does and its options"},
};

enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

/* Each host takes several descriptors: hundreds of hosts need more than a shell's default of 1024.
 */
static void raise_file_limit(void) {
    struct rlimit r;
    if (!getrlimit(RLIMIT_NOFILE, &r) && r.rlim_cur < r.rlim_max) {
        r.rlim_cur = r.rlim_max;
        setrlimit(RLIMIT_NOFILE, &r);
    }
}

/* If stdin, stdout or stderr is closed, the next opened file gets its number, and printed text
 * would end up in that file. */
static int fill_standard_files(void) {
    int fd;
    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
    pd_close(fd);
    return fd < 0;
}

/* Output that stdio could not write (full disk) makes the exit status 1. A closed pipe does not. */
static int finish(int status) {
    if ((!fflush(stdout) && !ferror(stdout)) || cmd_reader_is_gone())
        return status;
    fputs("paddlectl: the output cannot be written\n", stderr);
    return status ? status : 1;
}

int main(int argc, char **argv) {
    pd_hide_process();
    pd_malloc_keep_freed();
    if (fill_standard_files())
        return 1;
    raise_file_limit();
    pd_fault_arm(getenv("PADDLECTL_FAULT"));
    if (!setlocale(LC_CTYPE, "C.UTF-8")) /* for the widths of characters (wcwidth) */
        setlocale(LC_CTYPE, "");
    /* Writing to a closed terminal or peer is an error of the write; it must not end paddlectl. */
    signal(SIGPIPE, SIG_IGN);
    if (sodium_init() < 0)
        return 1;
    struct pd_err err = {0};
    if (argc < 2) {
        cmd_list(commands, N_COMMANDS, stderr);
        return pd_code_exit_status(PD_EUSAGE);
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))
        return cmd_list(commands, N_COMMANDS, stdout);
    if (!strcmp(argv[1], "--version")) {
        puts("paddlectl " PD_VERSION);
        return 0;
    }
    const struct command *c = cmd_find(commands, N_COMMANDS, argv[1], &err);
    if (!c)
        return cmd_fail(&err);
    return finish(c->run ? c->run(argc - 1, argv + 1)
                         : cmd_help(commands, N_COMMANDS, argc - 1, argv + 1));
}
