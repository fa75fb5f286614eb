/* SPDX-License-Identifier: Apache-2.0 */
/* package_merge.c - the folders of several nodes become one. */
#include "launcher/dispatch/package.h"

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
    pd_closedir(d);
    return rc;
}

struct folder_merge {
    int node;
    int *n_renamed;
    const char *target, *placed; /* as in package_merge */
};

/* The path in `placed` that `to` has in `target`. */
static int placed_path(const struct folder_merge *m, const char *to, char out[PATH_MAX]) {
    return pd_fmt(out, PATH_MAX, "%s%s", m->placed, to + strlen(m->target));
}

static int is_folder(const char *path) {
    struct stat st;
    return !lstat(path, &st) && S_ISDIR(st.st_mode);
}

/* 1: an earlier fetch has put this node's file beside another node's, which may be missing now. */
static int is_second(const struct folder_merge *m, const char *from, const char *to) {
    char first[PATH_MAX], own[PATH_MAX];
    struct stat st;
    return !placed_path(m, to, first) && !pd_fmt(own, sizeof own, "%s.node-%d", first, m->node) &&
           !lstat(own, &st) && !lstat(first, &st) && !same_file(from, first);
}

static int merge_one(void *arg, const char *from, const char *to, struct pd_err *err) {
    const struct folder_merge *m = arg;
    struct stat a, b;
    char other[PATH_MAX];
    if (lstat(from, &a))
        return pd_fail_errno(err, PD_EIO, errno, "cannot read %s", from);
    const int is_new = lstat(to, &b);
    if (S_ISDIR(a.st_mode) &&
        (is_new ? !placed_path(m, to, other) && is_folder(other) && !mkdir(to, a.st_mode & 07777)
                : S_ISDIR(b.st_mode)))
        return each_entry(from, to, merge_one, arg, err);
    if (is_new && !(S_ISREG(a.st_mode) && is_second(m, from, to)))
        return rename(from, to)
                   ? pd_fail_errno(err, PD_EIO, errno, "cannot move %s to %s", from, to)
                   : 0;
    if (!is_new && S_ISREG(a.st_mode) && S_ISREG(b.st_mode) && a.st_size == b.st_size &&
        same_file(from, to))
        return 0;
    if (pd_fmt(other, sizeof other, "%s.node-%d", to, m->node) || rename(from, other))
        return pd_fail_errno(err, PD_EIO, errno, "cannot move %s to %s", from, other);
    ++*m->n_renamed;
    return 0;
}

int package_merge(const char *aside, int n_nodes, const char *target, const char *placed,
                  int *n_renamed, struct pd_err *err) {
    *n_renamed = 0;
    int rc = pd_mkdirs(target, 0755, err);
    for (int i = 0; !rc && i < n_nodes; i++) {
        char from[PATH_MAX];
        struct stat st;
        if (pd_fmt(from, sizeof from, "%s/node-%d", aside, i))
            return pd_fail(err, PD_EIO, "path too long: %s", aside);
        if (!lstat(from, &st))
            rc = each_entry(from, target, merge_one,
                            &(struct folder_merge){i, n_renamed, target, placed}, err);
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
