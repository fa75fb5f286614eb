/* SPDX-License-Identifier: Apache-2.0 */
/* scan_hash.c - hashes the contents of files into objects: large files are cut by content, small
 * files go into bundles. A file that changes meanwhile is read again. */
#include <linux/magic.h>
#include <sys/vfs.h>

#include "pack/object/hash_pipeline.h"
#include "pack/scan/scan_cache.h"

/* Files of at least this many bytes are read and hashed by two threads. */
enum { PIPELINE_MIN = 2 << 20 };
#define SETTLED_NS INT64_C(2500000000) /* beyond the grain of any file system's clock */

struct hasher {
    struct scan *s;
    struct pd_err *err;
    struct scan_cache *cache; /* NULL: none */
    struct hash_pipeline *pipeline;
    uint8_t *small;  /* CHUNKER_SMALL */
    uint8_t *bundle; /* CHUNKER_BUNDLE_MAX */
    size_t bundle_len, first_member;
};

int scan_open_entry(const struct scan *s, const struct scan_entry *e, int *fd, uint64_t *base,
                    struct stat *st, struct pd_err *err) {
    const char *name = scan_name(s, e->path);
    *base = 0;
    *fd = s->fd;
    if (e->added)
        *fd = s->added_fd;
    else if (!s->is_archive && !s->is_file)
        *fd = openat(s->fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (*fd < 0 || fstat(*fd, st)) {
        int no = errno;
        scan_close_entry(s, *fd);
        *fd = -1; /* the caller closes fd, too */
        return pd_fail_errno(err, no == ENOENT || no == EACCES || no == ELOOP ? PD_EDATA : PD_EIO,
                             no, "cannot open %.300s/%.400s", s->top, name);
    }
    if (!scan_on_disk(s, e)) {
        *base = e->spool;
        st->st_size = (off_t)e->size;
        st->st_mtim.tv_sec = e->mtime_ns / 1000000000;
        st->st_mtim.tv_nsec = e->mtime_ns % 1000000000;
        st->st_mode = S_IFREG | e->mode;
    }
    return 0;
}

void scan_close_entry(const struct scan *s, int fd) {
    if (fd >= 0 && fd != s->fd && fd != s->added_fd)
        close(fd);
}

static int same_file(const struct scan *s, const struct scan_entry *e, const struct stat *a,
                     int fd) {
    struct stat b;
    if (!scan_on_disk(s, e) || s->flags & SCAN_OUTPUTS)
        return 1;
    return !fstat(fd, &b) && a->st_size == b.st_size && a->st_mtim.tv_sec == b.st_mtim.tv_sec &&
           a->st_mtim.tv_nsec == b.st_mtim.tv_nsec && a->st_ctim.tv_sec == b.st_ctim.tv_sec &&
           a->st_ctim.tv_nsec == b.st_ctim.tv_nsec;
}

static int64_t in_ns(const struct timespec *t) {
    return t->tv_sec * INT64_C(1000000000) + t->tv_nsec;
}

int scan_is_as_hashed(const struct scan_entry *e, int fd) {
    struct stat st;
    return !fstat(fd, &st) && (uint64_t)st.st_size == e->size &&
           in_ns(&st.st_mtim) == e->mtime_ns && in_ns(&st.st_ctim) == e->ctime_ns &&
           st.st_ino == e->ino;
}

/* 1 if a later write would give the file another ctime than `st` has. The listed file systems take
 * the ctime from the clock of `now` (ticks of some ms) and store all of it; file systems that store
 * only seconds show zeros. Exception: writes through a mapping that was already written to. They
 * change the ctime late. The receiving node finds them, because it hashes every object. */
static int change_would_show(int fd, const struct stat *st, const struct timespec *now) {
    static const long known[] = {TMPFS_MAGIC,       EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC,
                                 BTRFS_SUPER_MAGIC, F2FS_SUPER_MAGIC, OVERLAYFS_SUPER_MAGIC};
    struct statfs f;
    size_t i = 0;
    if (!st->st_ctim.tv_nsec || in_ns(&st->st_ctim) >= in_ns(now) || fstatfs(fd, &f))
        return 0;
    while (i < sizeof known / sizeof known[0] && f.f_type != known[i])
        i++;
    return i < sizeof known / sizeof known[0];
}

/* Updates the entry to the state of the file when it was opened, which was not before began_ns. */
static int refresh(const struct scan *s, struct scan_entry *e, const struct stat *st,
                   int64_t began_ns, struct pd_err *err) {
    const char *name = scan_name(s, e->path);
    if (!S_ISREG(st->st_mode))
        return pd_fail(err, PD_EDATA, "%.300s/%.400s was replaced while it was read", s->top, name);
    e->size = (uint64_t)st->st_size;
    if (s->is_file) /* the worker: only its bytes count, not its times */
        return 0;
    e->mtime_ns = in_ns(&st->st_mtim);
    e->ctime_ns = in_ns(&st->st_ctim);
    e->ino = st->st_ino;
    e->settled = scan_on_disk(s, e) && e->ctime_ns < began_ns - SETTLED_NS;
    e->mode = st->st_mode & 0777;
    return 0;
}

int scan_read_at(const struct scan *s, const struct scan_entry *e, int fd, uint8_t *p, size_t n,
                 uint64_t at, struct pd_err *err) {
    for (size_t done = 0; done < n;) {
        ssize_t k = pread(fd, p + done, n - done, (off_t)(at + done));
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return pd_fail_errno(err, PD_EIO, errno, "cannot read %.300s/%.400s", s->top,
                                 scan_name(s, e->path));
        if (k == 0)
            return PD_EDATA;
        done += (size_t)k;
    }
    return 0;
}

static int changed(const struct scan *s, const struct scan_entry *e, struct pd_err *err) {
    return pd_fail(err, PD_EDATA, "%.300s/%.400s changes while it is read, %d times", s->top,
                   scan_name(s, e->path), SCAN_TRIES);
}

/* --- large files --- */

/* Finds the next run of data in [at, end). 1 and its bounds; 0: only holes follow. The file system
 * tells what is a hole. */
static int next_region(int fd, int is_sparse, uint64_t at, uint64_t end, uint64_t *from,
                       uint64_t *to) {
    *from = at;
    *to = end;
    if (at >= end)
        return 0;
    if (!is_sparse)
        return 1;
    off_t data = lseek(fd, (off_t)at, SEEK_DATA);
    if (data < 0)
        return errno != ENXIO; /* 0: only holes follow; 1: this file system can't tell */
    if ((uint64_t)data >= end)
        return 0;
    off_t hole = lseek(fd, data, SEEK_HOLE);
    *from = (uint64_t)data;
    if (hole > data && (uint64_t)hole < end)
        *to = (uint64_t)hole;
    return 1;
}

/* Adds a batch's objects to the tables. *off: offset of the batch in the file, afterwards its end.
 */
static int keep_batch(struct hasher *h, const struct hash_batch *b, uint32_t entry, uint64_t *off) {
    struct scan *s = h->s;
    uint64_t began = *off;
    for (size_t i = 0; i < b->n; *off += b->cut[i++].n) {
        uint32_t object, len = (uint32_t)b->cut[i].n;
        if (scan_put_object(s, &b->id[i], len, entry, *off, &object) ||
            scan_put_piece(s, *off, object, 0, len))
            return scan_fail_memory(s, h->err);
    }
    atomic_fetch_add(&s->hashed, *off - began);
    return 0;
}

static int hash_region(struct hasher *h, uint32_t entry, int fd, uint64_t base, uint64_t from,
                       uint64_t to, const struct chunker *c) {
    struct scan *s = h->s;
    const struct scan_entry *e = &s->entries[entry];
    const uint8_t *rest = NULL; /* bytes of the previous batch that are not cut yet */
    size_t n_rest = 0;
    uint64_t off = from - base, next = from;
    int rc = 0;
    while (!rc && (n_rest || next < to)) {
        struct hash_batch *b = hash_pipeline_empty(h->pipeline);
        if (!b) {
            rc = keep_batch(h, hash_pipeline_take(h->pipeline), entry, &off);
            continue;
        }
        size_t have = n_rest, at = 0,
               n = to - next < HASH_BUFFER - have ? (size_t)(to - next) : HASH_BUFFER - have;
        if (n_rest)
            memcpy(b->buf, rest, n_rest);
        rc = scan_check_cancel(s, h->err);
        if (!rc)
            rc = scan_read_at(s, e, fd, b->buf + have, n, next, h->err);
        if (rc)
            break;
        have += n;
        next += n;
        for (b->n = 0; b->n < HASH_CUTS && at < have && (have - at >= c->max || next == to);
             at += b->cut[b->n++].n)
            b->cut[b->n] =
                (struct object_bytes){b->buf + at, chunker_cut(c, b->buf + at, have - at)};
        rest = b->buf + at;
        n_rest = have - at;
        hash_pipeline_put(h->pipeline, to - from < PIPELINE_MIN);
    }
    for (const struct hash_batch *b;
         (b = hash_pipeline_take(
              h->pipeline));) /* wait for batches even after a failure: their buffers are in use */
        rc = rc ? rc : keep_batch(h, b, entry, &off);
    return rc;
}

static int hash_once(struct hasher *h, uint32_t entry, int *again) {
    struct scan *s = h->s;
    struct scan_entry *e = &s->entries[entry];
    struct chunker c;
    struct stat st;
    struct timespec now;
    uint64_t base, from, to;
    int64_t began_ns = (int64_t)pd_wall_us() * 1000;
    int fd, rc = scan_open_entry(s, e, &fd, &base, &st, h->err);
    if (rc)
        return rc;
    rc = refresh(s, e, &st, began_ns, h->err);
    e->stamped = !rc && scan_on_disk(s, e) && !s->is_file &&
                 !clock_gettime(CLOCK_REALTIME_COARSE, &now) && change_would_show(fd, &st, &now);
    e->first_piece = (uint32_t)s->n_pieces;
    chunker_init(&c, e->size, atomic_load(&s->total));
    int sparse = !scan_on_disk(s, e) || (uint64_t)st.st_blocks * 512 < e->size;
    for (uint64_t at = base; !rc && next_region(fd, sparse, at, base + e->size, &from, &to);
         at = to)
        rc = hash_region(h, entry, fd, base, from, to, &c);
    e->n_pieces = (uint32_t)(s->n_pieces - e->first_piece);
    *again =
        (!rc || rc == PD_EDATA) && !(h->err && h->err->code) && (rc || !same_file(s, e, &st, fd));
    scan_close_entry(s, fd);
    return *again ? 0 : rc;
}

static void forget_objects(struct scan *s, size_t n) {
    s->n_objects = n;
    memset(s->table, 0, s->table_size * sizeof *s->table);
    for (size_t i = 0; i < n; i++) {
        size_t k = object_hash64(&s->objects[i].id) & (s->table_size - 1);
        while (s->table[k])
            k = (k + 1) & (s->table_size - 1);
        s->table[k] = (uint32_t)i + 1;
    }
}

static void note_reused(struct scan *s, size_t entry) {
    s->totals.reused += s->entries[entry].size;
    atomic_fetch_add(&s->hashed, s->entries[entry].size);
}

static int hash_large(struct hasher *h, uint32_t entry) {
    struct scan *s = h->s;
    struct chunker c;
    chunker_init(&c, s->entries[entry].size, atomic_load(&s->total));
    int known = h->cache ? scan_cache_large(h->cache, s, entry, c.mean) : 0;
    if (known) {
        note_reused(s, entry);
        return known < 0 ? scan_fail_memory(s, h->err) : 0;
    }
    size_t n_objects = s->n_objects, n_pieces = s->n_pieces;
    for (int i = 0; i < SCAN_TRIES; i++) {
        int again = 0, rc = hash_once(h, entry, &again);
        if (rc)
            return rc;
        if (!again) {
            s->entries[entry].hashed = 1;
            chunker_init(&c, s->entries[entry].size, atomic_load(&s->total));
            if (h->cache)
                scan_cache_keep_large(h->cache, s, entry, c.mean);
            return 0;
        }
        if (s->table_size)
            forget_objects(s, n_objects);
        s->n_pieces = n_pieces;
    }
    return changed(s, &s->entries[entry], h->err);
}

/* --- small files --- */

static int flush_bundle(struct hasher *h) {
    struct scan *s = h->s;
    struct object_id id;
    uint32_t object, at = 0;
    if (!h->bundle_len)
        return 0;
    object_id_of(&id, h->bundle, h->bundle_len);
    if (scan_put_object(s, &id, (uint32_t)h->bundle_len, FROM_BUNDLE, h->first_member, &object))
        return scan_fail_memory(s, h->err);
    for (size_t i = h->first_member; i < s->n_members; i++) {
        struct scan_entry *e = &s->entries[s->members[i]];
        e->first_piece = (uint32_t)s->n_pieces;
        e->n_pieces = 1;
        if (scan_put_piece(s, 0, object, at, (uint32_t)e->size))
            return scan_fail_memory(s, h->err);
        at += (uint32_t)e->size;
    }
    if (h->cache)
        scan_cache_keep_bundle(h->cache, s, h->first_member, object);
    h->bundle_len = 0;
    h->first_member = s->n_members;
    return 0;
}

/* Reads a small file into h->small. *large is set if the file has grown too large. */
static int read_small(struct hasher *h, struct scan_entry *e, int *large) {
    struct scan *s = h->s;
    *large = 0;
    for (int i = 0; i < SCAN_TRIES; i++) {
        struct stat st;
        uint64_t base;
        int64_t began_ns = (int64_t)pd_wall_us() * 1000;
        int fd, rc = scan_open_entry(s, e, &fd, &base, &st, h->err);
        if (rc)
            return rc;
        rc = refresh(s, e, &st, began_ns, h->err);
        *large = !rc && e->size >= CHUNKER_SMALL;
        if (!rc && !*large)
            rc = scan_read_at(s, e, fd, h->small, (size_t)e->size, base, h->err);
        int same = same_file(s, e, &st, fd);
        scan_close_entry(s, fd);
        if (*large || (!rc && same))
            return 0;
        if (rc && (rc != PD_EDATA || (h->err && h->err->code)))
            return rc;
    }
    return changed(s, e, h->err);
}

static int hash_small(struct hasher *h, uint32_t entry) {
    struct scan *s = h->s;
    struct scan_entry *e = &s->entries[entry];
    int large, rc = read_small(h, e, &large);
    if (rc)
        return rc;
    if (large) {
        rc = flush_bundle(h);
        return rc ? rc : hash_large(h, entry);
    }
    atomic_fetch_add(&s->hashed, e->size);
    if (!e->size) {
        e->n_pieces = 0;
        return 0;
    }
    if (h->bundle_len + e->size > CHUNKER_BUNDLE_MAX && (rc = flush_bundle(h)))
        return rc;
    memcpy(h->bundle + h->bundle_len, h->small, e->size);
    h->bundle_len += e->size;
    if (scan_put_member(s, entry))
        return scan_fail_memory(s, h->err);
    if (s->flags & SCAN_ALONE ||
        chunker_bundle_ends(scan_name(s, e->path), e->path_len, h->bundle_len, e->size))
        rc = flush_bundle(h);
    return rc;
}

/* Takes a whole bundle that begins with entry *i from the cache. 1: *i is then its last file. */
static int reuse_bundle(struct hasher *h, size_t *i) {
    struct scan *s = h->s;
    size_t first = s->n_members, last = *i;
    int known = h->cache && !h->bundle_len && s->entries[*i].size
                    ? scan_cache_bundle(h->cache, s, *i, &last)
                    : 0;
    if (known < 0)
        return scan_fail_memory(s, h->err);
    for (size_t m = first; m < s->n_members && known; m++)
        note_reused(s, s->members[m]);
    if (known) {
        h->first_member = s->n_members;
        *i = last;
    }
    return known;
}

/* Leaves entry i out of outputs if `rc` says that it vanished, may not be read or changes. */
static int leave_out(struct hasher *h, size_t i, int rc) {
    struct scan *s = h->s;
    if (rc != PD_EDATA || !(s->flags & SCAN_OUTPUTS))
        return rc;
    pd_err_clear(h->err);
    s->kept[i] = 0;
    return scan_refuse(s, scan_name(s, s->entries[i].path),
                       "it vanished, may not be read, or changes while it is read", h->err);
}

int scan_hash_all(struct scan *s, struct pd_err *err) {
    struct hasher *h = pd_calloc(1, sizeof *h);
    int rc = 0;
    if (!h)
        return scan_fail_memory(s, err);
    h->s = s;
    h->err = err;
    h->first_member = s->n_members;
    h->pipeline = hash_pipeline_new();
    h->small = pd_malloc(CHUNKER_SMALL);
    h->bundle = pd_malloc(CHUNKER_BUNDLE_MAX);
    s->totals.reused = 0;
    if (!h->pipeline || !h->small || !h->bundle ||
        (s->cache_file && !(h->cache = scan_cache_open(s->cache_file))))
        rc = scan_fail_memory(s, err);
    for (size_t i = 0; i < s->n_entries && !rc; i++) {
        const struct scan_entry *e = &s->entries[i];
        if (e->type != MANIFEST_FILE || !s->kept[i])
            continue;
        rc = scan_check_cancel(s, err);
        if (!rc && !e->hashed && e->size < CHUNKER_SMALL) {
            rc = reuse_bundle(h, &i);
            rc = rc ? rc < 0 ? rc : 0 : hash_small(h, (uint32_t)i);
        } else if (!rc && !(rc = flush_bundle(h)) &&
                   !e->hashed) /* a bundle consists of files that are adjacent in the manifest */
            rc = hash_large(h, (uint32_t)i);
        rc = leave_out(h, i, rc);
    }
    if (!rc)
        rc = flush_bundle(h);
    if (!rc && h->cache)
        scan_cache_save(h->cache);
    scan_cache_free(h->cache);
    free(s->cache_file);
    s->cache_file = NULL;
    hash_pipeline_free(h->pipeline);
    free(h->small);
    free(h->bundle);
    free(h);
    return rc;
}
