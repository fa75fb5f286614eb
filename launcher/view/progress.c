/* SPDX-License-Identifier: Apache-2.0 */
/* progress.c - see progress.h. */
#include "launcher/view/progress.h"

static double number(const json_t *o, const char *key, double absent) {
    const json_t *v = json_object_get(o, key);
    return json_is_number(v) && isfinite(json_number_value(v)) ? json_number_value(v) : absent;
}

static int64_t count(const json_t *o, const char *key) {
    json_int_t v = json_integer_value(json_object_get(o, key));
    return v > 0 ? v : 0;
}

/* Copy the printable characters that fit: from `least` on. */
static void copy(char *out, size_t cap, const char *s, unsigned char least) {
    size_t n = 0;
    for (; s && *s && n + 1 < cap; s++)
        if ((unsigned char)*s >= least && (unsigned char)*s < 127)
            out[n++] = *s;
    out[n] = 0;
}

static int is_event(const json_t *event, const char *name) {
    const char *ev = json_string_value(json_object_get(event, "ev"));
    return ev && !strcmp(ev, name);
}

int doing_parse(struct doing *d, const json_t *event) {
    const char *what = json_string_value(json_object_get(event, "doing"));
    if (!is_event(event, "doing") || !what)
        return -1;
    double waited = number(event, "waited", 0);
    *d = (struct doing){.waited_ms = waited > 0 ? (uint64_t)(fmin(waited, 1e9) * 1000) : 0};
    copy(d->what, sizeof d->what, what, ' ');
    copy(d->servers, sizeof d->servers, json_string_value(json_object_get(event, "servers")), ' ');
    return 0;
}

static void set_metric(struct progress *p, const char *name, const json_t *value) {
    char shown[sizeof p->metric[0].name];
    int i = 0;
    copy(shown, sizeof shown, name, '!');
    while (i < p->n_metrics && strcmp(p->metric[i].name, shown))
        i++;
    if (i == PROGRESS_METRICS || !json_is_number(value))
        return;
    copy(p->metric[i].name, sizeof shown, shown, '!');
    p->metric[i].value = json_number_value(value);
    p->n_metrics += i == p->n_metrics;
}

int progress_parse(struct progress *p, const json_t *event) {
    const char *unit = json_string_value(json_object_get(event, "unit"));
    if (!is_event(event, "progress"))
        return -1;
    *p = (struct progress){.rank = count(event, "rank"),
                           .pass = count(event, "pass"),
                           .num_passes = count(event, "num_passes"),
                           .batch = count(event, "batch"),
                           .samples = count(event, "samples"),
                           .fraction = number(event, "fraction", -1),
                           .cost = number(event, "cost", NAN),
                           .rate = number(event, "rate", -1),
                           .own_rate = number(event, "own_rate", -1),
                           .wait = number(event, "wait", -1)};
    if (p->fraction > 1)
        p->fraction = 1;
    if (p->wait > 1)
        p->wait = 1;
    copy(p->unit, sizeof p->unit, unit ? unit : "samples", '!');
    const char *name;
    json_t *value;
    json_object_foreach (json_object_get(event, "metrics"), name, value)
        set_metric(p, name, value);
    return 0;
}

int progress_take_test(struct progress *p, const json_t *event) {
    const char *name;
    json_t *value;
    if (!is_event(event, "test"))
        return -1;
    json_object_foreach (json_object_get(event, "metrics"), name, value)
        if (!strncmp(name, "test.", 5)) /* the others are those of the training data */
            set_metric(p, name, value);
    return 0;
}

void progress_text(const struct progress *p, char *out, size_t cap) {
    size_t n = 0;
#define ADD(...) (n += n < cap ? (size_t)snprintf(out + n, cap - n, __VA_ARGS__) : 0)
    ADD("pass %lld", (long long)p->pass + 1);
    if (p->num_passes)
        ADD("/%lld", (long long)p->num_passes);
    if (p->fraction >= 0)
        ADD(" %.0f %%", floor(p->fraction * 100));
    ADD(", batch %lld", (long long)p->batch);
    if (!isnan(p->cost))
        ADD(", cost %.5g", p->cost);
    for (int i = 0; i < p->n_metrics; i++)
        ADD(", %s %.5g", p->metric[i].name, p->metric[i].value);
    if (p->rate >= 0)
        ADD(", %.0f %s/s", p->rate, p->unit);
#undef ADD
}

void progress_over(struct progress *p, const char *state) {
    p->rate = p->own_rate = p->wait = -1;
    if (strcmp(state, "done"))
        return;
    p->fraction = p->fraction >= 0 ? 1 : -1;
    p->pass = p->num_passes ? p->num_passes - 1 : p->pass;
}

void progress_percent(const struct progress *p, char *out, size_t cap) {
    *out = 0;
    if (p->fraction >= 0)
        snprintf(out, cap, "%.0f %%", floor(p->fraction * 100));
}

void progress_metric(const struct progress *p, char *out, size_t cap) {
    *out = 0;
    if (p->n_metrics)
        snprintf(out, cap, "%s %.5g", p->metric[p->n_metrics - 1].name,
                 p->metric[p->n_metrics - 1].value);
    else if (!isnan(p->cost))
        snprintf(out, cap, "cost %.5g", p->cost);
}
