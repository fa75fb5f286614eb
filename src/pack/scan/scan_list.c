/* SPDX-License-Identifier: Apache-2.0 */
/* scan_list.c - lists the entries of a folder in the order of a manifest, without ignored ones. */
#include "pack/scan/ignore.h"
#include "pack/object/names.h"
#include "pack/object/path.h"
#include "pack/scan/scan_internal.h"

struct folder_walk {
    struct scan *s;
    struct pd_err *err;
    struct pack_ignore ignore;
    char path[PATH_MAX];
    size_t len;
};

/* 0 with SCAN_OUTPUTS if the entry vanished or may not be read. */
static int fail_errno(struct folder_walk *k, const char *what) {
    int e = errno;
    if (k->s->flags & SCAN_OUTPUTS && (e == ENOENT || e == EACCES))
        return scan_refuse(k->s, k->path, e == ENOENT ? "it vanished" : "it may not be read",
                           k->err);
    return pd_fail_errno(k->err, PD_EIO, e, "cannot %s %s/%s", what, k->s->top, k->path);
}

static uint64_t bytes_below(int dirfd, const char *name, const struct stat *st) {
    uint64_t sum = S_ISREG(st->st_mode) ? (uint64_t)st->st_size : 0;
    int fd = S_ISDIR(st->st_mode)
                 ? openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
                 : -1;
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *e;
    struct stat sub;
    if (!d) {
        pd_close(fd);
        return sum;
    }
    while ((e = readdir(d)))
        if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..") &&
            !fstatat(fd, e->d_name, &sub, AT_SYMLINK_NOFOLLOW))
            sum += bytes_below(fd, e->d_name, &sub);
    closedir(d);
    return sum;
}

static int note_ignored(struct folder_walk *k, int dirfd, const char *name, const struct stat *st) {
    struct scan *s = k->s;
    if (!(s->flags & SCAN_IGNORED))
        return 0;
    if (pd_grow(s->ignored, s->cap_ignored, s->n_ignored + 1))
        return scan_fail_memory(s, k->err);
    struct scan_ignored *ig = &s->ignored[s->n_ignored];
    int rc = scan_put_name(s, k->path, k->len, &ig->path, k->err);
    if (!rc) {
        ig->bytes = bytes_below(dirfd, name, st);
        s->n_ignored++;
    }
    return rc;
}

/* Recursion is bounded by PATH_MAX / 2 folders. */
static int walk_dir(struct folder_walk *k, int fd);

/* 1: the entry is complete; 0: it is left out; PD_E*. */
static int set_link(struct folder_walk *k, int dirfd, const char *name, struct scan_entry *e) {
    char target[PATH_MAX];
    struct pd_err why = {0};
    ssize_t n = readlinkat(dirfd, name, target, sizeof target);
    if (n < 0)
        return fail_errno(k, "read link");
    if ((size_t)n >= sizeof target)
        return scan_refuse(k->s, k->path, "the link's target is too long", k->err);
    target[n] = 0;
    if (pack_check_link(k->path, target, &why))
        return scan_refuse(k->s, k->path, why.msg, k->err);
    e->type = MANIFEST_LINK;
    e->mode = 0777;
    int rc = scan_put_name(k->s, target, (size_t)n, &e->target, k->err);
    return rc ? rc : 1;
}

/* As set_link. */
static int set_entry(struct folder_walk *k, int dirfd, const char *name, const struct stat *st,
                     struct scan_entry *e) {
    int rc = scan_put_name(k->s, k->path, k->len, &e->path, k->err);
    if (rc)
        return rc;
    e->mtime_ns = st->st_mtim.tv_sec * INT64_C(1000000000) + st->st_mtim.tv_nsec;
    e->ctime_ns = st->st_ctim.tv_sec * INT64_C(1000000000) + st->st_ctim.tv_nsec;
    e->ino = st->st_ino;
    e->mode = st->st_mode & 0777;
    if (S_ISLNK(st->st_mode))
        return set_link(k, dirfd, name, e);
    if (S_ISDIR(st->st_mode)) {
        e->type = MANIFEST_FOLDER;
        e->mode = st->st_mode & 01777; /* a set-gid bit, which new files inherit, is not sent */
        return 1;
    }
    if (!S_ISREG(st->st_mode))
        return scan_refuse(k->s, k->path, "not a regular file, folder or link", k->err);
    if (st->st_mode & (S_ISUID | S_ISGID))
        return scan_refuse(k->s, k->path, "it has a set-id bit", k->err);
    e->type = MANIFEST_FILE;
    e->size = (uint64_t)st->st_size;
    return 1;
}

