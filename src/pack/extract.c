/* extract.c - unpacks a tar.zst stream into a folder. It writes only through openat, so that no
 * entry of an archive can reach outside: every path component is opened with O_NOFOLLOW from the
 * descriptor of its parent.
 *
 *     target.part-XXXXXX/    built here; folders get their mode and time last, since they may be
 *                            read-only
 *     target                 after rename: complete or absent */
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault_point.h"
#include "base/fs.h"
#include "base/str.h"
#include "pack/pack.h"
#include "pack/object/path.h"

struct folder {
    char *path;
    mode_t mode;
    struct timespec mtime;
};

struct extract {
    struct archive *a;
    int root; /* descriptor of the part folder */
    struct pack_limits lim;
    struct pack_result *res;
    struct pd_err *err;
    struct folder *folders; /* folders that the archive names, in its order */
    size_t n_folders, cap_folders;
};

static int damaged(struct extract *x) {
    const char *s = archive_error_string(x->a);
    return pd_fail(x->err, archive_errno(x->a) == ENOMEM ? PD_ENOMEM : PD_EDATA,
                   "the package is damaged: %s", s ? s : "unknown");
}

static int cannot(struct extract *x, int e, const char *what, const char *path) {
    if (e == ELOOP || e == ENOTDIR || e == EMLINK)
        return pd_fail(x->err, PD_EDATA, "the package writes through a link or a file: %.300s",
                       path);
    return pd_fail_errno(x->err, PD_EIO, e, "cannot %s %.300s", what, path);
}

/* Opens the folder that holds `path`, creating missing folders. *name points at the last component.
 * Returns -1 on failure, with x->err set. */
static int open_parent(struct extract *x, const char *path, const char **name) {
    int dir = fcntl(x->root, F_DUPFD_CLOEXEC, 3);
    const char *s = path;
    for (const char *slash; dir >= 0 && (slash = strchr(s, '/')); s = slash + 1) {
        char comp[NAME_MAX + 1];
        memcpy(comp, s, (size_t)(slash - s)); /* pack_clean_path has checked the length */
        comp[slash - s] = 0;
        if (mkdirat(dir, comp, 0755) && errno != EEXIST) {
            cannot(x, errno, "make folder", path);
            close(dir);
            return -1;
        }
        int next = openat(dir, comp, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        int e = errno;
        close(dir);
        errno = e;
        dir = next;
    }
    if (dir < 0) {
        cannot(x, errno, "open the folder of", path);
        return -1;
    }
    *name = s;
    return dir;
}

static int remember_folder(struct extract *x, const char *path, mode_t mode,
                           struct timespec mtime) {
    if (pd_grow(x->folders, x->cap_folders, x->n_folders + 1))
        return pd_oom(x->err, "a package to unpack");
    char *copy = pd_strdup(path);
    if (!copy)
        return pd_oom(x->err, "a package to unpack");
    x->folders[x->n_folders++] = (struct folder){copy, mode, mtime};
    return 0;
}

static int put_folder(struct extract *x, const char *path, mode_t mode, struct timespec mtime) {
    if (*path) {
        const char *name;
        int dir = open_parent(x, path, &name);
        if (dir < 0)
            return x->err->code;
        struct stat st;
        int bad = mkdirat(dir, name, 0700) &&
                  (errno != EEXIST || fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) ||
                   !S_ISDIR(st.st_mode));
        int e = errno;
        close(dir);
        if (bad)
            return e == EEXIST ? pd_fail(x->err, PD_EDATA,
                                         "the package has %.300s twice, once as a folder", path)
                               : cannot(x, e, "make folder", path);
    }
    return remember_folder(x, path, mode, mtime);
}

static int copy_blocks(struct extract *x, int fd, uint64_t size, const char *path) {
    for (;;) {
        const void *p;
        size_t n;
        la_int64_t at;
        int r = archive_read_data_block(x->a, &p, &n, &at);
        if (r == ARCHIVE_EOF)
            break;
        if (r != ARCHIVE_OK)
            return damaged(x);
        if (at < 0 || (uint64_t)at > size || n > size - (uint64_t)at)
            return pd_fail(x->err, PD_EDATA,
                           "the package is damaged: %.300s is longer than it says", path);
        const char *s = p;
        while (n) {
            ssize_t k = pd_fault("pack.write") ? (errno = ENOSPC, -1) : pwrite(fd, s, n, at);
            if (k < 0 && errno == EINTR)
                continue;
            if (k < 0)
                return pd_fail_errno(x->err, PD_EIO, errno, "cannot write %.300s", path);
            s += k;
            n -= (size_t)k;
            at += k;
        }
    }
    return ftruncate(fd, (off_t)size)
               ? pd_fail_errno(x->err, PD_EIO, errno, "cannot write %.300s", path)
               : 0;
}

