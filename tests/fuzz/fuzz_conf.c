/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_conf.c - conf.ini, options of the command line with --set, PADDLE_INIT_* of the environment.
 * Whatever is accepted prints as text that is accepted again, with the same result.
 *
 * Parts: conf.ini, then words: of the environment if they begin with PADDLE_, else options. The
 * first byte chooses the program; y: the rest is a conf.py of the original system, which becomes a
 * conf.ini with these sections and nothing else. */
#include "conf/conf_py.h"
#include "conf/ini_file.h"
#include "conf/settings.h"
#include "tests/support/fuzz/fuzz.h"

enum { WORDS = 16 };

static void say_again(const struct pd_options *o, unsigned who) {
    size_t n;
    const struct pd_option *t = pd_option_table(&n);
    struct pd_options again;
    struct pd_buf a = {0}, b = {0};
    fuzz_check(!pd_options_init(&again, NULL));
    for (size_t i = 0; i < n; i++) {
        struct pd_err err = {0};
        pd_buf_clear(&a);
        pd_buf_clear(&b);
        pd_options_text(o, i, &a);
        pd_put_u8(&a, 0);
        if (o->origin[i].level == PD_FROM_DEFAULT || !(t[i].who & who))
            continue;
        fuzz_check(!pd_options_set(&again, t[i].who, t[i].section, t[i].name, (const char *)a.data,
                                   PD_FROM_ARGV, "again", NULL, &err));
        pd_options_text(&again, i, &b);
        pd_put_u8(&b, 0);
        fuzz_check(a.len == b.len && !memcmp(a.data, b.data, a.len));
    }
    pd_options_release(&again);
    pd_buf_release(&a);
    pd_buf_release(&b);
}

static int on_pair(void *arg, const char *section, const char *name, const char *value, int line,
                   struct pd_err *err) {
    int *hosts = arg;
    (void)line;
    (void)err;
    fuzz_check(!strcmp(section, "cluster") || !strcmp(section, "job") || !strcmp(section, "env"));
    if (!strcmp(section, "env"))
        fuzz_check(!strcmp(name, "LD_LIBRARY_PATH"));
    if (!strcmp(section, "job"))
        fuzz_check(!strcmp(name, "job_dispatch_package") && !strcmp(value, "./workspace"));
    *hosts += !strcmp(name, "hosts");
    return 0;
}

static void read_conf_py(struct pd_reader *in) {
    struct pd_buf out = {0}, warnings = {0};
    struct pd_err err = {0}, made = {0};
    int hosts = 0;
    if (!fuzz_rc(pd_conf_py_read("conf.py", fuzz_text(in), &out, &warnings, &err), &err)) {
        int rc =
            pd_ini_read_text("conf.ini", (char *)out.data, out.len, NULL, on_pair, &hosts, &made);
        /* lines have a limit in conf.ini, and none in conf.py */
        fuzz_check(!rc ? hosts == 1 : strstr(made.msg, "long") != NULL);
    }
    pd_buf_release(&out);
    pd_buf_release(&warnings);
}

FUZZ(in) {
    static const unsigned programs[] = {PD_LAUNCHER, PD_PSERVER, PD_TRAINER};
    const uint8_t which = fuzz_u8(in);
    if (which == 'y') {
        read_conf_py(in);
        return;
    }
    const unsigned who = programs[which % 3];
    struct pd_options o;
    struct pd_err err = {0};
    struct pd_buf list = {0};
    char *arg[WORDS], *env[WORDS + 1];
    const char *rest[WORDS];
    int n_args = 0, n_env = 0, n_rest, rc;
    size_t n;
    const char *conf = fuzz_part(in, &n);
    const char *path = fuzz_file("conf.ini", conf, n);
    while (n_args < WORDS && n_env < WORDS && fuzz_left(in)) {
        char *word = fuzz_text(in);
        if (pd_starts_with(word, "PADDLE_"))
            env[n_env++] = word;
        else
            arg[n_args++] = word;
    }
    env[n_env] = NULL;
    fuzz_check(!pd_options_init(&o, NULL));
    rc = pd_options_args(&o, who, n_args, arg, NULL, rest, &n_rest, &err);
    rc = rc ? rc : pd_options_read_environ(&o, who, env, &err);
    rc = rc ? rc : pd_options_read_conf(&o, path, &err);
    rc = rc ? rc : pd_settings_to_sections(&o, &err);
    rc = rc ? rc : pd_options_complete_pservers(&o, &err);
    if (!fuzz_rc(rc, &err)) {
        say_again(&o, who);
        pd_settings_text(&o, &list);
    }
    pd_buf_release(&list);
    pd_options_release(&o);
}
