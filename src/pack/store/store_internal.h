/* SPDX-License-Identifier: Apache-2.0 */
/* store_internal.h - shared by store.c (finished catalogs), store_part.c (a catalog in the making)
 * and store_rest.c (the rest of an interrupted transfer). Internal to src/pack.
 *
 * A catalog file, all numbers little-endian:
 *
 *     head       the path of the tree while it was built, PART_HEAD bytes
 *     records    {u8 kind, u32 length, bytes}, see enum part_record: the manifest's objects and,
 *                for the case that the maker dies, what came and where it is
 *     index      n_objects x {id 32, u32 raw_len, u32 file (UINT32_MAX: in here), u64 offset},
 *                sorted by id
 *     files      n_files x {u64 offset of its path among the paths}
 *     paths      each with a NUL
 *     footer     magic 8, u64 n_objects, u64 n_files, u64 paths_len, u64 index_at,
 *                base 512 (below ROOT, NUL-padded),
 *                checksum 32 of everything from index_at up to the checksum
 */
#pragma once

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

enum { PART_HEAD = PATH_MAX, PART_UNIQUE = 16, RECORD_HEAD = 5, ROW_BYTES = CAT_ROW };
enum part_record {
    PART_OBJECT = 'M', /* a manifest object, raw */
    PART_ENTRY = 'E',  /* the path of the next entry, with its NUL */
    PART_ROW = 'R',    /* a row of the index: an object of the tree */
    PART_END = 'X'     /* the records end here */
};

struct store_part {
    struct store *st;
    int fd;
    char path[PATH_MAX];
    struct store_row *rows;
    /* Hash table over the rows: row number + 1, 0: empty; at least twice as many slots as rows. */
    uint32_t *slots;
    size_t n, cap, n_slots;
    struct pd_buf out; /* bytes not written yet */
    uint64_t at;       /* bytes of the file, including those in `out` */
    int published;
};

/* Notes an object without a record of it. */
int store_part_add_row(struct store_part *p, const struct store_row *row, struct pd_err *err);

/* --- the rest of an interrupted transfer: store_rest.c --- */

#define REST_BASE ".paddlectl/chunks/" /* the catalog's base: below this, <unique>.tree */

/* Looks at a .part: if its maker is dead, makes a rest of it, or removes it and its unfinished tree
 * if that is not worth it. `path` is absolute. 1: removed. */
int store_bury(const char *root, const char *path, int dry_run);
/* Removes trees of rests that have no catalog. */
void store_rest_sweep(const char *dir);