static int put_file(struct extract *x, struct archive_entry *e, const char *path,
                    struct timespec mtime) {
    la_int64_t size = archive_entry_size(e);
    if (size < 0 || (uint64_t)size > x->lim.max_bytes - x->res->bytes)
        return pd_fail(x->err, PD_EDATA, "the package unpacks to more than %llu bytes",
                       (unsigned long long)x->lim.max_bytes);
    x->res->bytes += (uint64_t)size;
    const char *name;
    int dir = open_parent(x, path, &name);
    if (dir < 0)
        return x->err->code;
    int rc = 0;
    /* As in tar, a later entry of the same name wins. */
    if (unlinkat(dir, name, 0) && errno != ENOENT)
        rc = errno == EISDIR || errno == EPERM
                 ? pd_fail(x->err, PD_EDATA, "the package has %.300s twice, once as a folder", path)
                 : cannot(x, errno, "replace", path);
    int fd =
        rc ? -1 : openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (!rc && fd < 0)
        rc = cannot(x, errno, "create", path);
    if (!rc)
        rc = copy_blocks(x, fd, (uint64_t)size, path);
    const struct timespec t[2] = {{.tv_nsec = UTIME_OMIT}, mtime};
    if (!rc && (fchmod(fd, archive_entry_perm(e) & 0777) || futimens(fd, t)))
        rc = cannot(x, errno, "write", path);
    if (fd >= 0 && close(fd) && !rc)
        rc = cannot(x, errno, "write", path);
    close(dir);
    return rc;
}

static int put_symlink(struct extract *x, const char *target, const char *path,
                       struct timespec mtime) {
    int rc = pack_check_link(path, target ? target : "", x->err);
    if (rc)
        return rc;
    const char *name;
    int dir = open_parent(x, path, &name);
    if (dir < 0)
        return x->err->code;
    const struct timespec t[2] = {{.tv_nsec = UTIME_OMIT}, mtime};
    if ((unlinkat(dir, name, 0) && errno != ENOENT) || symlinkat(target, dir, name) ||
        utimensat(dir, name, t, AT_SYMLINK_NOFOLLOW))
        rc = cannot(x, errno, "make link", path);
    close(dir);
    return rc;
}

static int put_hardlink(struct extract *x, const char *source, const char *path) {
    char from[PATH_MAX];
    int rc = pack_clean_path(source, from, x->err);
    if (rc)
        return rc;
    const char *from_name, *name;
    int dir = -1, from_dir = open_parent(x, from, &from_name);
    struct stat st;
    if (from_dir < 0)
        return x->err->code;
    if (fstatat(from_dir, from_name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode))
        rc = pd_fail(x->err, PD_EDATA, "the package links %.200s to %.200s, which is no file in it",
                     path, from);
    if (!rc && (dir = open_parent(x, path, &name)) < 0)
        rc = x->err->code;
    if (!rc && strcmp(from, path) &&
        ((unlinkat(dir, name, 0) && errno != ENOENT) || linkat(from_dir, from_name, dir, name, 0)))
        rc = cannot(x, errno, "link", path);
    close(from_dir);
    if (dir >= 0)
        close(dir);
    return rc;
}

static int put_entry(struct extract *x, struct archive_entry *e) {
    char path[PATH_MAX];
    const char *name = archive_entry_pathname(e), *hard = archive_entry_hardlink(e);
    if (!name)
        return pd_fail(x->err, PD_EDATA, "the package has an entry without a usable name");
    int rc = pack_clean_path(name, path, x->err);
    if (rc)
        return rc;
    if (++x->res->files > x->lim.max_files)
        return pd_fail(x->err, PD_EDATA, "the package has more than %llu entries",
                       (unsigned long long)x->lim.max_files);
    unsigned type = archive_entry_filetype(e), perm = archive_entry_perm(e);
    struct timespec mtime = {archive_entry_mtime(e), archive_entry_mtime_nsec(e)};
    if (perm & (S_ISUID | S_ISGID))
        return pd_fail(x->err, PD_EDATA, "the package has a set-id bit: %.300s", path);
    if (!*path && (hard || type != AE_IFDIR))
        return pd_fail(x->err, PD_EDATA, "the package replaces its own top folder");
    if (hard)
        return put_hardlink(x, hard, path);
    switch (type) {
    case AE_IFDIR:
        return put_folder(x, path, perm & 01777, mtime);
    case AE_IFREG:
        return put_file(x, e, path, mtime);
    case AE_IFLNK:
        return put_symlink(x, archive_entry_symlink(e), path, mtime);
    default:
        return pd_fail(x->err, PD_EDATA,
                       "the package has something that is neither file nor folder nor link: %.300s",
                       path);
    }
}

