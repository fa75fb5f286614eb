/* find.c - see find.h. */
#include "launcher/job/find.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"

enum { ASK_MS = 30000, NAMED_MAX = 8, NODES_MAX = 65536 };

/* --- asking --- */

static int on_list(struct link *l, const struct wire_frame *f, json_t *body,
                   const struct pd_err *err, void *arg) {
    struct ask_all_node *n = arg;
    (void)l;
    (void)f;
    if (err) {
        ask_all_fail(n, err);
        return 1;
    }
    json_decref(n->data);
    n->data = json_incref(json_object_get(body, "jobs"));
    ask_all_keep(n);
    return 1;
}

static void ask(struct ask_all_node *n) {
    struct pd_err err = {0};
    if (!link_request(n->link, WIRE_AG_LIST, json_object(), NULL, 0, ASK_MS, "listing jobs",
                      on_list, n))
        return;
    pd_oom(&err, "the list of jobs");
    ask_all_fail(n, &err);
}

/* --- putting together --- */

static int is_over(const char *state) {
    static const char *const over[] = {"done", "failed", "stopped", "lost"};
    for (size_t i = 0; i < sizeof over / sizeof over[0]; i++)
        if (!strcmp(state, over[i]))
            return 1;
    return 0;
}

static struct found_job *job_of(struct found *f, const char *id, size_t n_hosts) {
    for (size_t i = 0; i < f->n; i++)
        if (!strcmp(f->v[i].id, id))
            return &f->v[i];
    struct found_job *v = pd_realloc(f->v, (f->n + 1) * sizeof *v);
    if (!v)
        return NULL;
    f->v = v;
    struct found_job *j = &v[f->n];
    *j = (struct found_job){.at = pd_calloc(n_hosts, sizeof *j->at)};
    if (!j->at)
        return NULL;
    for (size_t i = 0; i < n_hosts; i++)
        j->at[i].node = -1;
    snprintf(j->id, sizeof j->id, "%s", id);
    f->n++;
    return j;
}

static const char *text_of(const json_t *o, const char *name) {
    const char *s = json_string_value(json_object_get(o, name));
    return s ? s : "";
}

/* Tables are made of this size. */
static int id_of(const json_t *o) {
    json_int_t v = json_is_integer(o) ? json_integer_value(o) : -1;
    return v >= 0 && v <= NODES_MAX ? (int)v : -1;
}

static void take(struct found_job *j, size_t host, const json_t *e) {
    struct found_at *at = &j->at[host];
    const json_t *node = json_object_get(e, "node");
    int64_t started = json_integer_value(json_object_get(e, "started_us")),
            ended = json_integer_value(json_object_get(e, "ended_us"));
    int n_nodes = id_of(json_object_get(e, "n_nodes"));
    snprintf(at->state, sizeof at->state, "%.15s", text_of(e, "state"));
    at->here = 1;
    at->node = id_of(node);
    at->runs = json_integer_value(json_object_get(e, "pid")) > 0 && !is_over(at->state);
    j->n_here++;
    j->n_running += at->runs;
    if (n_nodes > j->n_nodes)
        j->n_nodes = n_nodes;
    j->attached |= json_is_true(json_object_get(e, "attached"));
    if (started && (!j->started_us || started < j->started_us))
        j->started_us = started;
    if (ended > j->ended_us)
        j->ended_us = ended;
    if (!*j->user)
        snprintf(j->user, sizeof j->user, "%.63s", text_of(e, "user"));
    if (!*j->state || at->node == 0)
        pd_fmt(j->state, sizeof j->state, "%s", at->state);
}

static int newer(const void *a, const void *b) {
    const struct found_job *x = a, *y = b;
    if (x->started_us && y->started_us && x->started_us != y->started_us)
        return x->started_us < y->started_us ? 1 : -1;
    return strcmp(y->id, x->id); /* ids begin with the time */
}

/* A job's id becomes the name of a folder here: what a node says may not lead anywhere else. */
static int is_id(const char *s) {
    static const char allowed[] =
        "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_.";
    return *s && *s != '.' && *s != '-' && strlen(s) < sizeof((struct found_job *)0)->id &&
           !s[strspn(s, allowed)];
}

