/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_help.c - paddlectl help: the list of commands, a command's --help, and the manual and
 * completions that 'make install' installs. */
#include "launcher/cmd/manual.h"

#include "launcher/link/bootstrap.h"

#include <spawn.h>
#include <sys/wait.h>

/* Run the command with --help=FORM: only the command itself knows its own options. */
static int print_form(const struct command *table, size_t n, const struct command *c,
                      const char *what) {
    char kind[20];
    const char *argv[] = {c->name, kind, c->text, NULL};
    pd_fmt(kind, sizeof kind, "--help=%s", what);
    return c->run ? c->run(3, (char **)(uintptr_t)argv)
                  : cmd_help(table, n, 3, (char **)(uintptr_t)argv);
}

const struct command *cmd_find(const struct command *table, size_t n, const char *name,
                               struct pd_err *err) {
    const char *near = NULL;
    for (size_t i = 0, best = 3; i < n; i++) {
        size_t d = pd_edit_distance(name, table[i].name);
        if (!d)
            return &table[i];
        if (d < best) {
            best = d;
            near = table[i].name;
        }
    }
    pd_fail(err, PD_EUSAGE,
            near ? "there is no command '%.100s', did you mean '%s'?"
                 : "there is no command '%.100s'; 'paddlectl help' lists them",
            name, near);
    return NULL;
}

int cmd_list(const struct command *table, size_t n, FILE *f) {
    fputs("usage: paddlectl COMMAND [options]\n\n", f);
    for (size_t i = 0; i < n; i++)
        fprintf(f, "  %-10s %s\n", table[i].name, table[i].text);
    fputs("\n'paddlectl COMMAND --help' or 'paddlectl help COMMAND' lists the options of a "
          "command.\n",
          f);
    return fflush(f) ? 1 : 0;
}

static int print(struct pd_buf *b) {
    int bad = b->failed || (b->len && fwrite(b->data, b->len, 1, stdout) != 1) || fflush(stdout);
    pd_buf_release(b);
    return bad ? 1 : 0;
}

/* Start the worker with standard output `out`. */
static int start_reference(pid_t *pid, const char *worker, int out, struct pd_err *err) {
    char *argv[] = {(char *)(uintptr_t)worker, (char *)(uintptr_t) "model",
                    (char *)(uintptr_t) "--reference", NULL};
    posix_spawn_file_actions_t acts;
    posix_spawn_file_actions_init(&acts);
    posix_spawn_file_actions_adddup2(&acts, out, 1);
    int e = posix_spawn(pid, worker, &acts, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&acts);
    return e ? pd_fail_errno(err, PD_EFAIL, e, "cannot run %s", worker) : 0;
}

static int read_reference(struct pd_buf *text, struct pd_err *err) {
    char path[PATH_MAX], part[4096];
    int fd[2], status = 0;
    pid_t pid;
    ssize_t n;
    if (node_program_path("paddle_worker", path, sizeof path, err))
        return err->code;
    if (pipe2(fd, O_CLOEXEC))
        return pd_fail_errno(err, PD_EFAIL, errno, "cannot make a pipe");
    int rc = start_reference(&pid, path, fd[1], err);
    close(fd[1]);
    while (!rc && (n = pd_read_full(fd[0], part, sizeof part)) > 0)
        pd_put(text, part, (size_t)n);
    close(fd[0]);
    if (rc)
        return rc;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    pd_put_u8(text, 0);
    return text->failed ? pd_oom(err, "the reference")
           : status     ? pd_fail(err, PD_EFAIL, "%s model --reference failed", path)
                        : 0;
}

/* PAGE is a name that --pages prints. */
static int man_page(const struct command *table, size_t n, const char *page, struct pd_err *err) {
    struct pd_buf b = {0};
    char name[64];
    if (!strcmp(page, "paddlectl.1")) {
        manual_main_man(table, n, &b);
        return print(&b);
    }
    if (!strcmp(page, "paddlectl.ini.5")) {
        manual_ini_man(&b);
        return print(&b);
    }
    if (!strcmp(page, "paddle_worker.1")) {
        manual_worker_man(&b);
        return print(&b);
    }
    if (!strcmp(page, "paddlectl-train.ini.5")) {
        struct pd_buf text = {0};
        int rc = read_reference(&text, err);
        if (!rc)
            manual_train_man((char *)text.data, &b);
        pd_buf_release(&text);
        return rc ? rc : print(&b);
    }
    if (!pd_starts_with(page, "paddlectl-") || !pd_ends_with(page, ".1") ||
        pd_fmt(name, sizeof name, "%.*s", (int)(strlen(page) - strlen("paddlectl-.1")),
               page + strlen("paddlectl-")))
        return pd_fail(err, PD_EUSAGE,
                       "there is no manual page '%.100s'; 'paddlectl help --pages' lists all pages",
                       page);
    const struct command *c = cmd_find(table, n, name, err);
    return c ? print_form(table, n, c, "man") : err->code;
}

static int print_pages(const struct command *table, size_t n) {
    puts("paddlectl.1\npaddlectl.ini.5\npaddlectl-train.ini.5\npaddle_worker.1");
    for (size_t i = 0; i < n; i++)
        printf("paddlectl-%s.1\n", table[i].name);
    return fflush(stdout) ? 1 : 0;
}

