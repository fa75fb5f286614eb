/* cmd.h - the subcommands, and what they have in common: options, --help, conf.ini. */
#ifndef LAUNCHER_CMD_H
#define LAUNCHER_CMD_H

#include "conf/options.h"

enum { CMD_REST_MAX = 4096, CMD_GO_ON = -1 };

/* argv[0] is the subcommand. Returns the exit status. */
int cmd_run(int argc, char **argv);
int cmd_dispatch(int argc, char **argv);
int cmd_stop(int argc, char **argv);
int cmd_init(int argc, char **argv);
int cmd_conf(int argc, char **argv);
int cmd_prepare(int argc, char **argv);
int cmd_split(int argc, char **argv);

/* What a subcommand takes. */
struct cmd_line {
    const char *usage;            /* "paddlectl stop [options] [JOB]" and what it does; printed by --help */
    unsigned who;                 /* whose options of the table: PD_LAUNCHER, or 0 */
    const struct pd_extra *extra; /* its own, ends with a NULL name; or NULL */
    int max_rest;                 /* words that are no options */
    int needs_conf;               /* read conf.ini (--conf=FILE) */
};

/* Parse into *o (pd_options_release it when CMD_GO_ON is returned) and rest[0..*n_rest). Else: the exit status, after
 * --help or a message. */
int cmd_parse(const struct cmd_line *line, int argc, char **argv, struct pd_options *o, const char **rest, int *n_rest);

int cmd_fail(const struct pd_err *err); /* "paddlectl: message"; the exit status of its code */

/* A folder of the installation or of the source tree: "workspace_template", "conf". PD_ENOENT if it is nowhere. */
int cmd_share_dir(const char *name, char *out, size_t cap, struct pd_err *err);

#endif
