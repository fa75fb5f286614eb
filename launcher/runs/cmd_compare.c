/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_compare.c - paddlectl compare: how runs differ in their settings, their files and what they
 * reached. */
#include "launcher/cmd/cmd.h"
#include "launcher/plot/charts.h"
#include "launcher/record/runs.h"
#include "launcher/runs/compare_internal.h"
#include "launcher/text/table.h"
#include "launcher/text/term.h"

enum { RUNS_MAX = TABLE_COLUMNS - 1, SHORT_ID = 12 };

struct compare_cmd {
    int json;
    size_t n;
    struct compared {
        const struct run *run;
        json_t *settings; /* "SECTION.KEY", as for --set, -> value */
        char workspace[2 * OBJECT_ID + 1], data[2 * OBJECT_ID + 1]; /* hashes of the contents */
    } v[RUNS_MAX];
    int has_hashes; /* all records have those of their files */
    json_t *keys;   /* all of their settings, in the order of the files */
};

/* --- settings --- */

/* Settings that cannot be read are missing, with a warning: the rest of the run can be compared. */
static int read_settings(struct compare_cmd *p, struct compared *c, const char *outputs,
                         struct pd_err *err) {
    char dir[PATH_MAX];
    struct pd_err why = {0};
    if (pd_fmt(dir, sizeof dir, "%s/%s", outputs, c->run->job))
        return pd_fail(err, PD_EUSAGE, "%s: the path is too long", outputs);
    if (record_settings(c->settings, dir, c->run->record, &why))
        fprintf(stderr, "paddlectl: %s: settings of train.ini are missing: %.400s\n", c->run->job,
                why.msg);
    json_object_update(p->keys, c->settings);
    return 0;
}

/* The default of an option of conf.ini; "-": it is no option. */
static const char *default_of(const char *key) {
    size_t n;
    const struct pd_option *t = pd_option_table(&n);
    for (size_t i = 0; i < n; i++) {
        const size_t len = strlen(t[i].section);
        if (!strncmp(key, t[i].section, len) && key[len] == '.' &&
            !strcmp(key + len + 1, t[i].name))
            return t[i].def && *t[i].def ? t[i].def : "-";
    }
    return "-";
}

static const char *setting(const struct compared *c, const char *key) {
    const char *s = json_string_value(json_object_get(c->settings, key));
    return s ? s : default_of(key);
}

/* --- rows: the name, then the text of each run --- */

typedef void cell_fn(const struct compared *c, const char *key, char *out, size_t cap);

static int add_row(struct table *t, const struct compare_cmd *p, const char *name, const char *key,
                   cell_fn *cell, int only_different) {
    char text[RUNS_MAX][400];
    const char *row[TABLE_COLUMNS] = {name};
    int differs = 0, filled = 0;
    for (size_t i = 0; i < p->n; i++) {
        cell(&p->v[i], key, text[i], sizeof text[i]);
        row[i + 1] = text[i];
        differs |= strcmp(text[i], text[0]) != 0;
        filled |= *text[i] != 0;
    }
    const int shown = filled && (differs || !only_different);
    if (shown)
        table_row(t, row);
    return shown;
}

static void setting_cell(const struct compared *c, const char *key, char *out, size_t cap) {
    pd_fmt(out, cap, "%.390s", setting(c, key));
}

static void id_cell(const struct compared *c, const char *key, char *out, size_t cap) {
    const char *s = json_string_value(json_object_get(c->run->record, key));
    pd_fmt(out, cap, "%.*s", SHORT_ID, s ? s : "");
}

static void contents_cell(const struct compared *c, const char *key, char *out, size_t cap) {
    pd_fmt(out, cap, "%.*s", SHORT_ID, !strcmp(key, "data") ? c->data : c->workspace);
}

static void text_cell(const struct compared *c, const char *key, char *out, size_t cap) {
    const char *s = !strcmp(key, "state") ? c->run->state
                                          : json_string_value(json_object_get(c->run->record, key));
    pd_fmt(out, cap, "%.390s", s ? s : "");
}

static void hosts_cell(const struct compared *c, const char *key, char *out, size_t cap) {
    pd_fmt(out, cap, "%zu", json_array_size(json_object_get(c->run->record, key)));
}

static void number_cell(const struct compared *c, const char *key, char *out, size_t cap) {
    const double v = run_number(c->run, key);
    *out = 0;
    if (!isnan(v))
        snprintf(out, cap, "%.6g", v);
}

static void best_cell(const struct compared *c, const char *key, char *out, size_t cap) {
    const json_t *b = c->run->best, *v = json_object_get(b, "value");
    const char *by = json_string_value(json_object_get(b, "by"));
    (void)key;
    *out = 0;
    if (v)
        snprintf(out, cap, "%.40s %.6g (pass %lld)", by ? by : "", json_number_value(v),
                 (long long)run_pass(b));
}

static void add_metrics(struct table *t, const struct compare_cmd *p, json_t *names) {
    const char *name;
    json_t *one;
    for (size_t i = 0; i < p->n; i++)
        json_object_foreach (json_object_get(p->v[i].run->test, "metrics"), name, one)
            json_object_set_new(names, name, json_true());
    json_object_foreach (names, name, one)
        add_row(t, p, name, name, number_cell, 0);
}

