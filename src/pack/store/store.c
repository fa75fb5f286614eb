/* SPDX-License-Identifier: Apache-2.0 */
/* store.c - catalogs of deployed packages: search, verify, clean. See store.h. */
#include "pack/store/store.h"

#include <sodium.h>
#include <sys/file.h>
#include <sys/mman.h>

#include "pack/store/store_internal.h"

enum { DAY_S = 86400 };

struct catalog {
    const uint8_t *map;
    size_t size;
    uint64_t n_objects, n_files, paths_len, index_at;
    const char *base, *paths; /* in the map */
    const uint8_t *files;
    char name[NAME_MAX + 1];
    int used; /* an object was read from it: keep the catalog */
    int is_rest;
    uint64_t rest_bytes, read_bytes; /* of a rest: in its tree; of these, read */
    int dir;                         /* the tree, opened at first use; else -1 */
};

static uint64_t get64(const uint8_t *p) {
    struct pd_reader r;
    pd_reader_init(&r, p, 8);
    return pd_get_u64(&r);
}

static uint32_t get32(const uint8_t *p) {
    struct pd_reader r;
    pd_reader_init(&r, p, 4);
    return pd_get_u32(&r);
}

/* --- mapping --- */

static void look_at_rest(struct catalog *c) {
    c->is_rest = pd_starts_with(c->base, REST_BASE);
    for (uint64_t i = 0; c->is_rest && i < c->n_objects; i++) {
        const uint8_t *row = c->map + c->index_at + i * CAT_ROW;
        c->rest_bytes += get32(row + OBJECT_ID + 4) == UINT32_MAX ? 0 : get32(row + OBJECT_ID);
    }
}

/* 1 if the sizes in the footer fit the file and the checksum is right. */
static int catalog_check(struct catalog *c) {
    if (c->size < CAT_FOOTER)
        return 0;
    const uint8_t *foot = c->map + c->size - CAT_FOOTER;
    uint8_t sum[OBJECT_ID];
    c->n_objects = get64(foot + 8);
    c->n_files = get64(foot + 16);
    c->paths_len = get64(foot + 24);
    c->index_at = get64(foot + 32);
    c->base = (const char *)foot + 40;
    if (memcmp(foot, CAT_MAGIC, 8) || c->n_objects > STORE_OBJECTS || c->n_files > UINT32_MAX ||
        c->paths_len > c->size || c->index_at > c->size || c->base[CAT_BASE - 1] ||
        strstr(c->base, "..") || *c->base == '/' ||
        c->index_at + c->n_objects * CAT_ROW + c->n_files * 8 + c->paths_len + CAT_FOOTER !=
            c->size)
        return 0;
    c->files = c->map + c->index_at + c->n_objects * CAT_ROW;
    c->paths = (const char *)c->files + c->n_files * 8;
    if (c->paths_len && c->paths[c->paths_len - 1])
        return 0;
    crypto_generichash(sum, sizeof sum, c->map + c->index_at, c->size - c->index_at - OBJECT_ID,
                       NULL, 0);
    return !memcmp(sum, foot + CAT_FOOTER - OBJECT_ID, sizeof sum);
}

static void catalog_release(struct catalog *c) {
    if (c->map)
        munmap((void *)(uintptr_t)c->map, c->size);
    c->map = NULL;
    pd_close(c->dir);
    c->dir = -1;
}

static int catalog_open(struct catalog *c, const char *dir, const char *name) {
    char path[PATH_MAX];
    struct stat st;
    memset(c, 0, sizeof *c);
    c->dir = -1;
    if (pd_fmt(c->name, sizeof c->name, "%s", name) ||
        pd_fmt(path, sizeof path, "%s/%s", dir, name))
        return -1;
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size < CAT_FOOTER) {
        pd_close(fd);
        return -1;
    }
    c->size = (size_t)st.st_size;
    void *p = mmap(NULL, c->size, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    c->map = p == MAP_FAILED ? NULL : p;
    if (c->map && catalog_check(c)) {
        look_at_rest(c);
        return 0;
    }
    catalog_release(c);
    return -1;
}

static int tree_is_there(const char *root, const struct catalog *c) {
    char path[PATH_MAX];
    struct stat s;
    const char *first =
        c->n_files == 1
            ? c->paths
            : ""; /* a single file: check the executable itself, because its folder is shared */
    return !pd_fmt(path, sizeof path, "%s/%s/%s", root, c->base, first) && !lstat(path, &s);
}

