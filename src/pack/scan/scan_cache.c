/* SPDX-License-Identifier: Apache-2.0 */
/* scan_cache.c - see scan_cache.h.
 *
 *     8 bytes MAGIC, units, u32 cksum of all before it
 *     large    u8 1, file, u32 mean, u32 n, n x {id 32, u64 off, u32 len}
 *     bundle   u8 2, id 32, u32 bytes, u32 n, n x file
 *     file     u64 size, u64 mtime, u64 ctime (ns), u64 inode, u32 length, path
 */
#include "pack/scan/scan_cache.h"

#include "base/cksum.h"

/* The digit changes with this format, and with chunker.c. */
#define MAGIC "pdhash 1"
enum { LARGE = 1, BUNDLE = 2, FILE_MAX = 512 << 20, FILES_MAX = 1 << 20 };

struct scan_cache {
    char file[PATH_MAX];
    struct pd_buf old, fresh;
    struct pd_reader
        at; /* offset of the next unit in `old`; units before it belong to earlier entries */
    size_t n_used, n_old, n_fresh;
};

struct known_file {
    uint64_t size, mtime_ns, ctime_ns, ino;
    const char *path; /* path_len bytes, no NUL */
    size_t path_len;
};

static void get_file(struct pd_reader *r, struct known_file *f) {
    f->size = pd_get_u64(r);
    f->mtime_ns = pd_get_u64(r);
    f->ctime_ns = pd_get_u64(r);
    f->ino = pd_get_u64(r);
    f->path = (const char *)pd_get_blob(r, &f->path_len);
}

static void put_file(struct pd_buf *b, const struct scan *s, const struct scan_entry *e) {
    pd_put_u64(b, e->size);
    pd_put_u64(b, (uint64_t)e->mtime_ns);
    pd_put_u64(b, (uint64_t)e->ctime_ns);
    pd_put_u64(b, e->ino);
    pd_put_blob(b, scan_name(s, e->path), e->path_len);
}

static int is_same(const struct scan *s, const struct scan_entry *e, const struct known_file *f) {
    return scan_on_disk(s, e) && e->size == f->size && (uint64_t)e->mtime_ns == f->mtime_ns &&
           (uint64_t)e->ctime_ns == f->ctime_ns && e->ino == f->ino && e->path_len == f->path_len &&
           !memcmp(scan_name(s, e->path), f->path, f->path_len);
}

/* Skips a unit and returns its kind and first file. 0: end of the cache, or damaged. */
static int skip_unit(struct pd_reader *r, int *kind, struct known_file *first) {
    struct known_file more;
    if (r->p == r->end)
        return 0;
    *kind = pd_get_u8(r);
    if (*kind == LARGE) {
        get_file(r, first);
        pd_get_u32(r);
        uint32_t n = pd_get_u32(r);
        pd_get(r, (size_t)n * (OBJECT_ID + 12));
    } else if (*kind == BUNDLE) {
        pd_get(r, OBJECT_ID);
        pd_get_u32(r);
        uint32_t n = pd_get_u32(r);
        if (!n || n > FILES_MAX)
            return 0;
        get_file(r, first);
        for (uint32_t i = 1; i < n && !r->failed; i++)
            get_file(r, &more);
    } else {
        return 0;
    }
    return !r->failed;
}

struct scan_cache *scan_cache_open(const char *file) {
    struct scan_cache *c = pd_calloc(1, sizeof *c);
    struct known_file first;
    int kind;
    if (!c)
        return NULL;
    pd_fmt(c->file, sizeof c->file, "%s", file);
    pd_buf_init(&c->old);
    pd_buf_init(&c->fresh);
    pd_put(&c->fresh, MAGIC, 8);
    if (pd_read_file(file, FILE_MAX, &c->old, NULL) || c->old.len < 12 ||
        memcmp(c->old.data, MAGIC, 8))
        pd_buf_clear(&c->old);
    size_t n = c->old.len ? c->old.len - 4 : 0;
    struct pd_reader r;
    pd_reader_init(&r, c->old.data + n, c->old.len - n);
    if (n && pd_get_u32(&r) != pd_cksum(c->old.data, n))
        n = 0;
    pd_reader_init(&c->at, n ? c->old.data + 8 : NULL, n ? n - 8 : 0);
    for (r = c->at; skip_unit(&r, &kind, &first);)
        c->n_old++;
    return c;
}

void scan_cache_free(struct scan_cache *c) {
    if (!c)
        return;
    pd_buf_release(&c->old);
    pd_buf_release(&c->fresh);
    free(c);
}

/* Finds the unit that begins with this entry. 1: `unit` reads it. Entries must be requested in
 * order. */
static int find(struct scan_cache *c, const struct scan *s, const struct scan_entry *e, int kind,
                struct pd_reader *unit) {
    struct pd_reader next = c->at;
    struct known_file f;
    int is;
    while (skip_unit(&next, &is, &f)) {
        char path[PATH_MAX];
        if (f.path_len >= sizeof path)
            return 0;
        memcpy(path, f.path, f.path_len);
        path[f.path_len] = 0;
        int cmp = manifest_path_cmp(path, scan_name(s, e->path));
        if (cmp > 0)
            return 0;
        *unit = c->at;
        c->at = next;
        if (!cmp)
            return is == kind && is_same(s, e, &f);
    }
    return 0;
}

static int put_unit(struct scan_cache *c, const uint8_t *from, const uint8_t *to) {
    pd_put(&c->fresh, from, (size_t)(to - from));
    c->n_used++;
    return 1;
}