static int bash(const struct command *table, size_t n) {
    int bad = 0;
    fputs(complete_bash_head, stdout);
    for (size_t i = 0; i < n; i++)
        printf("%s%s", i ? " " : "", table[i].name);
    fputs("'\n    COMPREPLY=()\n"
          "    if ((COMP_CWORD < 2)); then\n"
          "        COMPREPLY=($(compgen -W \"$commands --version\" -- \"$cur\"))\n"
          "        return\n"
          "    fi\n"
          "    cmd=${COMP_WORDS[1]}\n"
          "    case $cmd in\n",
          stdout);
    for (size_t i = 0; i < n && !bad; i++)
        bad = print_form(table, n, &table[i], "bash");
    fputs(complete_bash_tail, stdout);
    return bad || fflush(stdout) ? 1 : 0;
}

static int zsh(const struct command *table, size_t n) {
    int bad = 0;
    fputs(complete_zsh_head, stdout);
    for (size_t i = 0; i < n; i++) {
        printf("        '%s:", table[i].name);
        for (const char *s = table[i].text; *s; s++)
            printf(*s == '\'' ? "'\\''" : *s == ':' ? "\\:" : "%c", *s);
        puts("'");
    }
    fputs("    )\n"
          "    if ((CURRENT == 2)); then\n"
          "        _describe -t commands 'paddlectl command' commands\n"
          "        return\n"
          "    fi\n"
          "    local cmd=$words[2]\n"
          "    shift words\n"
          "    ((CURRENT--))\n"
          "    case $cmd in\n",
          stdout);
    for (size_t i = 0; i < n && !bad; i++)
        bad = print_form(table, n, &table[i], "zsh");
    fputs(complete_zsh_tail, stdout);
    return bad || fflush(stdout) ? 1 : 0;
}

/* Replaces this process by `paddle_worker model --reference`: paddlectl has no tables of layers.
 * Returns only on failure. */
static int reference(const char *part, struct pd_err *err) {
    char path[4096], word[200];
    char *argv[] = {path, (char *)(uintptr_t) "model", (char *)(uintptr_t) "--reference", NULL,
                    NULL};
    if (node_program_path("paddle_worker", path, sizeof path, err))
        return err->code;
    if (part && pd_fmt(word, sizeof word, "--part=%s", part))
        return pd_fail(err, PD_EUSAGE, "the name is too long");
    argv[3] = part ? word : NULL;
    execv(path, argv);
    return pd_fail_errno(err, PD_EFAIL, errno, "cannot run %s", path);
}

int cmd_help(const struct command *table, size_t n, int argc, char **argv) {
    const char *page = NULL;
    int list = 0, for_bash = 0, for_zsh = 0;
    const struct pd_extra_option extra[] = {
        {"man=PAGE", NULL, &page,
         "print a page of the manual for man(1), for example paddlectl-run.1"},
        {"pages", &list, NULL, "list the pages of the manual"},
        {"bash", &for_bash, NULL, "print the completion for bash"},
        {"zsh", &for_zsh, NULL, "print the completion for zsh"},
        {0},
    };
    const struct cmd_line line = {
        .usage = "paddlectl help [SUBCOMMAND]\n"
                 "paddlectl help train.ini [NAME]\n"
                 "Shows the description and the options of a command. Without SUBCOMMAND: lists "
                 "the commands. train.ini: the reference of the network, or of the layer, "
                 "activation, cost, evaluator, optimizer or key NAME.",
        .about =
            "'make install' installs the manual and the completions, which are generated from the "
            "same tables as this help. Without an installation, the options below print them.",
        .examples = "paddlectl help run\tthe options of run\n"
                    "paddlectl help train.ini conv\tthe keys and formulas of a layer\n"
                    "source <(paddlectl help --bash)\tcompletion in this shell\n"
                    "paddlectl help --man=paddlectl-run.1 | man -l -\ta page of the manual\n",
        .extra = extra,
        .max_rest = 2,
    };
    struct pd_options o;
    struct pd_err err = {0};
    const char *rest[CMD_REST_MAX];
    int n_rest, rc = cmd_parse(&line, argc, argv, &o, rest, &n_rest);
    if (rc != CMD_GO_ON)
        return rc;
    pd_options_release(&o);
    const struct command *c = NULL;
    if (n_rest && !strcmp(rest[0], "train.ini"))
        reference(n_rest > 1 ? rest[1] : NULL, &err);
    else if (n_rest > 1)
        pd_fail(&err, PD_EUSAGE, "unexpected word '%s'", rest[1]);
    else if (n_rest)
        c = cmd_find(table, n, rest[0], &err);
    if (err.code)
        return cmd_fail(&err);
    if (c)
        return print_form(table, n, c, "text");
    if (page)
        rc = man_page(table, n, page, &err);
    else if (for_bash || for_zsh)
        rc = for_bash ? bash(table, n) : zsh(table, n);
    else
        rc = list ? print_pages(table, n) : cmd_list(table, n, stdout);
    return err.code ? cmd_fail(&err) : rc;
}
