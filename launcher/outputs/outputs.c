/* SPDX-License-Identifier: Apache-2.0 */
/* outputs.c - see outputs.h. */
#include "launcher/outputs/outputs.h"

#include <sys/file.h>

#include "model/model.h"
#include "pack/store/store.h"

enum { LOCK_TRIES = 10, TRIES_MAX = 2, DAY_S = 86400 };

int outputs_init(struct outputs *o, const char *root, const char *to, const char *job,
                 const char *where, struct pd_err *err) {
    o->lock = -1;
    o->own_folder = to != NULL;
    root = to ? to : root;
    if (pd_fmt(o->root, sizeof o->root, "%s", root) || pd_fmt(o->id, sizeof o->id, "%s", job) ||
        pd_fmt(o->dir, sizeof o->dir, "%s%s%s", root, to ? "" : "/", to ? "" : job) ||
        pd_fmt(o->aside, sizeof o->aside, "%s/.%s.part", root, job))
        return pd_fail(err, PD_ECONF, "%s: the path is too long", where);
    return 0;
}

int outputs_try(const struct outputs *o, const char *where, struct pd_err *err) {
    char dir[PATH_MAX], probe[PATH_MAX + 32];
    struct stat st;
    pd_fmt(dir, sizeof dir, "%s", o->root);
    while (lstat(dir, &st) && errno == ENOENT) { /* the nearest folder that exists */
        char *slash = strrchr(dir, '/');
        if (slash && slash != dir)
            *slash = 0;
        else
            pd_fmt(dir, sizeof dir, "%s", slash ? "/" : ".");
    }
    pd_fmt(probe, sizeof probe, "%s/.paddlectl-XXXXXX", dir);
    if (!mkdtemp(probe))
        return pd_fail_errno(err, PD_ECONF, errno, "%s: outputs %s: cannot write to %s", where,
                             o->root, dir);
    rmdir(probe);
    return 0;
}

/* 1: a folder that the next fetch can use: objects, or the complete folders of a node. */
static int is_useful(const char *path, const char *name) {
    struct stat st;
    const int is_store = !strcmp(name, ".paddlectl");
    DIR *d = is_store || pd_starts_with(name, "try-") ? opendir(path) : NULL;
    int useful = is_store && d;
    char inside[PATH_MAX];
    for (struct dirent *e; d && !useful && (e = readdir(d));)
        useful = pd_starts_with(e->d_name, "node-") ||
                 (!strcmp(e->d_name, "logs") && !pd_fmt(inside, sizeof inside, "%s/logs", path) &&
                  !lstat(inside, &st) && st.st_nlink > 2);
    pd_closedir(d);
    return useful;
}

/* Removes the contents of `aside`; with `keep`, useful folders stay. Returns the number of tries
 * that stay. */
static int clear(const char *aside, int keep) {
    DIR *d = opendir(aside);
    struct dirent *e;
    char path[4600];
    int n_tries = 0;
    while (d && (e = readdir(d))) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") ||
            pd_fmt(path, sizeof path, "%s/%s", aside, e->d_name))
            continue;
        int stays = keep && is_useful(path, e->d_name);
        if (stays && pd_starts_with(e->d_name, "try-"))
            stays = ++n_tries <= TRIES_MAX;
        if (!stays)
            pd_rm_tree(path, NULL);
    }
    pd_closedir(d);
    return n_tries;
}

static int is_locked(const char *path) {
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    int locked = fd < 0 || (flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK);
    pd_close(fd);
    return locked;
}

static void remove_old(const struct outputs *o) {
    DIR *d = opendir(o->root);
    struct dirent *e;
    struct stat st;
    char path[4600];
    while (d && (e = readdir(d)))
        if (pd_starts_with(e->d_name, ".JOB") && pd_ends_with(e->d_name, ".part") &&
            !pd_fmt(path, sizeof path, "%s/%s", o->root, e->d_name) && strcmp(path, o->aside) &&
            !lstat(path, &st) && time(NULL) - st.st_mtime > STORE_REST_DAYS * DAY_S &&
            !is_locked(path))
            pd_rm_tree(path, NULL);
    pd_closedir(d);
}

static int make_try(struct outputs *o, struct pd_err *err) {
    if (pd_fmt(o->try, sizeof o->try, "%s/try-XXXXXX", o->aside) || !mkdtemp(o->try) ||
        pd_fmt(o->logs_aside, sizeof o->logs_aside, "%s/logs", o->try) ||
        mkdir(o->logs_aside, 0755))
        return pd_fail_errno(err, PD_EIO, errno, "cannot make a folder in %.600s", o->aside);
    return package_fetches_init(&o->fetches, o->aside, o->try, o->dir, err);
}

