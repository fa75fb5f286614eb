/* cmd_conf.c - paddlectl conf: every option's value and where it came from. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/str.h"
#include "launcher/cmd/cmd.h"

static int is_launchers(const struct pd_option *t) { return (t->who & PD_LAUNCHER) != 0; }

static void show_text(const struct pd_options *o) {
    size_t n;
    const struct pd_option *t = pd_option_table(&n);
    const char *section = "";
    for (size_t i = 0; i < n; i++) {
        struct pd_buf v;
        if (!is_launchers(&t[i]))
            continue;
        if (strcmp(section, t[i].section))
            printf("%s[%s]\n", *section ? "\n" : "", t[i].section);
        section = t[i].section;
        pd_buf_init(&v);
        pd_options_text(o, i, &v);
        printf("%s = %.*s%*s ; %s\n", t[i].name, (int)v.len, v.data ? (char *)v.data : "",
               (int)(strlen(t[i].name) + v.len < 40 ? 40 - strlen(t[i].name) - v.len : 0), "", o->origin[i].where);
        pd_buf_release(&v);
    }
    if (o->n_env)
        printf("\n[env]\n");
    for (size_t i = 0; i < o->n_env; i++)
        printf("%s = %s ; %s\n", o->env[i].name, o->env[i].value, o->env[i].where);
}

static int show_json(const struct pd_options *o) {
    size_t n;
    const struct pd_option *t = pd_option_table(&n);
    json_t *all = json_array();
    for (size_t i = 0; i < n; i++) {
        struct pd_buf v;
        if (!is_launchers(&t[i]))
            continue;
        pd_buf_init(&v);
        pd_options_text(o, i, &v);
        json_array_append_new(all, json_pack("{s:s, s:s, s:s%, s:s}", "section", t[i].section, "name", t[i].name, "value",
                                             v.data ? (char *)v.data : "", v.len, "from", o->origin[i].where));
        pd_buf_release(&v);
    }
    for (size_t i = 0; i < o->n_env; i++)
        json_array_append_new(all, json_pack("{s:s, s:s, s:s, s:s}", "section", "env", "name", o->env[i].name, "value",
                                             o->env[i].value, "from", o->env[i].where));
    return cmd_print_json(all);
}

/* The workspace's train.ini counts too, when the workspace is a folder here. */
static int read_train(struct pd_options *o, struct pd_err *err) {
    char path[4096];
    struct stat st;
    if (!*o->job_dispatch_package || pd_fmt(path, sizeof path, "%s/%s", o->job_dispatch_package, o->config) || stat(path, &st))
        return 0;
    return pd_options_read_train(o, path, err);
}

int cmd_conf(int argc, char **argv) {
    int json = 0;
    const struct pd_extra extra[] = {CMD_JSON(&json), {0}};
    const struct cmd_line line = {
        .usage = "paddlectl conf [options]\n"
                 "Shows the value of every option, and whether it comes from conf.ini (with the line), the workspace's train.ini,\n"
                 "the command line, or is the default.",
        .who = PD_LAUNCHER,
        .extra = extra,
        .needs_conf = 1,
    };
    struct pd_options o;
    struct pd_err err = {0};
    const char *rest[CMD_REST_MAX];
    int n_rest, rc = cmd_parse(&line, argc, argv, &o, rest, &n_rest);
    if (rc != CMD_GO_ON)
        return rc;
    rc = 0;
    if (read_train(&o, &err))
        rc = cmd_fail(&err);
    else if (json)
        rc = show_json(&o);
    else
        show_text(&o);
    pd_options_release(&o);
    return rc;
}
