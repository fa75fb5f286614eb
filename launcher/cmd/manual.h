/* manual.h - --help, the man pages and the completions of bash and zsh, all from the same tables:
 * main.c's commands, each command's struct cmd_line, the options of src/conf. A command's struct
 * cmd_line is known to nobody else; so who wants its page calls the command with the one argument
 * --help=man (or bash, zsh), and cmd_parse comes here. */
#ifndef LAUNCHER_MANUAL_H
#define LAUNCHER_MANUAL_H

#include "launcher/cmd/cmd.h"

/* A command, as cmd_parse sees it. */
struct manual {
    const char *name, *text; /* of main.c's table; text is "" when not known */
    const struct cmd_line *line;
    const struct pd_extra_option *extra; /* all of them: its own, --conf, --help */
};

void manual_help(const struct manual *m, struct pd_buf *out);
void manual_man(const struct manual *m, struct pd_buf *out);  /* paddlectl-NAME(1) */
void manual_bash(const struct manual *m, struct pd_buf *out); /* its branch of the function */
void manual_zsh(const struct manual *m, struct pd_buf *out);

void manual_main_man(const struct command *table, size_t n, struct pd_buf *out); /* paddlectl(1) */
void manual_ini_man(struct pd_buf *out); /* paddlectl.ini(5) */

/* The options of conf.ini that its help shows: line->sections or what stands for NULL. */
const char *manual_which(const struct cmd_line *line);

/* The words that a command takes: "TEMPLATE FOLDER" of "paddlectl init [options] [TEMPLATE
 * [FOLDER]]". */
void manual_words(const char *usage, char *out, size_t cap);

/* What stands around the commands' branches. */
extern const char complete_bash_head[], complete_bash_tail[], complete_zsh_head[],
    complete_zsh_tail[];

#endif