static int walk_one(struct folder_walk *k, int dirfd, const char *name) {
    struct scan_entry e = {.path_len = (uint32_t)k->len};
    struct stat st;
    if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW))
        return fail_errno(k, "look at");
    if (pack_ignore_match(&k->ignore, k->path, S_ISDIR(st.st_mode)))
        return note_ignored(k, dirfd, name, &st);
    int rc = set_entry(k, dirfd, name, &st, &e);
    if (rc > 0)
        rc = scan_add_entry(k->s, &e, k->err);
    if (rc || e.type != MANIFEST_FOLDER)
        return rc;
    int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? fail_errno(k, "open folder") : walk_dir(k, fd);
}

static int walk_dir(struct folder_walk *k, int fd) {
    struct pack_names l = {0};
    size_t len = k->len, n_rules = k->ignore.n;
    char label[PATH_MAX + 300];
    int dirfd = fcntl(fd, F_DUPFD_CLOEXEC, 3); /* pack_names_read takes ownership of fd */
    if (dirfd < 0) {
        int rc = fail_errno(k, "open folder");
        close(fd);
        return rc;
    }
    int rc = pack_names_read(&l, fd);
    if (rc)
        rc = rc == PD_ENOMEM ? scan_fail_memory(k->s, k->err) : fail_errno(k, "read folder");
    snprintf(label, sizeof label, "%.250s%s%s", k->s->top, len ? "/" : "", k->path);
    if (!rc && !(k->s->flags & SCAN_OUTPUTS))
        rc = pack_ignore_enter(&k->ignore, dirfd, k->path, label, k->err);
    for (size_t i = 0; i < l.n && !rc; i++) {
        size_t n = strlen(l.v[i]);
        if (len + n + 2 > sizeof k->path) {
            rc = pd_fail(k->err, PD_EDATA, "a path below %s is too long: %.100s...", k->s->top,
                         k->path);
            break;
        }
        if (len)
            k->path[len] = '/';
        memcpy(k->path + len + (len > 0), l.v[i], n + 1);
        k->len = len + (len > 0) + n;
        rc = scan_check_cancel(k->s, k->err);
        if (!rc)
            rc = walk_one(k, dirfd, l.v[i]);
        k->path[len] = 0;
        k->len = len;
    }
    pack_ignore_leave(&k->ignore, n_rules);
    pack_names_release(&l);
    close(dirfd);
    return rc;
}

int scan_list_folder(struct scan *s, struct pd_err *err) {
    struct folder_walk *k = pd_calloc(1, sizeof *k);
    if (!k)
        return scan_fail_memory(s, err);
    *k = (struct folder_walk){.s = s, .err = err};
    int fd = fcntl(s->fd, F_DUPFD_CLOEXEC, 3);
    int rc = s->flags & SCAN_OUTPUTS ? 0 : pack_ignore_init(&k->ignore, err);
    if (!rc && fd < 0)
        rc = fail_errno(k, "open folder");
    if (!rc) {
        lseek(fd, 0, SEEK_SET);
        rc = walk_dir(k, fd);
    } else if (fd >= 0) {
        close(fd);
    }
    pack_ignore_release(&k->ignore);
    free(k);
    return rc;
}

int scan_leaves_out(const char *folder, const char *name, struct pd_err *err) {
    struct pack_ignore ig;
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return pd_fail_errno(err, PD_ENOENT, errno, "cannot open folder %s", folder);
    int rc = pack_ignore_init(&ig, err);
    rc = rc ? rc : pack_ignore_enter(&ig, fd, "", folder, err);
    rc = rc ? rc : pack_ignore_match(&ig, name, 1);
    pack_ignore_release(&ig);
    close(fd);
    return rc;
}

int scan_list_file(struct scan *s, const char *name, struct pd_err *err) {
    struct scan_entry e = {.type = MANIFEST_FILE, .mode = 0755, .path_len = (uint32_t)strlen(name)};
    struct stat st;
    if (fstat(s->fd, &st))
        return pd_fail_errno(err, PD_EIO, errno, "cannot read %s", s->top);
    e.size = (uint64_t)st.st_size;
    int rc = scan_put_name(s, name, e.path_len, &e.path, err);
    return rc ? rc : scan_add_entry(s, &e, err);
}
