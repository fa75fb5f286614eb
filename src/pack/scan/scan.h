/* SPDX-License-Identifier: Apache-2.0 */
/* scan.h - a workspace (a folder or a tar archive) or a single file as a package: its objects, its
 * manifest, and the bytes of any object on request.
 *
 *     scan_new ─▶ scan_run (any thread: list, cut, hash)
 *              ─▶ scan_root, scan_find, scan_read (any threads) ─▶ scan_free
 *
 * - Equal trees have equal root ids, whatever the order of names on disk.
 * - Memory: per entry a record and its path, per object about 70 bytes, and the manifest. File
 *   contents are never held as a whole.
 * - A file that changes while it is read is read again, up to three times; then the scan fails with
 *   its name.
 * - An entry that can't travel (a link that leaves the tree, a device, a set-id bit) is an error
 * that names the path.
 */
#pragma once

#include "pack/object/manifest.h"
#include "pack/object/object.h"

struct scan;

enum scan_flags {
    SCAN_ALONE = 2,   /* files share no objects: for packages of which nodes get parts */
    SCAN_IGNORED = 1, /* remember ignored entries, for --dry-run */
    /* For a folder that others may be writing: no ignore rules. Entries that can't travel, vanish
     * or may not be read are left out and counted. A file that grows is taken as it was. */
    SCAN_OUTPUTS = 4,
    /* For a scan that ends in `listed`: contents of an archive are skipped, not copied. */
    SCAN_NAMES = 8,
};

/* A folder or a tar archive (plain, gzip, bzip2, xz, zstd). PD_ENOENT: neither exists. Reads no
 * contents yet. */
int scan_new(struct scan **out, const char *path, unsigned flags, struct pd_err *err);
/* The same for folders only: links no decompressors, for the programs of the nodes. */
int scan_new_folder(struct scan **out, const char *path, unsigned flags, struct pd_err *err);
/* One regular file as a package with one file `name`, mode 0755, mtime 0: the worker executable. */
int scan_new_file(struct scan **out, const char *path, const char *name, struct pd_err *err);
/* 1 if the folder `name` at the top of the workspace `folder` is not sent (.paddleignore, or always
 * ignored); 0; PD_E*. */
int scan_leaves_out(const char *folder, const char *name, struct pd_err *err);
/* Reads one regular file of an archive into *out. 1; 0: no such file in the readable part; PD_E*:
 * not an archive, or the file has more than max bytes. */
int scan_archive_file(const char *path, const char *name, size_t max, struct pd_buf *out,
                      struct pd_err *err);
void scan_free(struct scan *s); /* no thread may use the scan any more; NULL is fine */

/* Restricts the package to entries for which `keep` returns 1; NULL (default): all. `keep` is
 * called for a folder before its contents; if the folder is omitted, so are its contents. `keep`
 * may be changed and scan_run called again: hashed files are not hashed again. */
void scan_keep(struct scan *s, int (*keep)(void *arg, const char *path, int is_folder), void *arg);

/* scan_run calls `listed` once, when all entries are known (scan_n_items, scan_item,
 * scan_item_read) and before it asks `keep`. `listed` may call scan_add_file. A result other than 0
 * ends scan_run. */
void scan_on_listed(struct scan *s, int (*listed)(void *arg, struct scan *s, struct pd_err *err),
                    void *arg);
/* Adds a file to the top folder of the package that is not on disk: mode 0644, mtime 0. Replaces a
 * file of that name. Copies its arguments. */
int scan_add_file(struct scan *s, const char *name, const void *p, size_t n, struct pd_err *err);
/* Keeps hashes in the cache `file`, so that unchanged files are not read again. For folders, for
 * one scan_run. */
void scan_set_cache(struct scan *s, const char *file);

int scan_run(struct scan *s, struct pd_err *err);
/* Callable from any thread: scan_run soon returns PD_ECANCELED. */
void scan_cancel(struct scan *s);
/* Callable from any thread during scan_run: entries found, bytes hashed, bytes in total (0: not
 * known yet). */
