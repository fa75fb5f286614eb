/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_data.h - helpers of the commands that make data files: parse numbers, print counts. */
#pragma once

#include "launcher/cmd/cmd.h"

/* A named count of a command's result. */
struct cmd_count {
    const char *name;
    uint64_t value;
};
/* Print the counts, ended by a NULL name, as text or JSON. Returns the exit status. */
int cmd_show_counts(const struct cmd_count *c, int json);

/* Parse the value of option `name` into *out. If text is NULL, *out keeps its value. */
int cmd_number(const char *name, const char *text, uint64_t max, uint64_t *out, struct pd_err *err);
int cmd_truth(const char *name, const char *text, int *out, struct pd_err *err);

/* The number of streams that data is divided into: n_streams, or the number of trainers. `o` has
 * read conf.ini, and train.ini if it is here. */
int cmd_n_streams(const struct pd_options *o, uint64_t *n, struct pd_err *err);
/* The same from a conf.ini and the train.ini of its workspace. conf NULL: ./conf.ini; if there is
 * none, *n stays as it is. */
int cmd_n_streams_of(const char *conf, uint64_t *n, struct pd_err *err);
/* Read the train.ini of the workspace too, if the workspace is a folder on this machine. */
int cmd_read_train(struct pd_options *o, struct pd_err *err);

/* cmd_parse for a command without options of conf.ini. Words that are not options are input files;
 * at least one is required. */
int cmd_data_parse(const struct cmd_line *line, int argc, char **argv, const char **rest,
                   int *n_rest);
