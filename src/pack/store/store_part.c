/* SPDX-License-Identifier: Apache-2.0 */
/* store_part.c - a catalog in the making. See store.h.
 *
 *     <unique>.part    head and records (store_internal.h), in the order in which they come
 */
#include <sodium.h>
#include <sys/file.h>

#include "pack/store/store_internal.h"

enum { FIRST_ROWS = 1024, FLUSH = 256 << 10 };

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

/* A record: see store_internal.h. */
static int record(struct store_part *p, enum part_record kind, const void *data, size_t n,
                  struct pd_err *err) {
    pd_put_u8(&p->out, (uint8_t)kind);
    pd_put_u32(&p->out, (uint32_t)n);
    p->at += RECORD_HEAD;
    return append(p, data, n, err);
}

int store_part_flush(struct store_part *p, struct pd_err *err) { return flush(p, err); }

int store_part_entry(struct store_part *p, const char *path, struct pd_err *err) {
    return record(p, PART_ENTRY, path, strlen(path) + 1, err);
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

int store_part_add_row(struct store_part *p, const struct store_row *row, struct pd_err *err) {
    if (p->n == STORE_OBJECTS)
        return 0;
    int rc = p->n == p->cap ? grow(p, err) : 0;
    if (rc)
        return rc;
    uint32_t *s = slot_of(p, &row->id);
    if (*s)
        return 0;
    p->rows[p->n++] = *row;
    *s = (uint32_t)p->n;
    return 0;
}

static void put_row(struct pd_buf *b, const struct store_row *row) {
    pd_buf_clear(b);
    pd_put(b, row->id.b, OBJECT_ID);
    pd_put_u32(b, row->raw_len);
    pd_put_u32(b, row->file);
    pd_put_u64(b, row->off);
}

int store_part_note(struct store_part *p, const struct object_id *id, uint32_t raw_len,
                    uint32_t file, uint64_t off, struct pd_err *err) {
    const struct store_row row = {*id, raw_len, file, off};
    const size_t before = p->n;
    struct pd_buf b = {0};
    int rc = store_part_add_row(p, &row, err);
    if (rc || p->n == before)
        return rc;
    put_row(&b, &row);
    rc = b.failed ? pd_oom(err, "the chunk store") : record(p, PART_ROW, b.data, b.len, err);
    pd_buf_release(&b);
    return rc;
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
    const struct store_row row = {*id, n, UINT32_MAX, p->at + RECORD_HEAD};
    int rc = record(p, PART_OBJECT, raw, n, err);
    return rc ? rc : store_part_add_row(p, &row, err);
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
        put_row(&row, &p->rows[i]);
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
    uint64_t paths_len = 0;
    int rc = record(p, PART_END, NULL, 0, err);
    const uint64_t index_at = p->at;
    if (rc)
        return rc;
    crypto_generichash_init(&sum, NULL, 0, OBJECT_ID);
    if (p->n)
        qsort(p->rows, p->n, sizeof *p->rows, by_id);
    for (size_t i = 0; i < p->n_slots; i++)
        p->slots[i] = 0;
    for (size_t i = 0; i < p->n; i++) /* rebuild the hash table: relays search it afterwards */
        *slot_of(p, &p->rows[i].id) = (uint32_t)i + 1;
    rc = write_index(p, &sum, err);
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
