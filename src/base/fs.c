/* SPDX-License-Identifier: Apache-2.0 */
/* fs.c - see fs.h. */
#include <ftw.h>
#include <sys/statvfs.h>

enum { UNLOCK_ROUNDS = 32 };

int pd_write_all(int fd, const void *p, size_t n) {
    const char *s = p;
    while (n) {
        ssize_t k = write(fd, s, n);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return -1;
        s += k;
        n -= (size_t)k;
    }
    return 0;
}

ssize_t pd_read_full(int fd, void *p, size_t n) {
    char *s = p;
    size_t got = 0;
    while (got < n) {
        ssize_t k = read(fd, s + got, n - got);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return -1;
        if (k == 0)
            break;
        got += (size_t)k;
    }
    return (ssize_t)got;
}

int pd_mkdirs(const char *path, mode_t mode, struct pd_err *err) {
    char p[PATH_MAX];
    if (pd_fmt(p, sizeof p, "%s", path))
        return pd_fail(err, PD_EIO, "path too long: %s", path);
    for (char *s = p + 1;; s++) {
        if (*s != '/' && *s)
            continue;
        char c = *s;
        *s = 0;
        if (mkdir(p, mode) && errno != EEXIST) {
            int e = errno;
            struct stat st;
            if (stat(p, &st) || !S_ISDIR(st.st_mode))
                return pd_fail_errno(err, PD_EIO, e, "cannot make folder %s", p);
        }
        if (!c)
            break;
        *s = c;
    }
    struct stat st;
    if (stat(path, &st) || !S_ISDIR(st.st_mode))
        return pd_fail(err, PD_EIO, "%s is not a folder", path);
    return 0;
}

/* 0: only this user, root and `top` (the owner of "/") can change what st describes. A user's own
 * group, which has the user's number, counts as the user. */
static int is_open_to_others(const struct stat *st, uid_t top, int may_be_sticky) {
    const int own_group = st->st_uid && st->st_uid == st->st_gid && st->st_uid == geteuid();
    const mode_t others = own_group ? S_IWOTH : S_IWOTH | S_IWGRP;
    const int writable = (st->st_mode & others) && !(may_be_sticky && (st->st_mode & S_ISVTX));
    return writable || (st->st_uid != geteuid() && st->st_uid && st->st_uid != top);
}

static int refuse_folder(const char *path, const char *dir, const struct stat *st,
                         struct pd_err *err) {
    const char *mend = st->st_uid == geteuid() ? "chmod go-w"
                       : !st->st_uid           ? "as root, chmod +t"
                                               : "another root_dir, or as root, chown";
    return pd_fail(err, PD_EHOST,
                   "others could replace the programs in %s: %s belongs to user %u and has mode "
                   "%04o; mend it with: %s %s",
                   path, dir, (unsigned)st->st_uid, (unsigned)st->st_mode & 07777, mend, dir);
}

int pd_private_dir(const char *path, struct pd_err *err) {
    char real[PATH_MAX];
    struct stat st, top;
    if (mkdir(path, 0700) && errno != EEXIST)
        return pd_fail_errno(err, PD_EIO, errno, "cannot make folder %s", path);
    if (!realpath(path, real) || stat(real, &st) || stat("/", &top))
        return pd_fail_errno(err, PD_EIO, errno, "cannot use folder %s", path);
    if (st.st_uid == geteuid() && (st.st_mode & 077) && !chmod(real, 0700))
        st.st_mode &= ~(mode_t)077;
    for (int above = 0;; above = 1) {
        if (is_open_to_others(&st, top.st_uid, above))
            return refuse_folder(path, real, &st, err);
        char *slash = strrchr(real, '/');
        if (!slash[1]) /* "/" */
            return 0;
        slash[slash == real] = 0;
        if (stat(real, &st))
            return pd_fail_errno(err, PD_EIO, errno, "cannot use folder %s", real);
    }
}

int pd_open_regular(const char *path, int flags, mode_t mode, struct stat *st) {
    int fd = open(path, flags | O_CLOEXEC | O_NONBLOCK, mode);
    if (fd < 0 || (!fstat(fd, st) && S_ISREG(st->st_mode)))
        return fd;
    close(fd);
    errno = EINVAL;
    return -1;
}

