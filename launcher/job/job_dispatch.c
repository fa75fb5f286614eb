/* SPDX-License-Identifier: Apache-2.0 */
/* job_dispatch.c - sends worker and workspace to the nodes of a job in the phase prepare.
 *
 * Hashing begins before the first log-in. If all nodes are needed, nothing is sent before all have
 * answered: one unreachable host ends the job, so a transfer of gigabytes would be in vain. */
#include <uv.h>

#include "launcher/dispatch/cache.h"
#include "launcher/dispatch/listing.h"
#include "launcher/job/job_internal.h"
#include "pack/packed_program.h"

enum { COMING = AT(NODE_DISPATCH) | AT(NODE_DATA) }; /* steps in which a node receives packages */

static void on_done(void *arg, int place) {
    struct job *j = arg;
    if (AT(j->nodes[place].step) & COMING)
        node_enter(&j->nodes[place], NODE_STOCKED);
}

static void on_failed(void *arg, int place, const struct pd_err *err) {
    struct job *j = arg;
    if (AT(j->nodes[place].step) & COMING)
        node_fail(&j->nodes[place], err);
}

/* An error of this machine: reported once for the job, not for each host. */
static void on_broken(void *arg, const struct pd_err *err) {
    struct job *j = arg;
    if (!j->err.code)
        j->err = *err;
    job_move(j, COMING, NODE_STOCKED);
}

static void on_scanned(void *arg, int package) {
    struct job *j = arg;
    char *text =
        package != j->worker_package ? listing_of_large(dispatch_scan(j->dispatch, package)) : NULL;
    if (text)
        watch_print(j, "%s", text);
    free(text);
}

static void on_change(void *arg) {
    struct job *j = arg;
    if (j->phase <= JOB_DATA)
        bar_update(&j->bar, j->dispatch, uv_now(&j->c.loop));
}

/* `hashes`: the name of the cache file (cache.h). The two packages of a workspace contain different
 * files, so each has a cache. */
static int open_workspace(const struct job *j, const char *hashes, unsigned flags,
                          struct scan **out, struct pd_err *err) {
    char hashed[PATH_MAX];
    int rc = scan_new(out, j->opts->job_dispatch_package,
                      flags | (j->flags.dry_run ? SCAN_IGNORED : 0), err);
    if (rc)
        pd_err_prefix(err, "%s", option_source(j->opts, "job_dispatch_package"));
    else if (!cache_file(hashes, j->opts->job_dispatch_package, hashed))
        scan_set_cache(*out, hashed);
    return rc;
}

static int add(struct job *j, const char *kind, const char *name, struct scan *scan, int *package,
               struct pd_err *err) {
    *package = dispatch_add(j->dispatch, kind, name, scan, err);
    return *package < 0 ? *package : 0;
}

/* If the build has stored a compressed copy beside the worker that is not older, replace `path` by
 * the path of the copy. */
static int use_packed(char path[PATH_MAX]) {
    struct stat raw, packed;
    char with[PATH_MAX];
    if (pd_fmt(with, sizeof with, "%s.zst", path) || stat(path, &raw) || stat(with, &packed) ||
        packed.st_mtime < raw.st_mtime || packed_program_size(with) != (uint64_t)raw.st_size)
        return 0;
    memcpy(path, with, sizeof with);
    return 1;
}

/* The files that a user's own trainer reads are not known here, so all nodes get all files. */
int job_has_data_apart(const struct job *j) {
    return j->opts->data_layout == PD_DATA_DISPATCHED && j->c.n_trainers &&
           !*j->opts->trainer_command && !strchr(j->opts->config, '/');
}

/* On the thread that scans the worker's package. */
static int hash_worker(void *arg, struct scan *s, struct pd_err *err) {
    struct job *j = arg;
    (void)s;
    return object_hex_of_file(j->worker_path, j->worker_hash, err);
}

int job_dispatch_open(struct job *j, struct pd_err *err) {
    struct dispatch_conf conf = {.loop = &j->c.loop,
                                 .n_nodes = j->n_hosts,
                                 .relay = j->opts->relay == PD_RELAY_AUTO,
                                 .encrypt = j->opts->encrypt != PD_ENCRYPT_OFF,
                                 .local = client_env_is_local(&j->c),
                                 .port = (int)j->opts->port,
                                 .store_limit = (uint64_t)j->opts->store_limit,
                                 .silence_ms = (uint64_t)(j->opts->silence_timeout * 1000),
                                 .on_done = on_done,
                                 .on_failed = on_failed,
                                 .on_broken = on_broken,
                                 .on_scanned = on_scanned,
                                 .on_change = on_change,
                                 .arg = j};
    struct scan *scan;
    char path[PATH_MAX];
    int rc = 0;
    if (!j->needs_worker && !j->sends_workspace)
        return 0;
    if ((rc = dispatch_new(&j->dispatch, &conf, err)))
        return rc;
    if (j->needs_worker) {
        rc = node_program_path("paddle_worker", j->worker_path, sizeof j->worker_path, err);
        memcpy(path, j->worker_path, sizeof path);
        int packed = !rc && use_packed(path);
        rc = rc ? rc : scan_new_file(&scan, path, "paddle_worker", err);
        if (!rc)
            scan_on_listed(scan, hash_worker, j);
        rc = rc ? rc
                : add(j, packed ? "packed-worker" : "worker", "paddle_worker", scan,
                      &j->worker_package, err);
    }
    if (!rc && *j->checkpoint.folder &&
        !(rc = scan_new_folder(&scan, j->checkpoint.folder, SCAN_OUTPUTS, err)))
        rc = add(j, "resume", j->checkpoint.name, scan, &j->resume_package, err);
    int apart = j->sends_workspace && job_has_data_apart(j);
    if (!rc && apart)
        rc = job_data_new(j, err);
    if (!rc && j->sends_workspace && !(rc = open_workspace(j, "hashed", 0, &scan, err))) {
        if (apart)
            job_data_leave_out(j->data, scan);
        rc = add(j, "workspace", "", scan, &j->workspace_package, err);
    }
    if (!rc && apart && !(rc = open_workspace(j, "hashed-alone", SCAN_ALONE, &scan, err))) {
        job_data_keep(j->data, scan);
        j->data_package = dispatch_add_parts(j->dispatch, "data", scan, err);
        rc = j->data_package < 0 ? j->data_package : 0;
    }
    return rc;
}

