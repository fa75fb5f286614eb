/* SPDX-License-Identifier: Apache-2.0 */
/* clean.c - see clean.h. */
#include "agent/report/clean.h"

#include <fts.h>

#include "agent/report/orphans.h"
#include "agent/core/msg.h"
#include "agent/core/node_paths.h"
#include "pack/store/store.h"
#include "wire/client_bodies.h"
#include "wire/msg.h"

enum { CLEAN_MAX = 10000, YOUNG_S = 60, DAY_S = 86400 };

struct clean_opts {
    int keep;       /* number of finished jobs to keep */
    int workspaces; /* 1: deployed workspaces too */
    int dry_run;
    uint64_t store_limit; /* bytes; 0: no limit */
    const char *build;    /* BLAKE2b-256 of this agent's executable */
};

struct clean_entry {
    char name[256], path[PATH_MAX];
    time_t made;
    int runs;
};

struct clean_entries {
    struct clean_entry *v;
    size_t n, cap;
};

struct cleaning {
    const char *root;
    const struct clean_opts *o;
    time_t now;
    json_t *removed, *kept, *failed;
    json_int_t freed;
};

/* --- looking --- */

static int is_dot(const char *name) { return !strcmp(name, ".") || !strcmp(name, ".."); }

/* The contents of the folder, without following links. A missing folder is empty. */
static int list(const char *dir, struct clean_entries *out, struct pd_err *err) {
    DIR *d = opendir(dir);
    struct dirent *de;
    int rc = 0;
    while (d && !rc && out->n < CLEAN_MAX && (de = readdir(d))) {
        struct stat st;
        if (is_dot(de->d_name))
            continue;
        if (pd_grow(out->v, out->cap, out->n + 1)) {
            rc = pd_oom(err, "a list of what to remove");
            break;
        }
        struct clean_entry *e = &out->v[out->n];
        memset(e, 0, sizeof *e);
        if (pd_fmt(e->name, sizeof e->name, "%s", de->d_name) ||
            pd_fmt(e->path, sizeof e->path, "%s/%s", dir, de->d_name) || lstat(e->path, &st))
            continue;
        e->made = st.st_mtime;
        out->n++;
    }
    pd_closedir(d);
    return rc;
}

/* The disk space of a tree, in bytes. Links are not followed, and other file systems are not
 * entered. */
static json_int_t bytes_of(const char *path) {
    char *paths[] = {(char *)(uintptr_t)path, NULL};
    FTS *f = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR | FTS_XDEV, NULL);
    json_int_t sum = 0;
    for (FTSENT *e; f && (e = fts_read(f));)
        if (e->fts_info != FTS_DP && e->fts_statp)
            sum += (json_int_t)e->fts_statp->st_blocks * 512;
    if (f)
        fts_close(f);
    return sum;
}

/* 1: a dispatch may still write this folder or file, and may take any time. store_clean removes the
 * remains of a dispatch that died. */
static int is_being_made(const struct clean_entry *e) { return strstr(e->name, ".part-") != NULL; }

/* --- removing --- */

static void removed(struct cleaning *c, const char *kind, const struct clean_entry *e) {
    struct pd_err err = {0};
    json_int_t bytes = bytes_of(e->path);
    if (!c->o->dry_run && pd_rm_tree(e->path, &err)) {
        json_array_append_new(
            c->failed,
            json_pack("{s:o, s:s}", "path", wire_text(e->path, strlen(e->path)), "error", err.msg));
        return;
    }
    c->freed += bytes;
    json_array_append_new(c->removed,
                          json_pack("{s:s, s:o, s:I}", "kind", kind, "name",
                                    wire_text(e->name, strlen(e->name)), "bytes", bytes));
}

static int newest_first(const void *a, const void *b) {
    const struct clean_entry *x = a, *y = b;
    return x->made != y->made ? (x->made < y->made ? 1 : -1) : -strcmp(x->name, y->name);
}

/* 1: the job has a result. A job without one may still be about to start. */
static int has_ended(const struct clean_entry *e) {
    char result[PATH_MAX];
    return !pd_fmt(result, sizeof result, "%s/result.json", e->path) && !access(result, F_OK);
}

/* Removes old jobs. *n_running becomes the number of running jobs; `jobs` becomes the list of kept
 * jobs. */
