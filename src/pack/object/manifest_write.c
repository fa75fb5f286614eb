/* SPDX-License-Identifier: Apache-2.0 */
/* manifest_write.c - writes entries into leaves, leaves into indexes, indexes into one root. See
 * manifest.h. */
#include "math/hash.h"
#include "pack/object/manifest_internal.h"
#include "pack/object/path.h"

enum {
    LEAF_MIN = 1 << 10,
    LEAF_MEAN = 4 << 10,
    LEAF_MAX = 16 << 10,
    INDEX_MIN = 16,
    INDEX_ODDS = 48,
    ROOT_CHILDREN = 8, /* few, because the root goes to every host over the same link */
    LOOK_BACK = 64,    /* table rows searched for an object seen before */
};

struct written_refs {
    struct manifest_ref *v;
    size_t n, cap;
};

struct manifest_writer {
    manifest_sink sink;
    void *arg;
    struct manifest_path_rules rules;
    uint64_t n_entries, data_bytes;
    /* the current leaf */
    struct written_refs table;
    struct pd_buf records;
    uint32_t n_records;
    int leaf_has_path; /* rules.last is in this leaf: the next path may share its prefix */
    size_t leaf_last_len;
    /* the open record: a file whose extents are being added, or more extents of one */
    int open;
    struct pd_buf head, extents;
    uint32_t n_extents;
    uint64_t size, end; /* size of the file; end of its last extent */
    int is_file;
    int cut_here, cut_at_entry;
    struct written_refs leaves;
    struct pd_buf object; /* scratch: the object being built */
};

int manifest_writer_new(struct manifest_writer **out, manifest_sink sink, void *arg,
                        struct pd_err *err) {
    struct manifest_writer *w = pd_calloc(1, sizeof *w);
    if (!w)
        return pd_oom(err, "a package's manifest");
    w->sink = sink;
    w->arg = arg;
    *out = w;
    return 0;
}

void manifest_writer_free(struct manifest_writer *w) {
    if (!w)
        return;
    free(w->table.v);
    free(w->leaves.v);
    pd_buf_release(&w->records);
    pd_buf_release(&w->head);
    pd_buf_release(&w->extents);
    pd_buf_release(&w->object);
    free(w);
}

static int refs_add(struct written_refs *r, const struct object_id *id, uint32_t raw_len,
                    struct pd_err *err) {
    if (pd_grow(r->v, r->cap, r->n + 1))
        return pd_oom(err, "a package's manifest");
    r->v[r->n++] = (struct manifest_ref){*id, raw_len};
    return 0;
}

static void put_v(struct pd_buf *b, uint64_t v) {
    for (; v >= 0x80; v >>= 7)
        pd_put_u8(b, (uint8_t)(v | 0x80));
    pd_put_u8(b, (uint8_t)v);
}

static void put_refs(struct pd_buf *b, const struct manifest_ref *v, size_t n) {
    for (size_t i = 0; i < n; i++) {
        pd_put(b, v[i].id.b, OBJECT_ID);
        pd_put_u32(b, v[i].raw_len);
    }
}

/* Sends the complete object in w->object to the sink and adds it to `level`. */
static int emit(struct manifest_writer *w, struct written_refs *level, struct pd_err *err) {
    struct object_id id;
    if (w->object.failed)
        return pd_oom(err, "a package's manifest");
    object_id_of(&id, w->object.data, w->object.len);
    int rc = refs_add(level, &id, (uint32_t)w->object.len, err);
    return rc ? rc : w->sink(w->arg, &id, w->object.data, w->object.len, err);
}

static void close_record(struct manifest_writer *w) {
    if (!w->open)
        return;
    pd_put(&w->records, w->head.data, w->head.len);
    if (w->is_file) {
        put_v(&w->records, w->n_extents);
        pd_put(&w->records, w->extents.data, w->extents.len);
    }
    w->n_records++;
    w->open = 0;
    w->n_extents = 0;
    if (w->head.failed || w->extents.failed) /* keep the failure: clearing resets it */
        w->records.failed = PD_ENOMEM;
    pd_buf_clear(&w->head);
    pd_buf_clear(&w->extents);
}