/* Another process may remove the folder of a killed fetch. So the lock is valid only if the locked
 * folder is still the one at this path. */
int outputs_begin(struct outputs *o, struct pd_err *err) {
    struct stat mine, there;
    for (int i = 0; i < LOCK_TRIES; i++) {
        int rc = pd_mkdirs(o->aside, 0755, err);
        if (rc)
            return rc;
        int fd = open(o->aside, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
            continue;
        if (flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK) {
            close(fd);
            return pd_fail(err, PD_EEXIST,
                           "another paddlectl is fetching the outputs of %s into %.600s", o->id,
                           o->root);
        }
        if (!fstat(fd, &mine) && !stat(o->aside, &there) && mine.st_ino == there.st_ino &&
            mine.st_dev == there.st_dev) {
            o->lock = fd; /* file systems without locks (old NFS): continue without the lock */
            clear(o->aside, 1);
            remove_old(o);
            return make_try(o, err);
        }
        close(fd);
    }
    return pd_fail(err, PD_EIO, "cannot make %.600s", o->aside);
}

/* Point output/latest at this job. The link is replaced by a rename, so it always exists. */
static int point_latest(const struct outputs *o, struct pd_err *err) {
    char tmp[4200], latest[4200];
    if (pd_fmt(latest, sizeof latest, "%s/latest", o->root) ||
        pd_fmt(tmp, sizeof tmp, "%s/.latest-%s", o->root, o->id) ||
        (unlink(tmp) && errno != ENOENT) || symlink(o->id, tmp) || rename(tmp, latest)) {
        unlink(tmp);
        return pd_fail(err, PD_EIO, "cannot point %.600s at %s", latest, o->id);
    }
    return 0;
}

int outputs_place(const struct outputs *o, int n_nodes, int *n_renamed, struct pd_err *err) {
    char fresh[4300], logs[4300];
    struct stat st;
    if (pd_fmt(fresh, sizeof fresh, "%s/all", o->try) ||
        pd_fmt(logs, sizeof logs, "%s/log", o->dir))
        return pd_fail(err, PD_EIO, "path too long: %s", o->aside);
    int rc = package_merge(o->try, n_nodes, fresh, o->dir, n_renamed, err);
    if (!rc)
        rc = pd_mkdirs(o->dir, 0755, err);
    if (!rc)
        rc = package_overlay(fresh, o->dir, err);
    if (!rc && !rmdir(o->logs_aside)) /* no logs were asked for */
        ;
    else if (!rc && !stat(o->logs_aside, &st))
        rc = pd_mkdirs(logs, 0755, err) ? err->code : package_overlay(o->logs_aside, logs, err);
    return rc || o->own_folder ? rc : point_latest(o, err);
}

void outputs_incomplete(const struct outputs *o,
                        void (*tell)(void *arg, const char *model, const char *part, int n_missing),
                        void *arg) {
    DIR *d = opendir(o->dir);
    struct dirent *e;
    char folder[PATH_MAX], part[MODEL_FILE_MAX + 1];
    while (d && (e = readdir(d))) {
        struct model_manifest m;
        int n;
        if (*e->d_name == '.' || pd_fmt(folder, sizeof folder, "%s/%s", o->dir, e->d_name))
            continue;
        if (!outputs_read_model(folder, &m, &n, part) && n)
            tell(arg, e->d_name, part, n);
        model_manifest_release(&m);
    }
    pd_closedir(d);
}

/* 1: objects of an interrupted transfer are there. */
static int has_rest(const struct outputs *o) {
    char path[4600];
    int has = 0;
    DIR *d = pd_fmt(path, sizeof path, "%s/.paddlectl/chunks", o->aside) ? NULL : opendir(path);
    for (struct dirent *e; d && !has && (e = readdir(d));)
        has = pd_ends_with(e->d_name, ".tree");
    pd_closedir(d);
    return has;
}

void outputs_drop(struct outputs *o, int keep) {
    if (o->lock < 0)
        return;
    const int n_tries = keep ? clear(o->aside, 1) : 0;
    if (!n_tries && !(keep && has_rest(o)))
        pd_rm_tree(o->aside, NULL);
    close(o->lock);
    o->lock = -1;
}
