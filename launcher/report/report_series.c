/* SPDX-License-Identifier: Apache-2.0 */
/* report_series.c - the numbers of events as columns, with fewer points; see report.h. */
#include "base/json_text.h"
#include "launcher/report/report.h"

/* A series has at most KEPT_MAX points: then each pair of points becomes one. */
enum { COLUMNS_MAX = 48, SERIES_MAX = 4096, KEY_MAX = 64, KEPT_MAX = 1024 };

struct column {
    char key[KEY_MAX];
    double sum;           /* of the bucket */
    size_t n;             /* values in the bucket */
    double last, *values; /* the last value of all; a value for each point; NAN: it has none */
    size_t n_values, cap;
};

struct report_series {
    char ev[16], host[128];
    json_int_t rank, node;
    size_t every, in_bucket, n_points; /* events of a point; of the bucket; complete points */
    size_t n_columns, guess;
    struct column column[COLUMNS_MAX];
};

int report_is_series(const char *ev) {
    return !strcmp(ev, "progress") || !strcmp(ev, "pass") || !strcmp(ev, "test") ||
           !strcmp(ev, "serving");
}

size_t report_cut(const char *s, size_t max) {
    size_t n = strnlen(s, max + 1);
    if (n > max)
        for (n = max; n && ((unsigned char)s[n] & 0xc0) == 0x80; n--)
            ;
    return n;
}

static struct report_series *series_of(struct report_many *m, const json_t *event) {
    const char *ev = pd_json_text(event, "ev");
    const json_int_t rank = json_integer_value(json_object_get(event, "rank"));
    for (size_t i = 0; i < m->n; i++)
        if (m->v[i]->rank == rank && !strcmp(m->v[i]->ev, ev))
            return m->v[i];
    if (m->n >= SERIES_MAX) {
        m->n_lost_events++;
        return NULL;
    }
    if (pd_grow(m->v, m->cap, m->n + 1))
        return NULL;
    struct report_series *s = pd_calloc(1, sizeof *s);
    if (!s)
        return NULL;
    pd_fmt(s->ev, sizeof s->ev, "%s", ev);
    s->rank = rank;
    s->every = 1;
    return m->v[m->n++] = s;
}

static struct column *column_of(struct report_series *s, const char *key) {
    /* Events of one kind have the same keys in the same order. */
    for (size_t k = 0, i = s->guess; k < s->n_columns; k++, i++) {
        i = i < s->n_columns ? i : 0;
        if (!strcmp(s->column[i].key, key)) {
            s->guess = i + 1;
            return &s->column[i];
        }
    }
    if (s->n_columns == COLUMNS_MAX || strlen(key) >= KEY_MAX)
        return NULL;
    struct column *c = &s->column[s->n_columns++];
    pd_fmt(c->key, sizeof c->key, "%s", key);
    return c;
}

static void add_number(struct report_many *m, struct report_series *s, const char *key, double v) {
    struct column *c = isfinite(v) ? column_of(s, key) : NULL;
    if (!c && isfinite(v) && !m->n_lost_values++)
        pd_fmt(m->lost_key, sizeof m->lost_key, "%.*s", (int)report_cut(key, 120), key);
    if (!c)
        return;
    c->sum += v;
    c->last = v;
    c->n++;
}

/* The mean of a time or of a count means nothing. */
static int is_mean(const struct report_series *s, const char *key) {
    static const char *const last[] = {"t", "pass", "num_passes", "batch", "samples", "fraction"};
    int has_mean = !strcmp(s->ev, "progress");
    for (size_t i = 0; i < sizeof last / sizeof last[0]; i++)
        has_mean &= strcmp(key, last[i]) != 0;
    return has_mean;
}

static double value_at(const struct column *c, size_t i) {
    return i < c->n_values ? c->values[i] : NAN;
}

static double bucket_value(const struct report_series *s, const struct column *c) {
    return !c->n ? NAN : is_mean(s, c->key) ? c->sum / (double)c->n : c->last;
}

/* One value for the points `from` to `to` - 1. */
static double joined(const struct report_series *s, const struct column *c, size_t from,
                     size_t to) {
    double sum = 0, last = NAN;
    size_t n = 0;
    for (size_t i = from; i < to; i++)
        if (!isnan(value_at(c, i))) {
            last = value_at(c, i);
            sum += last;
            n++;
        }
    return n && is_mean(s, c->key) ? sum / (double)n : last;
}

