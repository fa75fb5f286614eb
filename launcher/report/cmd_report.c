/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_report.c - paddlectl report: runs as a page. */
#include "base/version.h"
#include "launcher/cmd/cmd.h"
#include "launcher/record/runs.h"
#include "launcher/report/report.h"

/* All points of a page; those of a series are enough for its curve. */
enum { POINTS = 5000, POINTS_MIN = 12, POINTS_MAX = 400, JOBS_MAX = 1000 };

struct report_cmd {
    const char *out, *last;
    struct report_shown {
        struct report_job job;
        const char *state; /* that of `paddlectl runs`, or NULL */
    } * v;
    size_t n, cap;
    json_t *notes;
};

static int add_job(struct report_cmd *p, const char *outputs, const char *job, const char *state,
                   struct pd_err *err) {
    char dir[PATH_MAX];
    if (pd_fmt(dir, sizeof dir, "%s/%s", outputs, job))
        return pd_fail(err, PD_EUSAGE, "%s: the path is too long", outputs);
    if (pd_grow(p->v, p->cap, p->n + 1))
        return pd_oom(err, "the report");
    p->v[p->n].state = state;
    return report_job_read(&p->v[p->n++].job, dir, err);
}

/* 1: the folder has a part of a record, which `runs` cannot read. */
static int has_record(const char *outputs, const char *job) {
    char path[PATH_MAX];
    return !strchr(job, '/') && *job != '.' &&
           ((!pd_fmt(path, sizeof path, "%s/%s/metrics.jsonl", outputs, job) &&
             !access(path, F_OK)) ||
            (!pd_fmt(path, sizeof path, "%s/%s/run.json", outputs, job) && !access(path, F_OK)));
}

static int add_named(struct report_cmd *p, const struct runs *all, const char *want,
                     struct pd_err *err) {
    const struct run *run;
    struct pd_err why = {0};
    if (!runs_find(all, want, &run, &why))
        return add_job(p, all->outputs, run->job, run->state, err);
    return has_record(all->outputs, want) ? add_job(p, all->outputs, want, NULL, err)
                                          : pd_err_copy(err, &why);
}

/* Without names: the newest. */
static int add_newest(struct report_cmd *p, const struct runs *all, struct pd_err *err) {
    int64_t last = 1;
    int rc = 0;
    if (p->last && pd_parse_i64(p->last, 1, JOBS_MAX, &last))
        return pd_fail(err, PD_EUSAGE, "--last=%.40s: give the number of runs", p->last);
    if (!all->n && !all->n_bad)
        return add_named(p, all, "latest", err);
    for (size_t i = 0; i < all->n && (int64_t)i < last && !rc; i++)
        rc = add_job(p, all->outputs, all->v[i].job, all->v[i].state, err);
    for (size_t i = 0; i < all->n_bad; i++)
        json_array_append_new(p->notes, json_string(all->bad[i].text));
    return !rc && !p->n ? pd_fail(err, PD_ENOENT, "no record in %s can be read: %.300s",
                                  all->outputs, all->bad[0].text)
                        : rc;
}

/* Notes are on the page, and on standard error. */
static void print_notes(const json_t *notes, const char *job) {
    const json_t *note;
    size_t i;
    char text[700];
    json_array_foreach (notes, i, note) {
        snprintf(text, sizeof text, "%s", json_string_value(note));
        fprintf(stderr, "paddlectl: %s%s%s\n", job, *job ? ": " : "", pd_make_printable(text));
    }
}

