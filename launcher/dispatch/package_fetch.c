/* package_fetch.c - folders that come back from the nodes, and their merging into one. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fs.h"
#include "base/str.h"
#include "launcher/dispatch/package.h"

enum { FETCH_PATIENCE_MS = 120000 };

struct fetch {
    struct pack_spool *spool;
    char target[PATH_MAX], sha256[65], skipped[300];
    uint64_t bytes;
    uv_work_t work;
    fetch_done done;
    void *arg;
    struct pd_err err;
};

static void fetch_end(struct fetch *f, int missing, const struct pd_err *err) {
    f->done(f->arg, missing, f->skipped, err);
    pack_spool_free(f->spool);
    free(f);
}

static void unpack(uv_work_t *w) { /* on a thread of the pool */
    struct fetch *f = w->data;
    struct pack_result res;
    if (!pack_spool_verify(f->spool, f->sha256, f->bytes, &f->err))
        pack_spool_extract(f->spool, f->target, NULL, &res, &f->err);
}

static void on_unpacked(uv_work_t *w, int status) {
    struct fetch *f = w->data;
    if (status)
        pd_fail(&f->err, PD_ECANCELED, "unpacking was cancelled");
    fetch_end(f, 0, f->err.code ? &f->err : NULL);
}

static void note_end(struct fetch *f, json_t *body) {
    const char *hash = json_string_value(json_object_get(body, "sha256"));
    const char *first = json_string_value(json_object_get(body, "first_skipped"));
    json_int_t n = json_integer_value(json_object_get(body, "skipped"));
    pd_fmt(f->sha256, sizeof f->sha256, "%.64s", hash ? hash : "");
    f->bytes = (uint64_t)json_integer_value(json_object_get(body, "bytes"));
    if (n > 0)
        pd_fmt(f->skipped, sizeof f->skipped, "%lld entries could not travel, the first: %.200s",
               (long long)n, first ? first : "?");
}

static int on_piece(struct link *l, const struct wire_frame *f, json_t *body,
                    const struct pd_err *err, void *arg) {
    struct fetch *t = arg;
    uv_loop_t *loop = t->work.data;
    (void)l;
    if (err) {
        fetch_end(t, 0, err);
        return 1;
    }
    if (f->type == WIRE_AG_PKG_BEGIN) {
        if (!json_is_true(json_object_get(body, "missing")))
            return 0;
        /* The END of a missing folder may or may not follow; nothing hangs on it. */
        fetch_end(t, 1, NULL);
        return 1;
    }
    if (f->type == WIRE_AG_PKG_DATA && f->n_sec > 1) {
        if (!t->err.code && pack_spool_write(t->spool, f->sec[1], f->len[1], &t->err)) {
            fetch_end(t, 0, &t->err);
            return 1;
        }
        return 0;
    }
    if (f->type != WIRE_AG_PKG_END)
        return 0;
    note_end(t, body);
    t->work.data = t;
    int rc = uv_queue_work(loop, &t->work, unpack, on_unpacked);
    if (rc) {
        pd_fail(&t->err, PD_EFAIL, "cannot start a thread: %s", uv_strerror(rc));
        fetch_end(t, 0, &t->err);
    }
    return 1;
}

int package_fetch(struct link *l, uv_loop_t *loop, const char *dir, const char *aside, int node,
                  fetch_done done, void *arg) {
    struct fetch *f = pd_calloc(1, sizeof *f);
    if (!f)
        return PD_ENOMEM;
    f->done = done;
    f->arg = arg;
    f->work.data = loop;
    if (pd_fmt(f->target, sizeof f->target, "%s/node-%d", aside, node) ||
        pack_spool_new(&f->spool, aside, &f->err) ||
        link_request(l, WIRE_AG_FETCH, json_pack("{s:s}", "dir", dir), NULL, 0, FETCH_PATIENCE_MS,
                     "fetching outputs", on_piece, f)) {
        pack_spool_free(f->spool);
        free(f);
        return PD_EIO;
    }
    return 0;
}

