/* cmd_data.h - what the commands that make data files have in common: numbers in, counts out. */
#ifndef LAUNCHER_CMD_DATA_H
#define LAUNCHER_CMD_DATA_H

#include "launcher/cmd/cmd.h"

/* A count of a result, by name. */
struct cmd_count {
    const char *name;
    uint64_t value;
};
int cmd_show_counts(const struct cmd_count *c, int json); /* ended by name NULL; the exit status */

/* The value of option `name` into *out; a NULL text leaves it as it is. */
int cmd_number(const char *name, const char *text, uint64_t max, uint64_t *out, struct pd_err *err);
int cmd_truth(const char *name, const char *text, int *out, struct pd_err *err);

/* As cmd_parse, of a command that takes no options of conf.ini. The words that are not options are
 * input files; there must be one. */
int cmd_data_parse(const struct cmd_line *line, int argc, char **argv, const char **rest,
                   int *n_rest);

#endif
