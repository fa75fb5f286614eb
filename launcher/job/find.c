/* SPDX-License-Identifier: Apache-2.0 */
/* find.c - see find.h. */
#include "launcher/job/find.h"

#include "agent/core/node_paths.h"
#include "agent/report/job_turn.h"
#include "agent/report/status.h"

enum { ASK_MS = 30000, NAMED_MAX = 8 };

/* --- requests --- */

static int take_list(struct ask_all_node *n, json_t *body, struct pd_err *err) {
    struct ag_list_answer m;
    if (wire_get(&wire_ag_list_answer, &m, body, err))
        return err->code;
    json_decref(n->data);
    n->data = json_incref(m.jobs);
    ask_all_keep(n);
    return 0;
}

static void request(struct ask_all_node *n, int progress) {
    ask_all_request(n, WIRE_AG_LIST,
                    wire_put(&wire_ag_list, &(struct ag_list){.progress = progress}), ASK_MS,
                    "listing jobs", take_list);
}

static void request_list(struct ask_all_node *n) { request(n, 0); }
static void request_progress(struct ask_all_node *n) { request(n, 1); }

/* --- merging the answers --- */

static int is_over(const char *state) {
    static const char *const over[] = {"done", "failed", "stopped", "lost"};
    for (size_t i = 0; i < sizeof over / sizeof over[0]; i++)
        if (!strcmp(state, over[i]))
            return 1;
    return 0;
}

/* The place of this id, or the free place for it. */
static size_t place_of(const struct found *f, const char *id) {
    uint64_t h = 0xcbf29ce484222325u; /* FNV-1a */
    for (const char *s = id; *s; s++)
        h = (h ^ (uint8_t)*s) * 0x100000001b3u;
    size_t at = (h ^ h >> 32) & (f->n_places - 1);
    while (f->places[at] && strcmp(f->v[f->places[at] - 1].id, id))
        at = (at + 1) & (f->n_places - 1);
    return at;
}

/* Keeps at least half of the places free. */
static int make_places(struct found *f) {
    if (2 * f->n < f->n_places)
        return 0;
    const size_t n = f->n_places ? 2 * f->n_places : 64;
    size_t *v = pd_calloc(n, sizeof *v);
    if (!v)
        return PD_ENOMEM;
    free(f->places);
    f->places = v;
    f->n_places = n;
    for (size_t i = 0; i < f->n; i++)
        v[place_of(f, f->v[i].id)] = i + 1;
    return 0;
}

static struct found_job *job_of(struct found *f, const char *id, size_t n_hosts) {
    if (make_places(f))
        return NULL;
    const size_t at = place_of(f, id);
    if (f->places[at])
        return &f->v[f->places[at] - 1];
    if (pd_grow(f->v, f->cap, f->n + 1))
        return NULL;
    struct found_job *j = &f->v[f->n];
    *j = (struct found_job){.host = pd_calloc(n_hosts, sizeof *j->host)};
    if (!j->host)
        return NULL;
    for (size_t i = 0; i < n_hosts; i++)
        j->host[i].node = -1;
    snprintf(j->id, sizeof j->id, "%s", id);
    f->places[at] = ++f->n;
    return j;
}

/* Copy the text; control characters become '?'. */
static void copy_name(char *out, size_t cap, const char *s) {
    size_t n = pd_utf8_valid(s, strlen(s) < cap ? strlen(s) : cap - 1); /* no part of a character */
    for (size_t i = 0; i < n; i++)
        out[i] = (char)((unsigned char)s[i] < ' ' || s[i] == 127 ? '?' : s[i]);
    out[n] = 0;
}

/* The progress of the lowest rank counts. */
static void take_progress(struct found_job *j, json_t *p) {
    if (!json_is_object(p) ||
        (j->progress && json_integer_value(json_object_get(j->progress, "rank")) <=
                            json_integer_value(json_object_get(p, "rank"))))
        return;
    json_decref(j->progress);
    j->progress = json_incref(p);
}