int find_add(struct found *f, const json_t *jobs, size_t host, size_t n_hosts) {
    size_t k;
    json_t *e;
    json_array_foreach (jobs, k, e) {
        const char *id = text_of(e, "job");
        if (!is_id(id))
            continue;
        struct found_job *j = job_of(f, id, n_hosts);
        if (!j)
            return PD_ENOMEM;
        if (!j->at[host].here)
            take(j, host, e);
    }
    return 0;
}

int find_jobs(struct ask_all *g, struct found *out, struct pd_err *err) {
    *out = (struct found){0};
    g->c->env.job = NULL;
    ask_all_run(g, ask, g->arg);
    if (g->interrupted)
        return pd_fail(err, PD_ECANCELED, "interrupted");
    for (size_t i = 0; i < g->c->hosts.n; i++)
        if (find_add(out, g->nodes[i].data, i, g->c->hosts.n))
            return pd_oom(err, "the list of jobs");
    for (size_t i = 0; i < out->n; i++)
        if (out->v[i].n_running) {
            pd_fmt(out->v[i].state, sizeof out->v[i].state, "running");
            out->v[i].ended_us = 0;
        }
    if (out->n)
        qsort(out->v, out->n, sizeof *out->v, newer);
    return 0;
}

void find_release(struct found *f) {
    for (size_t i = 0; i < f->n; i++)
        free(f->v[i].at);
    free(f->v);
    *f = (struct found){0};
}

/* --- choosing --- */

static int matches(const struct found_job *j, const char *want) {
    return pd_starts_with(j->id, want) || pd_ends_with(j->id, want) ||
           (pd_starts_with(j->id, "JOB") && pd_starts_with(j->id + 3, want));
}

static int several(const struct found *f, const char *want, size_t n, const char *what,
                   struct pd_err *err) {
    char names[NAMED_MAX * 66 + 8] = "";
    size_t shown = 0;
    for (size_t i = 0; i < f->n; i++) {
        if (want ? !matches(&f->v[i], want) : !f->v[i].n_running)
            continue;
        const size_t at = strlen(names);
        pd_fmt(names + at, sizeof names - at, " %s", ++shown > NAMED_MAX ? "..." : f->v[i].id);
        if (shown > NAMED_MAX)
            break;
    }
    return want ? pd_fail(err, PD_EUSAGE, "'%.80s' may be any of %zu %s:%s", want, n, what, names)
                : pd_fail(err, PD_EUSAGE, "%zu %s, say which:%s", n, what, names);
}

int find_choose(const struct found *f, const char *want, enum find_which which,
                const struct found_job **job, struct pd_err *err) {
    const struct found_job *found = NULL;
    size_t n = 0;
    if (want && !*want)
        return pd_fail(err, PD_EUSAGE, "'' is not a job's id");
    for (size_t i = 0; i < f->n; i++)
        n += f->v[i].n_running > 0;
    if ((!want && which == FIND_NEWEST && n != 1) || (want && !strcmp(want, "latest"))) {
        if (!f->n)
            return pd_fail(err, PD_ENOENT, "no host of conf.ini has a job");
        *job = f->v;
        return 0;
    }
    n = 0;
    for (size_t i = 0; i < f->n; i++) {
        if (want && !strcmp(f->v[i].id, want)) {
            *job = &f->v[i];
            return 0;
        }
        if (want ? !matches(&f->v[i], want) : !f->v[i].n_running)
            continue;
        found = &f->v[i];
        n++;
    }
    if (n > 1)
        return several(f, want, n, want ? "jobs" : "jobs are running", err);
    if (!n)
        return want ? pd_fail(err, PD_ENOENT, "no host of conf.ini has a job %.80s", want)
                    : pd_fail(err, PD_ENOENT, "no job is running");
    *job = found;
    return 0;
}

int find_join(struct ask_all *g, const struct found_job *job, int running) {
    int n = 0, most = -1;
    g->c->env.job = job->id;
    for (size_t i = 0; i < g->c->hosts.n; i++)
        most = job->at[i].node > most ? job->at[i].node : most;
    char *seen = pd_calloc((size_t)most + 2, 1);
    for (size_t i = 0; i < g->c->hosts.n; i++) {
        const struct found_at *at = &job->at[i];
        int skip = g->nodes[i].err.code || !at->here || (running && !at->runs);
        if (!skip && seen &&
            at->node >= 0) { /* hosts that share a root_dir tell of the same node */
            skip = seen[at->node];
            seen[at->node] = 1;
        }
        g->nodes[i].skip = skip;
        n += !skip;
    }
    free(seen);
    return n;
}
