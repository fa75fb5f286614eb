/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_runs.c - paddlectl runs: the table of the runs whose records are on this machine. */
#include "launcher/cmd/cmd.h"
#include "launcher/record/runs.h"
#include "launcher/tensorboard/tensorboard.h"
#include "launcher/text/table.h"
#include "launcher/text/term.h"
#include "launcher/text/when.h"

enum { NAMED_MAX = 1000 };

struct runs_cmd {
    const char *sort, *last, *state, *tensorboard;
    int json, csv;
    const struct run *named[NAMED_MAX]; /* the JOBs of the command line */
    int n_named;
};

/* --- which runs, in which order --- */

struct sorted {
    const struct run *run;
    const char *text; /* NULL: by number */
    double number;
    int reverse;
    size_t place; /* equal ones stay the newest first */
};

static int by_key(const void *a, const void *b) {
    const struct sorted *x = a, *y = b;
    int c = 0;
    if (x->text)
        c = strcmp(x->text, y->text);
    else if (isnan(x->number) || isnan(y->number)) /* without a value: at the end */
        return isnan(x->number) != isnan(y->number) ? (isnan(x->number) ? 1 : -1)
               : x->place > y->place                ? 1
                                                    : -1;
    else
        c = (x->number > y->number) - (x->number < y->number);
    c = x->reverse ? -c : c;
    return c ? c : x->place > y->place ? 1 : -1;
}

/* 1: more is better. */
static int goes_down(const struct run *r, const char *key) {
    char by[200];
    const int judged = !strcmp(key, "best") || !strcmp(key, "last") ||
                       (!pd_fmt(by, sizeof by, "test.%s", run_text(r, "by")) && !strcmp(by, key));
    return !strcmp(key, "rate") || (judged && !strcmp(run_text(r, "better"), "higher"));
}

static void fill_key(struct sorted *s, const char *key) {
    const struct run *r = s->run;
    if (*key == '-')
        key++;
    s->text = !strcmp(key, "job")     ? r->job
              : !strcmp(key, "name")  ? run_text(r, "name")
              : !strcmp(key, "state") ? r->state
                                      : NULL;
    s->number = run_number(r, key);
    s->reverse = goes_down(r, key);
}

/* best and last are of one measure only. */
static int is_mixed(const struct sorted *v, size_t n, const char *key, struct pd_err *err) {
    const char *by = NULL;
    key += *key == '-';
    for (size_t i = 0; i < n && (!strcmp(key, "best") || !strcmp(key, "last")); i++) {
        const char *other = run_text(v[i].run, "by");
        if (by && *other && strcmp(by, other))
            return pd_fail(err, PD_EUSAGE,
                           "--sort=%s: some runs are judged by %.60s and some by %.60s: sort by a "
                           "metric, as in --sort=test.%.60s",
                           key, by, other, by);
        by = *other ? other : by;
    }
    return 0;
}

static int is_named(const struct runs_cmd *p, const struct run *r) {
    for (int i = 0; i < p->n_named; i++)
        if (p->named[i] == r)
            return 1;
    return !p->n_named;
}

/* The chosen runs; *n of them. NULL: no memory, or `key` is no number of any run. */
static struct sorted *choose(const struct runs_cmd *p, const struct runs *all, size_t last,
                             size_t *n, struct pd_err *err) {
    struct sorted *v = pd_calloc(all->n + 1, sizeof *v);
    int known = !p->sort || !all->n, down = 0;
    *n = 0;
    for (size_t i = 0; v && i < all->n && *n < last; i++) {
        if (!is_named(p, &all->v[i]) || (p->state && strcmp(p->state, all->v[i].state)))
            continue;
        v[*n] = (struct sorted){.run = &all->v[i], .place = *n};
        if (p->sort)
            fill_key(&v[*n], p->sort);
        known |= p->sort && (v[*n].text || !isnan(v[*n].number));
        down |= v[*n].reverse;
        (*n)++;
    }
    if (!v) {
        pd_oom(err, "the records");
        return NULL;
    }
    if (*n && !known) {
        pd_fail(err, PD_EUSAGE,
                "--sort=%s: no run has it; known are job, name, state, seconds, passes, rate, "
                "cost, best, last, and metrics as test.auc",
                p->sort);
        free(v);
        return NULL;
    }
    if (p->sort && is_mixed(v, *n, p->sort, err)) {
        free(v);
        return NULL;
    }
    for (size_t i = 0; i < *n; i++)
        v[i].reverse = down != (p->sort && *p->sort == '-');
    if (p->sort)
        qsort(v, *n, sizeof *v, by_key);
    return v;
}

