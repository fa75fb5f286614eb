/* SPDX-License-Identifier: Apache-2.0 */
/* manifest.h - the description of a tree, itself cut into objects. Equal trees have equal root ids.
 *
 *     root (at most 4 KiB: totals, children) ──▶ indexes ──▶ ... ──▶ leaves ──▶ entries, extents
 *
 * A LEAF (about 4 KiB) is a table of the data objects to which it refers, and entries. It can be
 * read without its neighbours, except for `more` records: extents of the last file of the leaf
 * before. Leaves and indexes are cut content-defined: an edit of one file changes one leaf, one
 * index per level and the root. Entries are ordered depth first, names by bytes (paths are compared
 * with '/' below every other byte, manifest_path_cmp). The folder of an entry is an entry before
 * it; the top folder has no entry. docs/protocol.md, "Objects", has the bytes.
 *
 * Writer and reader check the same rules; a violation is PD_EDATA with the path:
 *     - paths are relative and clean, have at most 4095 bytes, no "." and no ".."
 *     - names have at most 255 bytes
 *     - links stay in the tree (pack_check_link)
 *     - entries are files, folders and links only; no set-id bits
 *     - ascending order without duplicates
 *     - extents ascend inside the file and inside their object
 */
#pragma once

#include "pack/object/object.h"

enum {
    MANIFEST_ROOT_MAX = 4096,       /* bytes of a root object */
    MANIFEST_FANOUT = 110,          /* children of an index or root, at most */
    MANIFEST_LEVELS = 6,            /* levels above the leaves, at most, root included */
    MANIFEST_ENTRIES = 1000000,     /* files, folders and links of a package, at most */
    MANIFEST_PATH_BYTES = 96 << 20, /* bytes of all paths together, at most */
};
#define MANIFEST_BYTES (UINT64_C(1) << 42) /* bytes of all files, at most; also of one file */

enum manifest_type { MANIFEST_FILE = 1, MANIFEST_FOLDER = 2, MANIFEST_LINK = 3 };

struct manifest_entry {
    enum manifest_type type;
    const char *path; /* path_len bytes other than NUL, then a NUL */
    size_t path_len;
    unsigned mode;      /* permissions: 0..0777, folders also 01000; 0777 for links */
    int64_t mtime_ns;   /* since 1970 */
    uint64_t size;      /* files: size with holes */
    const char *target; /* links: NUL-terminated */
};

/* Bytes [file_off, file_off + len) of the current file are bytes [obj_off, obj_off + len) of the
 * object. A gap between extents or behind the last one is a hole: zeros without blocks. */
struct manifest_extent {
    struct object_id id;
    uint32_t raw_len;      /* length of the object */
    uint32_t obj_off, len; /* len >= 1 */
    uint64_t file_off;
};

int manifest_path_cmp(const char *a, const char *b);

/* --- writing --- */

/* Receives a finished object (leaf, index), in the order in which a reader needs the leaves. The
 * same id may come more than once. 0, or PD_E* with err, which ends the writing. */
typedef int (*manifest_sink)(void *arg, const struct object_id *id, const void *raw, size_t n,
                             struct pd_err *err);

/* Memory: one leaf, plus 36 bytes for each leaf so far. Files of a bundle can be added only when
 * the id of the bundle is known. */
struct manifest_writer;
int manifest_writer_new(struct manifest_writer **out, manifest_sink sink, void *arg,
                        struct pd_err *err);
void manifest_writer_free(struct manifest_writer *w);
int manifest_add(struct manifest_writer *w, const struct manifest_entry *e, struct pd_err *err);
int manifest_add_extent(struct manifest_writer *w, const struct manifest_extent *x,
                        struct pd_err *err);
/* Ends the manifest: the indexes go to the sink, the root only to `root`, *n bytes. */
int manifest_finish(struct manifest_writer *w, struct object_id *root_id,
                    uint8_t root[MANIFEST_ROOT_MAX], size_t *n, struct pd_err *err);

/* --- reading: bytes with a verified id, from an untrusted peer --- */

struct manifest_ref {
    struct object_id id;
    uint32_t raw_len;
};

struct manifest_node { /* a root or an index */
    unsigned level;    /* 1: the children are leaves; else indexes of the next lower level */
    unsigned n;
    struct manifest_ref child[MANIFEST_FANOUT];
    uint64_t n_entries, data_bytes; /* root only: totals of entries, of bytes of extents */
};

/* The most bytes that the leaves and indexes of a package with these totals can have: for an entry
 * its record with two paths, for contents an extent in 512 bytes (a sparse file), and the rows of
 * the indexes above. */
static inline uint64_t manifest_bytes_max(const struct manifest_node *root) {
    return (64 << 10) + root->n_entries * (2 * PATH_MAX + 128) + root->data_bytes / 8;
}

int manifest_read_root(struct manifest_node *out, const void *raw, size_t n, struct pd_err *err);
int manifest_read_index(struct manifest_node *out, unsigned level, const void *raw, size_t n,
                        struct pd_err *err);

/* Reads leaves in order. Pointers given to the callbacks are valid during the call. Memory: one
 * path. */
struct manifest_events {
    int (*on_entry)(void *arg, const struct manifest_entry *e, struct pd_err *err);
    /* An extent of the last entry. */
    int (*on_extent)(void *arg, const struct manifest_extent *x, struct pd_err *err);
};
struct manifest_reader;
/* `root` limits the leaves: more entries or bytes than its totals are PD_EDATA as soon as they
 * come. NULL: not known yet. */
int manifest_reader_new(struct manifest_reader **out, const struct manifest_node *root,
                        struct pd_err *err);
void manifest_reader_free(struct manifest_reader *r);
int manifest_read_leaf(struct manifest_reader *r, const void *raw, size_t n,
                       const struct manifest_events *ev, void *arg, struct pd_err *err);
/* Called after the last leaf: checks the totals. */
int manifest_reader_end(struct manifest_reader *r, struct pd_err *err);
