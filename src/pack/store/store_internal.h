/* store_internal.h - shared by store.c (finished catalogs) and store_part.c (a catalog in the
 * making). Internal to src/pack.
 *
 * A catalog file, all numbers little-endian:
 *
 *     manifest objects, raw, one after the other
 *     index      n_objects x {id 32, u32 raw_len, u32 file (UINT32_MAX: in here), u64 offset},
 *                sorted by id
 *     files      n_files x {u64 offset of its path among the paths}
 *     paths      each with a NUL
 *     footer     magic 8, u64 n_objects, u64 n_files, u64 paths_len, u64 index_at,
 *                base 512 (below ROOT, NUL-padded),
 *                checksum 32 of everything from index_at up to the checksum
 */
#ifndef PD_PACK_STORE_INTERNAL_H
#define PD_PACK_STORE_INTERNAL_H

#include <limits.h>

#include "base/buf.h"
#include "pack/store/store.h"

enum { CAT_ROW = 48, CAT_BASE = 512, CAT_FOOTER = 40 + CAT_BASE + OBJECT_ID, CAT_HERE = -1 };
#define CAT_MAGIC "pdlcat1"

struct store_row {
    struct object_id id;
    uint32_t raw_len, file;
    uint64_t off;
};

struct store {
    char root[PATH_MAX], dir[PATH_MAX];
    struct catalog *cats; /* most recently used first */
    size_t n_cats;
    /* the file read last */
    int fd;
    const struct catalog *fd_cat;
    uint32_t fd_file;
};

/* Reads n bytes at `off` of a file that may have been changed: 0 if it is a regular file with these
 * bytes, or -1. */
int store_pread(int fd, void *buf, size_t n, uint64_t off);

/* Removes a .part whose maker is dead, and its unfinished tree. `path` is absolute. 1: removed. */
int store_bury(const char *root, const char *path, int dry_run);

#endif
