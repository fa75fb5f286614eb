/* store.h - what a node still has of earlier packages. Each byte is on disk once: the store knows
 * WHERE IN A DEPLOYED TREE an object lies, and keeps only the manifests' own objects itself.
 *
 *     ROOT/.paddlectl/chunks/<root id>-<unique>.cat    a CATALOG: one package that was deployed on
 * this node manifest objects, one behind the other index: {id, raw_len, where: here | file number,
 * offset} sorted by id the files' paths below ROOT, and a footer with counts and a checksum
 *     ROOT/.paddlectl/chunks/<unique>.part             the same in the making; both are flock'ed
 * while the maker has it open
 *
 * What is read is hashed again before it is used: a tree that a job has changed, or that is gone
 * (then its catalog is not even looked at), only means that those objects are missing. So nothing
 * has to be locked: catalogs appear by rename, go by unlink, and a kill -9 or another process at
 * work leaves at worst a .part, which the next one removes together with the tree that was being
 * built. Catalogs are mapped, not loaded. The most recently used ones are looked at first.
 */
#ifndef PD_PACK_STORE_H
#define PD_PACK_STORE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "pack/object/object.h"

enum { STORE_CATALOGS = 64 }; /* looked at, at most; older ones are removed */

struct store;

/* Opens (makes) ROOT/.paddlectl/chunks and removes what dead makers left. `root` is absolute. */
int store_open(struct store **out, const char *root, struct pd_err *err);
void store_close(struct store *st); /* NULL is fine */

/* The object's bytes into buf[raw_len]: 1, verified; 0: not here (any more). Never an error: what
 * can't be read is not here. */
int store_read(struct store *st, const struct object_id *id, uint32_t raw_len, uint8_t *buf);
/* The same when the length is not known; *raw_len is at most OBJECT_MAX. */
int store_find(struct store *st, const struct object_id *id, uint8_t buf[OBJECT_MAX],
               uint32_t *raw_len);

/* --- a catalog in the making: pack/store/assemble.c --- */

struct store_part;
/* `tree` (absolute, below ROOT, its last component contains ".part-") is the folder that is being
 * built: whoever finds this maker dead removes it. Nothing is made there. */
int store_part_new(struct store_part **out, struct store *st, const char *tree, struct pd_err *err);
void store_part_free(struct store_part *p); /* unpublished: removes the .part, not the tree */
/* A manifest object. */
int store_part_put(struct store_part *p, const struct object_id *id, const void *raw, uint32_t n,
                   struct pd_err *err);
/* An object now lies in file `file` (a number of the caller's) at `off`; with STORE_BUNDLE: it is
 * the contents of that file and of those behind it (what is no regular file is skipped, but not
 * more than STORE_BUNDLE_EMPTY without a byte in a row). The first one wins. Above STORE_OBJECTS it
 * is forgotten. */
enum { STORE_OBJECTS = 1500000, STORE_BUNDLE = 1 << 30, STORE_BUNDLE_EMPTY = 256 };
int store_part_note(struct store_part *p, const struct object_id *id, uint32_t raw_len,
                    uint32_t file, uint64_t off, struct pd_err *err);
int store_part_has(const struct store_part *p, const struct object_id *id);
/* Where it lies: file UINT32_MAX is the part itself. 0: not here. */
int store_part_where(const struct store_part *p, const struct object_id *id, uint32_t *raw_len,
                     uint32_t *file, uint64_t *off);
/* Bytes of a manifest object that was put. */
int store_part_get(const struct store_part *p, const struct object_id *id, uint8_t *buf,
                   uint32_t *raw_len);
/* All that becomes the catalog is written: index, the files' paths (below `base`, which is below
 * ROOT), checksum. Then, when the tree is in place: it becomes <root>-<unique>.cat. Between the two
 * a kill leaves a tree that is in place and no catalog. */
int store_part_seal(struct store_part *p, const char *base, const char *const *paths,
                    size_t n_paths, int durable, struct pd_err *err);
int store_part_publish(struct store_part *p, const struct object_id *root, struct pd_err *err);
/* A descriptor for which the catalog counts as held, as it does for p, also once p is freed. -1:
 * there is none. */
int store_part_hold(const struct store_part *p);

/* --- housekeeping --- */

/* Removes what dead makers left, catalogs whose tree is gone, then the least recently used ones
 * until all together have at most `limit` bytes (0: no limit); a catalog whose store_part is still
 * open (it is flock'ed) stays in any case. Counts into the two (may be NULL). With dry_run only
 * counts. */
int store_clean(const char *root, uint64_t limit, int dry_run, uint64_t *n_removed,
                uint64_t *bytes_removed, struct pd_err *err);

#endif
