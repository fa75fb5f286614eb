/* SPDX-License-Identifier: Apache-2.0 */
/* show.c - see show.h. A line passes these steps: time and grep, tail, prefix, folding, form.
 * Nothing is allocated or formatted that the line's form does not need. */
#include "launcher/view/show.h"

#include <jansson.h>
#include <regex.h>

#include "launcher/text/fold.h"
#include "launcher/view/repeat.h"
#include "launcher/view/show_text.h"

enum { BATCH = 256 << 10 };

/* The agent's line in the log of a process that ends because another one has failed. Every process
 * of a job may have it. */
static const char stopping[] = "--- stopping: ";
/* A line for `repeat`: the level is a part of its group. ALL_ROLES: the group of lines that stop.
 */
enum { GROUP = N_SHOW_LEVELS, ALL_ROLES = (1 << 16) * GROUP };

struct line_style { /* text around a source's lines */
    struct show_source of;
    /* "host/role | "; of JSON the text behind the time */
    struct pd_buf before;
    unsigned group; /* equal roles have equal groups */
};

struct kept { /* a line of the tail */
    struct merge_line line;
    char *text;
};

struct show {
    struct view *view;
    struct show_opts o;
    struct line_style *looks;
    /* line: the text that grep searches */
    struct pd_buf out, line;
    regex_t grep;
    int has_grep, filters, drops_prefix; /* filters: what a terminal must not get */
    struct repeat *repeat;
    /* a ring of o.tail lines; tail_at is the oldest line once the ring is full */
    struct kept *tail;
    unsigned tail_n, tail_at;
    /* the last line's second as text, and its time zone */
    char second[40], zone[10];
    uint64_t second_us;
    uint64_t now_ms;
};

/* --- pieces of a line --- */

/* Append "2026-11-21T10:00:00.123456+01:00". The part up to the second is cached. */
static void put_time(struct show *s, uint64_t us) {
    time_t t = (time_t)(us / 1000000);
    if (us / 1000000 != s->second_us / 1000000 || !*s->second) {
        struct tm tm;
        char zone[10] = "Z";
        if (s->o.json)
            gmtime_r(&t, &tm);
        else
            localtime_r(&t, &tm);
        strftime(s->second, sizeof s->second, "%Y-%m-%dT%H:%M:%S.", &tm);
        if (!s->o.json && strftime(zone, sizeof zone, "%z", &tm) == 5) {
            memmove(zone + 4, zone + 3, 3); /* "+0100" */
            zone[3] = ':';
        }
        pd_fmt(s->zone, sizeof s->zone, "%s", zone);
        s->second_us = us;
    }
    char micros[6];
    unsigned left = (unsigned)(us % 1000000);
    for (int i = 5; i >= 0; i--, left /= 10)
        micros[i] = (char)('0' + left % 10);
    pd_put(&s->out, s->second, strlen(s->second));
    pd_put(&s->out, micros, sizeof micros);
    pd_put(&s->out, s->zone, strlen(s->zone));
}

/* --- a line --- */

static void put_json(struct show *s, const struct line_style *k, uint64_t time_us, uint64_t offset,
                     const char *text, size_t n) {
    char number[24];
    pd_put(&s->out, "{\"time\":\"", 9);
    put_time(s, time_us);
    pd_put(&s->out, k->before.data, k->before.len);
    pd_put(&s->out, number,
           (size_t)snprintf(number, sizeof number, "%llu", (unsigned long long)offset));
    pd_put(&s->out, ",\"text\":\"", 9);
    show_put_json(&s->out, text, n);
    pd_put(&s->out, "\"}\n", 3);
}

static void put_text(struct show *s, const void *before, size_t n_before, uint64_t time_us,
                     enum show_level level, const char *text, size_t n) {
    if (s->o.timestamps) {
        put_time(s, time_us);
        pd_put_u8(&s->out, ' ');
    }
    pd_put(&s->out, before, n_before);
    if (s->filters)
        show_put_text(&s->out, text, n, level, view_has_colour(s->view));
    else
        pd_put(&s->out, text, n);
    pd_put_u8(&s->out, '\n');
}

static void put_one(struct show *s, unsigned source, uint64_t time_us, uint64_t offset,
                    enum show_level level, const char *text, size_t n) {
    const struct line_style *k = &s->looks[source];
    size_t old = s->out.len;
    if (s->o.json)
        put_json(s, k, time_us, offset, text, n);
    else
        put_text(s, k->before.data, k->before.len, time_us, level, text, n);
    /* out of memory loses a line on the screen; the node's file has it */
    if (s->out.failed) {
        s->out.failed = 0;
        s->out.len = old;
    }
}

