/* SPDX-License-Identifier: Apache-2.0 */
/* tree_out.c - see tree_out.h. */
#include "pack/store/tree_out.h"

#include "pack/store/store_internal.h"

enum { OPEN_FILES = 32, FSYNC_EACH_MAX = 64 };

struct out_entry {
    uint64_t path_at; /* offset in the buffer of paths */
    uint64_t size;
    int64_t mtime_ns;
    uint32_t pending; /* pieces announced but not written */
    uint16_t mode;
    uint8_t type;
    uint8_t made : 1;       /* the file exists */
    uint8_t sealed : 1;     /* all pieces are known */
    uint8_t to_the_end : 1; /* a piece ends at the end of the file */
};

struct handle {
    uint32_t entry;
    int fd;
    uint64_t used;
};

struct tree_out {
    int root;
    unsigned masked; /* permission bits that the umask removes from new files */
    struct out_entry *v;
    size_t n, cap;
    char *paths;
    size_t paths_len, paths_cap;
    struct handle open[OPEN_FILES];
    uint64_t clock;
};

static int cannot(int e, const char *what, const char *path, struct pd_err *err) {
    return pd_fail_errno(err, PD_EIO, e, "cannot %s %.300s", what, path);
}

int tree_out_new(struct tree_out **out, const char *dir, struct pd_err *err) {
    struct tree_out *t = pd_calloc(1, sizeof *t);
    if (!t)
        return pd_oom(err, "a package that arrives");
    for (int i = 0; i < OPEN_FILES; i++)
        t->open[i].fd = -1;
    struct stat st;
    t->root = mkdir(dir, 0777) ? -1 : open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (t->root < 0 || fstat(t->root, &st) || fchmod(t->root, 0700)) {
        int rc = cannot(errno, "make folder", dir, err);
        tree_out_free(t);
        return rc;
    }
    /* The umask, without calling umask(): that would change it for other threads. */
    t->masked = 0777 & ~st.st_mode;
    *out = t;
    return 0;
}

static void close_handle(struct handle *h) {
    pd_close(h->fd);
    h->fd = -1;
}

void tree_out_free(struct tree_out *t) {
    if (!t)
        return;
    for (int i = 0; i < OPEN_FILES; i++)
        close_handle(&t->open[i]);
    pd_close(t->root);
    free(t->v);
    free(t->paths);
    free(t);
}

uint32_t tree_out_count(const struct tree_out *t) { return (uint32_t)t->n; }
uint64_t tree_out_size(const struct tree_out *t, uint32_t entry) { return t->v[entry].size; }
const char *tree_out_path(const struct tree_out *t, uint32_t entry) {
    return t->paths + t->v[entry].path_at;
}

/* --- entries --- */

static int remember(struct tree_out *t, const struct manifest_entry *e, struct pd_err *err) {
    if (pd_grow(t->v, t->cap, t->n + 1) ||
        pd_grow(t->paths, t->paths_cap, t->paths_len + e->path_len + 1))
        return pd_oom(err, "a package that arrives");
    memcpy(t->paths + t->paths_len, e->path, e->path_len + 1);
    t->v[t->n++] = (struct out_entry){.path_at = t->paths_len,
                                      .size = e->size,
                                      .mtime_ns = e->mtime_ns,
                                      .mode = (uint16_t)e->mode,
                                      .type = (uint8_t)e->type};
    t->paths_len += e->path_len + 1;
    return 0;
}

static void times_of(int64_t ns, struct timespec ts[2]) {
    int64_t s = ns / 1000000000, rest = ns % 1000000000;
    ts[0] = (struct timespec){.tv_nsec = UTIME_OMIT};
    ts[1] = (struct timespec){.tv_sec = rest < 0 ? s - 1 : s,
                              .tv_nsec = rest < 0 ? rest + 1000000000 : rest};
}

