/* SPDX-License-Identifier: Apache-2.0 */
/* cmd.c - see cmd.h. */
#include "launcher/cmd/cmd.h"

#include <poll.h>

#include "conf/settings.h"
#include "launcher/cmd/manual.h"
#include "launcher/engine/engine.h"
#include "launcher/link/bundle.h"
#include "launcher/text/term.h"

enum { MAX_EXTRA = 32 };

int cmd_fail(const struct pd_err *err) {
    int colour = term_has_colour(STDERR_FILENO);
    fprintf(stderr, "%spaddlectl: %s%s\n", colour ? "\033[31m" : "", err->msg,
            colour ? "\033[m" : "");
    return pd_code_exit_status(err->code);
}

int cmd_reader_is_gone(void) {
    struct pollfd f = {.fd = STDOUT_FILENO};
    return poll(&f, 1, 0) == 1 && f.revents & POLLERR;
}

static int print_json(json_t *v, size_t flags) {
    int bad = !v || json_dumpf(v, stdout, flags | JSON_PRESERVE_ORDER) || putchar('\n') == EOF ||
              fflush(stdout);
    json_decref(v);
    if (bad && cmd_reader_is_gone())
        return 0;
    if (bad)
        fputs("paddlectl: the result cannot be written\n", stderr);
    return bad ? 1 : 0;
}

int cmd_print_json(json_t *v) { return print_json(v, JSON_INDENT(2) | JSON_REAL_PRECISION(10)); }
int cmd_print_json_line(json_t *v) { return print_json(v, JSON_COMPACT); }

/* Print the help in one of its forms: text, manual page, completion for bash or zsh (manual.h). */
static int help(const struct manual *m, const char *kind) {
    static const struct {
        const char *kind;
        void (*write)(const struct manual *m, struct pd_buf *out);
    } kinds[] = {
        {"text", manual_help}, {"man", manual_man}, {"bash", manual_bash}, {"zsh", manual_zsh}};
    struct pd_buf out;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(kinds[i].kind, kind))
            continue;
        pd_buf_init(&out);
        kinds[i].write(m, &out);
        int bad = out.failed || fwrite(out.data, 1, out.len, stdout) != out.len || fflush(stdout);
        pd_buf_release(&out);
        return bad ? 1 : 0;
    }
    struct pd_err err = {0};
    pd_fail(&err, PD_EUSAGE, "--help takes no value");
    return cmd_fail(&err);
}

static int read_conf(struct pd_options *o, const char *path, int may_lack, struct pd_err *err) {
    struct stat st;
    int rc = 0;
    if (path && !stat(path, &st) && S_ISDIR(st.st_mode))
        rc = pd_fail(err, PD_EUSAGE, "%s is a folder: give a file, as in --conf=%s/conf.ini", path,
                     path);
    else if (path && access(path, F_OK))
        rc = pd_fail(err, PD_ENOENT, "cannot open %s: %s; 'paddlectl init' makes a conf.ini", path,
                     strerror(errno));
    else if (path || !access("conf.ini", F_OK))
        rc = pd_options_read_conf(o, path ? path : "conf.ini", err);
    else if (!(rc = engine_options(o, err)) && !*o->hosts && !may_lack)
        /* otherwise the command line replaces conf.ini */
        rc = pd_fail(
            err, PD_ENOENT,
            "there is no conf.ini here; give --conf=FILE, or make one with 'paddlectl init'");
    rc = rc ? rc : pd_settings_to_sections(o, err);
    return rc ? rc : engine_options(o, err);
}

int cmd_parse(const struct cmd_line *line, int argc, char **argv, struct pd_options *o,
              const char **rest, int *n_rest) {
    int want_help = 0, n = 0;
    const char *conf = NULL;
    struct pd_extra_option extra[MAX_EXTRA] = {{0}};
    struct pd_err err = {0};
    for (const struct pd_extra_option *e = line->extra; e && e->name; e++) {
        assert(n < MAX_EXTRA - 4); /* room for --set, --conf, --help and the end */
        extra[n++] = *e;
    }
    if (line->who)
        extra[n++] = (struct pd_extra_option){
            "set=SECTION.KEY=VALUE", NULL, NULL,
            "set any key of conf.ini or train.ini, such as layer.hidden.size=512; may be repeated"};
    if (line->needs_conf)
        extra[n++] = (struct pd_extra_option){"conf=FILE", NULL, &conf,
                                              "the configuration; default: ./conf.ini"};
    extra[n++] = (struct pd_extra_option){"help", &want_help, NULL, "show this"};
    struct manual m = {argv[0], "", line, extra};
    if (argc > 1 && pd_starts_with(argv[1], "--help=")) {
        m.text = argc > 2 ? argv[2] : "";
        return help(&m, argv[1] + strlen("--help="));
    }
    if (pd_options_init(o, &err))
        return cmd_fail(&err);
    *n_rest = 0;
    int rc = argc > CMD_REST_MAX ? pd_fail(&err, PD_EUSAGE, "more than %d words", CMD_REST_MAX) : 0;
    if (!rc)
        rc = (line->rest_is_command ? pd_options_command : pd_options_args)(
            o, line->who, argc - 1, argv + 1, extra, rest, n_rest, &err);
    if (!rc && want_help) {
        pd_options_release(o);
        return help(&m, "text");
    }
    if (!rc && *n_rest > line->max_rest)
        rc = pd_fail(&err, PD_EUSAGE, "unexpected word '%s'", rest[line->max_rest]);
    if (rc)
        fprintf(stderr, "paddlectl: %s; see 'paddlectl %s --help'\n", err.msg, argv[0]);
    else if (line->needs_conf &&
             (rc = read_conf(o, conf, line->without_conf && *line->without_conf, &err)))
        cmd_fail(&err);
    if (!rc)
        return CMD_GO_ON;
    pd_options_release(o);
    return pd_code_exit_status(err.code);
}

int cmd_main(const struct cmd_line *line, int argc, char **argv, cmd_action *run, void *arg) {
    struct pd_options o;
    struct pd_err err = {0};
    const char *rest[CMD_REST_MAX];
    int n_rest, rc = cmd_parse(line, argc, argv, &o, rest, &n_rest);
    if (rc != CMD_GO_ON)
        return rc;
    rc = run(arg, &o, n_rest ? rest[0] : NULL, &err);
    pd_options_release(&o);
    return err.code ? cmd_fail(&err) : rc;
}

int cmd_share_dir(const char *name, char *out, size_t cap, struct pd_err *err) {
    char self[4096];
    if (bundle_self_dir(self, sizeof self, err))
        return err->code;
    /* installed: beside bin/; in the source tree: two folders above build/FLAVOUR */
    if (!pd_fmt(out, cap, "%s/../share/paddlectl/%s", self, name) && !access(out, R_OK | X_OK))
        return 0;
    if (!pd_fmt(out, cap, "%s/../../%s", self, name) && !access(out, R_OK | X_OK))
        return 0;
    return pd_fail(err, PD_ENOENT, "%s is neither in %s/../share/paddlectl nor in %s/../..", name,
                   self, self);
}