static void add_entry(struct found_job *j, size_t host, const struct listed_job *e) {
    struct found_host *h = &j->host[host];
    snprintf(h->state, sizeof h->state, "%.15s", e->state);
    h->has_job = 1;
    h->node = (int)e->node;
    h->runs = e->pid > 0 && !is_over(h->state);
    j->n_having++;
    j->n_running += h->runs;
    if (e->n_nodes > j->n_nodes)
        j->n_nodes = (int)e->n_nodes;
    j->attached |= h->runs && e->attached;
    if (e->started_us && (!j->started_us || e->started_us < j->started_us))
        j->started_us = e->started_us;
    if (e->ended_us > j->ended_us)
        j->ended_us = e->ended_us;
    if (!*j->user)
        copy_name(j->user, sizeof j->user, e->user);
    if (!*j->name)
        copy_name(j->name, sizeof j->name, e->name);
    take_progress(j, e->progress);
    const int is_head = e->node == e->head && e->head >= j->head;
    if (e->head > j->head)
        j->head = (int)e->head;
    if (is_head) {
        json_decref(j->lost);
        j->lost = json_incref(e->lost);
        j->few_copies = e->few_copies;
        j->few_bytes = e->few_bytes;
    }
    if (!*j->state || is_head)
        pd_fmt(j->state, sizeof j->state, "%s", h->state);
}

static int compare_start(const void *a, const void *b) {
    const struct found_job *x = a, *y = b;
    if (x->started_us && y->started_us && x->started_us != y->started_us)
        return x->started_us < y->started_us ? 1 : -1;
    return strcmp(y->id, x->id); /* ids begin with the time */
}

/* A job's id becomes the name of a local folder, so an id from a node must not contain a path. */
int find_is_id(const char *s) {
    static const char allowed[] =
        "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_.";
    return *s && *s != '.' && *s != '-' && strlen(s) < sizeof((struct found_job *)0)->id &&
           !s[strspn(s, allowed)] && strcmp(s, "latest") != 0; /* a link beside these folders */
}

int find_add(struct found *f, const json_t *jobs, size_t host, size_t n_hosts) {
    size_t k;
    json_t *v;
    json_array_foreach (jobs, k, v) {
        struct listed_job e;
        if (wire_get(&wire_listed_job, &e, v, NULL) || !find_is_id(e.job))
            continue;
        struct found_job *j = job_of(f, e.job, n_hosts);
        if (!j)
            return PD_ENOMEM;
        if (!j->host[host].has_job)
            add_entry(j, host, &e);
    }
    return 0;
}

/* A process of paddle_agent for each of a thousand nodes would take seconds. 0 also if the folder
 * is not as it should be, or if processes whose agent is gone are to be ended. */
int find_here(struct ask_all_node *n, int progress, json_t **others) {
    char root[PATH_MAX];
    struct node_paths p;
    int orphans = 0;
    if (!n->host->local || n->link ||
        root_for_local(n->host->root_dir, n->id, root, sizeof root, NULL) ||
        node_paths_init(&p, root, NULL, NULL) || node_paths_check_private(p.root, 0, NULL))
        return 0;
    json_t *jobs = status_list(p.root, progress, &orphans);
    if (!jobs || orphans || link_make_plain(jobs)) {
        json_decref(jobs);
        return 0;
    }
    pd_err_clear(&n->err);
    json_decref(n->data);
    n->data = jobs;
    if (others)
        *others = job_turn_jobs();
    return 1;
}

/* Asks the nodes that find_here does not read. */
static int ask_nodes(struct ask_all *g, int progress, struct pd_err *err) {
    const size_t n = g->c->hosts.n;
    char *here = pd_calloc(n, 1);
    if (!here)
        return pd_oom(err, "the hosts");
    for (size_t i = 0; i < n; i++)
        if (!g->nodes[i].skip && (here[i] = (char)find_here(&g->nodes[i], progress, NULL)))
            g->nodes[i].skip = 1;
    ask_all_run(g, progress ? request_progress : request_list, g->arg);
    for (size_t i = 0; i < n; i++)
        if (here[i])
            g->nodes[i].skip = 0;
    free(here);
    return g->interrupted ? pd_fail(err, PD_ECANCELED, "interrupted") : 0;
}

int find_merge(const struct ask_all *g, struct found *out, struct pd_err *err) {
    for (size_t i = 0; i < g->c->hosts.n; i++)
        if (find_add(out, g->nodes[i].data, i, g->c->hosts.n))
            return pd_oom(err, "the list of jobs");
    for (size_t i = 0; i < out->n; i++)
        if (out->v[i].n_running) {
            pd_fmt(out->v[i].state, sizeof out->v[i].state,
                   out->v[i].started_us ? "running" : "preparing");
            out->v[i].ended_us = 0;
        }
    if (out->n)
        qsort(out->v, out->n, sizeof *out->v, compare_start);
    return 0;
}

int find_jobs(struct ask_all *g, int progress, struct found *out, struct pd_err *err) {
    *out = (struct found){0};
    g->c->env.job = NULL;
    const int rc = ask_nodes(g, progress, err);
    if (rc)
        return rc;
    out->n_unreachable = ask_all_n_failed(g);
    return find_merge(g, out, err);
}