/* Opens a folder that an earlier entry named. Returns -1 with errno if a later entry has replaced
 * it. */
static int open_folder(struct extract *x, const char *path) {
    const char *name = ".";
    int dir = *path ? open_parent(x, path, &name) : fcntl(x->root, F_DUPFD_CLOEXEC, 3);
    if (dir < 0)
        return -1;
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int e = errno;
    close(dir);
    errno = e;
    return fd;
}

/* Sets modes and times from last to first, so that a folder follows its contents. */
static int finish_folders(struct extract *x) {
    for (size_t i = x->n_folders; i-- > 0;) {
        struct folder *f = &x->folders[i];
        const struct timespec t[2] = {{.tv_nsec = UTIME_OMIT}, f->mtime};
        int fd = open_folder(x, f->path);
        if (x->err->code)
            return x->err->code;
        if (fd < 0 && (errno == ENOTDIR || errno == ELOOP))
            continue;
        int bad = fd < 0 || futimens(fd, t) || fchmod(fd, f->mode);
        int e = errno;
        if (fd >= 0)
            close(fd);
        if (bad)
            return cannot(x, e, "finish folder", f->path);
    }
    return 0;
}

/* Makes finished read-only folders removable again, from first to last. */
static void unlock_folders(struct extract *x) {
    for (size_t i = 0; i < x->n_folders; i++) {
        int fd = x->root < 0 ? -1 : open_folder(x, x->folders[i].path);
        if (fd >= 0) {
            (void)!fchmod(fd, 0700);
            close(fd);
        }
    }
}

static int extract_all(struct extract *x, int fd) {
    if (!(x->a = archive_read_new()))
        return pd_oom(x->err, "a package to unpack");
    if (archive_read_support_format_tar(x->a) || archive_read_support_filter_zstd(x->a) ||
        archive_read_open_fd(x->a, fd, PACK_CHUNK))
        return damaged(x);
    for (;;) {
        struct archive_entry *e;
        int r = archive_read_next_header(x->a, &e);
        if (r == ARCHIVE_EOF)
            break;
        /* WARN: the locale cannot show a name; its bytes are unchanged */
        if (r != ARCHIVE_OK && r != ARCHIVE_WARN)
            return damaged(x);
        int rc = put_entry(x, e);
        if (rc)
            return rc;
    }
    return finish_folders(x);
}

int pack_extract(int fd, const char *target, const struct pack_limits *limits,
                 struct pack_result *res, struct pd_err *err) {
    struct pack_result own_res;
    struct pd_err own_err = {0};
    struct extract x = {.root = -1,
                        .lim = limits ? *limits : (struct pack_limits){0},
                        .res = &own_res,
                        .err = &own_err};
    char part[PATH_MAX];
    struct stat st;
    memset(&own_res, 0, sizeof own_res);
    x.lim.max_files = x.lim.max_files ? x.lim.max_files : PACK_MAX_FILES;
    x.lim.max_bytes = x.lim.max_bytes ? x.lim.max_bytes : PACK_MAX_BYTES;
    if (!lstat(target, &st))
        return pd_fail(err, PD_EEXIST, "%s exists already", target);
    if (pd_fmt(part, sizeof part, "%s.part-XXXXXX", target))
        return pd_fail(err, PD_EIO, "path too long: %s", target);
    if (!mkdtemp(part))
        return pd_fail_errno(err, PD_EIO, errno, "cannot make folder %s", part);
    x.root = open(part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int rc = x.root < 0 || fchmod(x.root, 0755)
                 ? pd_fail_errno(&own_err, PD_EIO, errno, "cannot open %s", part)
                 : 0;
    if (!rc)
        rc = extract_all(&x, fd);
    if (!rc && rename(part, target))
        rc = errno == EEXIST || errno == ENOTEMPTY || errno == ENOTDIR
                 ? pd_fail(&own_err, PD_EEXIST, "%s exists already", target)
                 : pd_fail_errno(&own_err, PD_EIO, errno, "cannot rename %s", part);
    archive_read_free(x.a);
    if (rc) {
        unlock_folders(&x);
        pd_rm_tree(part, NULL);
        pd_fail(err, rc, "%s", own_err.msg);
    } else if (res) {
        *res = own_res;
    }
    if (x.root >= 0)
        close(x.root);
    for (size_t i = 0; i < x.n_folders; i++)
        free(x.folders[i].path);
    free(x.folders);
    return rc;
}
