/* SPDX-License-Identifier: Apache-2.0 */
/* manifest_read.c - reads roots, indexes and leaves from an untrusted peer. See manifest.h. */
#include "pack/object/manifest_internal.h"

struct manifest_reader {
    struct manifest_path_rules rules;
    int bounded;
    uint64_t max_entries, max_bytes; /* totals of the root */
    uint64_t n_entries, bytes;
    int is_file;        /* the last entry is a file: extents may follow */
    uint64_t size, end; /* size of this file; end of its last extent */
    char path[PATH_MAX], target[PATH_MAX];
};

/* --- roots and indexes --- */

static int read_children(struct pd_reader *r, struct manifest_node *out, struct pd_err *err) {
    for (unsigned i = 0; i < out->n; i++) {
        const uint8_t *id = pd_get(r, OBJECT_ID);
        uint32_t len = pd_get_u32(r);
        if (!id || !len || len > OBJECT_MAX)
            return pd_fail(err, PD_EDATA, "the package's index is damaged");
        memcpy(out->child[i].id.b, id, OBJECT_ID);
        out->child[i].raw_len = len;
    }
    return pd_reader_done(r) ? 0 : pd_fail(err, PD_EDATA, "the package's index is damaged");
}

static int read_node(struct manifest_node *out, unsigned kind, struct pd_reader *r,
                     struct pd_err *err) {
    memset(out, 0, sizeof *out);
    unsigned k = pd_get_u8(r), version = pd_get_u8(r);
    out->level = pd_get_u16(r);
    out->n = pd_get_u32(r);
    if (r->failed || k != kind || out->n > MANIFEST_FANOUT || !out->level ||
        out->level > MANIFEST_LEVELS)
        return pd_fail(err, PD_EDATA, "the package's index is damaged");
    if (version != MANIFEST_VERSION)
        return pd_fail(err, PD_EDATA, "the package's format has version %u, not %d", version,
                       MANIFEST_VERSION);
    return 0;
}

int manifest_read_root(struct manifest_node *out, const void *raw, size_t n, struct pd_err *err) {
    struct pd_reader r;
    pd_reader_init(&r, raw, n);
    if (n > MANIFEST_ROOT_MAX)
        return pd_fail(err, PD_EDATA, "a package's root can't have %zu bytes", n);
    int rc = read_node(out, MANIFEST_ROOT, &r, err);
    out->n_entries = pd_get_u64(&r);
    out->data_bytes = pd_get_u64(&r);
    if (!rc && (out->n_entries > MANIFEST_ENTRIES || out->data_bytes > MANIFEST_BYTES))
        return pd_fail(
            err, PD_EDATA,
            "the package says that it has %llu entries and %llu bytes; allowed are %d and %llu",
            (unsigned long long)out->n_entries, (unsigned long long)out->data_bytes,
            MANIFEST_ENTRIES, (unsigned long long)MANIFEST_BYTES);
    return rc ? rc : read_children(&r, out, err);
}

int manifest_read_index(struct manifest_node *out, unsigned level, const void *raw, size_t n,
                        struct pd_err *err) {
    struct pd_reader r;
    pd_reader_init(&r, raw, n);
    int rc = read_node(out, MANIFEST_INDEX, &r, err);
    if (!rc && (out->level != level || !out->n))
        rc = pd_fail(err, PD_EDATA, "the package's index is damaged");
    return rc ? rc : read_children(&r, out, err);
}

/* --- leaves --- */

int manifest_reader_new(struct manifest_reader **out, const struct manifest_node *root,
                        struct pd_err *err) {
    struct manifest_reader *r = pd_calloc(1, sizeof *r);
    if (!r)
        return pd_oom(err, "a package's manifest");
    r->bounded = root != NULL;
    r->max_entries = root ? root->n_entries : MANIFEST_ENTRIES;
    r->max_bytes = root ? root->data_bytes : MANIFEST_BYTES;
    *out = r;
    return 0;
}

void manifest_reader_free(struct manifest_reader *r) { free(r); }

static uint64_t get_v(struct pd_reader *r) {
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint8_t b = pd_get_u8(r);
        if (shift == 63 && b > 1)
            break;
        v |= (uint64_t)(b & 0x7f) << shift;
        if (!(b & 0x80))
            return r->failed ? 0 : v;
    }
    r->failed = 1;
    return 0;
}

static int damaged(const struct manifest_reader *r, struct pd_err *err) {
    return pd_fail(err, PD_EDATA, "the package's list of files is damaged, behind '%.300s'",
                   r->rules.last);
}

/* The leaf's table: 36 bytes per row, bounds already checked. */
struct leaf_table {
    const uint8_t *p;
    uint32_t n;
};