static int close_leaf(struct manifest_writer *w, struct pd_err *err) {
    close_record(w);
    w->cut_here = w->cut_at_entry = w->leaf_has_path = 0;
    if (!w->n_records)
        return 0;
    struct pd_buf *b = &w->object;
    pd_buf_clear(b);
    pd_put_u8(b, MANIFEST_LEAF);
    pd_put_u8(b, MANIFEST_VERSION);
    pd_put_u16(b, 0);
    pd_put_u32(b, (uint32_t)w->table.n);
    pd_put_u32(b, w->n_records);
    put_refs(b, w->table.v, w->table.n);
    pd_put(b, w->records.data, w->records.len);
    if (w->records.failed || w->head.failed || w->extents.failed)
        return pd_oom(err, "a package's manifest");
    w->table.n = 0;
    w->n_records = 0;
    pd_buf_clear(&w->records);
    return emit(w, &w->leaves, err);
}

/* 1 if the leaf ends after this item. The probability is the item's share of the mean size of a
 * leaf; it depends on the item's hash, so that cuts stay where they were. */
static int leaf_ends(const struct manifest_writer *w, uint64_t hash, size_t bytes) {
    size_t leaf = 12 + MANIFEST_REF * w->table.n + w->records.len + w->head.len + w->extents.len;
    return leaf >= LEAF_MAX ||
           (leaf >= LEAF_MIN && (hash & 0xfffff) < bytes * 0x100000 / LEAF_MEAN);
}

static uint64_t path_hash(const char *p, size_t n) {
    uint64_t h = 0;
    for (size_t i = 0; i < n; i++)
        h = pd_mix64(h + (uint8_t)p[i] + 1);
    return h;
}

int manifest_add(struct manifest_writer *w, const struct manifest_entry *e, struct pd_err *err) {
    close_record(w);
    int rc = w->cut_here || w->cut_at_entry ? close_leaf(w, err) : 0;
    if (rc)
        return rc;
    size_t shared = 0, max = w->leaf_has_path ? w->rules.last_len : 0;
    while (shared < max && shared < e->path_len && w->rules.last[shared] == e->path[shared])
        shared++;
    if ((rc = manifest_check_entry(&w->rules, e, err)))
        return rc;
    if (++w->n_entries > MANIFEST_ENTRIES ||
        (w->rules.path_bytes += e->path_len) > MANIFEST_PATH_BYTES)
        return pd_fail(err, PD_EDATA,
                       "the package has too many entries (more than %d, or %d MB of names)",
                       MANIFEST_ENTRIES, MANIFEST_PATH_BYTES >> 20);
    struct pd_buf *b = &w->head;
    pd_put_u8(b, (uint8_t)e->type);
    put_v(b, shared);
    put_v(b, e->path_len - shared);
    pd_put(b, e->path + shared, e->path_len - shared);
    pd_put_u16(b, (uint16_t)e->mode);
    pd_put_u64(b, (uint64_t)e->mtime_ns);
    if (e->type == MANIFEST_FILE)
        put_v(b, e->size);
    if (e->type == MANIFEST_LINK) {
        size_t n = strlen(e->target);
        put_v(b, n);
        pd_put(b, e->target, n);
    }
    w->leaf_has_path = 1;
    w->open = 1;
    w->is_file = e->type == MANIFEST_FILE;
    w->size = e->size;
    w->end = 0;
    w->cut_at_entry = leaf_ends(w, path_hash(e->path, e->path_len), b->len);
    return 0;
}