int job_scan_now(struct job *j, struct scan **workspace, struct pd_err *err) {
    *workspace = NULL;
    if (!j->sends_workspace)
        return 0;
    int rc = open_workspace(j, "hashed", 0, workspace, err);
    if (!rc && (rc = scan_run(*workspace, err))) {
        scan_free(*workspace);
        *workspace = NULL;
    }
    return rc;
}

static void put_object(void *arg, json_t *o) {
    struct job *j = arg;
    json_object_set_new(o, "job", json_string(j->id));
    watch_event(j, o);
}

void job_dispatch_show(struct job *j) {
    bar_init(&j->bar, j->view, j->flags.json ? put_object : NULL, j, uv_now(&j->c.loop));
}

/* The node runs a pserver, or may run one later. */
static int node_may_serve(const struct job_node *n) {
    const struct job *j = n->job;
    int runs = j->opts->min_nodes || j->opts->on_failure == PD_FAILURE_RESTART;
    for (size_t i = 0; i < j->c.n_pservers && !runs; i++)
        runs = j->c.pservers[i] == n->place;
    return runs;
}

static unsigned packages_of(const struct job_node *n) {
    const struct job *j = n->job;
    unsigned packages = 0;
    if (j->worker_package >= 0 && node_needs_worker(n))
        packages |= 1u << j->worker_package;
    if (j->workspace_package >= 0)
        packages |= 1u << j->workspace_package;
    if (j->resume_package >= 0 && node_may_serve(n))
        packages |= 1u << j->resume_package;
    return packages;
}

/* After a lost connection all packages are requested again; the node receives only missing objects.
 */
void enter_data(struct job_node *n) {
    if (job_data_wants(n))
        dispatch_add_packages(n->job->dispatch, n->place, n->link,
                              packages_of(n) | 1u << n->job->data_package);
    else
        node_enter(n, NODE_STOCKED);
}

const char *job_data_id(const struct job_node *n, char hex[2 * OBJECT_ID + 1]) {
    struct object_id id;
    *hex = 0;
    if (n->job->data_package >= 0 &&
        dispatch_part_id(n->job->dispatch, n->place, n->job->data_package, &id))
        object_hex(&id, hex);
    return hex;
}

void enter_dispatch(struct job_node *n) {
    struct job *j = n->job;
    unsigned packages = packages_of(n);
    if (packages)
        dispatch_add_node(j->dispatch, n->place, n->link, packages);
    else
        node_enter(n, NODE_STOCKED);
}

void job_dispatch_lost(struct job_node *n) {
    if (n->job->dispatch && n->link)
        dispatch_remove_node(n->job->dispatch, n->place);
}

void job_dispatch_try_start(struct job *j) {
    int n_lost = 0;
    if (!j->dispatch || job_any(j, AT(NODE_NEW) | AT(NODE_CONNECT)))
        return;
    for (int i = 0; i < j->n_hosts; i++)
        n_lost += (AT(j->nodes[i].step) & LOST) != 0;
    if (j->opts->min_nodes ? j->n_hosts - n_lost >= j->opts->min_nodes : !n_lost)
        dispatch_start(j->dispatch);
    else
        job_move(j, AT(NODE_DISPATCH),
                 NODE_STOCKED); /* the job cannot start: go on to the phase bye */
}

void job_dispatch_end(struct job *j) {
    if (!j->dispatch || j->dispatched)
        return;
    j->dispatched = 1;
    bar_end(&j->bar, j->dispatch, uv_now(&j->c.loop));
    dispatch_cancel(j->dispatch);
}

const char *job_package_id(const struct job *j, int package, char hex[2 * OBJECT_ID + 1]) {
    struct object_id id;
    size_t n;
    *hex = 0;
    if (package >= 0 && dispatch_is_scanned(j->dispatch, package)) {
        scan_root(dispatch_scan(j->dispatch, package), &id, &n);
        object_hex(&id, hex);
    }
    return hex;
}