static void print_table(const struct compare_cmd *p) {
    const char *head[TABLE_COLUMNS] = {"SETTING"}, *key;
    json_t *one, *names = json_object();
    struct table t;
    int n = 0;
    for (size_t i = 0; i < p->n; i++)
        head[i + 1] = p->v[i].run->job;
    table_init(&t, (int)p->n + 1, NULL);
    table_fit(&t, term_limit(STDOUT_FILENO), "");
    table_row(&t, head);
    cell_fn *const contents = p->has_hashes ? contents_cell : id_cell;
    n += add_row(&t, p, "files of the workspace", "workspace", contents, 1);
    n += add_row(&t, p, "data files", "data", contents, 1);
    n += add_row(&t, p, "paddle_worker", "worker", id_cell, 1);
    n += add_row(&t, p, "hosts", "hosts", hosts_cell, 1);
    json_object_foreach (p->keys, key, one)
        n += add_row(&t, p, key, key, setting_cell, 1);
    if (!n)
        table_row(&t, (const char *[TABLE_COLUMNS]){"(all settings are equal)"});
    head[0] = "REACHED";
    table_row(&t, head);
    add_row(&t, p, "state", "state", text_cell, 0);
    add_row(&t, p, "passes", "passes", number_cell, 0);
    add_row(&t, p, "seconds", "seconds", number_cell, 0);
    add_row(&t, p, "samples/s", "rate", number_cell, 0);
    add_row(&t, p, "cost", "cost", number_cell, 0);
    add_row(&t, p, "test.cost", "test.cost", number_cell, 0);
    add_metrics(&t, p, names);
    add_row(&t, p, "best test", "", best_cell, 0);
    table_print(&t, stdout);
    table_release(&t);
    json_decref(names);
}

/* The curves of the cost and of the tests, one over the other. */
static int print_curves(const struct compare_cmd *p, const char *outputs, struct pd_err *err) {
    struct charts *c = pd_calloc(1, sizeof *c);
    struct pd_buf b = {0};
    char dir[PATH_MAX], label[200];
    int rc = c ? 0 : pd_oom(err, "curves"), more;
    if (rc)
        return rc;
    c->metric[c->n_metrics++] = "cost";
    c->metric[c->n_metrics++] = "test";
    for (size_t i = 0; i < p->n && !rc; i++) {
        const struct run *r = p->v[i].run;
        snprintf(label, sizeof label, "%s %.100s", r->job, run_text(r, "name"));
        if (!pd_fmt(dir, sizeof dir, "%s/%s", outputs, r->job))
            rc = charts_add(c, dir, label, err);
    }
    if (!rc)
        rc = charts_read(c, &more, err);
    if (!rc)
        charts_warn(c);
    if (!rc)
        rc = charts_draw(c, 0, &b, err);
    if (!rc)
        fwrite(b.data, 1, b.len, stdout);
    pd_buf_release(&b);
    charts_release(c);
    free(c);
    return rc;
}

static int print_json(const struct compare_cmd *p) {
    json_t *runs = json_array(), *differ = json_object(), *one;
    const char *key;
    for (size_t i = 0; i < p->n; i++) {
        json_t *o = json_copy(p->v[i].run->record);
        json_object_set_new(o, "state", json_string(p->v[i].run->state));
        json_array_append_new(runs, o);
    }
    json_object_foreach (p->keys, key, one) {
        json_t *values = json_array();
        int differs = 0;
        for (size_t i = 0; i < p->n; i++) {
            json_t *v = json_object_get(p->v[i].settings, key);
            json_array_append(values, v ? v : json_null());
            differs |= strcmp(setting(&p->v[i], key), setting(&p->v[0], key)) != 0;
        }
        if (differs)
            json_object_set(differ, key, values);
        json_decref(values);
    }
    return cmd_print_json(json_pack("{s:o, s:o}", "runs", runs, "settings", differ));
}

static int compare(void *arg, struct runs *all, const char *const *want, int n_want,
                   struct pd_err *err) {
    struct compare_cmd *p = arg;
    const char *outputs = all->outputs;
    int rc = 0;
    p->keys = json_object();
    p->has_hashes = 1;
    if (n_want < 2) /* without names: the two newest */
        rc = all->n < 2 || n_want ? pd_fail(err, PD_EUSAGE, "give two runs or more to compare") : 0;
    for (int i = 0; i < (n_want ? n_want : 2) && !rc; i++) {
        struct compared *c = &p->v[p->n];
        if (n_want)
            rc = runs_find(all, want[i], &c->run, err);
        else if (!(rc = run_read(all, (size_t)(1 - i), err)))
            c->run = &all->v[1 - i];
        if (rc)
            break;
        p->n++;
        c->settings = json_object();
        rc = read_settings(p, c, outputs, err);
        p->has_hashes &= !cmd_compare_hashes(c->run, outputs, c->workspace, c->data);
    }
    if (rc || p->json)
        return rc ? rc : print_json(p);
    print_table(p);
    if (p->n == 2 && (rc = cmd_compare_files(p->v[0].run, p->v[1].run, outputs, err)))
        return rc;
    return print_curves(p, outputs, err);
}

int cmd_compare(int argc, char **argv) {
    struct compare_cmd p = {0};
    const struct pd_extra_option extra[] = {CMD_JSON(&p.json), {0}};
    const struct cmd_line line = {
        .usage = "paddlectl compare [options] [JOB JOB...]\n"
                 "Shows the settings in which runs differ, of conf.ini and train.ini with all that "
                 "the command line set, what each run reached, a diff of the files of two runs' "
                 "workspaces, and the curves. Without JOB: the two newest. A "
                 "JOB is an id, its end, or the name of a run.",
        .about = "It reads the records of 'paddlectl runs', and asks no host.\n",
        .examples = "paddlectl compare\twhat changed since the run before\n"
                    "paddlectl compare wide deep\ttwo runs by their --name\n",
        .extra = extra,
        .max_rest = RUNS_MAX,
    };
    const int rc = cmd_runs_main(&line, argc, argv, compare, &p);
    for (size_t i = 0; i < p.n; i++)
        json_decref(p.v[i].settings);
    json_decref(p.keys);
    return rc;
}
