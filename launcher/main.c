/* main.c - paddlectl: the table of subcommands. */
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/version.h"
#include "launcher/cmd/cmd.h"

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *text;
} commands[] = {
    {"run", cmd_run, "dispatch, start, follow until the end, fetch the outputs; Ctrl-C stops the job"},
    {"dispatch", cmd_dispatch, "only deploy the workspace; prints the path for --job_workspace"},
    {"stop", cmd_stop, "end a job: all its processes, on all nodes"},
    {"prepare", cmd_prepare, "text files into a dictionary and shards of ids"},
    {"split", cmd_split, "deal the lines of files into shards"},
    {"init", cmd_init, "copy a workspace template and a conf.ini to begin with"},
    {"conf", cmd_conf, "show the effective configuration and where each value comes from"},
};

static void usage(FILE *f) {
    fputs("usage: paddlectl COMMAND [options]\n\n", f);
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        fprintf(f, "  %-10s %s\n", commands[i].name, commands[i].text);
    fputs("\n'paddlectl COMMAND --help' lists the options of a command.\n", f);
}

int main(int argc, char **argv) {
    signal(SIGPIPE, SIG_IGN); /* a closed terminal or peer is an error where it is written to, not our end */
    if (sodium_init() < 0)
        return 1;
    if (argc < 2 || !strcmp(argv[1], "--help") || !strcmp(argv[1], "help")) {
        usage(argc < 2 ? stderr : stdout);
        return argc < 2 ? pd_code_exit_status(PD_EUSAGE) : 0;
    }
    if (!strcmp(argv[1], "--version")) {
        puts("paddlectl " PD_VERSION);
        return 0;
    }
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        if (!strcmp(argv[1], commands[i].name))
            return commands[i].run(argc - 1, argv + 1);
    fprintf(stderr, "paddlectl: there is no command '%s'\n\n", argv[1]);
    usage(stderr);
    return pd_code_exit_status(PD_EUSAGE);
}
