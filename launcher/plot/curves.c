/* SPDX-License-Identifier: Apache-2.0 */
/* curves.c - see curves.h.
 *
 * A metric is in up to three kinds of events. The curve has the points of one kind: of tests if
 * there are any, else of the progress or of the ends of passes, whichever are more. */
#include "launcher/plot/curves.h"

enum { TEST, PROGRESS, PASS, N_KINDS };
static const char *const kinds[N_KINDS] = {"test", "progress", "pass"};

struct point {
    double pass, seconds, y; /* pass: NAN if it is not known */
};

struct points {
    struct point *v;
    size_t n, cap;
};

struct curves {
    const char *dir;
    const char *metric[CURVES_METRICS];
    size_t n;
    struct record_place place;
    struct points points[CURVES_METRICS][N_KINDS];
    struct plot_point *out[CURVES_METRICS];
    json_t *known;
    char judge[100];
    int64_t first_ms;
    double pass; /* where the last event was */
    int no_memory;
};

int curves_new(struct curves **out, const char *dir, const char *const *metrics, size_t n,
               struct pd_err *err) {
    struct curves *c = pd_calloc(1, sizeof *c);
    json_t *known = json_object();
    if (!c || !known) {
        free(c);
        json_decref(known);
        return pd_oom(err, "curves");
    }
    c->dir = dir;
    c->n = n;
    memcpy(c->metric, metrics, n * sizeof *metrics);
    c->known = known;
    c->pass = 0;
    *out = c;
    return 0;
}

static void clear(struct curves *c) {
    for (size_t i = 0; i < c->n; i++)
        for (int k = 0; k < N_KINDS; k++)
            c->points[i][k].n = 0;
    c->first_ms = 0;
    c->pass = 0;
}

void curves_free(struct curves *c) {
    if (!c)
        return;
    for (size_t i = 0; i < c->n; i++) {
        for (int k = 0; k < N_KINDS; k++)
            free(c->points[i][k].v);
        free(c->out[i]);
    }
    json_decref(c->known);
    free(c);
}

/* --- events --- */

static const json_t *value_of(const json_t *event, int kind, const char *metric) {
    const json_t *metrics = json_object_get(event, "metrics");
    const int of_tests = pd_starts_with(metric, "test.");
    if (kind == TEST) {
        const json_t *v = json_object_get(metrics, metric);
        return v                              ? v
               : !strcmp(metric, "test.cost") ? json_object_get(event, "cost")
               : !strcmp(metric, "test")      ? json_object_get(event, "value")
                                              : NULL;
    }
    if (of_tests) /* the progress repeats those of the last test */
        return NULL;
    return !strcmp(metric, "cost") || !strcmp(metric, "rate") || !strcmp(metric, "wait")
               ? json_object_get(event, metric)
               : json_object_get(metrics, metric);
}

static void add(struct curves *c, struct points *p, double pass, double seconds, double y) {
    /* After a restart from a checkpoint the job is again where it was: the later points count. */
    while (p->n && p->v[p->n - 1].pass >= pass)
        p->n--;
    if (pd_grow(p->v, p->cap, p->n + 1)) {
        c->no_memory = 1;
        return;
    }
    p->v[p->n++] = (struct point){pass, seconds, y};
}

static void note_names(struct curves *c, const json_t *event, int kind) {
    const char *name;
    json_t *v;
    json_object_foreach (json_object_get((json_t *)event, "metrics"), name, v)
        json_object_set_new(c->known, name, json_true());
    if (json_object_get(event, "cost"))
        json_object_set_new(c->known, kind == TEST ? "test.cost" : "cost", json_true());
    if (json_object_get(event, "rate"))
        json_object_set_new(c->known, "rate", json_true());
    if (kind == TEST && json_object_get(event, "by"))
        pd_fmt(c->judge, sizeof c->judge, "%.90s", json_string_value(json_object_get(event, "by")));
}

/* How many passes were complete at the event; NAN: not known. */
static double pass_of(const struct curves *c, const json_t *event, int kind) {
    const json_t *pass = json_object_get(event, "pass"), *part = json_object_get(event, "fraction");
    const char *when = json_string_value(json_object_get(event, "when"));
    int next;
    if (kind == TEST && when && sscanf(when, "before pass %d/", &next) == 1)
        return next - 1;
    if (!json_is_integer(pass))
        return kind == TEST ? c->pass : NAN; /* of a model that is no pass's */
    if (kind == PROGRESS && !json_is_number(part))
        return NAN;
    return json_number_value(pass) + (kind == PROGRESS ? json_number_value(part) : 1);
}

static void add_event(void *arg, json_t *event) {
    struct curves *c = arg;
    const char *ev = json_string_value(json_object_get(event, "ev"));
    const double t = (double)json_integer_value(json_object_get(event, "t"));
    int kind = 0;
    while (ev && kind < N_KINDS && strcmp(ev, kinds[kind]))
        kind++;
    if (!ev || kind == N_KINDS || json_integer_value(json_object_get(event, "rank")))
        return;
    if (!c->first_ms)
        c->first_ms = (int64_t)t;
    note_names(c, event, kind);
    c->pass = pass_of(c, event, kind);
    for (size_t i = 0; i < c->n; i++) {
        const json_t *v = value_of(event, kind, c->metric[i]);
        if (json_is_number(v) && isfinite(json_number_value(v)))
            add(c, &c->points[i][kind], c->pass, (t - (double)c->first_ms) / 1000,
                json_number_value(v));
    }
}

int curves_read(struct curves *c, int *more, struct pd_err *err) {
    struct pd_err why = {0};
    const struct record_place before = c->place;
    const int again = record_changed(c->dir, &c->place);
    if (again)
        clear(c);
    const int rc = record_read_more(c->dir, &c->place, add_event, c, &why);
    *more = again || before.at != c->place.at;
    return c->no_memory            ? pd_oom(err, "curves")
           : rc && rc != PD_ENOENT ? pd_err_copy(err, &why)
                                   : 0;
}

void curves_damage(const struct curves *c, void (*say)(void *arg, const char *text), void *arg) {
    record_damage(c->dir, &c->place, say, arg);
}

/* --- points --- */

static const struct points *best_kind(const struct curves *c, size_t i) {
    const struct points *p = c->points[i];
    return p[TEST].n ? &p[TEST] : p[PROGRESS].n > p[PASS].n ? &p[PROGRESS] : &p[PASS];
}

int curves_have_passes(const struct curves *c) {
    for (size_t i = 0; i < c->n; i++) {
        const struct points *p = best_kind(c, i);
        for (size_t k = 0; k < p->n; k++)
            if (isnan(p->v[k].pass))
                return 0;
    }
    return 1;
}

const struct plot_point *curves_points(struct curves *c, size_t i, int by_pass, size_t *n) {
    const struct points *p = best_kind(c, i);
    free(c->out[i]);
    c->out[i] = pd_calloc(p->n + 1, sizeof *c->out[i]);
    *n = 0;
    for (size_t k = 0; c->out[i] && k < p->n; k++) {
        const double x = by_pass ? p->v[k].pass : p->v[k].seconds;
        if (isfinite(x))
            c->out[i][(*n)++] = (struct plot_point){x, p->v[k].y};
    }
    return c->out[i];
}

const char *curves_judge(const struct curves *c) { return c->judge; }
const json_t *curves_known(const struct curves *c) { return c->known; }