/* --- the table --- */

static const char *const heads[] = {"JOB",   "NAME",   "STATE", "STARTED", "FOR",
                                    "HOSTS", "PASSES", "BEST",  "LAST",    "SPEED"};
/* The columns in the order in which a narrow terminal lacks them (table_fit). */
static const char leaving[] = "fbjeg";

static void put_test(char *out, size_t cap, const struct run *r, const char *key, const char *by) {
    const double v = run_number(r, key), pass = *key == 'b' ? run_number(r, "best_pass") : 0;
    *out = 0;
    if (!isnan(v) && pass > 0)
        snprintf(out, cap, "%.40s %.5g (%.0f)", run_text(r, by), v, pass);
    else if (!isnan(v))
        snprintf(out, cap, "%.40s %.5g", run_text(r, by), v);
}

static int started(const struct run *r, int utc, struct tm *tm) {
    const time_t at = (time_t)(r->started_ms / 1000);
    return at && (utc ? gmtime_r(&at, tm) : localtime_r(&at, tm));
}

static void add_run(struct table *t, const struct run *r) {
    struct tm tm;
    char at[24] = "", span[32] = "", hosts[16] = "", passes[48] = "", best[80], last[80],
         speed[60] = "";
    const double s = run_number(r, "seconds"), rate = run_number(r, "rate");
    const double n = run_number(r, "hosts"), of = run_number(r, "num_passes");
    if (started(r, 0, &tm))
        strftime(at, sizeof at, "%Y-%m-%d %H:%M", &tm);
    if (s >= 0)
        when_span(span, sizeof span, (uint64_t)(s * 1e6));
    if (n > 0)
        pd_fmt(hosts, sizeof hosts, "%.0f", n);
    if (!isnan(run_number(r, "pass")))
        pd_fmt(passes, sizeof passes, of > 0 ? "%lld/%.0f" : "%lld", (long long)r->n_passes, of);
    put_test(best, sizeof best, r, "best", "best_by");
    put_test(last, sizeof last, r, "last", "by");
    if (rate >= 0)
        pd_fmt(speed, sizeof speed, "%.0f %.20s/s", rate, run_text(r, "unit"));
    const char *const row[] = {
        r->job, run_text(r, "name"), r->state, at, span, hosts, passes, best, last, speed};
    table_row(t, row);
}

static int print_table(const struct sorted *v, size_t n, const char *outputs) {
    struct table t;
    table_init(&t, sizeof heads / sizeof heads[0], ".....r");
    table_fit(&t, term_limit(STDOUT_FILENO), leaving);
    table_row(&t, heads);
    for (size_t i = 0; i < n; i++)
        add_run(&t, v[i].run);
    if (n)
        table_print(&t, stdout);
    else
        fprintf(stderr, "paddlectl: no such run has a record in %s\n", outputs);
    table_release(&t);
    return 0;
}

/* --- for programs --- */

