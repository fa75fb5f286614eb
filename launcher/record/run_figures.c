/* SPDX-License-Identifier: Apache-2.0 */
/* run_figures.c - the figures of a run, which tables show and sort by, packed:
 *
 *     kind (u8: a text, a number, a metric of the test), key and its NUL, text and its NUL or f64
 *
 * The bytes may come from a file: no reader goes behind their end. */
#include "base/json_text.h"
#include "launcher/record/runs_internal.h"

enum { TEXT = 1, NUMBER = 2, METRIC = 3 };

static void put_text(struct pd_buf *out, const char *key, const char *text) {
    if (!*text)
        return;
    pd_put_u8(out, TEXT);
    pd_put(out, key, strlen(key) + 1);
    pd_put(out, text, strlen(text) + 1);
}

static void put_number(struct pd_buf *out, int kind, const char *key, const json_t *v) {
    if (!json_is_number(v))
        return;
    pd_put_u8(out, (uint8_t)kind);
    pd_put(out, key, strlen(key) + 1);
    pd_put_f64(out, json_number_value(v));
}

static void put_integer(struct pd_buf *out, const char *key, int64_t v) {
    pd_put_u8(out, NUMBER);
    pd_put(out, key, strlen(key) + 1);
    pd_put_f64(out, (double)v);
}

void run_figures_put(struct pd_buf *out, const struct run *r) {
    const char *name;
    json_t *v;
    put_text(out, "state", pd_json_text(r->record, "state"));
    put_text(out, "name", pd_json_text(r->record, "name"));
    put_text(out, "by", pd_json_text(r->test, "by"));
    put_text(out, "better", pd_json_text(r->test, "better"));
    put_text(out, "best_by", pd_json_text(r->best, "by"));
    put_text(out, "unit", pd_json_text(r->pass, "unit"));
    const int64_t passes = run_pass(r->pass) - !json_is_true(json_object_get(r->pass, "complete"));
    put_integer(out, "passes", passes > 0 ? passes : 0);
    put_number(out, NUMBER, "started_ms", json_object_get(r->record, "started_ms"));
    put_number(out, NUMBER, "seconds", json_object_get(r->record, "seconds"));
    put_integer(out, "hosts", (int64_t)json_array_size(json_object_get(r->record, "hosts")));
    put_number(out, NUMBER, "rate", json_object_get(r->pass, "rate"));
    put_number(out, NUMBER, "cost", json_object_get(r->pass, "cost"));
    put_number(out, NUMBER, "num_passes", json_object_get(r->pass, "num_passes"));
    if (r->pass)
        put_integer(out, "pass", run_pass(r->pass));
    put_number(out, NUMBER, "best", json_object_get(r->best, "value"));
    put_integer(out, "best_pass", run_pass(r->best));
    put_number(out, NUMBER, "last", json_object_get(r->test, "value"));
    put_number(out, NUMBER, "test.cost", json_object_get(r->test, "cost"));
    json_object_foreach (json_object_get(r->test, "metrics"), name, v)
        put_number(out, METRIC, name, v);
    json_object_foreach (json_object_get(r->pass, "metrics"), name, v)
        if (!pd_starts_with(name, "test."))
            put_number(out, NUMBER, name, v);
}

struct figure {
    int kind;
    const char *key, *text;
    double number;
};

static const char *get_text(struct pd_reader *r) {
    const size_t left = (size_t)(r->end - r->p);
    const char *s = (const char *)r->p, *end = left ? memchr(s, 0, left) : NULL;
    if (!end)
        r->failed = 1;
    else
        r->p += end - s + 1;
    return end ? s : "";
}

static int next(struct pd_reader *r, struct figure *f) {
    if (r->failed || r->p >= r->end)
        return 0;
    *f = (struct figure){.kind = pd_get_u8(r)};
    f->key = get_text(r);
    if (f->kind == TEXT)
        f->text = get_text(r);
    else
        f->number = pd_get_f64(r);
    return !r->failed;
}

double run_number(const struct run *r, const char *key) {
    struct pd_reader in;
    struct figure f;
    pd_reader_init(&in, r->figures.p, r->figures.n);
    while (next(&in, &f))
        if (f.kind != TEXT && !strcmp(f.key, key))
            return f.number;
    return NAN;
}

const char *run_text(const struct run *r, const char *key) {
    struct pd_reader in;
    struct figure f;
    pd_reader_init(&in, r->figures.p, r->figures.n);
    while (next(&in, &f))
        if (f.kind == TEXT && !strcmp(f.key, key))
            return f.text;
    return "";
}

const char *run_metric(const struct run *r, size_t k) {
    struct pd_reader in;
    struct figure f;
    pd_reader_init(&in, r->figures.p, r->figures.n);
    while (next(&in, &f))
        if (f.kind == METRIC && !k--)
            return f.key;
    return NULL;
}
