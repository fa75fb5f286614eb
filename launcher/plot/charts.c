/* SPDX-License-Identifier: Apache-2.0 */
/* charts.c - see charts.h. */
#include "launcher/plot/charts.h"

#include "launcher/text/term.h"

int charts_add(struct charts *c, const char *dir, const char *label, struct pd_err *err) {
    struct chart_run *r = &c->v[c->n];
    if (pd_fmt(r->dir, sizeof r->dir, "%s", dir))
        return pd_fail(err, PD_EUSAGE, "%s: the path is too long", dir);
    snprintf(r->label, sizeof r->label, "%s", label);
    c->n++;
    return curves_new(&r->curves, r->dir, c->metric, c->n_metrics, err);
}

void charts_release(struct charts *c) {
    for (size_t i = 0; i < c->n; i++)
        curves_free(c->v[i].curves);
}

int charts_read(struct charts *c, int *more, struct pd_err *err) {
    int rc = 0;
    *more = 0;
    for (size_t i = 0; i < c->n && !rc; i++) {
        int some = 0;
        rc = curves_read(c->v[i].curves, &some, err);
        *more |= some;
    }
    return rc;
}

static void warn(void *arg, const char *text) {
    const struct chart_run *r = arg;
    fprintf(stderr, "paddlectl: %s: %s\n", r->label, text);
}

void charts_warn(const struct charts *c) {
    for (size_t i = 0; i < c->n; i++)
        curves_damage(c->v[i].curves, warn, (void *)(uintptr_t)&c->v[i]);
}

int charts_has_values(struct charts *c, size_t metric) {
    size_t n;
    for (size_t i = 0; i < c->n; i++)
        if (curves_points(c->v[i].curves, metric, 0, &n) && n)
            return 1;
    return 0;
}

static const char *title_of(const struct charts *c, size_t metric, char *out, size_t cap) {
    const char *judge = curves_judge(c->v[0].curves);
    if (strcmp(c->metric[metric], "test") || !*judge)
        return c->metric[metric];
    snprintf(out, cap, "test.%.100s", judge);
    return out;
}

static int draw_metric(struct charts *c, size_t metric, int by_pass, struct plot_style *s,
                       struct pd_buf *out) {
    struct plot_curve v[PLOT_CURVES];
    char title[200];
    for (size_t i = 0; i < c->n; i++) {
        v[i].label = c->v[i].label;
        v[i].v = curves_points(c->v[i].curves, metric, by_pass, &v[i].n);
        if (!v[i].v)
            return PD_ENOMEM;
    }
    s->title = title_of(c, metric, title, sizeof title);
    return plot_draw(out, v, c->n, s);
}

int charts_draw(struct charts *c, int lines, struct pd_buf *out, struct pd_err *err) {
    uint64_t columns = 80;
    const char *set = getenv("COLUMNS");
    if (isatty(STDOUT_FILENO))
        columns = (uint64_t)term_width(STDOUT_FILENO) - 1; /* a full line would wrap */
    else if (set && (pd_parse_u64(set, 1000, &columns) || columns < 20))
        columns = 80;
    int by_pass = !c->x || !strcmp(c->x, "pass"), n = 0, rc = 0;
    for (size_t i = 0; i < c->n && !c->x; i++)
        by_pass &= curves_have_passes(c->v[i].curves);
    for (size_t m = 0; m < c->n_metrics; m++)
        n += charts_has_values(c, m);
    struct plot_style s = {.width = (int)columns,
                           .height = CHARTS_HEIGHT + (int)c->n,
                           .utf8 = !c->ascii && term_is_utf8(),
                           .colour = term_has_colour(STDOUT_FILENO),
                           .x_title = by_pass ? "pass" : "seconds"};
    const int least = PLOT_LEAST_HEIGHT + (int)c->n;
    while (lines && n > 1 && lines / n < least)
        n--;
    if (lines && n && lines / n < s.height)
        s.height = lines / n;
    for (size_t m = 0; m < c->n_metrics && n && !rc; m++)
        if (charts_has_values(c, m) && n--)
            rc = draw_metric(c, m, by_pass, &s, out);
    return rc || out->failed ? pd_oom(err, "a picture") : 0;
}