/* --- merging --- */

static int same_file(const char *a, const char *b) {
    char x[4096], y[4096];
    FILE *f = fopen(a, "re"), *g = fopen(b, "re");
    int same = f && g;
    while (same) {
        size_t n = fread(x, 1, sizeof x, f), m = fread(y, 1, sizeof y, g);
        same = n == m && !memcmp(x, y, n);
        if (n < sizeof x)
            break;
    }
    if (f)
        fclose(f);
    if (g)
        fclose(g);
    return same;
}

/* `one` for each entry of a folder: its path, and the same name in `to`. */
static int each_entry(const char *from, const char *to,
                      int (*one)(void *arg, const char *from, const char *to, struct pd_err *err),
                      void *arg, struct pd_err *err) {
    DIR *d = opendir(from);
    struct dirent *e;
    int rc = d ? 0 : pd_fail_errno(err, PD_EIO, errno, "cannot read %s", from);
    while (!rc && (e = readdir(d))) {
        char a[PATH_MAX], b[PATH_MAX];
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
            continue;
        if (pd_fmt(a, sizeof a, "%s/%s", from, e->d_name) ||
            pd_fmt(b, sizeof b, "%s/%s", to, e->d_name))
            rc = pd_fail(err, PD_EIO, "path too long: %s/%s", from, e->d_name);
        else
            rc = one(arg, a, b, err);
    }
    if (d)
        closedir(d);
    return rc;
}

struct merge {
    int node;
    int *n_renamed;
};

static int merge_one(void *arg, const char *from, const char *to, struct pd_err *err) {
    const struct merge *m = arg;
    struct stat a, b;
    char other[PATH_MAX];
    if (lstat(from, &a))
        return pd_fail_errno(err, PD_EIO, errno, "cannot read %s", from);
    if (lstat(to, &b))
        return rename(from, to)
                   ? pd_fail_errno(err, PD_EIO, errno, "cannot move %s to %s", from, to)
                   : 0;
    if (S_ISDIR(a.st_mode) && S_ISDIR(b.st_mode))
        return each_entry(from, to, merge_one, arg, err);
    if (S_ISREG(a.st_mode) && S_ISREG(b.st_mode) && a.st_size == b.st_size && same_file(from, to))
        return 0;
    if (pd_fmt(other, sizeof other, "%s.node-%d", to, m->node) || rename(from, other))
        return pd_fail_errno(err, PD_EIO, errno, "cannot move %s to %s", from, other);
    ++*m->n_renamed;
    return 0;
}

int package_merge(const char *aside, int n_nodes, const char *target, int *n_renamed,
                  struct pd_err *err) {
    *n_renamed = 0;
    int rc = pd_mkdirs(target, 0755, err);
    for (int i = 0; !rc && i < n_nodes; i++) {
        char from[PATH_MAX];
        struct stat st;
        if (pd_fmt(from, sizeof from, "%s/node-%d", aside, i))
            return pd_fail(err, PD_EIO, "path too long: %s", aside);
        if (!lstat(from, &st))
            rc = each_entry(from, target, merge_one, &(struct merge){i, n_renamed}, err);
    }
    return rc;
}

static int overlay_one(void *arg, const char *from, const char *to, struct pd_err *err) {
    struct stat a, b;
    if (lstat(from, &a))
        return pd_fail_errno(err, PD_EIO, errno, "cannot read %s", from);
    int there = !lstat(to, &b);
    if (there && S_ISDIR(a.st_mode) && S_ISDIR(b.st_mode))
        return each_entry(from, to, overlay_one, arg, err);
    if (there && (S_ISDIR(a.st_mode) || S_ISDIR(b.st_mode))) /* one is a folder, the other is not */
        pd_rm_tree(to, NULL);
    return rename(from, to) ? pd_fail_errno(err, PD_EIO, errno, "cannot move %s to %s", from, to)
                            : 0;
}

int package_overlay(const char *from, const char *to, struct pd_err *err) {
    return each_entry(from, to, overlay_one, NULL, err);
}