static int read_extents(struct manifest_reader *r, struct pd_reader *in, const struct leaf_table *t,
                        const struct manifest_events *ev, void *arg, struct pd_err *err) {
    for (uint64_t n = get_v(in); n && !in->failed; n--) {
        struct manifest_extent x;
        uint64_t at = get_v(in), gap = get_v(in), obj_off = get_v(in), len = get_v(in);
        if (in->failed || at >= t->n)
            return damaged(r, err);
        struct pd_reader row;
        pd_reader_init(&row, t->p + at * MANIFEST_REF, MANIFEST_REF);
        memcpy(x.id.b, pd_get(&row, OBJECT_ID), OBJECT_ID);
        x.raw_len = pd_get_u32(&row);
        if (!len || !x.raw_len || x.raw_len > OBJECT_MAX || obj_off > x.raw_len ||
            len > x.raw_len - obj_off || gap > r->size - r->end || len > r->size - r->end - gap)
            return damaged(r, err);
        x.obj_off = (uint32_t)obj_off;
        x.len = (uint32_t)len;
        x.file_off = r->end + gap;
        r->end = x.file_off + len;
        r->bytes += len;
        if (r->bytes > r->max_bytes)
            return pd_fail(err, PD_EDATA, "the package is larger than it says (%llu bytes)",
                           (unsigned long long)r->max_bytes);
        int rc = ev->on_extent(arg, &x, err);
        if (rc)
            return rc;
    }
    return in->failed ? damaged(r, err) : 0;
}

static int read_entry(struct manifest_reader *r, unsigned type, size_t shareable,
                      struct pd_reader *in, const struct leaf_table *t,
                      const struct manifest_events *ev, void *arg, struct pd_err *err) {
    uint64_t shared = get_v(in), n = get_v(in);
    if (in->failed || shared > shareable || n >= PATH_MAX || shared + n >= PATH_MAX)
        return damaged(r, err);
    const uint8_t *rest = n ? pd_get(in, n) : (const uint8_t *)"";
    if (!rest || memchr(rest, 0, n))
        return damaged(r, err);
    memcpy(r->path, r->rules.last, shared);
    memcpy(r->path + shared, rest, n);
    r->path[shared + n] = 0;
    struct manifest_entry e = {.type = type,
                               .path = r->path,
                               .path_len = shared + n,
                               .mode = pd_get_u16(in),
                               .target = ""};
    e.mtime_ns = (int64_t)pd_get_u64(in);
    if (type == MANIFEST_FILE)
        e.size = get_v(in);
    if (type == MANIFEST_LINK) {
        uint64_t k = get_v(in);
        const uint8_t *s = k && k < PATH_MAX ? pd_get(in, k) : NULL;
        if (!s || memchr(s, 0, k))
            return damaged(r, err);
        memcpy(r->target, s, k);
        r->target[k] = 0;
        e.target = r->target;
    }
    if (in->failed)
        return damaged(r, err);
    int rc = manifest_check_entry(&r->rules, &e, err);
    if (rc)
        return rc;
    r->rules.path_bytes += e.path_len;
    if (++r->n_entries > r->max_entries || r->rules.path_bytes > MANIFEST_PATH_BYTES)
        return pd_fail(err, PD_EDATA,
                       "the package has more entries than it says or than are allowed (%llu)",
                       (unsigned long long)r->max_entries);
    r->is_file = type == MANIFEST_FILE;
    r->size = e.size;
    r->end = 0;
    rc = ev->on_entry(arg, &e, err);
    return rc || !r->is_file ? rc : read_extents(r, in, t, ev, arg, err);
}

int manifest_read_leaf(struct manifest_reader *r, const void *raw, size_t n,
                       const struct manifest_events *ev, void *arg, struct pd_err *err) {
    struct pd_reader in;
    pd_reader_init(&in, raw, n);
    unsigned kind = pd_get_u8(&in), version = pd_get_u8(&in), zero = pd_get_u16(&in);
    struct leaf_table t = {.n = pd_get_u32(&in)};
    uint32_t n_records = pd_get_u32(&in);
    if (in.failed || kind != MANIFEST_LEAF || version != MANIFEST_VERSION || zero ||
        t.n > n / MANIFEST_REF)
        return damaged(r, err);
    t.p = t.n ? pd_get(&in, (size_t)t.n * MANIFEST_REF) : in.p;
    if (in.failed)
        return damaged(r, err);
    size_t shareable = 0; /* no path prefix is shared across leaves */
    int rc = 0;
    for (uint32_t i = 0; i < n_records && !rc; i++) {
        unsigned type = pd_get_u8(&in);
        if (type == MANIFEST_MORE && r->is_file && !in.failed) {
            rc = read_extents(r, &in, &t, ev, arg, err);
            continue;
        }
        if (in.failed)
            return damaged(r, err);
        rc = type >= MANIFEST_FILE && type <= MANIFEST_LINK
                 ? read_entry(r, type, shareable, &in, &t, ev, arg, err)
                 : pd_fail(err, PD_EDATA,
                           "behind '%.300s' the package has something that is not a file, folder "
                           "or link",
                           r->rules.last);
        shareable = r->rules.last_len;
    }
    return rc ? rc : pd_reader_done(&in) ? 0 : damaged(r, err);
}

int manifest_reader_end(struct manifest_reader *r, struct pd_err *err) {
    if (r->bounded && (r->n_entries != r->max_entries || r->bytes != r->max_bytes))
        return pd_fail(err, PD_EDATA,
                       "the package has %llu entries and %llu bytes, not %llu and %llu as it says",
                       (unsigned long long)r->n_entries, (unsigned long long)r->bytes,
                       (unsigned long long)r->max_entries, (unsigned long long)r->max_bytes);
    return 0;
}
