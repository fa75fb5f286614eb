/* SPDX-License-Identifier: Apache-2.0 */
/* cmd.h - the subcommands, and the parts that they share: options, --help, conf.ini, output as
 * JSON. */
#pragma once

#include <jansson.h>

#include "conf/options.h"

enum { CMD_REST_MAX = 4096, CMD_GO_ON = -1 };

/* A row of the table of subcommands in main.c. */
struct command {
    const char *name;
    int (*run)(int argc, char **argv); /* NULL: cmd_help is called with the table */
    const char *text;                  /* one line for `paddlectl help` */
};

/* argv[0] is the subcommand. Returns the exit status. */
int cmd_run(int argc, char **argv);
int cmd_dispatch(int argc, char **argv);
int cmd_attach(int argc, char **argv);
int cmd_stop(int argc, char **argv);
int cmd_logs(int argc, char **argv);
int cmd_ps(int argc, char **argv);
int cmd_status(int argc, char **argv);
int cmd_top(int argc, char **argv);
int cmd_fetch(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_runs(int argc, char **argv);
int cmd_compare(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_dashboard(int argc, char **argv);
int cmd_plot(int argc, char **argv);
int cmd_sweep(int argc, char **argv);
int cmd_exec(int argc, char **argv);
int cmd_init(int argc, char **argv);
int cmd_import(int argc, char **argv);
int cmd_clean(int argc, char **argv);
int cmd_conf(int argc, char **argv);
int cmd_prepare(int argc, char **argv);
int cmd_split(int argc, char **argv);
int cmd_export(int argc, char **argv);
int cmd_infer(int argc, char **argv);

int cmd_help(const struct command *table, size_t n, int argc, char **argv);

int cmd_list(const struct command *table, size_t n, FILE *f); /* `paddlectl help` */
/* The row with this name. NULL: there is none; the message in err proposes the most similar name.
 */
const struct command *cmd_find(const struct command *table, size_t n, const char *name,
                               struct pd_err *err);

/* The options and texts of a subcommand. --help, the manual page and the completions are generated
 * from this struct alone. */
struct cmd_line {
    /* One line "paddlectl stop [options] [JOB]\n" for each form of the call, then a description in
     * one to three sentences. Completions know these words in capitals: JOB, FILE, FOLDER,
     * TEMPLATE. */
    const char *usage;
    /* More text for the manual page, or NULL. An empty line separates paragraphs. */
    const char *about;
    const char *examples; /* lines "paddlectl stop\tends the only running job\n", or NULL */
    /* The command's own exit statuses, lines "255\ta host could not be reached\n".
     * NULL: the statuses that all commands share. */
    const char *status;
    /* The sections and options of conf.ini that --help shows: "cluster ssh job.outputs". NULL:
     * "cluster.hosts cluster.root_dir ssh". The command accepts all options in any case. */
    const char *sections;
    unsigned who; /* the options of the table that the command accepts: PD_LAUNCHER, or 0 */
    /* The command's own options, ended by a NULL name; or NULL. See CMD_JSON. */
    const struct pd_extra_option *extra;
    int max_rest;            /* the most words that are not options */
    int rest_is_command;     /* options end at the first word: paddlectl exec --fanout=8 ls -l */
    int needs_conf;          /* read conf.ini (--conf=FILE) */
    const int *without_conf; /* a flag of `extra` with which conf.ini may be missing; or NULL */
};

/* The row of `extra` for a command with a report: {.. CMD_JSON(&json), {0}} */
#define CMD_JSON(flag) \
    { "json", flag, NULL, "print the result as JSON" }

/* Parse the command line into *o and rest[0..*n_rest). Returns CMD_GO_ON, and the caller releases
 * *o (pd_options_release); or the exit status, after --help or an error message was printed. */
int cmd_parse(const struct cmd_line *line, int argc, char **argv, struct pd_options *o,
              const char **rest, int *n_rest);

/* A complete command without checks of its own options: parse, run, release. `word` is the first
 * word that is not an option, or NULL. `run` returns the exit status, or fills err; cmd_main then
 * prints the message. */
typedef int cmd_action(void *arg, const struct pd_options *o, const char *word, struct pd_err *err);
int cmd_main(const struct cmd_line *line, int argc, char **argv, cmd_action *run, void *arg);

/* A complete command that reads the records of runs in the folder of outputs, and asks no host: as
 * cmd_main, with all words that are not options. It sets the members of `line` from `sections` on,
 * except max_rest. */
struct runs;
typedef int cmd_runs_action(void *arg, struct runs *all, const char *const *words, int n_words,
                            struct pd_err *err);
int cmd_runs_main(const struct cmd_line *line, int argc, char **argv, cmd_runs_action *run,
                  void *arg);

/* 1: stdout is a pipe whose reader has closed it (`paddlectl ps | head`). This is no error. */
int cmd_reader_is_gone(void);

/* Print `v` (the reference is stolen) to stdout, indented, with a newline. Returns the exit status:
 * 0, or 1 if stdout cannot be written. */
int cmd_print_json(json_t *v);
/* The same on a single line, for output of one JSON object per line. */
int cmd_print_json_line(json_t *v);

/* Print "paddlectl: MESSAGE" to stderr. Returns the exit status of the error's code. */
int cmd_fail(const struct pd_err *err);

/* The path of a folder ("workspace_template", "conf") of the installation or, if it is not there,
 * of the source tree. PD_ENOENT: neither has the folder. */
int cmd_share_dir(const char *name, char *out, size_t cap, struct pd_err *err);
