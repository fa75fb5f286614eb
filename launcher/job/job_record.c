/* SPDX-License-Identifier: Apache-2.0 */
/* job_record.c - what the record of a run gets of its job (launcher/record/record.h). */
#include "base/version.h"
#include "launcher/job/job_internal.h"
#include "launcher/record/record_files.h"
#include "launcher/tensorboard/tensorboard.h"

/* Text that may not be UTF-8, or be cut in the middle of a character. */
static json_t *text_of(const char *s) { return wire_text(s, strlen(s)); }

/* The words of the command line. */
static json_t *command_line(void) {
    struct pd_buf b = {0};
    json_t *words = json_array();
    enum { MOST = 1 << 20 };
    if (!pd_read_file("/proc/self/cmdline", MOST, &b, NULL))
        for (size_t at = 0; at < b.len; at += strlen((char *)b.data + at) + 1)
            json_array_append_new(words, text_of((char *)b.data + at));
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

/* --- the settings that differ from the defaults --- */

struct settings {
    struct pd_buf ini; /* conf.ini, for people: a value with several lines is one line there */
    json_t *all;       /* "SECTION.KEY", as for --set, -> value */
    const char *section;
};

static void put_setting(struct settings *s, const char *section, const char *before,
                        const char *name, const char *value) {
    struct pd_buf key = {0};
    if (strcmp(s->section, section))
        pd_put_fmt(&s->ini, "\n[%s]\n", section);
    s->section = section;
    pd_put_fmt(&s->ini, "%s%s = ", before, name);
    for (const char *c = value; *c; c++)
        pd_put_u8(&s->ini, *c == '\n' ? ' ' : (uint8_t)*c);
    pd_put_u8(&s->ini, '\n');
    pd_put_fmt(&key, "%s.%s%s", section, before, name);
    pd_put_u8(&key, 0);
    for (char *c = (char *)key.data; !key.failed && (c = strchr(c, ' '));) /* [host node1] */
        *c = '.';
    if (!key.failed)
        json_object_set_new(s->all, (char *)key.data, text_of(value));
    pd_buf_release(&key);
}

/* 1: the option has another value than its default. Any value of [train] that is given counts: it
 * overrides train.ini. */
static int is_given(const struct pd_options *o, size_t i, const struct pd_option *t,
                    const char *value) {
    return (t->who & PD_LAUNCHER) && o->origin[i].level > PD_FROM_TRAIN_INI &&
           (!strcmp(t->section, "train") || strcmp(value, t->def ? t->def : ""));
}

static void put_settings(const struct pd_options *o, struct settings *s) {
    size_t n;
    const struct pd_option *t = pd_option_table(&n);
    pd_put_fmt(&s->ini, "# The settings of this run that differ from the defaults.\n");
    for (size_t i = 0; i < n; i++) {
        struct pd_buf value = {0};
        pd_options_text(o, i, &value);
        pd_put_u8(&value, 0);
        if (!value.failed && is_given(o, i, &t[i], (char *)value.data))
            put_setting(s, t[i].section, "", t[i].name, (char *)value.data);
        pd_buf_release(&value);
    }
    for (size_t i = 0; i < o->n_groups; i++)
        put_setting(s, "groups", "", o->groups[i].name, o->groups[i].hosts);
    for (size_t i = 0; i < o->n_host_sections; i++) {
        const struct pd_host_section *h = &o->host_sections[i];
        char section[1100];
        if (pd_fmt(section, sizeof section, "host %s", h->pattern))
            continue;
        for (int k = 0; k < PD_HOST_N_KEYS; k++)
            if (h->value[k].text)
                put_setting(s, section, "", pd_host_keys[k].name, h->value[k].text);
        for (size_t k = 0; k < h->n_env; k++)
            put_setting(s, section, "env.", h->env[k].name, h->env[k].value);
        s->section = ""; /* `section` ends here */
    }
    for (size_t i = 0; i < o->n_env; i++)
        put_setting(s, "env", "", o->env[i].name, o->env[i].value);
}

static void warn(struct job *j, const struct pd_err *err) {
    watch_print(j, "warning: the record of this run is not complete: %s", err->msg);
}

/* The scan of a package; NULL: it was not scanned. */
static const struct scan *scan_of(const struct job *j, int package) {
    return package >= 0 && dispatch_is_scanned(j->dispatch, package)
               ? dispatch_scan(j->dispatch, package)
               : NULL;
}

/* The copy of the files: in a thread, while the processes start. The loop runs until it has ended.
 */
struct file_copy {
    uv_work_t work;
    struct job *job;
    const struct scan *workspace, *data;
    struct pd_err err;
};

static void copy_files(uv_work_t *w) {
    struct file_copy *x = w->data;
    record_files_keep(x->job->opts->outputs, x->job->out.dir, x->workspace, x->data, &x->err);
}

static void on_copied(uv_work_t *w, int status) {
    struct file_copy *x = w->data;
    (void)status;
    if (x->err.code)
        warn(x->job, &x->err);
    free(x);
}

static void keep_files(struct job *j) {
    const struct scan *workspace = scan_of(j, j->workspace_package);
    struct file_copy *x = workspace ? pd_calloc(1, sizeof *x) : NULL;
    struct pd_err err = {0};
    if (!workspace)
        return;
    if (x) {
        *x = (struct file_copy){
            .job = j, .workspace = workspace, .data = scan_of(j, j->data_package)};
        x->work.data = x;
    }
    if (!x || uv_queue_work(&j->c.loop, &x->work, copy_files, on_copied)) {
        free(x);
        pd_oom(&err, "the files of a record");
        warn(j, &err);
    }
}

/* --- event files for TensorBoard --- */

#define NO_EVENTS                                                                               \
    "warning: no more events for TensorBoard: %s; 'paddlectl runs --tensorboard=%s %s' writes " \
    "them"

static void end_events(struct job *j) {
    tensorboard_free(j->tensorboard);
    j->tensorboard = NULL;
}

static void begin_events(struct job *j, const char *dir) {
    struct pd_err err = {0};
    if (j->flags.tensorboard && tensorboard_new(&j->tensorboard, j->flags.tensorboard, dir, &err))
        watch_print(j, NO_EVENTS, err.msg, j->flags.tensorboard, j->id);
}

static void update_events(uv_work_t *w) {
    struct job *j = w->data;
    (void)tensorboard_update(j->tensorboard, &j->event_work.err);
}

static void on_updated(uv_work_t *w, int status) {
    struct job *j = w->data;
    (void)status;
    j->event_work.is_busy = 0;
    if (!j->event_work.err.code)
        return;
    watch_print(j, NO_EVENTS, j->event_work.err.msg, j->flags.tensorboard, j->id);
    end_events(j);
}

/* The next update waits for the end of this one. */
void job_record_tick(struct job *j) {
    if (!j->tensorboard || j->event_work.is_busy)
        return;
    j->event_work.work.data = j;
    j->event_work.is_busy =
        !uv_queue_work(&j->c.loop, &j->event_work.work, update_events, on_updated);
}

/* The view is closed, and the loop has ended, with it the last update. */
static void last_events(struct job *j, const char *state) {
    struct pd_err err = {0};
    if (!j->tensorboard)
        return;
    if (tensorboard_update(j->tensorboard, &err))
        dprintf(STDERR_FILENO, "paddlectl: " NO_EVENTS "\n", err.msg, j->flags.tensorboard, j->id);
    else if (job_goes_on(j, state))
        dprintf(STDERR_FILENO,
                "paddlectl: the events for TensorBoard end here; 'paddlectl attach "
                "--tensorboard=%s %s' continues them\n",
                j->flags.tensorboard, j->id);
    end_events(j);
}

/* --- begin and end --- */

void job_record_begin(struct job *j) {
    struct pd_err err = {0};
    struct settings s = {.all = json_object(), .section = ""};
    put_settings(j->opts, &s);
    char workspace[2 * OBJECT_ID + 1], data[sizeof workspace], worker[sizeof workspace];
    json_t *run = json_pack(
        "{s:i, s:s, s:s, s:s, s:s, s:I, s:o, s:s, s:s, s:s, s:s, s:o, s:o, s:o, s:o}", "version",
        RECORD_VERSION, "job", j->id, "name", j->opts->job_name, "state",
        j->flags.detach ? "detached" : "running", "paddlectl", PD_VERSION, "started_ms",
        (json_int_t)(pd_wall_us() / 1000), "command", command_line(), "resumed", j->checkpoint.text,
        "workspace", job_package_id(j, j->workspace_package, workspace), "data",
        job_package_id(j, j->data_package, data), "worker",
        job_package_id(j, j->worker_package, worker), "hosts", hosts_of(j), "pservers",
        ranks(j->c.pservers, j->c.n_pservers), "trainers", ranks(j->c.trainers, j->c.n_trainers),
        "settings", s.all);
    if (record_new(&j->record, j->out.dir, run, &err)) {
        warn(j, &err);
        pd_buf_release(&s.ini);
        return;
    }
    if (!s.ini.failed)
        record_file(j->record, "conf.ini", s.ini.data, s.ini.len, 0600);
    pd_buf_release(&s.ini);
    keep_files(j);
    if (j->train_ini.len)
        record_file(j->record, "train.ini", j->train_ini.data, j->train_ini.len, RECORD_MODE);
    begin_events(j, j->out.dir);
}

void job_record_join(struct job *j) {
    struct pd_err err = {0};
    char dir[PATH_MAX];
    if (pd_fmt(dir, sizeof dir, "%s/%s", j->opts->outputs, j->id))
        return;
    if (!record_open(&j->record, dir, &err))
        begin_events(j, dir);
    else if (j->flags.tensorboard)
        watch_print(j, "warning: no events for TensorBoard without the record: %s", err.msg);
    else if (err.code != PD_ENOENT && err.code != PD_EEXIST)
        warn(j, &err);
}

int job_goes_on(const struct job *j, const char *state) {
    return j->left || !strcmp(state, "running") ||
           ((j->joined || j->demoted) && !j->failed && !j->stopped && !j->knows_saved);
}

void job_record_end(struct job *j, int status, const char *state) {
    struct pd_err err = {0};
    json_t *lost = json_object();
    last_events(j, state);
    for (int i = 0; i < j->n_hosts; i++)
        if (*j->nodes[i].lost)
            json_object_set_new(lost, j->nodes[i].host->label, text_of(j->nodes[i].lost));
    json_t *end =
        job_goes_on(j, state)
            ? json_pack("{s:s}", "state", "detached")
            : json_pack("{s:s, s:i, s:I, s:f, s:o, s:O*, s:O*, s:O?, s:I, s:O}", "state", state,
                        "exit_status", status, "ended_ms", (json_int_t)(pd_wall_us() / 1000),
                        "seconds", (double)j->took_ms / 1000, "saved", text_of(j->saved), "test",
                        j->test, "best", j->best, "failure", j->failure, "restarts", j->n_restarts,
                        "lost", lost);
    json_decref(lost);
    if (record_end(j->record, end, &err))
        dprintf(STDERR_FILENO, "paddlectl: warning: the record of this run is not complete: %s\n",
                err.msg);
    j->record = NULL;
}
