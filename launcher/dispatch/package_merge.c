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
};

static int merge_one(void *arg, const char *from, const char *to, struct pd_err *err) {
    const struct folder_merge *m = arg;
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
            rc = each_entry(from, target, merge_one, &(struct folder_merge){i, n_renamed}, err);
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
