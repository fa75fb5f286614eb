/* SPDX-License-Identifier: Apache-2.0 */
/* assemble_ends.c - the beginning and the end of an assembling, complete or interrupted. See
 * assemble.h. */
#include "pack/store/assemble_internal.h"

#include <sodium.h>
#include <sys/statvfs.h>

int assemble_enough_disk(const struct assemble *a, struct pd_err *err) {
    struct statvfs s;
    char dir[PATH_MAX];
    snprintf(dir, sizeof dir, "%.*s", (int)(strrchr(a->target, '/') - a->target), a->target);
    int rc = pd_disk_room(-1, dir, "the package", a->root_node.data_bytes + a->manifest_bytes,
                          a->o.due, err);
    if (!rc && !statvfs(*dir ? dir : "/", &s) && s.f_files && a->root_node.n_entries > s.f_favail)
        return pd_fail(
            err, PD_ENOSPC, "no space left: the package has %llu files, %s has room for %llu",
            (unsigned long long)a->root_node.n_entries, dir, (unsigned long long)s.f_favail);
    return rc;
}

int assemble_new(struct assemble **out, struct store *st, const struct assemble_opts *o,
                 const void *root_raw, size_t n, struct pd_err *err) {
    struct stat s;
    unsigned long long unique;
    struct assemble *a = pd_calloc(1, sizeof *a);
    if (!a) {
        assemble_free(o->before);
        return pd_oom(err, "a package that arrives");
    }
    randombytes_buf(&unique, sizeof unique);
    a->st = st;
    a->o = *o;
    a->old_fd = -1;
    a->window = o->window ? o->window : WINDOW;
    a->single = o->single_file;
    object_id_of(&a->root_id, root_raw, n);
    int rc = manifest_read_root(&a->root_node, root_raw, n, err);
    if (!rc && a->single && a->root_node.n_entries != 1)
        rc = pd_fail(err, PD_EDATA, "a worker package holds one file, and nothing else");
    if (!rc && (*o->target != '/' || strncmp(o->target, o->root, strlen(o->root)) ||
                pd_fmt(a->root, sizeof a->root, "%s", o->root) ||
                pd_fmt(a->target, sizeof a->target, "%s", o->target) ||
                pd_fmt(a->lies_in, sizeof a->lies_in, "%s", o->lies_in ? o->lies_in : o->target) ||
                strncmp(a->lies_in, o->root, strlen(o->root)) ||
                pd_fmt(a->dir, sizeof a->dir, "%s.part-%016llx", o->target, unique)))
        rc = pd_fail(err, PD_EIO, "a package cannot become %s", o->target);
    if (!rc && !lstat(a->target, &s))
        rc = pd_fail(err, PD_EEXIST, "%s exists already", a->target);
    if (!rc)
        rc = assemble_take_children(a, &a->level, &a->root_node, err);
    /* The rests of interrupted transfers are worth less than this package. */
    if (!rc && assemble_enough_disk(a, NULL))
        store_drop_rests(st, 0);
    if (!rc)
        rc = assemble_enough_disk(a, err);
    a->depth = a->root_node.level - 1;
    if (!rc)
        rc = manifest_reader_new(&a->reader, &a->root_node, err);
    if (!rc)
        rc = store_part_new(&a->part, st, a->dir, err);
    if (!rc && !(rc = tree_out_new(&a->tree, a->dir, err)))
        a->dir_made = 1;
    a->t.entries = a->root_node.n_entries;
    a->t.bytes = a->root_node.data_bytes;
    if (rc) {
        assemble_free(a);
        return rc;
    }
    *out = a;
    return 0;
}

/* The new rest has what was read from older ones. */
static int keep_rest(struct assemble *a) {
    size_t n = tree_out_count(a->tree);
    const char **paths = pd_calloc(n, sizeof *paths);
    if (!paths)
        return -1;
    for (size_t i = 0; i < n; i++)
        paths[i] = tree_out_path(a->tree, (uint32_t)i);
    int rc = store_part_keep(a->part, a->dir, paths, n, NULL);
    free(paths);
    if (!rc)
        store_drop_rests(a->st, 95);
    return rc;
}