int tree_out_add(struct tree_out *t, const struct manifest_entry *e, struct pd_err *err) {
    struct timespec ts[2];
    int rc = tree_out_end_entry(t, err);
    if (!rc)
        rc = remember(t, e, err);
    if (rc)
        return rc;
    times_of(e->mtime_ns, ts);
    if (e->type == MANIFEST_FOLDER && mkdirat(t->root, e->path, 0700))
        return cannot(errno, "make folder", e->path, err);
    if (e->type == MANIFEST_LINK && (symlinkat(e->target, t->root, e->path) ||
                                     utimensat(t->root, e->path, ts, AT_SYMLINK_NOFOLLOW)))
        return cannot(errno, "make link", e->path, err);
    return 0;
}

/* --- contents --- */

/* 1 if the file can be created with its final mode: the umask removes no bit of it, and the owner
 * may reopen the file. */
static int has_mode_at_once(const struct tree_out *t, const struct out_entry *n) {
    return (n->mode & 0600) == 0600 && !(n->mode & (~0777u | t->masked));
}

static int open_entry(struct tree_out *t, uint32_t entry, struct pd_err *err) {
    struct handle *oldest = &t->open[0];
    for (int i = 0; i < OPEN_FILES; i++) {
        struct handle *h = &t->open[i];
        if (h->fd >= 0 && h->entry == entry) {
            h->used = ++t->clock;
            return h->fd;
        }
        if (oldest->fd >= 0 && (h->fd < 0 || h->used < oldest->used))
            oldest = h;
    }
    close_handle(oldest);
    struct out_entry *n = &t->v[entry];
    int fd = openat(t->root, tree_out_path(t, entry),
                    O_RDWR | O_CLOEXEC | O_NOFOLLOW | (n->made ? 0 : O_CREAT | O_EXCL),
                    has_mode_at_once(t, n) ? n->mode : 0600);
    if (fd < 0)
        return cannot(errno, "make", tree_out_path(t, entry), err);
    n->made = 1;
    *oldest = (struct handle){entry, fd, ++t->clock};
    return fd;
}

static void close_entry(struct tree_out *t, uint32_t entry) {
    for (int i = 0; i < OPEN_FILES; i++)
        if (t->open[i].fd >= 0 && t->open[i].entry == entry)
            close_handle(&t->open[i]);
}

/* The file has its last byte: sets size, mode and time. */
static int complete(struct tree_out *t, uint32_t entry, struct pd_err *err) {
    struct out_entry *n = &t->v[entry];
    struct timespec ts[2];
    int fd = open_entry(t, entry, err);
    if (fd < 0)
        return fd;
    times_of(n->mtime_ns, ts);
    if ((!n->to_the_end && n->size && ftruncate(fd, (off_t)n->size)) ||
        (!has_mode_at_once(t, n) && fchmod(fd, n->mode)) || futimens(fd, ts))
        return cannot(errno, "finish", tree_out_path(t, entry), err);
    close_entry(t, entry);
    return 0;
}

int tree_out_end_entry(struct tree_out *t, struct pd_err *err) {
    if (!t->n || t->v[t->n - 1].sealed || t->v[t->n - 1].type != MANIFEST_FILE)
        return 0;
    t->v[t->n - 1].sealed = 1;
    return t->v[t->n - 1].pending ? 0 : complete(t, (uint32_t)t->n - 1, err);
}

void tree_out_expect(struct tree_out *t, uint64_t end) {
    struct out_entry *n = &t->v[t->n - 1];
    n->pending++;
    n->to_the_end |= end == n->size;
}

int tree_out_write(struct tree_out *t, uint32_t entry, const void *p, size_t n, uint64_t off,
                   struct pd_err *err) {
    const char *s = p;
    int fd = open_entry(t, entry, err);
    if (fd < 0)
        return fd;
    while (n) {
        ssize_t k =
            pd_fault("assemble.write") ? (errno = ENOSPC, -1) : pwrite(fd, s, n, (off_t)off);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return cannot(errno, "write", tree_out_path(t, entry), err);
        s += k;
        n -= (size_t)k;
        off += (uint64_t)k;
    }
    struct out_entry *e = &t->v[entry];
    return --e->pending || !e->sealed ? 0 : complete(t, entry, err);
}