/* --- contents of the folder --- */

struct store_listing {
    char name[NAME_MAX + 1];
    struct timespec used;
    uint64_t bytes;
};

static int newest_first(const void *a, const void *b) {
    const struct store_listing *x = a, *y = b;
    if (x->used.tv_sec != y->used.tv_sec)
        return x->used.tv_sec < y->used.tv_sec ? 1 : -1;
    return x->used.tv_nsec != y->used.tv_nsec ? (x->used.tv_nsec < y->used.tv_nsec ? 1 : -1)
                                              : strcmp(x->name, y->name);
}

static int list(const char *dir, const char *suffix, struct store_listing **out, size_t *n,
                struct pd_err *err) {
    DIR *d = opendir(dir);
    struct store_listing *v = NULL;
    size_t cap = 0;
    int rc = 0;
    *n = 0;
    for (struct dirent *e; d && !rc && (e = readdir(d));) {
        struct stat st;
        if (!pd_ends_with(e->d_name, suffix) ||
            fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode))
            continue;
        if (pd_grow(v, cap, *n + 1)) {
            rc = pd_oom(err, "the chunk store");
            break;
        }
        memset(&v[*n], 0, sizeof *v);
        memcpy(v[*n].name, e->d_name, strlen(e->d_name) + 1);
        v[*n].used = st.st_mtim;
        v[(*n)++].bytes = (uint64_t)st.st_size;
    }
    pd_closedir(d);
    if (rc) {
        free(v);
        return rc;
    }
    if (*n)
        qsort(v, *n, sizeof *v, newest_first);
    *out = v;
    return 0;
}

static int dir_of(const char *root, char dir[PATH_MAX], struct pd_err *err) {
    return pd_fmt(dir, PATH_MAX, "%s/.paddlectl/chunks", root)
               ? pd_fail(err, PD_EIO, "path too long: %s", root)
               : 0;
}

/* Makes rests of the leftovers of killed makers, or removes them: .part files and the trees that
 * they name. Returns how many it removed. */
static uint64_t bury_dead(const char *root, const char *dir, int dry_run) {
    struct store_listing *v = NULL;
    size_t n = 0;
    uint64_t buried = 0;
    char path[PATH_MAX];
    if (list(dir, ".part", &v, &n, NULL))
        return 0;
    for (size_t i = 0; i < n; i++)
        if (!pd_fmt(path, sizeof path, "%s/%s", dir, v[i].name) && store_bury(root, path, dry_run))
            buried++;
    free(v);
    if (!dry_run)
        store_rest_sweep(dir);
    return buried;
}

/* 1 if the maker of the catalog is alive: a dispatch is running and needs these files (data files
 * may not even be at the catalog's paths yet). */
static int is_held(const char *path) {
    /* Writable: network file systems need this for flock. */
    int fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    int held = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK;
    pd_close(fd);
    return held;
}

/* The tree first: a catalog without its tree is harmless. */
static void remove_tree(const char *root, const struct catalog *c) {
    char path[PATH_MAX];
    if (c->map && c->is_rest && !pd_fmt(path, sizeof path, "%s/%s", root, c->base))
        pd_rm_tree(path, NULL);
}

static void remove_rest(const struct store *st, struct catalog *c) {
    char path[PATH_MAX];
    remove_tree(st->root, c);
    if (!pd_fmt(path, sizeof path, "%s/%s", st->dir, c->name))
        unlink(path);
    c->n_objects = 0;
    catalog_release(c);
}

/* --- opening --- */

int store_open(struct store **out, const char *root, struct pd_err *err) {
    struct store *st = pd_calloc(1, sizeof *st);
    struct store_listing *v = NULL;
    size_t n = 0;
    if (!st)
        return pd_oom(err, "the chunk store");
    st->fd = -1;
    int rc = pd_fmt(st->root, sizeof st->root, "%s", root)
                 ? pd_fail(err, PD_EIO, "path too long: %s", root)
                 : dir_of(root, st->dir, err);
    if (!rc)
        rc = pd_mkdirs(st->dir, 0755, err);
    if (!rc) {
        bury_dead(root, st->dir, 0);
        rc = list(st->dir, ".cat", &v, &n, err);
    }
    size_t take = n < STORE_CATALOGS ? n : STORE_CATALOGS, n_rests = 0;
    if (!rc && take && !(st->cats = pd_calloc(take, sizeof *st->cats)))
        rc = pd_oom(err, "the chunk store");
    /* store_clean removes catalogs that are damaged or whose tree is gone. */
    for (size_t i = 0; !rc && i < n && st->n_cats < take; i++) {
        struct catalog *c = &st->cats[st->n_cats];
        if (catalog_open(c, st->dir, v[i].name))
            continue;
        if (c->is_rest && ++n_rests > STORE_RESTS)
            remove_rest(st, c);
        if (c->map && tree_is_there(root, c))
            st->n_cats++;
        else
            catalog_release(c);
    }
    free(v);
    if (rc) {
        store_close(st);
        return rc;
    }
    *out = st;
    return 0;
}