void assemble_free(struct assemble *a) {
    if (!a)
        return;
    assemble_drop_wants(a);
    pd_close(a->old_fd);
    assemble_free(a->o.before);
    const int kept = a->dir_made && !a->finished && a->o.keeps_rest && !a->broken && !keep_rest(a);
    tree_out_free(a->tree);
    if (a->dir_made && !a->finished && !kept)
        pd_rm_tree(a->dir, NULL);
    store_present_release(&a->present);
    store_part_free(a->part); /* last: the part file tells other processes what to remove */
    manifest_reader_free(a->reader);
    free(a->level.v);
    free(a);
}

/* Renames without replacing anything. */
static int move_to(const char *from, const char *to) {
    struct stat s;
    if (!renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE))
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -1;
    if (!lstat(to, &s)) {
        errno = EEXIST;
        return -1;
    }
    return rename(from, to);
}

static int seal(struct assemble *a, struct pd_err *err) {
    const char *base = a->lies_in + strlen(a->root) + 1;
    size_t n = tree_out_count(a->tree);
    const char **paths = pd_calloc(n, sizeof *paths);
    char dir[PATH_MAX];
    if (!paths)
        return pd_oom(err, "a package that arrives");
    for (size_t i = 0; i < n; i++)
        paths[i] = tree_out_path(a->tree, (uint32_t)i);
    if (a->single) {
        const char *slash = strrchr(base, '/');
        snprintf(dir, sizeof dir, "%.*s", slash ? (int)(slash - base) : 1, slash ? base : ".");
        paths[0] = slash ? slash + 1 : base;
        base = dir;
    }
    int rc = store_part_seal(a->part, base, paths, n, a->o.durable, err);
    free(paths);
    return rc;
}

static int place(struct assemble *a, struct pd_err *err) {
    char file[PATH_MAX];
    const char *from = a->dir, *slash = strrchr(a->target, '/');
    if (a->single) {
        if (pd_fmt(file, sizeof file, "%s/%s", a->dir, tree_out_path(a->tree, 0)) ||
            chmod(file, 0755))
            return pd_fail_errno(err, PD_EIO, errno, "cannot finish %s", a->target);
        from = file;
    }
    /* `clean` uses the age of the tree: it counts from now. */
    (void)utimensat(AT_FDCWD, from, NULL, 0);
    if (pd_fault("assemble.rename") || move_to(from, a->target))
        return errno == EEXIST || errno == ENOTEMPTY
                   ? pd_fail(err, PD_EEXIST, "%s exists already", a->target)
                   : pd_fail_errno(err, PD_EIO, errno, "cannot rename %s", from);
    if (a->single)
        rmdir(a->dir);
    char dir[PATH_MAX];
    snprintf(dir, sizeof dir, "%.*s", (int)(slash - a->target), a->target);
    return a->o.durable ? pd_fsync_dir(*dir ? dir : "/", err) : 0;
}

static int finish(struct assemble *a, struct pd_err *err) {
    int rc = tree_out_finish(a->tree, a->o.durable, err);
    if (!rc)
        rc = seal(a, err);
    if (!rc)
        rc = place(a, err);
    if (rc)
        return rc;
    a->finished = 1;
    assemble_free(a->o.before);
    a->o.before = NULL;
    if (a->single)
        (void)tree_out_moved(a->tree, a->target);
    if (!pd_fault("assemble.catalog"))
        (void)store_part_publish(
            a->part, &a->root_id,
            NULL); /* without a catalog the next dispatch only sends more than necessary */
    return 0;
}

int assemble_finish(struct assemble *a, struct pd_err *err) {
    int rc = finish(a, err);
    a->broken |= rc != 0;
    if (!rc)
        store_drop_rests(a->st, 50);
    return rc;
}

int assemble_hold(const struct assemble *a) { return store_part_hold(a->part); }