static int write_page(struct report_cmd *p, struct pd_err *err) {
    size_t n_series = 0;
    struct pd_buf page = {0};
    json_t *jobs = json_array();
    int rc = 0;
    for (size_t i = 0; i < p->n; i++)
        n_series += p->v[i].job.many.n;
    size_t max = n_series ? POINTS / n_series : POINTS_MAX;
    max = max < POINTS_MIN ? POINTS_MIN : max > POINTS_MAX ? POINTS_MAX : max;
    for (size_t i = 0; i < p->n && !rc; i++) {
        json_t *job = report_job_json(&p->v[i].job, p->v[i].state,
                                      (struct report_points){.chief = max, .others = max}, err);
        rc = err->code;
        json_array_append_new(jobs, job);
    }
    json_t *data = json_pack("{s:s, s:I, s:o, s:O}", "paddlectl", PD_VERSION, "made_ms",
                             (json_int_t)(pd_wall_us() / 1000), "jobs", jobs, "notes", p->notes);
    char *text = data ? report_data_text(data) : NULL;
    if (!rc)
        rc = text ? report_page(&page, text, 0, err) : pd_oom(err, "the report");
    if (!rc)
        rc = pd_write_file_quick(p->out, page.data, page.len, 0644, err);
    print_notes(rc ? NULL : p->notes, "");
    for (size_t i = 0; i < p->n && !rc; i++)
        print_notes(json_object_get(json_array_get(jobs, i), "notes"),
                    strrchr(p->v[i].job.dir, '/') + 1);
    if (!rc)
        printf("%s: %zu run%s, %zu kB\n", p->out, p->n, p->n == 1 ? "" : "s",
               (page.len + 500) / 1000);
    free(text);
    json_decref(data);
    pd_buf_release(&page);
    return rc;
}

static int report(void *arg, struct runs *all, const char *const *want, int n, struct pd_err *err) {
    struct report_cmd *p = arg;
    int rc = 0;
    p->notes = json_array();
    for (int i = 0; i < n && !rc; i++)
        rc = add_named(p, all, want[i], err);
    if (!rc && !n)
        rc = add_newest(p, all, err);
    if (!rc)
        rc = write_page(p, err);
    return rc;
}

/* The usual short form. Returns a new array; the words are those of argv. */
static char **long_options(int argc, char **argv, char joined[PATH_MAX + 8], int *n) {
    char **v = pd_calloc((size_t)argc + 1, sizeof *v);
    *n = 0;
    for (int i = 0; v && i < argc; i++) {
        v[(*n)++] = argv[i];
        if (!strcmp(argv[i], "--"))
            joined = NULL;
        if (joined && i && !strcmp(argv[i], "-o") && i + 1 < argc &&
            !pd_fmt(joined, PATH_MAX + 8, "--out=%s", argv[i + 1])) {
            v[*n - 1] = joined;
            i++;
        }
    }
    return v;
}

int cmd_report(int argc, char **argv) {
    struct report_cmd p = {.out = "report.html"};
    const struct pd_extra_option extra[] = {
        {"out=FILE", NULL, &p.out, "the page to write; also -o FILE; default: report.html"},
        {"last=N", NULL, &p.last, "without JOB: the newest N runs; default: 1"},
        {0}};
    const struct cmd_line line = {
        .usage = "paddlectl report [options] [JOB...]\n"
                 "Writes a page that shows what happened in runs: curves over each other, speed, "
                 "where the time goes, memory, network, events, settings, the network of "
                 "train.ini. Without JOB: the newest run. A JOB is an id, its end, or the name of "
                 "a run.",
        .about =
            "The page is one file. It needs no other file, and no network. It does not show the "
            "command line, environments and commands of conf.ini, which may have secrets in "
            "them.\n\nIt reads the records "
            "of 'paddlectl runs', and asks no host. The page and "
            "standard error name the parts of a record that cannot be read or are left out.\n",
        .examples = "paddlectl report\tthe newest run, in report.html\n"
                    "paddlectl report wide deep -o both.html\ttwo runs by their --name\n"
                    "paddlectl report --last=20\tthe 20 newest runs\n",
        .extra = extra,
        .max_rest = JOBS_MAX,
    };
    struct pd_err err = {0};
    char joined[PATH_MAX + 8];
    int n_words;
    char **words = long_options(argc, argv, joined, &n_words);
    if (!words)
        return cmd_fail((pd_oom(&err, "the command line"), &err));
    const int rc = cmd_runs_main(&line, n_words, words, report, &p);
    for (size_t i = 0; i < p.n; i++)
        report_job_release(&p.v[i].job);
    free(p.v);
    json_decref(p.notes);
    free(words);
    return rc;
}
