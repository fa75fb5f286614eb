/* store_part.c - a catalog in the making, and the removal of one whose maker was killed. See
 * store.h.
 *
 *     <unique>.part    the path of the tree that is being built (PART_HEAD bytes), then the
 *                      manifest's objects
 */
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/alloc.h"
#include "base/fault_point.h"
#include "base/fs.h"
#include "base/str.h"
#include "pack/store/store_internal.h"

enum { PART_HEAD = PATH_MAX, YOUNG_S = 60, FIRST_ROWS = 1024, FLUSH = 256 << 10 };

struct store_part {
    struct store *st;
    int fd;
    char path[PATH_MAX];
    struct store_row *rows;
    /* Hash table over the rows: row number + 1, 0: empty; at least twice as many slots as rows. */
    uint32_t *slots;
    size_t n, cap, n_slots;
    struct pd_buf out; /* bytes not written yet */
    uint64_t at;       /* bytes of the file, including those in `out` */
    int published;
};

static int flush(struct store_part *p, struct pd_err *err) {
    if (p->out.failed)
        return pd_oom(err, "the chunk store");
    if (pd_fault("store.write") ? (errno = ENOSPC, 1)
                                : p->out.len && pd_write_all(p->fd, p->out.data, p->out.len))
        return pd_fail_errno(err, PD_EIO, errno, "cannot write %s", p->path);
    pd_buf_clear(&p->out);
    return 0;
}

static int append(struct store_part *p, const void *data, size_t n, struct pd_err *err) {
    pd_put(&p->out, data, n);
    p->at += n;
    return p->out.len >= FLUSH || p->out.failed ? flush(p, err) : 0;
}

