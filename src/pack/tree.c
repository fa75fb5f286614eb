/* tree.c - a folder, or one file, into a package. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/str.h"
#include "pack/ignore.h"
#include "pack/path.h"
#include "pack/writer.h"

struct walk {
    struct pack_writer *w;
    struct pd_err *err;
    struct pack_ignore ignore;
    unsigned flags;
    const char *top; /* for messages */
    char path[PATH_MAX];
    size_t len;
};

struct names {
    char **v;
    size_t n, cap;
};

static void names_release(struct names *l) {
    for (size_t i = 0; i < l->n; i++)
        free(l->v[i]);
    free(l->v);
}

static int by_bytes(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static int names_add(struct names *l, const char *s) {
    if (l->n == l->cap) {
        size_t cap = l->cap ? 2 * l->cap : 64;
        char **v = pd_realloc(l->v, cap * sizeof *v);
        if (!v)
            return PD_ENOMEM;
        l->v = v;
        l->cap = cap;
    }
    char *copy = pd_strdup(s);
    if (!copy)
        return PD_ENOMEM;
    l->v[l->n++] = copy;
    return 0;
}

/* The names in a folder, sorted by bytes. Takes `fd` over. */
static int names_read(struct walk *k, int fd, struct names *l) {
    DIR *d = fdopendir(fd);
    if (!d) {
        close(fd);
        return pd_fail_errno(k->err, PD_EIO, errno, "cannot read folder %s/%s", k->top, k->path);
    }
    int rc = 0;
    struct dirent *e;
    while (!rc && (errno = 0, e = readdir(d)))
        if (strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
            rc = names_add(l, e->d_name);
    if (rc)
        pd_fail(k->err, rc, "%s: out of memory", k->top);
    else if (errno)
        rc = pd_fail_errno(k->err, PD_EIO, errno, "cannot read folder %s/%s", k->top, k->path);
    closedir(d);
    if (l->n)
        qsort(l->v, l->n, sizeof *l->v, by_bytes);
    return rc;
}

static struct archive_entry *entry_new(const char *path, unsigned type, unsigned perm, const struct stat *st) {
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

/* Something that can't travel: an error for a workspace, counted for outputs. */
static int refuse(struct walk *k, const char *why) {
    if (!(k->flags & PACK_OUTPUTS))
        return pd_fail(k->err, PD_EDATA, "cannot pack %s/%s: %s", k->top, k->path, why);
    struct pack_result *res = k->w->res;
    if (!res->skipped++)
        snprintf(res->first_skipped, sizeof res->first_skipped, "%.150s: %.90s", k->path, why);
    return 0;
}

static int walk_file(struct walk *k, int dirfd, const char *name) {
    int fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    struct stat st;
    if (fd < 0 || fstat(fd, &st)) {
        int e = errno;
        if (fd >= 0)
            close(fd);
        if (e == ENOENT && k->flags & PACK_OUTPUTS) /* outputs may still be moving */
            return refuse(k, "vanished while it was packed");
        return pd_fail_errno(k->err, PD_EIO, e, "cannot open %s/%s", k->top, k->path);
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
        if (!rc)
            rc = pack_writer_copy(k->w, fd, (uint64_t)st.st_size, full);
    }
    close(fd);
    return rc;
}

static int walk_link(struct walk *k, int dirfd, const char *name, const struct stat *st) {
    char target[PATH_MAX];
    ssize_t n = readlinkat(dirfd, name, target, sizeof target);
    if (n < 0 || (size_t)n >= sizeof target)
        return pd_fail_errno(k->err, PD_EIO, n < 0 ? errno : ENAMETOOLONG, "cannot read link %s/%s", k->top, k->path);
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
    if (k->flags & PACK_WORKSPACE && pack_ignore_match(&k->ignore, k->path, S_ISDIR(st.st_mode)))
        return 0;
    if (S_ISLNK(st.st_mode))
        return walk_link(k, dirfd, name, &st);
    if (!S_ISDIR(st.st_mode))
        return S_ISREG(st.st_mode) ? walk_file(k, dirfd, name) : refuse(k, "not a regular file, folder or link");
    int rc = write_entry(k, entry_new(k->path, AE_IFDIR, st.st_mode & 01777, &st));
    if (rc)
        return rc;
    int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return pd_fail_errno(k->err, PD_EIO, errno, "cannot open folder %s/%s", k->top, k->path);
    return walk_dir(k, fd);
}

static int walk_dir(struct walk *k, int fd) {
    struct names l = {0};
    int dirfd = dup(fd); /* names_read consumes fd */
    if (dirfd < 0) {
        close(fd);
        return pd_fail_errno(k->err, PD_EIO, errno, "cannot open folder %s/%s", k->top, k->path);
    }
    int rc = names_read(k, fd, &l);
    size_t len = k->len, n_rules = k->ignore.n;
    if (!rc && k->flags & PACK_WORKSPACE) {
        char label[PATH_MAX + 300];
        snprintf(label, sizeof label, "%.250s%s%s", k->top, len ? "/" : "", k->path);
        rc = pack_ignore_enter(&k->ignore, dirfd, k->path, label, k->err);
    }
    for (size_t i = 0; i < l.n && !rc; i++) {
        size_t n = strlen(l.v[i]);
        if (len + n + 2 > sizeof k->path) {
            rc = pd_fail(k->err, PD_EDATA, "a path below %s is too long: %.100s...", k->top, k->path);
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
    pack_ignore_leave(&k->ignore, n_rules);
    names_release(&l);
    close(dirfd);
    return rc;
}

int pack_tree(const char *dir, unsigned flags, pack_sink sink, void *arg, struct pack_result *res, struct pd_err *err) {
    struct pack_writer w;
    struct walk *k = pd_calloc(1, sizeof *k);
    if (!k)
        return pd_fail(err, PD_ENOMEM, "packing %s: out of memory", dir);
    *k = (struct walk){.w = &w, .err = err, .flags = flags, .top = dir};
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = 0;
    if (fd < 0)
        rc = pd_fail_errno(err, errno == ENOENT || errno == ENOTDIR ? PD_ENOENT : PD_EIO, errno, "cannot open folder %s",
                           dir);
    if (!rc && flags & PACK_WORKSPACE)
        rc = pack_ignore_init(&k->ignore, err);
    if (rc && fd >= 0)
        close(fd);
    if (!rc) {
        rc = pack_writer_open(&w, sink, arg, res, err);
        if (rc)
            close(fd);
        else
            rc = walk_dir(k, fd);
        rc = pack_writer_finish(&w, rc);
    }
    pack_ignore_release(&k->ignore);
    free(k);
    return rc;
}

int pack_sha256_file(const char *path, char hex[65], struct pd_err *err) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return pd_fail_errno(err, errno == ENOENT ? PD_ENOENT : PD_EIO, errno, "cannot open %s", path);
    crypto_hash_sha256_state st;
    crypto_hash_sha256_init(&st);
    uint8_t buf[65536], h[crypto_hash_sha256_BYTES];
    int rc = 0;
    for (;;) {
        ssize_t k = read(fd, buf, sizeof buf);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            rc = pd_fail_errno(err, PD_EIO, errno, "cannot read %s", path);
        if (k <= 0)
            break;
        crypto_hash_sha256_update(&st, buf, (size_t)k);
    }
    close(fd);
    crypto_hash_sha256_final(&st, h);
    pd_hex(hex, h, sizeof h);
    return rc;
}
