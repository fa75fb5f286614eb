/* main.c - paddlectl: the table of subcommands. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/err.h"
#include "thread/malloc_tune.h"
#include "base/version.h"
#include "launcher/cmd/cmd.h"

static const struct command commands[] = {
    {"run", cmd_run,
     "dispatch, start, follow until the end, fetch the outputs; Ctrl-C stops the job"},
    {"check", cmd_check, "can the hosts run a job? what is wrong, and what helps"},
    {"dispatch", cmd_dispatch, "only deploy the workspace; prints the path for --job_workspace"},
    {"ps", cmd_ps, "the jobs on the hosts: whose, in which state, since when, how far"},
    {"status", cmd_status,
     "one job, node by node: processes, CPUs, memory, speed, the first failure"},
    {"logs", cmd_logs, "what a job's processes write, of all nodes in one order"},
    {"attach", cmd_attach, "follow a job that runs; Ctrl-C leaves it running"},
    {"stop", cmd_stop, "end a job: all its processes, on all nodes"},
    {"fetch", cmd_fetch, "bring the outputs of a job, and its logs"},
    {"exec", cmd_exec, "run a command on the hosts; equal outputs are shown once"},
    {"clean", cmd_clean,
     "remove what earlier jobs left on the hosts; keeps what runs and the newest"},
    {"prepare", cmd_prepare, "text files into a dictionary and shards of ids"},
    {"split", cmd_split, "deal the lines of files into shards"},
    {"infer", cmd_infer, "what a saved model says of data, here, without a cluster"},
    {"export", cmd_export,
     "a saved model in a format of numpy's, word2vec's or the original system's"},
    {"init", cmd_init, "copy a workspace template and a conf.ini to begin with"},
    {"conf", cmd_conf, "show the effective configuration and where each value comes from"},
    {"help", NULL, "show what a command does and its options"},
};

enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

/* Some descriptors a host: hundreds of hosts need more than the 1024 that a shell allows by
 * default. */
static void raise_file_limit(void) {
    struct rlimit r;
    if (!getrlimit(RLIMIT_NOFILE, &r) && r.rlim_cur < r.rlim_max) {
        r.rlim_cur = r.rlim_max;
        setrlimit(RLIMIT_NOFILE, &r);
    }
}

/* Without its stdin, stdout or stderr a program's next file gets that number, and what is printed
 * lands in it. */
static int fill_standard_files(void) {
    int fd;
    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
    return fd < 0;
}

/* What stdio could not write (a full disk) was promised to whoever reads it. */
static int finish(int status) {
    if (!fflush(stdout) && !ferror(stdout))
        return status;
    if (errno == EPIPE)
        return status;
    fputs("paddlectl: the output cannot be written\n", stderr);
    return status ? status : 1;
}

int main(int argc, char **argv) {
    pd_malloc_keep_freed();
    if (fill_standard_files())
        return 1;
    raise_file_limit();
    signal(SIGPIPE,
           SIG_IGN); /* a closed terminal or peer is an error where it is written to, not our end */
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