static int print_json(const struct runs *all, const struct sorted *v, size_t n,
                      struct pd_err *err) {
    json_t *runs = json_array();
    int rc = 0;
    for (size_t i = 0; i < n && !rc; i++) {
        const struct run *r = v[i].run;
        if ((rc = run_read(all, (size_t)(r - all->v), err)))
            break;
        json_t *o = json_copy(r->record);
        json_object_set_new(o, "state", json_string(r->state));
        json_object_set_new(o, "passes", json_integer(r->n_passes));
        if (r->test)
            json_object_set(o, "test", r->test);
        if (r->best)
            json_object_set(o, "best", r->best);
        if (r->pass)
            json_object_set(o, "pass", r->pass);
        json_array_append_new(runs, o);
    }
    if (!rc)
        return cmd_print_json(json_pack("{s:o}", "runs", runs));
    json_decref(runs);
    return rc;
}

/* RFC 4180: a field with a comma, quote or line break stands in quotes. */
static void put_field(const char *s, int last) {
    const int quoted = strpbrk(s, ",\"\r\n") != NULL;
    if (quoted)
        putchar('"');
    for (; *s; s++) {
        if (*s == '"')
            putchar('"');
        putchar(*s);
    }
    printf("%s%s", quoted ? "\"" : "", last ? "\r\n" : ",");
}

static void put_number(double v, int last) {
    char text[40] = "";
    if (!isnan(v))
        snprintf(text, sizeof text, "%.9g", v);
    put_field(text, last);
}

/* The names of all metrics of the last tests, as keys of an object. */
static json_t *metric_names(const struct sorted *v, size_t n) {
    json_t *names = json_object();
    const char *name;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; (name = run_metric(v[i].run, k)); k++)
            json_object_set_new(names, name, json_true());
    return names;
}

static int print_csv(const struct sorted *v, size_t n) {
    static const char *const numbers[] = {"seconds", "passes", "rate", "cost", "best", "last"};
    enum { N = sizeof numbers / sizeof numbers[0] };
    json_t *names = metric_names(v, n), *one;
    const char *name;
    printf("job,name,state,started,hosts,by");
    for (int k = 0; k < N; k++)
        printf(",%s", numbers[k]);
    size_t left = json_object_size(names);
    fputs(left ? "," : "\r\n", stdout);
    json_object_foreach (names, name, one)
        put_field(name, !--left);
    for (size_t i = 0; i < n; i++) {
        const struct run *r = v[i].run;
        struct tm tm;
        char at[24] = "", hosts[16];
        if (started(r, 1, &tm))
            strftime(at, sizeof at, "%Y-%m-%dT%H:%M:%SZ", &tm);
        pd_fmt(hosts, sizeof hosts, "%.0f", run_number(r, "hosts"));
        const char *const texts[] = {r->job, run_text(r, "name"), r->state, at,
                                     hosts,  run_text(r, "by")};
        left = json_object_size(names);
        for (size_t k = 0; k < sizeof texts / sizeof texts[0]; k++)
            put_field(texts[k], 0);
        for (int k = 0; k < N; k++)
            put_number(run_number(r, numbers[k]), k == N - 1 && !left);
        json_object_foreach (names, name, one)
            put_number(run_number(r, name), !--left);
    }
    json_decref(names);
    return 0;
}

/* --- event files --- */

static void warn(void *arg, const char *text) {
    const struct run *r = arg;
    fprintf(stderr, "paddlectl: %s: %s\n", r->job, text);
}

static int write_events(const struct runs *all, const struct run *r, const char *root,
                        struct pd_err *err) {
    char dir[PATH_MAX];
    struct tensorboard *t = NULL;
    int rc = pd_fmt(dir, sizeof dir, "%s/%s", all->outputs, r->job)
                 ? pd_fail(err, PD_EUSAGE, "%s: the path is too long", all->outputs)
                 : tensorboard_new(&t, root, dir, err);
    if (!rc)
        rc = tensorboard_update(t, err);
    if (!rc)
        tensorboard_damage(t, warn, (void *)(uintptr_t)r);
    tensorboard_free(t);
    return rc;
}