int scan_cache_large(struct scan_cache *c, struct scan *s, size_t i, uint32_t mean) {
    struct scan_entry *e = &s->entries[i];
    struct known_file f;
    struct pd_reader r;
    if (!find(c, s, e, LARGE, &r))
        return 0;
    const uint8_t *from = r.p;
    pd_get_u8(&r);
    get_file(&r, &f);
    if (pd_get_u32(&r) != mean)
        return 0;
    e->first_piece = (uint32_t)s->n_pieces;
    for (uint32_t k = 0, n = pd_get_u32(&r); k < n; k++) {
        struct object_id id;
        uint32_t object;
        memcpy(id.b, pd_get(&r, OBJECT_ID), OBJECT_ID);
        uint64_t off = pd_get_u64(&r);
        uint32_t len = pd_get_u32(&r);
        if (scan_put_object(s, &id, len, (uint32_t)i, off, &object) ||
            scan_put_piece(s, off, object, 0, len))
            return PD_ENOMEM;
    }
    e->n_pieces = (uint32_t)(s->n_pieces - e->first_piece);
    e->hashed = e->settled = 1;
    return put_unit(c, from, r.p);
}

/* The index of the next non-empty file after entry i, or n_entries. */
static size_t next_file(const struct scan *s, size_t i) {
    do
        i++;
    while (i < s->n_entries &&
           (!s->kept[i] || s->entries[i].type != MANIFEST_FILE || !s->entries[i].size));
    return i;
}

/* 1 if the bundle would still end after entry i. */
static int ends_behind(const struct scan *s, size_t i, uint64_t bundle_bytes) {
    const struct scan_entry *e = &s->entries[i];
    if (chunker_bundle_ends(scan_name(s, e->path), e->path_len, bundle_bytes, e->size))
        return 1;
    i = next_file(s, i);
    return i == s->n_entries || s->entries[i].size >= CHUNKER_SMALL ||
           bundle_bytes + s->entries[i].size > CHUNKER_BUNDLE_MAX;
}

int scan_cache_bundle(struct scan_cache *c, struct scan *s, size_t i, size_t *last) {
    struct known_file f;
    struct pd_reader r;
    struct object_id id;
    if (!find(c, s, &s->entries[i], BUNDLE, &r))
        return 0;
    const uint8_t *from = r.p;
    pd_get_u8(&r);
    memcpy(id.b, pd_get(&r, OBJECT_ID), OBJECT_ID);
    uint32_t bytes = pd_get_u32(&r), n = pd_get_u32(&r), at = 0;
    struct pd_reader files = r;
    size_t k = i;
    for (uint32_t m = 0; m < n; m++, k = m < n ? next_file(s, k) : k) {
        get_file(&r, &f);
        if (k == s->n_entries || s->entries[k].hashed || !is_same(s, &s->entries[k], &f) ||
            f.size >= CHUNKER_SMALL || f.size > bytes - at)
            return 0;
        at += (uint32_t)f.size;
        *last = k;
    }
    if (at != bytes || bytes > CHUNKER_BUNDLE_MAX || !ends_behind(s, *last, bytes))
        return 0;
    uint32_t object, off = 0;
    size_t first = s->n_members;
    k = i;
    for (uint32_t m = 0; m < n; m++, k = next_file(s, k))
        if (scan_put_member(s, (uint32_t)k))
            return PD_ENOMEM;
    if (scan_put_object(s, &id, bytes, FROM_BUNDLE, first, &object))
        return PD_ENOMEM;
    for (size_t m = first; m < s->n_members; m++) {
        struct scan_entry *e = &s->entries[s->members[m]];
        get_file(&files, &f);
        e->first_piece = (uint32_t)s->n_pieces;
        e->n_pieces = 1;
        e->settled = 1;
        if (scan_put_piece(s, 0, object, off, (uint32_t)e->size))
            return PD_ENOMEM;
        off += (uint32_t)e->size;
    }
    return put_unit(c, from, r.p);
}

void scan_cache_keep_large(struct scan_cache *c, const struct scan *s, size_t i, uint32_t mean) {
    const struct scan_entry *e = &s->entries[i];
    if (!e->settled)
        return;
    pd_put_u8(&c->fresh, LARGE);
    put_file(&c->fresh, s, e);
    pd_put_u32(&c->fresh, mean);
    pd_put_u32(&c->fresh, e->n_pieces);
    for (uint32_t k = 0; k < e->n_pieces; k++) {
        const struct scan_piece *p = &s->pieces[e->first_piece + k];
        pd_put(&c->fresh, s->objects[p->object].id.b, OBJECT_ID);
        pd_put_u64(&c->fresh, p->off);
        pd_put_u32(&c->fresh, p->len);
    }
    c->n_fresh++;
}

void scan_cache_keep_bundle(struct scan_cache *c, const struct scan *s, size_t first_member,
                            uint32_t object) {
    for (size_t m = first_member; m < s->n_members; m++)
        if (!s->entries[s->members[m]].settled)
            return;
    pd_put_u8(&c->fresh, BUNDLE);
    pd_put(&c->fresh, s->objects[object].id.b, OBJECT_ID);
    pd_put_u32(&c->fresh, s->objects[object].raw_len);
    pd_put_u32(&c->fresh, (uint32_t)(s->n_members - first_member));
    for (size_t m = first_member; m < s->n_members; m++)
        put_file(&c->fresh, s, &s->entries[s->members[m]]);
    c->n_fresh++;
}

void scan_cache_save(struct scan_cache *c) {
    if (!c->n_fresh && c->n_used == c->n_old)
        return;
    pd_put_u32(&c->fresh, pd_cksum(c->fresh.data, c->fresh.len));
    if (!c->fresh.failed)
        (void)pd_write_file_quick(c->file, c->fresh.data, c->fresh.len, 0600, NULL);
}
