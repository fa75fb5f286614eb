/* SPDX-License-Identifier: Apache-2.0 */
/* file_pieces.c - see file_pieces.h. */
#include "pack/store/file_pieces.h"

#include "pack/object/manifest.h"

enum { HEAD = 22, ROW = 12 + OBJECT_ID };

void file_pieces_release(struct file_pieces *f) {
    free(f->v);
    *f = (struct file_pieces){0};
}

int file_pieces_add(struct file_pieces *f, const struct object_id *id, uint32_t len, uint64_t off) {
    if (f->n == FILE_PIECES_MAX)
        return PD_EDATA;
    if (pd_grow(f->v, f->cap, f->n + 1))
        return PD_ENOMEM;
    f->v[f->n++] = (struct file_piece){*id, len, off};
    return 0;
}

void file_pieces_put(struct pd_buf *b, const struct file_pieces *f) {
    pd_put_u64(b, f->size);
    pd_put_u64(b, (uint64_t)f->mtime_ns);
    pd_put_u16(b, (uint16_t)f->mode);
    pd_put_u32(b, (uint32_t)f->n);
    for (size_t i = 0; i < f->n; i++) {
        pd_put_u64(b, f->v[i].off);
        pd_put_u32(b, f->v[i].len);
        pd_put(b, f->v[i].id.b, OBJECT_ID);
    }
}

size_t file_pieces_length(const void *p, size_t n) {
    struct pd_reader r;
    if (n < HEAD)
        return 0;
    pd_reader_init(&r, (const uint8_t *)p + HEAD - 4, 4);
    return HEAD + (size_t)pd_get_u32(&r) * ROW;
}

int file_pieces_get(struct file_pieces *f, const void *p, size_t n, struct pd_err *err) {
    struct pd_reader r;
    uint64_t end = 0;
    pd_reader_init(&r, p, n);
    f->size = pd_get_u64(&r);
    f->mtime_ns = (int64_t)pd_get_u64(&r);
    f->mode = pd_get_u16(&r);
    uint32_t k = pd_get_u32(&r);
    if (r.failed || k > FILE_PIECES_MAX || n != HEAD + (size_t)k * ROW ||
        f->size > MANIFEST_BYTES || f->mode > 0777)
        return pd_fail(err, PD_EDATA, "the list of a file's pieces is damaged");
    f->n = 0;
    for (uint32_t i = 0; i < k; i++) {
        struct object_id id;
        uint64_t off = pd_get_u64(&r);
        uint32_t len = pd_get_u32(&r);
        memcpy(id.b, pd_get(&r, OBJECT_ID), OBJECT_ID); /* length checked above */
        if (off < end || off > f->size || !len || len > OBJECT_MAX || len > f->size - off)
            return pd_fail(err, PD_EDATA, "the list of a file's pieces is damaged");
        end = off + len;
        if (file_pieces_add(f, &id, len, off))
            return pd_oom(err, "a file's pieces");
    }
    return 0;
}

int file_pieces_id(const struct file_pieces *f, struct object_id *id) {
    struct pd_buf b = {0};
    file_pieces_put(&b, f);
    int rc = b.failed ? PD_ENOMEM : 0;
    if (!rc)
        object_id_of(id, b.data, b.len);
    pd_buf_release(&b);
    return rc;
}

/* --- from a manifest in the store --- */

enum { FOUND_ALL = 1, NOT_THERE = 2 }; /* results that end the reading, besides PD_E* */

struct finding {
    struct file_pieces *f;
    struct store *st;
    struct manifest_reader *reader;
    const char *path;
    int inside;
    uint8_t *buf; /* [MANIFEST_LEVELS + 1][OBJECT_MAX]: the current object of each level */
};

static int on_entry(void *arg, const struct manifest_entry *e, struct pd_err *err) {
    struct finding *g = arg;
    (void)err;
    if (g->inside)
        return FOUND_ALL;
    g->inside = e->type == MANIFEST_FILE && !strcmp(e->path, g->path);
    if (g->inside) {
        g->f->size = e->size;
        g->f->mtime_ns = e->mtime_ns;
        g->f->mode = e->mode;
    }
    return 0;
}

static int on_extent(void *arg, const struct manifest_extent *x, struct pd_err *err) {
    struct finding *g = arg;
    (void)err;
    if (!g->inside)
        return 0;
    return x->obj_off || x->len != x->raw_len ? NOT_THERE
                                              : file_pieces_add(g->f, &x->id, x->len, x->file_off);
}

/* Visits the children of a node: indexes, or leaves if its level is 1. */
static int visit_children(struct finding *g, const struct manifest_node *node) {
    static const struct manifest_events ev = {on_entry, on_extent};
    uint8_t *buf = g->buf + (size_t)node->level * OBJECT_MAX;
    int rc = 0;
    for (unsigned i = 0; i < node->n && !rc; i++) {
        const struct manifest_ref *c = &node->child[i];
        struct manifest_node below;
        if (!store_read(g->st, &c->id, c->raw_len, buf))
            return NOT_THERE;
        if (node->level == 1)
            rc = manifest_read_leaf(g->reader, buf, c->raw_len, &ev, g, NULL);
        else if (!(rc = manifest_read_index(&below, node->level - 1, buf, c->raw_len, NULL)))
            rc = visit_children(g, &below);
    }
    return rc;
}

int file_pieces_find(struct file_pieces *f, struct store *st, const void *root, size_t n,
                     const char *path) {
    struct finding g = {.f = f, .st = st, .path = path};
    struct manifest_node node;
    int rc = (g.buf = pd_malloc((size_t)(MANIFEST_LEVELS + 1) * OBJECT_MAX)) ? 0 : PD_ENOMEM;
    f->n = 0;
    if (!rc && manifest_read_root(&node, root, n, NULL))
        rc = NOT_THERE;
    if (!rc)
        rc = manifest_reader_new(&g.reader, &node, NULL);
    if (!rc)
        rc = visit_children(&g, &node);
    manifest_reader_free(g.reader);
    free(g.buf);
    return rc == PD_ENOMEM ? rc : (rc == 0 || rc == FOUND_ALL) && g.inside;
}