int manifest_add_extent(struct manifest_writer *w, const struct manifest_extent *x,
                        struct pd_err *err) {
    if (!w->is_file || !x->len || !x->raw_len || x->raw_len > OBJECT_MAX ||
        x->obj_off > x->raw_len || x->len > x->raw_len - x->obj_off || x->file_off < w->end ||
        x->file_off > w->size || x->len > w->size - x->file_off)
        return pd_fail(err, PD_EDATA, "%.300s: its extents do not fit its size", w->rules.last);
    int rc = w->cut_here ? close_leaf(w, err) : 0;
    if (rc)
        return rc;
    if (!w->open) {
        pd_put_u8(&w->head, MANIFEST_MORE);
        w->open = 1;
    }
    size_t at = w->table.n, before = w->extents.len, rows = w->table.n;
    for (size_t i = w->table.n; i > 0 && w->table.n - i < LOOK_BACK && at == w->table.n; i--)
        if (object_same(&w->table.v[i - 1].id, &x->id))
            at = i - 1;
    if (at == w->table.n && (rc = refs_add(&w->table, &x->id, x->raw_len, err)))
        return rc;
    put_v(&w->extents, at);
    put_v(&w->extents, x->file_off - w->end);
    put_v(&w->extents, x->obj_off);
    put_v(&w->extents, x->len);
    w->n_extents++;
    w->end = x->file_off + x->len;
    w->data_bytes += x->len;
    if (w->data_bytes > MANIFEST_BYTES)
        return pd_fail(err, PD_EDATA, "the package is larger than %llu bytes",
                       (unsigned long long)MANIFEST_BYTES);
    w->cut_here = leaf_ends(w, object_hash64(&x->id),
                            w->extents.len - before + MANIFEST_REF * (w->table.n - rows));
    return 0;
}

static void put_node(struct pd_buf *b, unsigned kind, unsigned level, size_t n) {
    pd_buf_clear(b);
    pd_put_u8(b, (uint8_t)kind);
    pd_put_u8(b, MANIFEST_VERSION);
    pd_put_u16(b, (uint16_t)level);
    pd_put_u32(b, (uint32_t)n);
}

/* Builds one level of indexes above `below` into `above`. Each index has at least INDEX_MIN
 * children, except the last. */
static int index_level(struct manifest_writer *w, unsigned level, const struct written_refs *below,
                       struct written_refs *above, struct pd_err *err) {
    int rc = 0;
    for (size_t from = 0, i = 0; !rc && i < below->n; i++) {
        size_t n = i + 1 - from;
        if (n < MANIFEST_FANOUT && i + 1 < below->n &&
            (n < INDEX_MIN || object_hash64(&below->v[i].id) % INDEX_ODDS))
            continue;
        put_node(&w->object, MANIFEST_INDEX, level, n);
        put_refs(&w->object, below->v + from, n);
        rc = emit(w, above, err);
        from = i + 1;
    }
    return rc;
}

int manifest_finish(struct manifest_writer *w, struct object_id *root_id,
                    uint8_t root[MANIFEST_ROOT_MAX], size_t *n, struct pd_err *err) {
    unsigned level = 1;
    int rc = close_leaf(w, err);
    for (; !rc && w->leaves.n > ROOT_CHILDREN; level++) {
        struct written_refs above = {0};
        rc = level == MANIFEST_LEVELS ? pd_fail(err, PD_EDATA, "the package is too large")
                                      : index_level(w, level, &w->leaves, &above, err);
        free(w->leaves.v);
        w->leaves = above;
    }
    if (rc)
        return rc;
    struct pd_buf *b = &w->object;
    put_node(b, MANIFEST_ROOT, level, w->leaves.n);
    pd_put_u64(b, w->n_entries);
    pd_put_u64(b, w->data_bytes);
    put_refs(b, w->leaves.v, w->leaves.n);
    if (b->failed)
        return pd_oom(err, "a package's manifest");
    object_id_of(root_id, b->data, b->len);
    memcpy(root, b->data, b->len);
    *n = b->len;
    return 0;
}