static int clean_jobs(struct cleaning *c, struct clean_entries *jobs, int *n_running,
                      struct pd_err *err) {
    struct clean_entries all = {0};
    int rc = list(c->root, &all, err), over = 0;
    *n_running = 0;
    for (size_t i = 0; !rc && i < all.n; i++) {
        struct node_paths p;
        char inside[PATH_MAX];
        struct stat st;
        if (node_paths_init(&p, c->root, all.v[i].name, NULL) ||
            node_paths_join(p.dir, ".agent", inside, NULL) || lstat(p.dir, &st) ||
            !S_ISDIR(st.st_mode) || lstat(inside, &st) || !S_ISDIR(st.st_mode))
            continue;
        struct clean_entry e = all.v[i];
        e.made = st.st_mtime; /* the time of .agent: the job's start, or its agent's end */
        e.runs = orphans_may_run(&p);
        *n_running += e.runs;
        jobs->v[jobs->n++] = e; /* there is room: `jobs` has the same capacity as `all` */
    }
    free(all.v);
    if (rc)
        return rc;
    qsort(jobs->v, jobs->n, sizeof *jobs->v, newest_first);
    size_t kept = 0;
    for (size_t i = 0; i < jobs->n; i++) {
        struct clean_entry *e = &jobs->v[i];
        int stays = e->runs || (c->now - e->made < YOUNG_S && (c->o->keep || !has_ended(e)));
        if (!stays)
            stays = over++ < c->o->keep;
        if (stays) {
            json_array_append_new(c->kept, json_string(e->name));
            jobs->v[kept++] = *e;
        } else {
            removed(c, "job", e);
        }
    }
    jobs->n = kept;
    return 0;
}

/* Executables are cheap to send again, but must stay while a running job may start them. */
static int clean_bin(struct cleaning *c, int n_running, struct pd_err *err) {
    static const char *const kinds[] = {"agent-", "worker-", "packed-worker-", "tmp-", ".worker-"};
    enum { N_KINDS = 5, N_KEPT_KINDS = 2 };
    char dir[PATH_MAX];
    struct clean_entries all = {0};
    int seen[N_KINDS] = {0},
        rc = pd_fmt(dir, sizeof dir, "%s/.paddlectl/bin", c->root) ? 0 : list(dir, &all, err);
    if (!rc && all.n)
        qsort(all.v, all.n, sizeof *all.v, newest_first);
    for (size_t i = 0; i < all.n && !n_running; i++) {
        const struct clean_entry *e = &all.v[i];
        int k = 0;
        while (k < N_KINDS && strncmp(e->name, kinds[k], strlen(kinds[k])))
            k++;
        int ours = k == 0 && !strcmp(e->name + strlen(kinds[0]), c->o->build);
        if (k == N_KINDS || ours || is_being_made(e) || c->now - e->made < DAY_S ||
            (k < N_KEPT_KINDS && !seen[k]++))
            continue;
        removed(c, "executable", e);
    }
    free(all.v);
    return rc;
}

/* 1: a kept job uses the workspace. Real paths are compared, because root_dir and job_workspace may
 * contain links. */
static int works_in(const struct clean_entries *jobs, const char *workspace) {
    char link[PATH_MAX], target[PATH_MAX], mine[PATH_MAX];
    if (!realpath(workspace, mine))
        return 1; /* an unreadable workspace stays */
    size_t n = strlen(mine);
    for (size_t i = 0; i < jobs->n; i++)
        if (!pd_fmt(link, sizeof link, "%s/workspace", jobs->v[i].path) && realpath(link, target) &&
            !strncmp(target, mine, n) && (!target[n] || target[n] == '/'))
            return 1;
    return 0;
}

static int clean_workspaces(struct cleaning *c, const struct clean_entries *jobs,
                            struct pd_err *err) {
    char dir[PATH_MAX];
    struct clean_entries all = {0};
    int rc = pd_fmt(dir, sizeof dir, "%s/workspaces", c->root) ? 0 : list(dir, &all, err);
    for (size_t i = 0; i < all.n; i++)
        if (c->now - all.v[i].made >= DAY_S && !is_being_made(&all.v[i]) &&
            !works_in(jobs, all.v[i].path))
            removed(c, "workspace", &all.v[i]);
    free(all.v);
    return rc;
}