/* Write a line of several nodes: "node[1-7]/trainer | text". */
static void put_folded(void *arg, const struct repeat_line *l) {
    struct show *s = arg;
    const char **names = l->n_sources > 1 ? pd_calloc(l->n_sources, sizeof *names) : NULL;
    char *hosts = NULL;
    for (unsigned i = 0; names && i < l->n_sources; i++)
        names[i] = s->looks[l->sources[i]].of.host;
    if (names)
        hosts = fold_hosts(names, l->n_sources);
    free(names);
    if (!hosts) {
        put_one(s, l->source, l->time_us, l->offset, l->group % GROUP, l->text, l->n);
        return;
    }
    struct pd_buf before = {0};
    const int whole = l->group == ALL_ROLES;
    pd_put_fmt(&before, view_has_colour(s->view) ? "\033[1m%s%s%s |\033[m " : "%s%s%s | ", hosts,
               whole ? "" : "/", whole ? "" : s->looks[l->source].of.role);
    put_text(s, before.data, before.len, l->time_us, l->group % GROUP, l->text, l->n);
    s->out.failed = 0;
    pd_buf_release(&before);
    free(hosts);
}

static void pass_on(struct show *s, const struct merge_line *l) {
    const struct line_style *k = &s->looks[l->source];
    const int stops =
        l->n >= sizeof stopping - 1 && !memcmp(l->text, stopping, sizeof stopping - 1);
    enum show_level level = SHOW_PLAIN;
    size_t cut = s->o.json ? 0 : show_prefix(l->text, l->n, &level);
    cut = s->drops_prefix ? cut : 0;
    const struct repeat_line r = {.group = stops ? ALL_ROLES : k->group * GROUP + level,
                                  .sources = &l->source,
                                  .n_sources = 1,
                                  .time_us = l->time_us,
                                  .offset = l->offset,
                                  .source = l->source,
                                  .text = l->text + cut,
                                  .n = l->n - cut};
    if (!s->repeat || !(stops || s->o.fold) || repeat_add(s->repeat, &r, s->now_ms))
        put_one(s, l->source, l->time_us, l->offset, level, r.text, r.n);
}

/* 1: the ring has kept the line. */
static int keep_for_tail(struct show *s, const struct merge_line *l) {
    struct kept *k = &s->tail[(s->tail_at + s->tail_n) % s->o.tail];
    char *text = pd_malloc(l->n ? l->n : 1);
    if (!text)
        return 0;
    memcpy(text, l->text, l->n);
    if (s->tail_n == s->o.tail) {
        free(k->text);
        s->tail_at = (s->tail_at + 1) % s->o.tail;
    } else {
        s->tail_n++;
    }
    k->line = *l;
    k->line.text = k->text = text;
    return 1;
}

/* Does the line match grep? It is copied: regexec needs a NUL behind the text even with
 * REG_STARTEND, which allows NULs inside. */
static int matches(struct show *s, const struct merge_line *l) {
    regmatch_t span = {.rm_so = 0, .rm_eo = (regoff_t)l->n};
    pd_buf_clear(&s->line);
    pd_put(&s->line, l->text, l->n);
    pd_put_u8(&s->line, 0);
    if (s->line.failed) { /* out of memory: rather show the line than lose it */
        s->line.failed = 0;
        return 1;
    }
    return !regexec(&s->grep, (const char *)s->line.data, 1, &span, REG_STARTEND);
}

int show_line(struct show *s, const struct merge_line *l, uint64_t now_ms) {
    s->now_ms = now_ms;
    if (l->time_us < s->o.since_us || (s->o.until_us && l->time_us > s->o.until_us))
        return 0;
    if (s->has_grep && !matches(s, l))
        return 0;
    if (!s->tail || !keep_for_tail(s, l))
        pass_on(s, l);
    return s->out.len >= BATCH;
}

void show_history_over(struct show *s, uint64_t now_ms) {
    s->now_ms = now_ms;
    for (unsigned i = 0; i < s->tail_n; i++) {
        struct kept *k = &s->tail[(s->tail_at + i) % s->o.tail];
        pass_on(s, &k->line);
        free(k->text);
    }
    s->tail_n = 0;
    free(s->tail);
    s->tail = NULL;
}

