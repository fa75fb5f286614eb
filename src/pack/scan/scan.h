/* scan.h - a workspace (a folder or a tar archive) or one file as a package: its objects, its
 * manifest, and any object's bytes again when somebody asks for them.
 *
 *     scan_new ─▶ scan_run (any thread: list, cut, hash) ─▶ scan_root, scan_find, scan_read (any threads) ─▶ scan_free
 *
 * - The same tree gives the same root id, whatever order the disk has its names in.
 * - Memory: a record and the path of each entry, about 70 bytes an object, and the manifest. Never
 * a file's contents.
 * - A file that changes while it is read is read again, three times; then it is named, and the scan
 * fails.
 * - What can't travel (links that lead out, devices, set-id bits) is an error that names the path,
 * as in pack.h.
 */
#ifndef PD_PACK_SCAN_H
#define PD_PACK_SCAN_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "pack/object/manifest.h"
#include "pack/object/object.h"

struct scan;

enum scan_flags {
    SCAN_ALONE =
        2, /* no file shares an object with another: for packages of which nodes get parts */
    SCAN_IGNORED = 1, /* remember what .paddleignore left out, for --dry-run */
};

/* A folder or a tar archive (plain, gzip, bzip2, xz, zstd). PD_ENOENT when there is no such thing.
 * Reads nothing yet. */
int scan_new(struct scan **out, const char *path, unsigned flags, struct pd_err *err);
/* One regular file as a package that holds `name` with mode 0755 and mtime 0: the worker
 * executable. */
int scan_new_file(struct scan **out, const char *path, const char *name, struct pd_err *err);
/* 1: the folder `name` at the top of the workspace `folder` stays behind (.paddleignore, and what
 * is left out anyhow); 0; PD_E*. */
int scan_leaves_out(const char *folder, const char *name, struct pd_err *err);
/* One regular file of such an archive into *out, without the rest: 1; 0: there is none of that
 * name, as far as it can be read; PD_E*: it is no archive, or the file has more than max bytes. */
int scan_archive_file(const char *path, const char *name, size_t max, struct pd_buf *out,
                      struct pd_err *err);
void scan_free(struct scan *s); /* no thread may be in it any more; NULL is fine */

/* Only entries for which `keep` says 1 are in the package; NULL (at first): all. A folder is asked
 * for before what it holds, and when it is not kept nothing in it is. May be set, and scan_run
 * called, again: what was hashed is not hashed again. */
void scan_keep(struct scan *s, int (*keep)(void *arg, const char *path, int is_folder), void *arg);

/* Called from scan_run, once, when all entries are known (scan_n_items, scan_item, scan_item_read)
 * and before `keep` is asked: the time for scan_add_file. What it returns ends scan_run if it is
 * not 0. */
void scan_on_listed(struct scan *s, int (*listed)(void *arg, struct scan *s, struct pd_err *err),
                    void *arg);
/* A file of the top folder that is in the package and not on disk, mode 0644, mtime 0; in the place
 * of one of that name. Copies. */
int scan_add_file(struct scan *s, const char *name, const void *p, size_t n, struct pd_err *err);
/* What was hashed is remembered in `file`: what has not changed since is not read again. Of a
 * folder, for one scan_run. */
void scan_set_cache(struct scan *s, const char *file);

int scan_run(struct scan *s, struct pd_err *err);
/* From any thread: scan_run ends with PD_ECANCELED soon. */
void scan_cancel(struct scan *s);
/* From any thread, while it runs: entries found, bytes of contents that were hashed, bytes that
 * there are (0: not known yet). */
void scan_progress(const struct scan *s, uint64_t *entries, uint64_t *hashed, uint64_t *total);

struct scan_totals {
    uint64_t entries, files, bytes; /* bytes: of contents, with holes */
    uint64_t objects, object_bytes; /* each distinct object once, manifest included */
    uint64_t reused;                /* bytes of contents that were not read: the cache knew them */
};
void scan_get_totals(const struct scan *s, struct scan_totals *t);

/* Valid until scan_free or the next scan_run. */
const uint8_t *scan_root(const struct scan *s, struct object_id *id, size_t *n);

/* Another package of the same objects: only the items for which `pick` says 1, and the folders that
 * they are in. Not while another thread is in the scan: its objects become more. */
struct scan_root {
    struct object_id id;
    uint8_t raw[MANIFEST_ROOT_MAX];
    size_t n;
    uint64_t entries, bytes; /* as in scan_totals */
};
int scan_pick(struct scan *s, int (*pick)(void *arg, size_t item), void *arg, struct scan_root *out,
              struct pd_err *err);

/* Which object this is, 0..objects-1; -1: it is not of this package. */
long scan_find(const struct scan *s, const struct object_id *id);
uint32_t scan_raw_len(const struct scan *s, long object);
const struct object_id *scan_object_id(const struct scan *s, long object);
/* Its bytes; PD_EDATA with the file's name when it has changed since the scan. They are hashed
 * again, except where scan_run hashed the file itself and its times tell that nobody has written to
 * it since (not through a mapping made before, which the receiver's hash finds). */
int scan_read(const struct scan *s, long object, uint8_t buf[OBJECT_MAX], uint32_t *raw_len,
              struct pd_err *err);
/* The same of n <= SCAN_READ_MAX objects, one behind the other, before each of them `gap` bytes
 * that are left alone: hashing several at once is faster. */
enum { SCAN_READ_MAX = 256 };
int scan_read_all(const struct scan *s, const uint32_t *object, size_t n, uint8_t *buf, size_t gap,
                  struct pd_err *err);

/* Entries in the order of the manifest. `path` is valid as long as the scan. */
struct scan_item {
    const char *path;
    enum manifest_type type;
    uint64_t size;
    int64_t mtime_ns;
};
size_t scan_n_items(const struct scan *s);
/* The first n bytes of a file's contents, as they are now; fewer than that is PD_EDATA. */
int scan_item_read(const struct scan *s, size_t i, void *p, size_t n, struct pd_err *err);
void scan_item(const struct scan *s, size_t i, struct scan_item *out);
/* Item i, a file, by itself: file_pieces.h. PD_EDATA: it shares an object with others (SCAN_ALONE),
 * or has too many. */
struct file_pieces;
int scan_item_pieces(const struct scan *s, size_t i, struct file_pieces *out);
/* The objects that hold item i's contents: calls `each` for every one of them. */
void scan_item_objects(const struct scan *s, size_t i, void (*each)(void *arg, long object),
                       void *arg);
/* The (at most max) largest files: indices, the largest first. Returns how many. */
size_t scan_largest(const struct scan *s, size_t *items, size_t max);
/* With SCAN_IGNORED: what was left out; NULL behind the last one. A folder counts as one, with all
 * that it holds. */
const char *scan_ignored(const struct scan *s, size_t i, uint64_t *bytes);

#endif