void scan_progress(const struct scan *s, uint64_t *entries, uint64_t *hashed, uint64_t *total);

struct scan_totals {
    uint64_t entries, files, bytes; /* bytes: contents with holes */
    uint64_t objects, object_bytes; /* distinct objects, manifest included */
    uint64_t reused;                /* bytes that were not read because the cache had them */
    uint64_t skipped;               /* entries left out (SCAN_OUTPUTS) */
};
void scan_get_totals(const struct scan *s, struct scan_totals *t);
const char *scan_first_skipped(const struct scan *s); /* path and reason; "" */

/* Valid until scan_free or the next scan_run. */
const uint8_t *scan_root(const struct scan *s, struct object_id *id, size_t *n);

/* Makes another package of the same objects: only the items for which `pick` returns 1, and their
 * folders. No other thread may use the scan meanwhile, because objects are added. */
struct scan_root {
    struct object_id id;
    uint8_t raw[MANIFEST_ROOT_MAX];
    size_t n;
    uint64_t entries, bytes; /* as in scan_totals */
};
int scan_pick(struct scan *s, int (*pick)(void *arg, size_t item), void *arg, struct scan_root *out,
              struct pd_err *err);

/* The index of an object, 0..objects-1; -1: not in this package. */
long scan_find(const struct scan *s, const struct object_id *id);
uint32_t scan_raw_len(const struct scan *s, long object);
const struct object_id *scan_object_id(const struct scan *s, long object);
/* Reads an object; PD_EDATA with the name of the file if the file has changed since the scan. The
 * bytes are hashed again, unless scan_run hashed the file itself and its times prove that nobody
 * wrote since. Writes through a mapping made before escape this check; the receiver's hash finds
 * them. */
int scan_read(const struct scan *s, long object, uint8_t buf[OBJECT_MAX], uint32_t *raw_len,
              struct pd_err *err);
/* The same for n <= SCAN_READ_MAX objects, one after the other, each preceded by `gap` bytes that
 * are left untouched. Hashing several objects at once is faster. */
enum { SCAN_READ_MAX = 256 };
int scan_read_all(const struct scan *s, const uint32_t *object, size_t n, uint8_t *buf, size_t gap,
                  struct pd_err *err);

/* Entries in the order of the manifest. `path` is valid until scan_free. */
struct scan_item {
    const char *path;
    enum manifest_type type;
    uint64_t size;
    int64_t mtime_ns;
    unsigned mode;
    const char *target; /* of a link; "" */
    int kept;           /* is in the package, and not from scan_add_file */
};
size_t scan_n_items(const struct scan *s);
/* Reads the first n bytes of a file as they are now. PD_EDATA: the file is shorter. */
int scan_item_read(const struct scan *s, size_t i, void *p, size_t n, struct pd_err *err);
/* 1: the file has been written since it was listed: what scan_item_read reads may be new. */
int scan_item_has_changed(const struct scan *s, size_t i);
void scan_item(const struct scan *s, size_t i, struct scan_item *out);
/* The pieces of item i, a file: file_pieces.h. PD_EDATA: the file shares an object with others (see
 * SCAN_ALONE), or has too many pieces. */
struct file_pieces;
int scan_item_pieces(const struct scan *s, size_t i, struct file_pieces *out);
/* Calls `each` for every object with contents of item i. */
void scan_item_objects(const struct scan *s, size_t i, void (*each)(void *arg, long object),
                       void *arg);
/* Indices of the largest files (at most max), largest first. Returns their number. */
size_t scan_largest(const struct scan *s, size_t *items, size_t max);
/* With SCAN_IGNORED: the i-th ignored entry; NULL behind the last one. An ignored folder is one
 * entry; *bytes includes its contents. */
const char *scan_ignored(const struct scan *s, size_t i, uint64_t *bytes);