void show_starting(struct show *s, int starting, uint64_t now_ms) {
    if (!s->repeat)
        return;
    repeat_wait(s->repeat, starting ? SHOW_START_MS : REPEAT_SPAN_MS);
    if (!starting)
        show_flush(s, 1, now_ms);
}

uint64_t show_flush(struct show *s, int last, uint64_t now_ms) {
    s->now_ms = now_ms;
    uint64_t wait = s->repeat ? repeat_flush(s->repeat, last, now_ms) : UINT64_MAX;
    if (s->out.len)
        view_put(s->view, s->out.data, s->out.len);
    pd_buf_clear(&s->out);
    return wait;
}

/* --- creation and options --- */

/* Neighbours have different colours. Red and yellow are reserved for errors and warnings. */
static unsigned colour_of(unsigned node) {
    static const uint8_t colours[] = {36, 32, 35, 34, 96, 92, 95, 94};
    return colours[node % sizeof colours];
}

static int make_look(struct show *s, unsigned i, const struct show_source *of) {
    struct line_style *k = &s->looks[i];
    pd_buf_init(&k->before);
    k->of = *of;
    for (k->group = 0; strcmp(s->looks[k->group].of.role, of->role); k->group++)
        ;
    if (s->o.json) {
        pd_put_fmt(&k->before, "\",\"node\":%u,\"host\":\"", of->node);
        show_put_json(&k->before, of->host, strlen(of->host));
        pd_put_fmt(&k->before, "\",\"role\":\"%s\",\"stream\":\"%s\",\"offset\":", of->role,
                   of->stream);
    } else if (view_has_colour(s->view)) {
        pd_put_fmt(&k->before, "\033[%um%s/%s |\033[m ", colour_of(of->node), of->host, of->role);
    } else {
        pd_put_fmt(&k->before, "%s/%s | ", of->host, of->role);
    }
    return k->before.failed;
}

static int compile_grep(regex_t *re, const char *text, struct pd_err *err) {
    char why[200];
    int rc = regcomp(re, text, REG_EXTENDED);
    if (!rc)
        return 0;
    regerror(rc, re, why, sizeof why);
    return pd_fail(err, PD_EUSAGE,
                   "--grep: '%s' is not a regular expression: %s; a \\ before a character takes "
                   "its meaning away",
                   text, why);
}

int show_check(const struct show_opts *o, struct pd_err *err) {
    regex_t re;
    if (o->grep && compile_grep(&re, o->grep, err))
        return err->code;
    if (o->grep)
        regfree(&re);
    return 0;
}

int show_new(struct show **out, struct view *v, const struct show_opts *o, struct pd_err *err) {
    struct show *s = pd_calloc(1, sizeof *s);
    if (!s)
        return pd_oom(err, "log lines");
    s->view = v;
    s->o = *o;
    s->filters = view_is_terminal(v);
    s->drops_prefix = ((view_is_live(v) && !o->json) || o->fold) && !o->verbose;
    s->looks = pd_calloc(o->n_sources ? o->n_sources : 1, sizeof *s->looks);
    pd_buf_init(&s->out);
    int bad = !s->looks;
    for (unsigned i = 0; !bad && i < o->n_sources; i++)
        bad = make_look(s, i, &o->sources[i]);
    if (!bad && o->tail)
        bad = !(s->tail = pd_calloc(o->tail, sizeof *s->tail));
    if (!bad && !o->json)
        bad = !(s->repeat = repeat_new(put_folded, s));
    int rc = bad ? pd_oom(err, "log lines") : o->grep ? compile_grep(&s->grep, o->grep, err) : 0;
    s->has_grep = !rc && o->grep;
    if (rc) {
        show_free(s);
        return rc;
    }
    *out = s;
    return 0;
}

void show_free(struct show *s) {
    if (!s)
        return;
    for (unsigned i = 0; s->looks && i < s->o.n_sources; i++)
        pd_buf_release(&s->looks[i].before);
    for (unsigned i = 0; s->tail && i < s->tail_n; i++)
        free(s->tail[(s->tail_at + i) % s->o.tail].text);
    if (s->has_grep)
        regfree(&s->grep);
    repeat_free(s->repeat);
    pd_buf_release(&s->out);
    pd_buf_release(&s->line);
    free(s->tail);
    free(s->looks);
    free(s);
}
