/* SPDX-License-Identifier: Apache-2.0 */
/* store.h - the objects that a node still has from earlier packages. Each byte is on disk once: the
 * store knows WHERE IN A DEPLOYED TREE an object is, and holds only the manifests' objects itself.
 *
 *     ROOT/.paddlectl/chunks/<root id>-<unique>.cat    a CATALOG of a deployed package:
 *         manifest objects, one after the other
 *         index: {id, raw_len, place: in here | file number, offset}, sorted by id
 *         paths of the files below ROOT, footer with counts and checksum
 *     ROOT/.paddlectl/chunks/<unique>.part             a catalog in the making
 *
 * Both are flock'ed while their maker has them open.
 *
 *     ROOT/.paddlectl/chunks/000...-<unique>.cat       a REST: the catalog of an unfinished tree,
 *     ROOT/.paddlectl/chunks/<unique>.tree            which belongs to the store and is in it
 *
 * Objects are hashed again when they are read. If a job has changed or removed a tree, its objects
 * are simply missing. Therefore nothing needs a lock: catalogs appear by rename and disappear by
 * unlink. A kill -9 leaves at worst a .part, of which the next process makes a rest. So what came
 * before an interruption does not travel again. At most STORE_RESTS are kept. A rest goes when a
 * package has taken it over, and after STORE_REST_DAYS. Catalogs are mapped, not loaded. The most
 * recently used are searched first.
 */
#pragma once

#include "pack/object/object.h"

/* STORE_CATALOGS: maximum number of catalogs in use; older ones are removed. */
enum { STORE_CATALOGS = 64, STORE_RESTS = 4, STORE_REST_DAYS = 7 };

struct store;

/* Opens or creates ROOT/.paddlectl/chunks and removes the leftovers of dead makers. `root` is
 * absolute. */
int store_open(struct store **out, const char *root, struct pd_err *err);
void store_close(struct store *st); /* NULL is fine */

/* Reads an object into buf[raw_len]. 1: verified; 0: not here (any more). Never an error:
 * unreadable objects count as missing. */
int store_read(struct store *st, const struct object_id *id, uint32_t raw_len, uint8_t *buf);
/* The same for an unknown length; *raw_len is at most OBJECT_MAX. */
int store_find(struct store *st, const struct object_id *id, uint8_t buf[OBJECT_MAX],
               uint32_t *raw_len);

/* 1 if a catalog has the object, which is not read: it may be gone. *in_rest: only a rest has it.
 */
int store_has(const struct store *st, const struct object_id *id, int *in_rest);
/* Removes the rests of which at least `percent` of the bytes were read through `st`. */
void store_drop_rests(struct store *st, unsigned percent);

/* --- a catalog in the making: pack/store/assemble.c --- */

struct store_part;
/* `tree` (absolute, below ROOT, its last component contains ".part-") is the folder that is being
 * built. A process that finds this maker dead removes the folder. This call creates nothing in
 * `tree`. */
int store_part_new(struct store_part **out, struct store *st, const char *tree, struct pd_err *err);
void store_part_free(struct store_part *p); /* unpublished: removes the .part, not the tree */
/* Notes an entry of the tree, in order, for the case that this process dies. */
int store_part_entry(struct store_part *p, const char *path, struct pd_err *err);
/* Writes the notes so far, which then outlive this process. */
int store_part_flush(struct store_part *p, struct pd_err *err);
/* Makes a rest of an unfinished tree with these entries. On failure the tree may be gone.
 * PD_ENOENT: it has too little. */
int store_part_keep(struct store_part *p, const char *tree, const char *const *paths,
                    size_t n_paths, struct pd_err *err);
/* Adds a manifest object. */
int store_part_put(struct store_part *p, const struct object_id *id, const void *raw, uint32_t n,
                   struct pd_err *err);
/* Notes that an object is in file `file` (a number of the caller's) at `off`. With STORE_BUNDLE the
 * object is the contents of this file and of the files after it. Entries that are not regular files
 * are skipped, but at most STORE_BUNDLE_EMPTY entries without contents in a row. The first note of
 * an object wins. Notes beyond STORE_OBJECTS are dropped. */
enum { STORE_OBJECTS = 1500000, STORE_BUNDLE = 1 << 30, STORE_BUNDLE_EMPTY = 256 };
int store_part_note(struct store_part *p, const struct object_id *id, uint32_t raw_len,
                    uint32_t file, uint64_t off, struct pd_err *err);
int store_part_has(const struct store_part *p, const struct object_id *id);
/* The place of an object; file UINT32_MAX is the part itself. 0: not here. */
int store_part_where(const struct store_part *p, const struct object_id *id, uint32_t *raw_len,
                     uint32_t *file, uint64_t *off);
/* Reads a manifest object that was put. */
int store_part_get(const struct store_part *p, const struct object_id *id, uint8_t *buf,
                   uint32_t *raw_len);
/* seal: writes the rest of the catalog: index, the files' paths (below `base`, which is below
 * ROOT), checksum. publish: called when the tree is in place; renames the part to
 * <root>-<unique>.cat. A kill between the two leaves a tree without a catalog. */
int store_part_seal(struct store_part *p, const char *base, const char *const *paths,
                    size_t n_paths, int durable, struct pd_err *err);
int store_part_publish(struct store_part *p, const struct object_id *root, struct pd_err *err);
/* A descriptor that keeps the catalog held, as `p` does, even after p is freed. -1: none. */
int store_part_hold(const struct store_part *p);

/* --- housekeeping --- */

/* Removes leftovers of dead makers and catalogs whose tree is gone. Then removes the least recently
 * used catalogs until the others have at most `limit` bytes, trees of rests included (0: no limit).
 * A catalog whose store_part is still open (flock'ed) always stays. The counters may be NULL.
 * dry_run: count only. */
int store_clean(const char *root, uint64_t limit, int dry_run, uint64_t *n_removed,
                uint64_t *bytes_removed, struct pd_err *err);