static void forget_file(struct store *st) {
    pd_close(st->fd);
    st->fd = -1;
    st->fd_cat = NULL;
}

void store_close(struct store *st) {
    if (!st)
        return;
    forget_file(st);
    for (size_t i = 0; i < st->n_cats; i++) {
        char path[PATH_MAX];
        if (st->cats[i].map && st->cats[i].used &&
            !pd_fmt(path, sizeof path, "%s/%s", st->dir, st->cats[i].name))
            (void)!utimensat(AT_FDCWD, path, NULL, AT_SYMLINK_NOFOLLOW); /* mark as recently used */
        catalog_release(&st->cats[i]);
    }
    free(st->cats);
    free(st);
}

/* --- reading --- */

int store_pread(int fd, void *buf, size_t n, uint64_t off) {
    uint8_t *p = buf;
    while (n) {
        ssize_t k = pread(fd, p, n, (off_t)off);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return -1;
        p += k;
        off += (uint64_t)k;
        n -= (size_t)k;
    }
    return 0;
}

static const uint8_t *row_of(const struct catalog *c, const struct object_id *id) {
    size_t lo = 0, hi = c->n_objects;
    if (!hi)
        return NULL;
    const uint8_t *rows = c->map + c->index_at;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        int k = memcmp(rows + mid * CAT_ROW, id->b, OBJECT_ID);
        if (!k)
            return rows + mid * CAT_ROW;
        if (k < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NULL;
}

enum { GONE = -1, A_LINK = -2, NO_FILE = -3 };

/* Opens the entry `file` of a catalog, but follows no link. Returns a descriptor or one of these
 * constants. */
static int open_there(const struct store *st, struct catalog *c, uint32_t file) {
    char path[2 * PATH_MAX];
    uint64_t at = file < c->n_files ? get64(c->files + (uint64_t)file * 8) : UINT64_MAX;
    if (at >= c->paths_len)
        return NO_FILE;
    if (c->dir < 0 && !pd_fmt(path, sizeof path, "%s/%s", st->root, c->base))
        c->dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int fd = c->dir < 0 || pd_fault("store.open")
                 ? (errno = ENOENT, -1)
                 : openat(c->dir, c->paths + at, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    return fd >= 0 ? fd : errno == ELOOP ? A_LINK : GONE;
}

/* The descriptor of a file, kept open for its other objects. */
static int open_file(struct store *st, struct catalog *c, uint32_t file) {
    struct stat s;
    if (st->fd >= 0 && st->fd_cat == c && st->fd_file == file)
        return st->fd;
    forget_file(st);
    st->fd = open_there(st, c, file);
    st->fd_cat = c;
    st->fd_file = file;
    if (st->fd >= 0 && (fstat(st->fd, &s) || !S_ISREG(s.st_mode)))
        forget_file(st);
    return st->fd;
}

static ssize_t read_once(int fd, void *buf, size_t n) {
    ssize_t k;
    do
        k = read(fd, buf, n);
    while (k < 0 && errno == EINTR);
    return k;
}

/* Reads a bundle: whole files, one after the other, up to `len` bytes; folders have none. Stops at
 * the first missing file, or after many entries without contents: otherwise each bundle could cost
 * a walk over the whole tree. One read per file: a truncated file changes the hash. */
static int read_bundle(struct store *st, struct catalog *c, uint32_t file, uint8_t *buf,
                       uint32_t len) {
    uint32_t got = 0, in_vain = 0;
    for (; got < len && in_vain < STORE_BUNDLE_EMPTY; file++) {
        int fd = open_there(st, c, file);
        if (fd == GONE || fd == NO_FILE)
            break;
        ssize_t k = fd < 0 ? 0 : read_once(fd, buf + got, len - got);
        pd_close(fd);
        got += k > 0 ? (uint32_t)k : 0;
        in_vain = k > 0 ? 0 : in_vain + 1;
    }
    return got == len ? 0 : -1;
}

static int read_row(struct store *st, struct catalog *c, const uint8_t *row, uint8_t *buf,
                    uint32_t len) {
    uint32_t file = get32(row + OBJECT_ID + 4);
    uint64_t off = get64(row + OBJECT_ID + 8);
    struct object_id is;
    if (file == UINT32_MAX) {
        if (off > c->index_at || len > c->index_at - off)
            return 0;
        memcpy(buf, c->map + off, len);
    } else if (file & STORE_BUNDLE) {
        if (read_bundle(st, c, file & ~(uint32_t)STORE_BUNDLE, buf, len))
            return 0;
    } else {
        int fd = open_file(st, c, file);
        if (fd < 0 || store_pread(fd, buf, len, off))
            return 0;
    }
    object_id_of(&is, buf, len);
    if (memcmp(is.b, row, OBJECT_ID))
        return 0;
    c->used = 1;
    c->read_bytes += c->is_rest && file != UINT32_MAX ? len : 0;
    return 1;
}

int store_find(struct store *st, const struct object_id *id, uint8_t buf[OBJECT_MAX],
               uint32_t *raw_len) {
    for (size_t i = 0; i < st->n_cats; i++) {
        const uint8_t *row = row_of(&st->cats[i], id);
        uint32_t len = row ? get32(row + OBJECT_ID) : 0;
        if (len && len <= OBJECT_MAX && read_row(st, &st->cats[i], row, buf, len)) {
            *raw_len = len;
            return 1;
        }
    }
    return 0;
}

int store_read(struct store *st, const struct object_id *id, uint32_t raw_len, uint8_t *buf) {
    for (size_t i = 0; i < st->n_cats; i++) {
        const uint8_t *row = row_of(&st->cats[i], id);
        if (row && get32(row + OBJECT_ID) == raw_len && raw_len <= OBJECT_MAX &&
            read_row(st, &st->cats[i], row, buf, raw_len))
            return 1;
    }
    return 0;
}

int store_has(const struct store *st, const struct object_id *id, int *in_rest) {
    int has = 0;
    *in_rest = 0;
    for (size_t i = 0; i < st->n_cats; i++)
        if (row_of(&st->cats[i], id)) {
            has = 1;
            if (!st->cats[i].is_rest) {
                *in_rest = 0;
                break;
            }
            *in_rest = 1;
        }
    return has;
}

void store_drop_rests(struct store *st, unsigned percent) {
    for (size_t i = 0; i < st->n_cats; i++) {
        struct catalog *c = &st->cats[i];
        if (!c->map || !c->is_rest || c->read_bytes < c->rest_bytes / 100 * percent)
            continue;
        forget_file(st);
        remove_rest(st, c);
    }
}

/* --- housekeeping --- */

int store_clean(const char *root, uint64_t limit, int dry_run, uint64_t *n_removed,
                uint64_t *bytes_removed, struct pd_err *err) {
    char dir[PATH_MAX], path[PATH_MAX];
    struct store_listing *v = NULL;
    size_t n = 0;
    int rc = dir_of(root, dir, err);
    if (rc)
        return rc;
    uint64_t removed = bury_dead(root, dir, dry_run), bytes = 0, kept = 0, n_kept = 0;
    rc = list(dir, ".cat", &v, &n, err);
    for (size_t i = 0; !rc && i < n; i++) {
        struct catalog c;
        int good = !catalog_open(&c, dir, v[i].name) && tree_is_there(root, &c);
        v[i].bytes += c.rest_bytes;
        if (good && c.is_rest)
            good = time(NULL) - v[i].used.tv_sec < STORE_REST_DAYS * DAY_S;
        if (good && n_kept < STORE_CATALOGS && (!limit || kept + v[i].bytes <= limit)) {
            kept += v[i].bytes;
            n_kept++;
        } else if (!pd_fmt(path, sizeof path, "%s/%s", dir, v[i].name) && !is_held(path)) {
            if (!dry_run)
                remove_tree(root, &c);
            if (dry_run || !unlink(path) || errno == ENOENT) {
                removed++;
                bytes += v[i].bytes;
            }
        }
        catalog_release(&c);
    }
    free(v);
    if (n_removed)
        *n_removed = removed;
    if (bytes_removed)
        *bytes_removed = bytes;
    return rc;
}
