/* job_record.c - what the record of a run gets of its job (launcher/record/record.h). */
#include "base/version.h"
#include "launcher/job/job_internal.h"

/* The words of the command line. */
static json_t *command_line(void) {
    struct pd_buf b = {0};
    json_t *words = json_array();
    enum { MOST = 1 << 20 };
    if (!pd_read_file("/proc/self/cmdline", MOST, &b, NULL))
        for (size_t at = 0; at < b.len; at += strlen((char *)b.data + at) + 1)
            json_array_append_new(words, json_string((char *)b.data + at));
    pd_buf_release(&b);
    return words;
}

static json_t *hosts_of(const struct job *j) {
    json_t *hosts = json_array();
    for (int i = 0; i < j->n_nodes; i++)
        if (j->by_id[i])
            json_array_append_new(
                hosts, json_pack("{s:i, s:s}", "node", i, "host", j->by_id[i]->host->label));
    return hosts;
}

static json_t *ranks(const int *nodes, size_t n) {
    json_t *v = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(v, json_integer(nodes[i]));
    return v;
}

/* --- conf.ini: the settings that differ from the defaults --- */

static void put_env(struct pd_buf *b, const char *before, const struct pd_env_var *env, size_t n) {
    for (size_t i = 0; i < n; i++)
        pd_put_fmt(b, "%s%s = %s\n", before, env[i].name, env[i].value);
}

/* 1: the option has another value than its default. One of [train] that train.ini does not give is
 * also shown if it has: it overrides train.ini. */
static int is_given(const struct pd_options *o, size_t i, const struct pd_option *t,
                    const char *value) {
    return (t->who & PD_LAUNCHER) && o->origin[i].level > PD_FROM_TRAIN_INI &&
           (!strcmp(t->section, "train") || strcmp(value, t->def ? t->def : ""));
}

static void put_conf(const struct pd_options *o, struct pd_buf *b) {
    size_t n;
    const struct pd_option *t = pd_option_table(&n);
    const char *section = "";
    pd_put_fmt(b, "# The settings of this run that differ from the defaults.\n");
    for (size_t i = 0; i < n; i++) {
        struct pd_buf value = {0};
        pd_options_text(o, i, &value);
        pd_put_u8(&value, 0);
        b->failed |= value.failed;
        if (!value.failed && is_given(o, i, &t[i], (char *)value.data)) {
            if (strcmp(section, t[i].section))
                pd_put_fmt(b, "\n[%s]\n", section = t[i].section);
            pd_put_fmt(b, "%s = %s\n", t[i].name, (char *)value.data);
        }
        pd_buf_release(&value);
    }
    for (size_t i = 0; i < o->n_groups; i++)
        pd_put_fmt(b, "%s%s = %s\n", i ? "" : "\n[groups]\n", o->groups[i].name,
                   o->groups[i].hosts);
    for (size_t i = 0; i < o->n_host_sections; i++) {
        const struct pd_host_section *h = &o->host_sections[i];
        pd_put_fmt(b, "\n[host %s]\n", h->pattern);
        for (int k = 0; k < PD_HOST_N_KEYS; k++)
            if (h->value[k].text)
                pd_put_fmt(b, "%s = %s\n", pd_host_keys[k].name, h->value[k].text);
        put_env(b, "env.", h->env, h->n_env);
    }
    if (o->n_env)
        pd_put_fmt(b, "\n[env]\n");
    put_env(b, "", o->env, o->n_env);
}

/* --- begin and end --- */

static void warn(struct job *j, const struct pd_err *err) {
    watch_print(j, "warning: the record of this run is not complete: %s", err->msg);
}

void job_record_begin(struct job *j) {
    struct pd_err err = {0};
    struct pd_buf conf = {0};
    char workspace[2 * OBJECT_ID + 1], data[sizeof workspace], worker[sizeof workspace];
    json_t *run = json_pack(
        "{s:i, s:s, s:s, s:s, s:s, s:I, s:o, s:s, s:s, s:s, s:s, s:o, s:o, s:o}", "version",
        RECORD_VERSION, "job", j->id, "name", j->opts->job_name, "state",
        j->flags.detach ? "detached" : "running", "paddlectl", PD_VERSION, "started_ms",
        (json_int_t)(pd_wall_us() / 1000), "command", command_line(), "resumed", j->checkpoint.text,
        "workspace", job_package_id(j, j->workspace_package, workspace), "data",
        job_package_id(j, j->data_package, data), "worker",
        job_package_id(j, j->worker_package, worker), "hosts", hosts_of(j), "pservers",
        ranks(j->c.pservers, j->c.n_pservers), "trainers", ranks(j->c.trainers, j->c.n_trainers));
    if (record_new(&j->record, j->out.dir, run, &err)) {
        warn(j, &err);
        return;
    }
    put_conf(j->opts, &conf);
    if (!conf.failed)
        record_file(j->record, "conf.ini", conf.data, conf.len, 0600);
    pd_buf_release(&conf);
    if (j->train_ini.len)
        record_file(j->record, "train.ini", j->train_ini.data, j->train_ini.len, RECORD_MODE);
}

void job_record_join(struct job *j) {
    struct pd_err err = {0};
    char dir[PATH_MAX];
    if (!pd_fmt(dir, sizeof dir, "%s/%s", j->opts->outputs, j->id) &&
        record_open(&j->record, dir, &err) && err.code != PD_ENOENT && err.code != PD_EEXIST)
        warn(j, &err);
}

/* The job may go on without this paddlectl. */
static int goes_on(const struct job *j, const char *state) {
    return j->left || !strcmp(state, "running") ||
           ((j->joined || j->demoted) && !j->failed && !j->stopped && !j->knows_saved);
}

void job_record_end(struct job *j, int status, const char *state) {
    struct pd_err err = {0};
    json_t *lost = json_object();
    for (int i = 0; i < j->n_hosts; i++)
        if (*j->nodes[i].lost)
            json_object_set_new(lost, j->nodes[i].host->label, json_string(j->nodes[i].lost));
    json_t *end =
        goes_on(j, state)
            ? json_pack("{s:s}", "state", "detached")
            : json_pack("{s:s, s:i, s:I, s:f, s:s, s:O*, s:O*, s:O*, s:I, s:O}", "state", state,
                        "exit_status", status, "ended_ms", (json_int_t)(pd_wall_us() / 1000),
                        "seconds", (double)j->took_ms / 1000, "saved", j->saved, "test", j->test,
                        "best", j->best, "failure", j->failure, "restarts", j->n_restarts, "lost",
                        lost);
    json_decref(lost);
    if (record_end(j->record, end, &err))
        dprintf(STDERR_FILENO, "paddlectl: warning: the record of this run is not complete: %s\n",
                err.msg);
    j->record = NULL;
}