int store_part_new(struct store_part **out, struct store *st, const char *tree,
                   struct pd_err *err) {
    struct store_part *p = pd_calloc(1, sizeof *p);
    char *head = pd_calloc(1, PART_HEAD);
    int rc = p && head ? 0 : pd_oom(err, "the chunk store");
    if (!rc) {
        p->st = st;
        p->fd = -1;
        unsigned long long unique;
        randombytes_buf(&unique, sizeof unique);
        rc = pd_fmt(head, PART_HEAD, "%s", tree) ||
                     pd_fmt(p->path, sizeof p->path, "%s/%016llx.part", st->dir, unique)
                 ? pd_fail(err, PD_EIO, "path too long: %s", tree)
                 : 0;
    }
    if (!rc) {
        p->fd = open(p->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        /* Waits while another process checks whether the maker is alive. Without locks (old NFS,
         * for outputs) nobody takes the maker for dead. */
        if (p->fd < 0 || (flock(p->fd, LOCK_EX) && errno != ENOLCK && errno != EOPNOTSUPP))
            rc = pd_fail_errno(err, PD_EIO, errno, "cannot make %s", p->path);
    }
    if (!rc && !(rc = append(p, head, PART_HEAD, err)))
        rc = flush(p, err); /* the tree's name must be on disk before the tree */
    free(head);
    if (rc) {
        store_part_free(p);
        return rc;
    }
    *out = p;
    return 0;
}

void store_part_free(struct store_part *p) {
    if (!p)
        return;
    if (p->fd >= 0) {
        if (!p->published)
            unlink(p->path);
        close(p->fd);
    }
    pd_buf_release(&p->out);
    free(p->rows);
    free(p->slots);
    free(p);
}

int store_part_hold(const struct store_part *p) {
    return p->fd < 0 ? -1 : fcntl(p->fd, F_DUPFD_CLOEXEC, 3);
}

/* --- the index --- */

static uint32_t *slot_of(const struct store_part *p, const struct object_id *id) {
    for (size_t i = object_hash64(id) & (p->n_slots - 1);; i = (i + 1) & (p->n_slots - 1))
        if (!p->slots[i] || object_same(&p->rows[p->slots[i] - 1].id, id))
            return &p->slots[i];
}

static const struct store_row *find(const struct store_part *p, const struct object_id *id) {
    if (!p->n)
        return NULL;
    uint32_t s = *slot_of(p, id);
    return s ? &p->rows[s - 1] : NULL;
}

static int grow(struct store_part *p, struct pd_err *err) {
    size_t cap = p->cap ? 2 * p->cap : FIRST_ROWS;
    uint32_t *slots = pd_calloc(2 * cap, sizeof *slots);
    if (!slots || pd_grow(p->rows, p->cap, cap)) {
        free(slots);
        return pd_oom(err, "the chunk store");
    }
    free(p->slots);
    p->slots = slots;
    p->n_slots = 2 * cap;
    for (size_t i = 0; i < p->n; i++)
        *slot_of(p, &p->rows[i].id) = (uint32_t)i + 1;
    return 0;
}

int store_part_note(struct store_part *p, const struct object_id *id, uint32_t raw_len,
                    uint32_t file, uint64_t off, struct pd_err *err) {
    if (p->n == STORE_OBJECTS)
        return 0;
    int rc = p->n == p->cap ? grow(p, err) : 0;
    if (rc)
        return rc;
    uint32_t *s = slot_of(p, id);
    if (*s)
        return 0;
    p->rows[p->n++] = (struct store_row){*id, raw_len, file, off};
    *s = (uint32_t)p->n;
    return 0;
}

int store_part_has(const struct store_part *p, const struct object_id *id) {
    return find(p, id) != NULL;
}

int store_part_where(const struct store_part *p, const struct object_id *id, uint32_t *raw_len,
                     uint32_t *file, uint64_t *off) {
    const struct store_row *r = find(p, id);
    if (!r)
        return 0;
    *raw_len = r->raw_len;
    *file = r->file;
    *off = r->off;
    return 1;
}

int store_part_put(struct store_part *p, const struct object_id *id, const void *raw, uint32_t n,
                   struct pd_err *err) {
    if (store_part_has(p, id))
        return 0;
    uint64_t at = p->at;
    int rc = append(p, raw, n, err);
    return rc ? rc : store_part_note(p, id, n, UINT32_MAX, at, err);
}

int store_part_get(const struct store_part *p, const struct object_id *id, uint8_t *buf,
                   uint32_t *raw_len) {
    const struct store_row *r = find(p, id);
    if (!r || r->file != UINT32_MAX)
        return 0;
    uint64_t written = p->at - p->out.len;
    *raw_len = r->raw_len;
    if (r->off < written)
        return r->off + r->raw_len <= written && !store_pread(p->fd, buf, r->raw_len, r->off);
    memcpy(buf, p->out.data + (r->off - written), r->raw_len);
    return 1;
}

/* --- publishing --- */

static int by_id(const void *a, const void *b) {
    return object_cmp(&((const struct store_row *)a)->id, &((const struct store_row *)b)->id);
}

/* Appends bytes that the checksum covers. */
static int hashed(struct store_part *p, crypto_generichash_state *sum, const void *data, size_t n,
                  struct pd_err *err) {
    crypto_generichash_update(sum, data, n);
    return append(p, data, n, err);
}

static int write_index(struct store_part *p, crypto_generichash_state *sum, struct pd_err *err) {
    struct pd_buf row = {0};
    int rc = 0;
    for (size_t i = 0; i < p->n && !rc; i++) {
        pd_buf_clear(&row);
        pd_put(&row, p->rows[i].id.b, OBJECT_ID);
        pd_put_u32(&row, p->rows[i].raw_len);
        pd_put_u32(&row, p->rows[i].file);
        pd_put_u64(&row, p->rows[i].off);
        rc = row.failed ? pd_oom(err, "the chunk store") : hashed(p, sum, row.data, row.len, err);
    }
    pd_buf_release(&row);
    return rc;
}

static int write_paths(struct store_part *p, crypto_generichash_state *sum,
                       const char *const *paths, size_t n, uint64_t *len, struct pd_err *err) {
    struct pd_buf b = {0};
    int rc = 0;
    *len = 0;
    for (size_t i = 0; i < n && !rc; i++) {
        pd_buf_clear(&b);
        pd_put_u64(&b, *len);
        *len += strlen(paths[i]) + 1;
        rc = b.failed ? pd_oom(err, "the chunk store") : hashed(p, sum, b.data, b.len, err);
    }
    for (size_t i = 0; i < n && !rc; i++)
        rc = hashed(p, sum, paths[i], strlen(paths[i]) + 1, err);
    pd_buf_release(&b);
    return rc;
}

static int write_footer(struct store_part *p, crypto_generichash_state *sum, uint64_t n_files,
                        uint64_t paths_len, uint64_t index_at, const char *base,
                        struct pd_err *err) {
    char padded[CAT_BASE] = "";
    uint8_t digest[OBJECT_ID];
    struct pd_buf b = {0};
    if (pd_fmt(padded, sizeof padded, "%s", base))
        return pd_fail(err, PD_EIO, "path too long: %s", base);
    pd_put(&b, CAT_MAGIC, 8);
    pd_put_u64(&b, p->n);
    pd_put_u64(&b, n_files);
    pd_put_u64(&b, paths_len);
    pd_put_u64(&b, index_at);
    pd_put(&b, padded, sizeof padded);
    int rc = b.failed ? pd_oom(err, "the chunk store") : hashed(p, sum, b.data, b.len, err);
    pd_buf_release(&b);
    if (rc)
        return rc;
    crypto_generichash_final(sum, digest, sizeof digest);
    return append(p, digest, sizeof digest, err);
}

int store_part_seal(struct store_part *p, const char *base, const char *const *paths,
                    size_t n_paths, int durable, struct pd_err *err) {
    crypto_generichash_state sum;
    uint64_t paths_len = 0, index_at = p->at;
    crypto_generichash_init(&sum, NULL, 0, OBJECT_ID);
    if (p->n)
        qsort(p->rows, p->n, sizeof *p->rows, by_id);
    for (size_t i = 0; i < p->n_slots; i++)
        p->slots[i] = 0;
    for (size_t i = 0; i < p->n; i++) /* rebuild the hash table: relays search it afterwards */
        *slot_of(p, &p->rows[i].id) = (uint32_t)i + 1;
    int rc = write_index(p, &sum, err);
    if (!rc)
        rc = write_paths(p, &sum, paths, n_paths, &paths_len, err);
    if (!rc)
        rc = write_footer(p, &sum, n_paths, paths_len, index_at, base, err);
    if (!rc)
        rc = flush(p, err);
    if (!rc && durable && fsync(p->fd))
        rc = pd_fail_errno(err, PD_EIO, errno, "cannot write %s", p->path);
    return rc;
}

int store_part_publish(struct store_part *p, const struct object_id *root, struct pd_err *err) {
    char name[PATH_MAX], hex[2 * OBJECT_ID + 1];
    const char *unique = strrchr(p->path, '/') + 1;
    object_hex(root, hex);
    if (pd_fmt(name, sizeof name, "%s/%s-%.16s.cat", p->st->dir, hex, unique))
        return pd_fail(err, PD_EIO, "path too long: %s", p->st->dir);
    if (rename(p->path, name))
        return pd_fail_errno(err, PD_EIO, errno, "cannot rename %s", p->path);
    p->published = 1;
    memcpy(p->path, name, sizeof p->path);
    return 0;
}

/* --- leftovers of a dead maker --- */

int store_bury(const char *root, const char *path, int dry_run) {
    char head[PART_HEAD];
    struct stat st;
    int fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK), dead = 0;
    if (fd < 0)
        return 0;
    if (fstat(fd, &st) || !S_ISREG(st.st_mode) || flock(fd, LOCK_EX | LOCK_NB)) {
        close(fd);
        return 0;
    }
    size_t n = strlen(root);
    if (store_pread(fd, head, sizeof head, 0)) {
        dead = time(NULL) - st.st_mtime > YOUNG_S; /* a young file may be about to get its head */
        *head = 0;
    } else {
        head[sizeof head - 1] = 0;
        dead = 1;
    }
    const char *last = strrchr(head, '/');
    int ours = dead && last && !strncmp(head, root, n) && head[n] == '/' &&
               strstr(last, ".part-") && !strstr(head, "/../");
    if (dead && !dry_run) {
        if (ours)
            pd_rm_tree(head, NULL);
        unlink(path);
    }
    close(fd);
    return dead;
}