/* Takes fd, which may be -1. */
static int read_all(int fd, const char *path, size_t max, struct pd_buf *out, struct pd_err *err) {
    if (fd < 0)
        return pd_fail_errno(err, errno == ENOENT ? PD_ENOENT : PD_EIO, errno, "cannot open %s",
                             path);
    int rc = 0;
    struct stat st;
    if (!fstat(fd, &st) && st.st_size > 65536 && (uint64_t)st.st_size <= max)
        pd_buf_reserve(out, (size_t)st.st_size + 65536); /* growing would copy it again and again */
    for (;;) {
        if (pd_buf_reserve(out, 65536)) {
            rc = pd_fail(err, PD_ENOMEM, "%s: out of memory", path);
            break;
        }
        ssize_t k = read(fd, out->data + out->len, 65535);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0) {
            rc = pd_fail_errno(err, PD_EIO, errno, "cannot read %s", path);
            break;
        }
        out->len += (size_t)k;
        if (out->len > max) {
            rc = pd_fail(err, PD_EDATA, "%s is larger than %zu bytes", path, max);
            break;
        }
        if (k == 0) {
            out->data[out->len] = 0;
            break;
        }
    }
    close(fd);
    return rc;
}

int pd_read_file(const char *path, size_t max, struct pd_buf *out, struct pd_err *err) {
    return read_all(open(path, O_RDONLY | O_CLOEXEC), path, max, out, err);
}

int pd_read_regular(const char *path, size_t max, struct pd_buf *out, struct pd_err *err) {
    struct stat st;
    return read_all(pd_open_regular(path, O_RDONLY, 0, &st), path, max, out, err);
}

int pd_fsync_dir(const char *path, struct pd_err *err) {
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return pd_fail_errno(err, PD_EIO, errno, "cannot open folder %s", path);
    int rc = fsync(fd) ? pd_fail_errno(err, PD_EIO, errno, "cannot sync folder %s", path) : 0;
    close(fd);
    return rc;
}

static int write_aside(const char *path, const void *p, size_t n, mode_t mode, int durable,
                       struct pd_err *err) {
    char tmp[PATH_MAX], dir[PATH_MAX];
    if (pd_fmt(tmp, sizeof tmp, "%s.tmp-%ld", path, (long)getpid()) ||
        pd_fmt(dir, sizeof dir, "%s", path))
        return pd_fail(err, PD_EIO, "path too long: %s", path);
    int fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, mode);
    if (fd < 0)
        return pd_fail_errno(err, PD_EIO, errno, "cannot create %s", tmp);
    int e = 0;
    if (pd_write_all(fd, p, n) || fchmod(fd, mode) || (durable && fsync(fd)))
        e = errno;
    if (close(fd) && !e)
        e = errno;
    if (!e && rename(tmp, path))
        e = errno;
    if (e) {
        unlink(tmp);
        return pd_fail_errno(err, PD_EIO, e, "cannot write %s", path);
    }
    char *slash = strrchr(dir, '/');
    if (slash)
        slash[slash == dir ? 1 : 0] = 0;
    return durable ? pd_fsync_dir(slash ? dir : ".", err) : 0;
}

int pd_write_file_atomic(const char *path, const void *p, size_t n, mode_t mode,
                         struct pd_err *err) {
    return write_aside(path, p, n, mode, 1, err);
}

int pd_write_file_quick(const char *path, const void *p, size_t n, mode_t mode,
                        struct pd_err *err) {
    return write_aside(path, p, n, mode, 0, err);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw) {
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path) && errno != ENOENT ? errno : 0;
}

static int unlock_one(const char *path, const struct stat *st, int type, struct FTW *ftw) {
    (void)ftw;
    if ((type == FTW_D || type == FTW_DNR) && (st->st_mode & 0700) != 0700)
        (void)!chmod(path, 0700);
    return 0;
}

int pd_rm_tree(const char *path, struct pd_err *err) {
    struct stat st;
    int e = EACCES;
    if (lstat(path, &st))
        return errno == ENOENT ? 0 : pd_fail_errno(err, PD_EIO, errno, "cannot remove %s", path);
    /* A folder without write permission protects its entries from removal. A folder that is not
     * readable shows its subfolders only in the next round. */
    for (int round = 0; e == EACCES && round < UNLOCK_ROUNDS; round++) {
        if (round)
            nftw(path, unlock_one, 32, FTW_PHYS);
        e = nftw(path, remove_one, 32, FTW_DEPTH | FTW_PHYS);
        if (e < 0)
            e = errno;
    }
    return e ? pd_fail_errno(err, PD_EIO, e, "cannot remove %s", path) : 0;
}

void pd_rm_stale(const char *dir, const char *prefix) {
    enum { DIGITS = 16 };
    static const char tail[] = ".tmp-";
    char path[PATH_MAX];
    DIR *d = opendir(dir);
    for (const struct dirent *e; d && (e = readdir(d));) {
        size_t n = strlen(e->d_name), head = n < DIGITS ? 0 : n - DIGITS;
        if (!strncmp(e->d_name, prefix, strlen(prefix)) && head >= strlen(tail) &&
            !memcmp(e->d_name + head - strlen(tail), tail, strlen(tail)) &&
            !pd_fmt(path, sizeof path, "%s/%s", dir, e->d_name))
            (void)pd_rm_tree(path, NULL);
    }
    if (d)
        closedir(d);
}

