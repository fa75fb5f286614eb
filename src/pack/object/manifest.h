/* manifest.h - the description of a tree, itself cut into objects: the same tree gives the same
 * root id.
 *
 *     root (at most 4 KiB: totals, children) ──▶ indexes ──▶ ... ──▶ leaves ──▶ entries with their extents ──▶ data objects
 *
 * A LEAF (about 4 KiB) is a table of the data objects that it refers to, and entries; it can be
 * read without the leaves around it, but for `more` records: extents of the last file of the leaf
 * before. Leaves and indexes are cut content-defined: an edit of one file changes one leaf, one
 * index per level and the root. Order of entries: depth first, names by bytes (that is: paths
 * compared with '/' below every other byte, manifest_path_cmp). The folder of each entry is an
 * entry before it; the top folder is none. docs/protocol.md, "Objects", has the bytes.
 *
 * Both ends hold to the same rules: relative clean paths of at most 4095 bytes without "." and
 * "..", names of at most 255 bytes, links that stay in the tree (pack_check_link), files, folders
 * and links only, no set-id bits, ascending order without doubles, extents ascending inside the
 * file and inside their object. Whoever breaks one gets PD_EDATA with the path.
 */
#ifndef PD_PACK_MANIFEST_H
#define PD_PACK_MANIFEST_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "pack/object/object.h"

enum {
    MANIFEST_ROOT_MAX = 4096,       /* bytes of a root object */
    MANIFEST_FANOUT = 110,          /* children of an index or root, at most */
    MANIFEST_LEVELS = 6,            /* at most: of indexes above the leaves, the root included */
    MANIFEST_ENTRIES = 1000000,     /* files, folders and links of a package, at most */
    MANIFEST_PATH_BYTES = 96 << 20, /* of all paths together, at most */
};
#define MANIFEST_BYTES \
    (UINT64_C(1) << 42) /* of file contents, at most; also the largest size of one file */

enum manifest_type { MANIFEST_FILE = 1, MANIFEST_FOLDER = 2, MANIFEST_LINK = 3 };

struct manifest_entry {
    enum manifest_type type;
    const char *path; /* path_len bytes, then a NUL; any bytes but NUL */
    size_t path_len;
    unsigned mode;      /* permissions: 0..0777, folders also 01000; 0777 for links */
    int64_t mtime_ns;   /* since 1970 */
    uint64_t size;      /* files: with holes */
    const char *target; /* links: NUL-terminated */
};

/* Bytes [file_off, file_off + len) of the file last named are bytes [obj_off, obj_off + len) of the
 * object. What lies between extents, or behind the last one, is a hole: zeros without blocks. */
struct manifest_extent {
    struct object_id id;
    uint32_t raw_len;      /* of the object */
    uint32_t obj_off, len; /* len >= 1 */
    uint64_t file_off;
};

int manifest_path_cmp(const char *a, const char *b);

/* --- writing --- */

/* Takes a finished object (leaf, index), called in the order in which a reader needs the leaves.
 * May come with an id it has seen before. 0 or PD_E* with err: writing then ends with it. */
typedef int (*manifest_sink)(void *arg, const struct object_id *id, const void *raw, size_t n,
                             struct pd_err *err);

/* Memory: one leaf, and 36 bytes for each leaf so far. A file of a bundle can be added only when
 * the bundle's object is known. */
struct manifest_writer;
int manifest_writer_new(struct manifest_writer **out, manifest_sink sink, void *arg,
                        struct pd_err *err);
void manifest_writer_free(struct manifest_writer *w);
int manifest_add(struct manifest_writer *w, const struct manifest_entry *e, struct pd_err *err);
int manifest_add_extent(struct manifest_writer *w, const struct manifest_extent *x,
                        struct pd_err *err);
/* All entries are in: the indexes go to the sink, the root (which does not) to `root`; *n is its
 * length. */
int manifest_finish(struct manifest_writer *w, struct object_id *root_id,
                    uint8_t root[MANIFEST_ROOT_MAX], size_t *n, struct pd_err *err);

/* --- reading: bytes whose id was checked, from somebody who is not trusted --- */

struct manifest_ref {
    struct object_id id;
    uint32_t raw_len;
};

struct manifest_node { /* a root or an index */
    unsigned level;    /* 1: the children are leaves; else indexes of one level less */
    unsigned n;
    struct manifest_ref child[MANIFEST_FANOUT];
    uint64_t n_entries, data_bytes; /* root only: all entries; all bytes of extents */
};

int manifest_read_root(struct manifest_node *out, const void *raw, size_t n, struct pd_err *err);
int manifest_read_index(struct manifest_node *out, unsigned level, const void *raw, size_t n,
                        struct pd_err *err);

/* Leaves one after the other, in order. The callbacks' pointers are valid during the call. Memory:
 * one path. */
struct manifest_events {
    int (*on_entry)(void *arg, const struct manifest_entry *e, struct pd_err *err);
    int (*on_extent)(void *arg, const struct manifest_extent *x,
                     struct pd_err *err); /* of the entry before */
};
struct manifest_reader;
/* `root` bounds what follows: more entries or bytes than it says is PD_EDATA as soon as they come.
 * NULL: not known yet. */
int manifest_reader_new(struct manifest_reader **out, const struct manifest_node *root,
                        struct pd_err *err);
void manifest_reader_free(struct manifest_reader *r);
int manifest_read_leaf(struct manifest_reader *r, const void *raw, size_t n,
                       const struct manifest_events *ev, void *arg, struct pd_err *err);
int manifest_reader_end(struct manifest_reader *r,
                        struct pd_err *err); /* no leaf follows: do the totals agree? */

#endif
