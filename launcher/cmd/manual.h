/* SPDX-License-Identifier: Apache-2.0 */
/* manual.h - generates --help, the manual pages and the completions of bash and zsh from the same
 * tables: the commands in main.c, the struct cmd_line of each command, the options of src/conf.
 * Only the command itself has its struct cmd_line. To get its page, the generator calls the command
 * with the argument --help=man (or bash, zsh), and cmd_parse calls these functions. */
#pragma once

#include "launcher/cmd/cmd.h"

/* The texts and options of a command, filled in by cmd_parse. */
struct manual {
    const char *name, *text; /* from the table in main.c; text is "" if not known */
    const struct cmd_line *line;
    const struct pd_extra_option *extra; /* the command's own options, then --conf and --help */
};

void manual_help(const struct manual *m, struct pd_buf *out);
void manual_man(const struct manual *m, struct pd_buf *out); /* paddlectl-NAME(1) */
void manual_bash(const struct manual *m,
                 struct pd_buf *out); /* the command's branch of the completion */
void manual_zsh(const struct manual *m, struct pd_buf *out);

void manual_main_man(const struct command *table, size_t n, struct pd_buf *out); /* paddlectl(1) */
void manual_ini_man(struct pd_buf *out);    /* paddlectl.ini(5) */
void manual_worker_man(struct pd_buf *out); /* paddle_worker(1) */
/* paddlectl-train.ini(5), from the Markdown that `paddle_worker model --reference` prints. */
void manual_train_man(const char *reference, struct pd_buf *out);

/* The options of conf.ini that --help shows: line->sections, or the default for NULL. */
const char *manual_which(const struct cmd_line *line);

/* The words in capitals in a usage line: "TEMPLATE FOLDER" of "paddlectl init [options] [TEMPLATE
 * [FOLDER]]". */
void manual_words(const char *usage, char *out, size_t cap);

/* The text of the completions before and after the branches of the commands. */
extern const char complete_bash_head[], complete_bash_tail[], complete_zsh_head[],
    complete_zsh_tail[];