static void halve(struct report_series *s) {
    for (size_t k = 0; k < s->n_columns; k++) {
        struct column *c = &s->column[k];
        const size_t half = c->n_values / 2 + c->n_values % 2;
        for (size_t i = 0; i < half; i++)
            c->values[i] = joined(s, c, 2 * i, 2 * i + 2);
        c->n_values = half;
    }
    s->n_points /= 2;
    s->every *= 2;
}

/* Makes a point of the bucket. */
static int end_bucket(struct report_series *s) {
    for (size_t k = 0; k < s->n_columns; k++) {
        struct column *c = &s->column[k];
        if (pd_grow(c->values, c->cap, s->n_points + 1))
            return PD_ENOMEM;
        while (c->n_values < s->n_points)
            c->values[c->n_values++] = NAN;
        c->values[c->n_values++] = bucket_value(s, c);
        c->sum = 0;
        c->n = 0;
    }
    s->in_bucket = 0;
    if (++s->n_points == KEPT_MAX)
        halve(s);
    return 0;
}

int report_series_add(struct report_many *m, const json_t *event) {
    static const char *const skipped[] = {"rank", "node"};
    struct report_series *s = series_of(m, event);
    json_t *event_members = (json_t *)(uintptr_t)event, *v, *inner;
    const char *key, *name;
    char full[2 * KEY_MAX];
    if (!s)
        return m->n >= SERIES_MAX ? 0 : PD_ENOMEM;
    s->node = json_integer_value(json_object_get(event, "node"));
    const char *host = pd_json_text(event, "host");
    pd_fmt(s->host, sizeof s->host, "%.*s", (int)report_cut(host, 120), host);
    json_object_foreach (event_members, key, v) {
        int skip = 0;
        for (size_t i = 0; i < sizeof skipped / sizeof skipped[0]; i++)
            skip |= !strcmp(key, skipped[i]);
        if (json_is_number(v) && !skip)
            add_number(m, s, key, json_number_value(v));
        else if (json_is_object(v)) /* metrics, rows */
            json_object_foreach (v, name, inner)
                if (json_is_number(inner) && !pd_fmt(full, sizeof full, "%.60s.%.60s", key, name))
                    add_number(m, s, full, json_number_value(inner));
    }
    return ++s->in_bucket == s->every ? end_bucket(s) : 0;
}

/* Fewer digits than the record has: the page stays small. */
static json_t *number(double v) {
    return !isfinite(v)                                    ? json_null()
           : v == floor(v) && fabs(v) < 9007199254740992.0 ? json_integer((json_int_t)v)
                                                           : json_real(v);
}

/* `each` points in a row become one; the bucket is the last point. */
static json_t *column_json(const struct report_series *s, const struct column *c, json_int_t t0,
                           size_t each) {
    json_t *values = json_array();
    const double less = strcmp(c->key, "t") ? 0 : (double)t0;
    for (size_t i = 0; i < s->n_points; i += each) {
        const size_t end = i + each < s->n_points ? i + each : s->n_points;
        json_array_append_new(values, number(joined(s, c, i, end) - less));
    }
    if (s->in_bucket)
        json_array_append_new(values, number(bucket_value(s, c) - less));
    return values;
}

json_t *report_series_json(const struct report_many *m, json_int_t t0,
                           struct report_points points) {
    json_t *all = json_array();
    for (size_t i = 0; i < m->n; i++) {
        const struct report_series *s = m->v[i];
        const size_t max = s->rank ? points.others : points.chief;
        const size_t each = max && s->n_points > max ? (s->n_points + max - 1) / max : 1;
        json_t *cols = json_object();
        for (size_t c = 0; c < s->n_columns; c++)
            json_object_set_new(cols, s->column[c].key, column_json(s, &s->column[c], t0, each));
        json_t *o = json_pack("{s:s, s:I, s:I, s:s, s:I, s:o}", "ev", s->ev, "rank", s->rank,
                              "node", s->node, "host", s->host, "every",
                              (json_int_t)(s->every * each), "cols", cols);
        if (!o || json_array_append_new(all, o)) {
            json_decref(all);
            return NULL;
        }
    }
    return all;
}

struct report_who report_series_who(const struct report_series *s) {
    return (struct report_who){.ev = s->ev, .host = s->host, .rank = s->rank};
}

int report_series_last(const struct report_series *s, size_t i, const char **key, double *value) {
    if (i >= s->n_columns)
        return 0;
    *key = s->column[i].key;
    *value = s->column[i].last;
    return 1;
}

void report_series_release(struct report_many *m) {
    for (size_t i = 0; i < m->n; i++) {
        for (size_t c = 0; c < m->v[i]->n_columns; c++)
            free(m->v[i]->column[c].values);
        free(m->v[i]);
    }
    free(m->v);
    *m = (struct report_many){0};
}
