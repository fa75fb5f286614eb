/* tree.c - packs a folder. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "pack/object/names.h"
#include "pack/object/path.h"
#include "pack/writer.h"

struct walk {
    struct pack_writer *w;
    struct pd_err *err;
    unsigned flags;
    const char *top; /* for messages */
    char path[PATH_MAX];
    size_t len;
};

static int fail_names(struct walk *k, int rc, int no) {
    return rc == PD_ENOMEM
               ? pd_fail(k->err, rc, "%s: out of memory", k->top)
               : pd_fail_errno(k->err, PD_EIO, no, "cannot read folder %s/%s", k->top, k->path);
}

static struct archive_entry *entry_new(const char *path, unsigned type, unsigned perm,
                                       const struct stat *st) {
    struct archive_entry *e = archive_entry_new();
    if (!e)
        return NULL;
    archive_entry_copy_pathname(e, path);
    archive_entry_set_filetype(e, type);
    archive_entry_set_perm(e, perm);
    archive_entry_set_mtime(e, st->st_mtim.tv_sec, st->st_mtim.tv_nsec);
    archive_entry_set_size(e, 0);
    return e;
}

static int write_entry(struct walk *k, struct archive_entry *e) {
    if (!e)
        return pd_fail(k->err, PD_ENOMEM, "packing %s: out of memory", k->top);
    int rc = pack_writer_header(k->w, e);
    archive_entry_free(e);
    return rc;
}

/* An entry that cannot be packed: an error, or with PACK_OUTPUTS a counted omission. */
static int refuse(struct walk *k, const char *why) {
    if (!(k->flags & PACK_OUTPUTS))
        return pd_fail(k->err, PD_EDATA, "cannot pack %s/%s: %s", k->top, k->path, why);
    struct pack_result *res = k->w->res;
    if (!res->skipped++)
        snprintf(res->first_skipped, sizeof res->first_skipped, "%.150s: %.90s", k->path, why);
    return 0;
}

/* Outputs may change meanwhile, and an unreadable output is no reason to omit the others. */
static int cannot_open(struct walk *k, int e, const char *what) {
    if (!(k->flags & PACK_OUTPUTS) || (e != ENOENT && e != EACCES))
        return pd_fail_errno(k->err, PD_EIO, e, "cannot open %s%s/%s", what, k->top, k->path);
    return refuse(k, e == ENOENT ? "vanished while it was packed" : "it may not be read");
}

static int walk_file(struct walk *k, int dirfd, const char *name) {
    int fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    struct stat st;
    if (fd < 0 || fstat(fd, &st)) {
        int e = errno;
        if (fd >= 0)
            close(fd);
        return cannot_open(k, e, "");
    }
    int rc;
    if (!S_ISREG(st.st_mode))
        rc = refuse(k, "not a regular file, folder or link");
    else if (st.st_mode & (S_ISUID | S_ISGID))
        rc = refuse(k, "it has a set-id bit");
    else {
        struct archive_entry *e = entry_new(k->path, AE_IFREG, st.st_mode & 0777, &st);
        if (e)
            archive_entry_set_size(e, st.st_size);
        rc = write_entry(k, e);
        char full[PATH_MAX + 300];
        snprintf(full, sizeof full, "%.250s/%s", k->top, k->path);
        uint64_t lacks = 0;
        if (!rc)
            rc = pack_writer_copy(k->w, fd, (uint64_t)st.st_size, full, &lacks);
        if (!rc && lacks)
            rc = refuse(k, "it became shorter while it was packed, and ends with zeros");
    }
    close(fd);
    return rc;
}

static int walk_link(struct walk *k, int dirfd, const char *name, const struct stat *st) {
    char target[PATH_MAX];
    ssize_t n = readlinkat(dirfd, name, target, sizeof target);
    if (n < 0 || (size_t)n >= sizeof target)
        return pd_fail_errno(k->err, PD_EIO, n < 0 ? errno : ENAMETOOLONG, "cannot read link %s/%s",
                             k->top, k->path);
    target[n] = 0;
    struct pd_err why = {0};
    if (pack_check_link(k->path, target, &why))
        return refuse(k, why.msg);
    struct archive_entry *e = entry_new(k->path, AE_IFLNK, 0777, st);
    if (e)
        archive_entry_copy_symlink(e, target);
    return write_entry(k, e);
}

static int walk_dir(struct walk *k, int fd); /* recursion is bounded by PATH_MAX / 2 folders */

static int walk_one(struct walk *k, int dirfd, const char *name) {
    struct stat st;
    if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW)) {
        if (errno == ENOENT && k->flags & PACK_OUTPUTS)
            return refuse(k, "vanished while it was packed");
        return pd_fail_errno(k->err, PD_EIO, errno, "cannot look at %s/%s", k->top, k->path);
    }
    if (S_ISLNK(st.st_mode))
        return walk_link(k, dirfd, name, &st);
    if (!S_ISDIR(st.st_mode))
        return S_ISREG(st.st_mode) ? walk_file(k, dirfd, name)
                                   : refuse(k, "not a regular file, folder or link");
    int rc = write_entry(k, entry_new(k->path, AE_IFDIR, st.st_mode & 01777, &st));
    if (rc)
        return rc;
    int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? cannot_open(k, errno, "folder ") : walk_dir(k, fd);
}

static int walk_dir(struct walk *k, int fd) {
    struct pack_names l = {0};
    int dirfd = fcntl(fd, F_DUPFD_CLOEXEC, 3); /* pack_names_read takes ownership of fd */
    if (dirfd < 0) {
        int e = errno;
        close(fd);
        return pd_fail_errno(k->err, PD_EIO, e, "cannot open folder %s/%s", k->top, k->path);
    }
    int rc = pack_names_read(&l, fd);
    if (rc)
        fail_names(k, rc, errno);
    size_t len = k->len;
    for (size_t i = 0; i < l.n && !rc; i++) {
        size_t n = strlen(l.v[i]);
        if (len + n + 2 > sizeof k->path) {
            rc = pd_fail(k->err, PD_EDATA, "a path below %s is too long: %.100s...", k->top,
                         k->path);
            break;
        }
        if (len)
            k->path[len] = '/';
        memcpy(k->path + len + (len > 0), l.v[i], n + 1);
        k->len = len + (len > 0) + n;
        rc = walk_one(k, dirfd, l.v[i]);
        k->path[len] = 0;
        k->len = len;
    }
    pack_names_release(&l);
    close(dirfd);
    return rc;
}

int pack_tree(const char *dir, unsigned flags, pack_sink sink, void *arg, struct pack_result *res,
              struct pd_err *err) {
    struct pack_writer w;
    struct walk *k = pd_calloc(1, sizeof *k);
    if (!k)
        return pd_fail(err, PD_ENOMEM, "packing %s: out of memory", dir);
    *k = (struct walk){.w = &w, .err = err, .flags = flags, .top = dir};
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = 0;
    if (fd < 0)
        rc = pd_fail_errno(err, errno == ENOENT || errno == ENOTDIR ? PD_ENOENT : PD_EIO, errno,
                           "cannot open folder %s", dir);
    if (!rc) {
        rc = pack_writer_open(&w, sink, arg, res, err);
        if (rc)
            close(fd);
        else
            rc = walk_dir(k, fd);
        rc = pack_writer_finish(&w, rc);
    }
    free(k);
    return rc;
}