static int print_events(const struct runs *all, const struct sorted *v, size_t n, const char *root,
                        struct pd_err *err) {
    size_t n_written = 0;
    if (tensorboard_root(root, err))
        return err->code;
    for (size_t i = 0; i < n; i++) {
        struct pd_err why = {0};
        if (write_events(all, v[i].run, root, &why))
            fprintf(stderr, "paddlectl: no event file of %s: %s\n", v[i].run->job, why.msg);
        else
            n_written++;
    }
    printf("%s: event files of %zu run%s\n", root, n_written, n_written == 1 ? "" : "s");
    return n_written < n;
}

static int list(void *arg, struct runs *all, const char *const *words, int n_words,
                struct pd_err *err) {
    struct runs_cmd *p = arg;
    uint64_t last = SIZE_MAX;
    size_t n;
    if (p->last && (pd_parse_u64(p->last, UINT32_MAX, &last) || !last))
        return pd_fail(err, PD_EUSAGE, "--last=%s: give the number of runs", p->last);
    if (p->json + p->csv + (p->tensorboard != NULL) > 1)
        return pd_fail(err, PD_EUSAGE, "--json, --csv and --tensorboard exclude each other");
    for (; p->n_named < n_words; p->n_named++)
        if (runs_find(all, words[p->n_named], &p->named[p->n_named], err))
            return err->code;
    struct sorted *v = choose(p, all, (size_t)last, &n, err);
    int status = !v               ? err->code
                 : p->json        ? print_json(all, v, n, err)
                 : p->csv         ? print_csv(v, n)
                 : p->tensorboard ? print_events(all, v, n, p->tensorboard, err)
                                  : print_table(v, n, all->outputs);
    for (size_t i = 0; i < all->n_bad; i++)
        fprintf(stderr, "paddlectl: a record cannot be read: %s\n", all->bad[i].text);
    free(v);
    return err->code ? err->code : status || all->n_bad;
}

int cmd_runs(int argc, char **argv) {
    struct runs_cmd p = {0};
    const struct pd_extra_option extra[] = {
        {"sort=KEY", NULL, &p.sort,
         "order by job, name, state, seconds, passes, rate, cost, best, last, or a metric such as "
         "test.auc: the best first where that is known, else the smallest; -KEY reverses"},
        {"last=N", NULL, &p.last, "only the N newest"},
        {"state=STATE", NULL, &p.state,
         "only runs that are running, done, failed, stopped, lost, detached or unknown"},
        {"csv", &p.csv, NULL, "print the table as CSV, with all metrics of the last test"},
        {"tensorboard=DIR", NULL, &p.tensorboard,
         "write event files of these runs for TensorBoard, DIR/JOB/events.out.tfevents.*, in place "
         "of the table"},
        CMD_JSON(&p.json),
        {0},
    };
    const struct cmd_line line = {
        .usage = "paddlectl runs [options] [JOB...]\n"
                 "Lists the runs whose records are in the folder of outputs, the newest first: "
                 "state, duration, passes, best and last test. It asks no host. Without JOB: all "
                 "runs. A JOB is an id, its end, or the name of a run.",
        .about = "'paddlectl run' writes a record to output/<job id>: run.json, metrics.jsonl, "
                 "conf.ini and train.ini. A run is 'detached' if it goes on without paddlectl, and "
                 "'unknown' if its paddlectl was killed; 'paddlectl fetch --log JOB' completes "
                 "such a record.\n",
        .examples =
            "paddlectl runs --sort=test.auc --last=20\tthe best of the 20 newest runs first\n"
            "paddlectl runs --csv >runs.csv\tfor a spreadsheet\n"
            "paddlectl runs --tensorboard=events wide deep\ttwo runs by their --name, for "
            "TensorBoard\n",
        .extra = extra,
        .max_rest = NAMED_MAX,
    };
    return cmd_runs_main(&line, argc, argv, list, &p);
}
