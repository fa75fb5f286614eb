/* cmd.h - the subcommands, and what they have in common: options, --help, conf.ini. */
#ifndef LAUNCHER_CMD_H
#define LAUNCHER_CMD_H

#include <jansson.h>
#include <stdio.h>

#include "conf/options.h"

enum { CMD_REST_MAX = 4096, CMD_GO_ON = -1 };

/* A row of main.c's table. */
struct command {
    const char *name;
    int (*run)(int argc, char **argv); /* NULL: cmd_help, which gets the table */
    const char *text;                  /* a line for people */
};

/* argv[0] is the subcommand. Returns the exit status. */
int cmd_run(int argc, char **argv);
int cmd_dispatch(int argc, char **argv);
int cmd_attach(int argc, char **argv);
int cmd_stop(int argc, char **argv);
int cmd_logs(int argc, char **argv);
int cmd_ps(int argc, char **argv);
int cmd_status(int argc, char **argv);
int cmd_fetch(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_exec(int argc, char **argv);
int cmd_init(int argc, char **argv);
int cmd_clean(int argc, char **argv);
int cmd_conf(int argc, char **argv);
int cmd_prepare(int argc, char **argv);
int cmd_split(int argc, char **argv);
int cmd_export(int argc, char **argv);
int cmd_infer(int argc, char **argv);

int cmd_help(const struct command *table, size_t n, int argc, char **argv);

int cmd_list(const struct command *table, size_t n, FILE *f); /* `paddlectl help` */
/* The row of that name; NULL and a message with the nearest one. */
const struct command *cmd_find(const struct command *table, size_t n, const char *name,
                               struct pd_err *err);

/* What a subcommand takes. --help, the man page and the completions are made from it, so there is
 * nothing else to write. */
struct cmd_line {
    const char *usage; /* "paddlectl stop [options] [JOB]\n", a line for each way to call it, then
                        * what it does, in a sentence or three. Words in capitals are completed:
                        * JOB, FILE, FOLDER, TEMPLATE. */
    const char
        *about; /* NULL, or more for the man page: paragraphs, with an empty line between them */
    const char *examples; /* NULL, or lines "paddlectl stop\tends the only job that runs\n" */
    const char *
        status; /* NULL: the usual ones; or lines "255\ta host could not be reached\n" of its own */
    const char
        *sections; /* of conf.ini, or single options, that its help shows: "cluster ssh
                    * job.outputs"; NULL: "cluster.hosts cluster.root_dir ssh". It accepts all. */
    unsigned who;  /* whose options of the table: PD_LAUNCHER, or 0 */
    const struct pd_extra_option
        *extra;          /* its own, ends with a NULL name; or NULL. See CMD_JSON. */
    int max_rest;        /* words that are no options */
    int rest_is_command; /* its options end at the first word: paddlectl exec --fanout=8 ls -l */
    int needs_conf;      /* read conf.ini (--conf=FILE) */
};

/* The row of `extra` for a command that reports: {.. CMD_JSON(&json), {0}} */
#define CMD_JSON(flag) \
    { "json", flag, NULL, "print the result as JSON" }

/* Parse into *o (pd_options_release it when CMD_GO_ON is returned) and rest[0..*n_rest). Else: the
 * exit status, after
 * --help or a message. */
int cmd_parse(const struct cmd_line *line, int argc, char **argv, struct pd_options *o,
              const char **rest, int *n_rest);

/* A whole command whose options need no second look: parse, run, release. word: the first of the
 * rest, or NULL. `run` returns the exit status, or fills err, which is then said. */
typedef int cmd_action(void *arg, const struct pd_options *o, const char *word, struct pd_err *err);
int cmd_main(const struct cmd_line *line, int argc, char **argv, cmd_action *run, void *arg);

/* The result to stdout, indented, with a newline; `v` is stolen. The exit status: 0, or 1 when it
 * cannot be written. */
int cmd_print_json(json_t *v);
/* The same on one line, for what comes one object a line. */
int cmd_print_json_line(json_t *v);

int cmd_fail(const struct pd_err *err); /* "paddlectl: message"; the exit status of its code */

/* A folder of the installation or of the source tree: "workspace_template", "conf". PD_ENOENT if it
 * is nowhere. */
int cmd_share_dir(const char *name, char *out, size_t cap, struct pd_err *err);

#endif
