/* SPDX-License-Identifier: Apache-2.0 */
/* report_series.c - the numbers of events as columns, with fewer points; see report.h. */
#include "launcher/report/report.h"

enum { COLUMNS_MAX = 48, SERIES_MAX = 4096, KEY_MAX = 64 };

struct column {
    char key[KEY_MAX];
    double sum, last;
    size_t n; /* values in the bucket */
    json_t *values;
};

struct report_series {
    char ev[16], host[128];
    json_int_t rank, node;
    size_t n_events, every, in_bucket, n_points;
    size_t n_columns;
    struct column column[COLUMNS_MAX];
};

int report_series_takes(const char *ev) {
    return !strcmp(ev, "progress") || !strcmp(ev, "pass") || !strcmp(ev, "test");
}

static const char *text_of(const json_t *o, const char *key) {
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

static struct report_series *series_of(struct report_many *m, const json_t *event, int make) {
    const char *ev = text_of(event, "ev");
    const json_int_t rank = json_integer_value(json_object_get(event, "rank"));
    for (size_t i = 0; i < m->n; i++)
        if (m->v[i]->rank == rank && !strcmp(m->v[i]->ev, ev))
            return m->v[i];
    if (!make || m->n >= SERIES_MAX || pd_grow(m->v, m->cap, m->n + 1))
        return NULL;
    struct report_series *s = pd_calloc(1, sizeof *s);
    if (!s)
        return NULL;
    pd_fmt(s->ev, sizeof s->ev, "%s", ev);
    s->rank = rank;
    return m->v[m->n++] = s;
}

int report_series_count(struct report_many *m, const json_t *event) {
    struct report_series *s = series_of(m, event, 1);
    if (!s)
        return m->n >= SERIES_MAX ? 0 : PD_ENOMEM;
    s->n_events++;
    return 0;
}

/* Fewer digits than the record has: the page stays small. */
static json_t *number(double v) {
    return !isfinite(v)                                    ? json_null()
           : v == floor(v) && fabs(v) < 9007199254740992.0 ? json_integer((json_int_t)v)
                                                           : json_real(v);
}

static struct column *column_of(struct report_series *s, const char *key) {
    for (size_t i = 0; i < s->n_columns; i++)
        if (!strcmp(s->column[i].key, key))
            return &s->column[i];
    if (s->n_columns == COLUMNS_MAX || strlen(key) >= KEY_MAX)
        return NULL;
    struct column *c = &s->column[s->n_columns];
    if (!(c->values = json_array()))
        return NULL;
    pd_fmt(c->key, sizeof c->key, "%s", key);
    s->n_columns++;
    return c;
}

static void add_number(struct report_series *s, const char *key, double v) {
    struct column *c = isfinite(v) ? column_of(s, key) : NULL;
    if (!c)
        return;
    c->sum += v;
    c->last = v;
    c->n++;
}

/* The mean of a time or of a count means nothing. */
static int is_mean(const struct report_series *s, const char *key) {
    static const char *const last[] = {"t", "pass", "num_passes", "batch", "samples", "fraction"};
    int is = !strcmp(s->ev, "progress");
    for (size_t i = 0; i < sizeof last / sizeof last[0]; i++)
        is &= strcmp(key, last[i]) != 0;
    return is;
}

/* Makes a point of the bucket. Columns without a value in it get null. */
static void end_bucket(struct report_series *s) {
    if (!s->in_bucket)
        return;
    for (size_t i = 0; i < s->n_columns; i++) {
        struct column *c = &s->column[i];
        while (json_array_size(c->values) < s->n_points)
            if (json_array_append_new(c->values, json_null()))
                return;
        json_array_append_new(c->values, !c->n                ? json_null()
                                         : is_mean(s, c->key) ? number(c->sum / (double)c->n)
                                                              : number(c->last));
        c->sum = 0;
        c->n = 0;
    }
    s->n_points++;
    s->in_bucket = 0;
}

int report_series_add(struct report_many *m, const json_t *event, json_int_t t0, size_t max) {
    static const char *const skipped[] = {"t", "rank", "node"};
    struct report_series *s = series_of(m, event, 0);
    json_t *event_members = (json_t *)(uintptr_t)event, *v, *inner;
    const char *key, *name;
    char full[2 * KEY_MAX];
    if (!s)
        return 0;
    s->every = max && s->n_events > max ? (s->n_events + max - 1) / max : 1;
    s->node = json_integer_value(json_object_get(event, "node"));
    pd_fmt(s->host, sizeof s->host, "%.120s", text_of(event, "host"));
    add_number(s, "t", (double)(json_integer_value(json_object_get(event, "t")) - t0));
    json_object_foreach (event_members, key, v) {
        int skip = 0;
        for (size_t i = 0; i < sizeof skipped / sizeof skipped[0]; i++)
            skip |= !strcmp(key, skipped[i]);
        if (json_is_number(v) && !skip)
            add_number(s, key, json_number_value(v));
        else if (json_is_object(v)) /* metrics, rows */
            json_object_foreach (v, name, inner)
                if (json_is_number(inner) && !pd_fmt(full, sizeof full, "%.60s.%.60s", key, name))
                    add_number(s, full, json_number_value(inner));
    }
    if (++s->in_bucket == s->every)
        end_bucket(s);
    return 0;
}

json_t *report_series_json(struct report_many *m) {
    json_t *all = json_array();
    for (size_t i = 0; i < m->n; i++) {
        struct report_series *s = m->v[i];
        json_t *cols = json_object();
        end_bucket(s);
        for (size_t c = 0; c < s->n_columns; c++) {
            while (json_array_size(s->column[c].values) < s->n_points &&
                   !json_array_append_new(s->column[c].values, json_null()))
                ;
            json_object_set(cols, s->column[c].key, s->column[c].values);
        }
        json_t *o =
            json_pack("{s:s, s:I, s:I, s:s, s:I, s:o}", "ev", s->ev, "rank", s->rank, "node",
                      s->node, "host", s->host, "every", (json_int_t)s->every, "cols", cols);
        if (!o || json_array_append_new(all, o)) {
            json_decref(all);
            return NULL;
        }
    }
    return all;
}

void report_series_release(struct report_many *m) {
    for (size_t i = 0; i < m->n; i++) {
        for (size_t c = 0; c < m->v[i]->n_columns; c++)
            json_decref(m->v[i]->column[c].values);
        free(m->v[i]);
    }
    free(m->v);
    *m = (struct report_many){0};
}