/* Cleans the store (store_clean). Called after the trees are removed, so that the catalogs of those
 * trees are cleaned, too. */
static int clean_chunks(struct cleaning *c, struct pd_err *err) {
    uint64_t n = 0, bytes = 0;
    char name[40];
    int rc = store_clean(c->root, c->o->store_limit, c->o->dry_run, &n, &bytes, err);
    if (rc || !n)
        return rc;
    snprintf(name, sizeof name, "%llu package%s", (unsigned long long)n, n == 1 ? "" : "s");
    c->freed += (json_int_t)bytes;
    json_array_append_new(c->removed, json_pack("{s:s, s:s, s:I}", "kind", "chunks", "name", name,
                                                "bytes", (json_int_t)bytes));
    return 0;
}

/* Blocks; may run on a thread. Returns the body of AG_CLEAN's answer (a new reference), or NULL
 * with err. Files that can't be removed are listed in its `failed`. */
static json_t *clean_root(const char *root, const struct clean_opts *o, struct pd_err *err) {
    struct cleaning c = {.root = root,
                         .o = o,
                         .now = time(NULL),
                         .removed = json_array(),
                         .kept = json_array(),
                         .failed = json_array()};
    struct clean_entries jobs = {.v = pd_calloc(CLEAN_MAX, sizeof *jobs.v), .cap = CLEAN_MAX};
    int n_running = 0, rc = jobs.v && c.removed && c.kept && c.failed
                                ? 0
                                : pd_oom(err, "a list of what to remove");
    if (!rc)
        rc = clean_jobs(&c, &jobs, &n_running, err);
    if (!rc)
        rc = clean_bin(&c, n_running, err);
    if (!rc && o->workspaces)
        rc = clean_workspaces(&c, &jobs, err);
    if (!rc)
        rc = clean_chunks(&c, err);
    free(jobs.v);
    json_t *answer =
        rc ? NULL
           : wire_put(&wire_ag_clean_answer, &(struct ag_clean_answer){.removed = c.removed,
                                                                       .kept = c.kept,
                                                                       .failed = c.failed,
                                                                       .freed = c.freed});
    json_decref(c.removed);
    json_decref(c.kept);
    json_decref(c.failed);
    if (!answer && !rc)
        pd_oom(err, "a list of what to remove");
    return answer;
}

/* --- AG_CLEAN: removing large trees takes time, so it runs on a thread --- */

struct clean_work {
    uv_work_t work;
    struct client *client;
    uint64_t req;
    struct clean_opts o;
    json_t *answer;
    struct pd_err err;
};

static void run(uv_work_t *w) {
    struct clean_work *c = w->data;
    c->answer = clean_root(client_core(c->client)->paths.root, &c->o, &c->err);
}

static void on_done(uv_work_t *w, int status) {
    struct clean_work *c = w->data;
    if (status)
        pd_fail(&c->err, PD_ECANCELED, "the agent is ending");
    if (c->err.code)
        client_refuse(c->client, WIRE_AG_CLEAN, c->req, &c->err);
    else
        client_send(c->client, WIRE_AG_CLEAN, c->req, json_incref(c->answer));
    json_decref(c->answer);
    client_unref(c->client);
    free(c);
}

static int on_clean(struct client *client, const struct wire_frame *f, const json_t *body,
                    struct pd_err *err) {
    struct ag_clean m;
    if (wire_get(&wire_ag_clean, &m, body, err))
        return err->code;
    struct clean_work *c = pd_calloc(1, sizeof *c);
    if (!c)
        return pd_oom(err, "a list of what to remove");
    c->work.data = c;
    c->client = client;
    c->req = f->req;
    c->o = (struct clean_opts){.keep = (int)m.keep,
                               .workspaces = (int)m.workspaces,
                               .dry_run = (int)m.dry_run,
                               .store_limit = (uint64_t)m.store_limit,
                               .build = client_core(client)->build};
    if (uv_queue_work(&client_core(client)->loop, &c->work, run, on_done)) {
        free(c);
        return pd_fail(err, PD_ENOMEM, "cannot start a thread");
    }
    client_ref(client);
    return 0;
}

static const struct client_request requests[] = {{WIRE_AG_CLEAN, 0, 1, on_clean, NULL}, {0}};

const struct client_service clean_service = {.name = "clean", .requests = requests};