void find_release(struct found *f) {
    for (size_t i = 0; i < f->n; i++) {
        json_decref(f->v[i].progress);
        json_decref(f->v[i].lost);
        free(f->v[i].host);
    }
    free(f->v);
    free(f->places);
    *f = (struct found){0};
}

/* --- selection --- */

static int matches(const struct found_job *j, const char *want) {
    return pd_starts_with(j->id, want) || pd_ends_with(j->id, want) ||
           (pd_starts_with(j->id, "JOB") && pd_starts_with(j->id + 3, want));
}

static int has_name(const struct found_job *j, const char *want) { return !strcmp(j->name, want); }

/* How many jobs have this name; *best: the newest, or the newest that runs. */
static size_t n_named(const struct found *f, const char *want, const struct found_job **best) {
    size_t n = 0, n_running = 0;
    for (size_t i = 0; i < f->n; i++) {
        if (!has_name(&f->v[i], want))
            continue;
        if (!n++ || (f->v[i].n_running && !n_running))
            *best = &f->v[i];
        n_running += f->v[i].n_running > 0;
    }
    return n_running ? n_running : n > 0;
}

static int fail_ambiguous(const struct found *f, const char *want, int is_name, size_t n,
                          const char *what, struct pd_err *err) {
    char names[NAMED_MAX * 66 + 8] = "";
    size_t shown = 0;
    for (size_t i = 0; i < f->n; i++) {
        if (!f->v[i].n_running && (!want || is_name))
            continue;
        if (want && !(is_name ? has_name : matches)(&f->v[i], want))
            continue;
        const size_t at = strlen(names);
        pd_fmt(names + at, sizeof names - at, " %s", ++shown > NAMED_MAX ? "..." : f->v[i].id);
        if (shown > NAMED_MAX)
            break;
    }
    return want ? pd_fail(err, PD_EUSAGE, "'%.80s' matches %zu %s:%s", want, n, what, names)
                : pd_fail(err, PD_EUSAGE, "%zu %s, name one of them:%s", n, what, names);
}

int find_choose(const struct found *f, const char *want, enum find_which which,
                const struct found_job **job, struct pd_err *err) {
    const struct found_job *found = NULL;
    const char *answered = f->n_unreachable ? "reachable " : "";
    size_t n = 0;
    if (want && !*want)
        return pd_fail(err, PD_EUSAGE, "'' is not a job id");
    for (size_t i = 0; i < f->n; i++)
        n += f->v[i].n_running > 0;
    if ((!want && which == FIND_NEWEST && n != 1) || (want && !strcmp(want, "latest"))) {
        if (!f->n)
            return pd_fail(err, PD_ENOENT,
                           "no %shost of conf.ini has a job: 'paddlectl run' starts one", answered);
        *job = f->v;
        return 0;
    }
    for (size_t i = 0; want && i < f->n; i++)
        if (!strcmp(f->v[i].id, want)) {
            *job = &f->v[i];
            return 0;
        }
    if (want && (n = n_named(f, want, job)) == 1)
        return 0;
    if (want && n > 1)
        return fail_ambiguous(f, want, 1, n, "jobs that run", err);
    n = 0;
    for (size_t i = 0; i < f->n; i++) {
        if (want ? !matches(&f->v[i], want) : !f->v[i].n_running)
            continue;
        found = &f->v[i];
        n++;
    }
    if (n > 1)
        return fail_ambiguous(f, want, 0, n, want ? "jobs" : "jobs are running", err);
    if (!n)
        return want
                   ? pd_fail(err, PD_ENOENT,
                             "no %shost of conf.ini has a job %.80s: 'paddlectl ps' lists the jobs",
                             answered, want)
                   : pd_fail(err, PD_ENOENT, "no job is running%s: 'paddlectl ps' lists the jobs",
                             *answered ? " on the reachable hosts" : "");
    *job = found;
    return 0;
}

int find_join(struct ask_all *g, const struct found_job *job, int running) {
    int n = 0, most = -1;
    g->c->env.job = job->id;
    for (size_t i = 0; i < g->c->hosts.n; i++)
        most = job->host[i].node > most ? job->host[i].node : most;
    char *seen = pd_calloc((size_t)most + 2, 1);
    for (size_t i = 0; i < g->c->hosts.n; i++) {
        const struct found_host *h = &job->host[i];
        int skip = g->nodes[i].err.code || !h->has_job || (running && !h->runs);
        /* Hosts that share a root_dir report the same node. */
        if (!skip && seen && h->node >= 0) {
            skip = seen[h->node];
            seen[h->node] = 1;
        }
        g->nodes[i].skip = skip;
        n += !skip;
    }
    free(seen);
    return n;
}