/* Moves one entry of folder `from` into folder `to`. */
static int merge_one(int from, int to, const char *name, struct pd_err *err);

/* Closes both descriptors, also on failure. */
static int merge_folder(int from, int to, const char *name, struct pd_err *err) {
    struct stat a, b;
    DIR *d = from < 0 || to < 0 || fstat(from, &a) || fstat(to, &b) ? NULL : fdopendir(from);
    struct dirent *e;
    int rc = 0, moved = 1;
    if (!d) {
        rc = pd_fail_errno(err, PD_EIO, errno, "cannot open folder %s", name);
        if (from >= 0)
            close(from);
        if (to >= 0)
            close(to);
        return rc;
    }
    if (((a.st_mode & 0700) != 0700 && fchmod(from, 0700)) ||
        ((b.st_mode & 0700) != 0700 && fchmod(to, (b.st_mode & 07777) | 0700)))
        rc = pd_fail_errno(err, PD_EIO, errno, "cannot change the mode of folder %s", name);
    /* Repeat until a round moves nothing: readdir may skip entries of a folder that changes. */
    for (; !rc && moved; rewinddir(d))
        for (moved = 0; !rc && (errno = 0, e = readdir(d));)
            if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..")) {
                rc = merge_one(from, to, e->d_name, err);
                moved = 1;
            }
    const struct timespec times[2] = {b.st_atim, b.st_mtim};
    if (!rc && (fchmod(to, b.st_mode & 07777) || futimens(to, times)))
        rc = pd_fail_errno(err, PD_EIO, errno, "cannot finish folder %s", name);
    closedir(d);
    close(to);
    return rc;
}

static int merge_one(int from, int to, const char *name, struct pd_err *err) {
    enum { HOW = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC };
    struct stat a, b;
    if (fstatat(from, name, &a, AT_SYMLINK_NOFOLLOW))
        return pd_fail_errno(err, PD_EIO, errno, "cannot look at %s", name);
    if (!S_ISDIR(a.st_mode) || fstatat(to, name, &b, AT_SYMLINK_NOFOLLOW) || !S_ISDIR(b.st_mode))
        return renameat(from, name, to, name)
                   ? pd_fail_errno(err, PD_EIO, errno, "cannot move %s", name)
                   : 0;
    int sub = openat(from, name, HOW),
        rc = merge_folder(sub, sub < 0 ? -1 : openat(to, name, HOW), name, err);
    return !rc && unlinkat(from, name, AT_REMOVEDIR)
               ? pd_fail_errno(err, PD_EIO, errno, "cannot remove %s", name)
               : rc;
}

int pd_merge_tree(const char *from, const char *to, struct pd_err *err) {
    int a = open(from, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
        rc = merge_folder(a, a < 0 ? -1 : open(to, O_RDONLY | O_DIRECTORY | O_CLOEXEC), from, err);
    return !rc && rmdir(from) ? pd_fail_errno(err, PD_EIO, errno, "cannot remove %s", from) : rc;
}

int pd_self_dir(char *out, size_t cap) {
    ssize_t n = readlink("/proc/self/exe", out, cap);
    if (n <= 0 || (size_t)n >= cap)
        return -1;
    out[n] = 0;
    char *slash = strrchr(out, '/');
    if (!slash)
        return -1;
    slash[slash == out ? 1 : 0] = 0;
    return 0;
}

void pd_widen_pipe(int fd) { (void)fcntl(fd, F_SETPIPE_SZ, 1 << 20); }

int pd_disk_room(int fd, const char *dir, const char *what, uint64_t bytes, uint64_t due,
                 struct pd_err *err) {
    struct statvfs s;
    char others[80] = "";
    if (fd >= 0 ? fstatvfs(fd, &s) : statvfs(*dir ? dir : "/", &s))
        return pd_fail_errno(err, PD_EIO, errno, "cannot look at %s", dir);
    const uint64_t room = pd_fault("disk.room") ? 0 : (uint64_t)s.f_bavail * s.f_frsize;
    if (!s.f_blocks || (due <= room && bytes <= room - due))
        return 0; /* a file system without blocks does not know */
    if (due)
        snprintf(others, sizeof others, " (and others that are on their way have %llu)",
                 (unsigned long long)due);
    return pd_fail(err, PD_ENOSPC, "no space left: %s has %llu bytes%s, %s has %llu free", what,
                   (unsigned long long)bytes, others, dir, (unsigned long long)room);
}