/* --- the end --- */

static int sync_all(struct tree_out *t, struct pd_err *err) {
    if (t->n > FSYNC_EACH_MAX)
        return syncfs(t->root) ? cannot(errno, "sync", "the package", err) : 0;
    for (size_t i = 0; i <= t->n; i++) { /* index n is the folder itself */
        const char *path = i < t->n ? tree_out_path(t, (uint32_t)i) : ".";
        int fd = i < t->n && t->v[i].type == MANIFEST_LINK
                     ? -1
                     : openat(t->root, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        int bad = fd >= 0 ? fsync(fd) : 0, e = errno;
        if (fd < 0 && e == EACCES) /* the owner may not read the file */
            bad = syncfs(t->root);
        pd_close(fd);
        if (bad)
            return cannot(e, "sync", path, err);
    }
    return 0;
}

int tree_out_finish(struct tree_out *t, int durable, struct pd_err *err) {
    int rc = tree_out_end_entry(t, err);
    for (size_t i = t->n; i-- > 0 && !rc;) {
        struct timespec ts[2];
        if (t->v[i].type != MANIFEST_FOLDER)
            continue;
        times_of(t->v[i].mtime_ns, ts);
        const char *path = tree_out_path(t, (uint32_t)i);
        if (utimensat(t->root, path, ts, 0) || fchmodat(t->root, path, t->v[i].mode, 0))
            rc = cannot(errno, "finish folder", path, err);
    }
    if (!rc && fchmod(t->root, 0755))
        rc = cannot(errno, "finish", "the package's folder", err);
    return rc || !durable ? rc : sync_all(t, err);
}

/* --- reading --- */

static int read_files(struct tree_out *t, uint32_t entry, uint8_t *buf, size_t n) {
    size_t got = 0;
    for (uint32_t i = entry; got < n && i < t->n; i++) {
        if (t->v[i].type != MANIFEST_FILE || !t->v[i].size)
            continue;
        int fd =
            openat(t->root, tree_out_path(t, i), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        ssize_t k = fd < 0 ? -1 : pd_read_full(fd, buf + got, n - got);
        pd_close(fd);
        if (k <= 0)
            return -1;
        got += (size_t)k;
    }
    return got == n ? 0 : -1;
}

int tree_out_read(struct tree_out *t, uint32_t entry, int bundle, void *buf, size_t n,
                  uint64_t off) {
    if (entry >= t->n)
        return -1;
    if (bundle)
        return read_files(t, entry, buf, n);
    for (int i = 0; i < OPEN_FILES; i++)
        if (t->open[i].fd >= 0 && t->open[i].entry == entry)
            return store_pread(t->open[i].fd, buf, n, off);
    int fd =
        openat(t->root, tree_out_path(t, entry), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    int rc = fd < 0 ? -1 : store_pread(fd, buf, n, off);
    pd_close(fd);
    return rc;
}

int tree_out_moved(struct tree_out *t, const char *path) {
    char dir[PATH_MAX];
    const char *name = strrchr(path, '/');
    if (!name || t->n != 1 || pd_fmt(dir, sizeof dir, "%.*s", (int)(name - path), path))
        return -1;
    int fd = open(*dir ? dir : "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    char *copy = pd_strdup(name + 1);
    if (fd < 0 || !copy) {
        pd_close(fd);
        free(copy);
        return -1;
    }
    close(t->root);
    t->root = fd;
    free(t->paths);
    t->paths = copy;
    t->v[0].path_at = 0;
    t->paths_len = t->paths_cap = strlen(copy) + 1;
    return 0;
}
