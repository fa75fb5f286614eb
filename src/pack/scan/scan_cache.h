/* SPDX-License-Identifier: Apache-2.0 */
/* scan_cache.h - a cache of hashes, so that an unchanged tree is only checked with stat, not read.
 * Internal to src/pack.
 *
 * The cache is a file of UNITS in the order of the manifest: a large file with its objects, or a
 * bundle with its small files. A unit is valid if path, size, mtime, ctime and inode of all its
 * files are unchanged, and if its files were not modified shortly before hashing: a second write
 * within the clock resolution of the file system leaves the times unchanged. A wrong hit is
 * detected when the object is sent (scan_read). A cache that is missing, damaged or of another
 * version counts as empty. */
#pragma once

#include "pack/scan/scan_internal.h"

struct scan_cache;

/* NULL: out of memory. */
struct scan_cache *scan_cache_open(const char *file);
void scan_cache_free(struct scan_cache *c); /* NULL is fine */

/* Takes objects and pieces of entry i, a large file, from the cache. 1; 0: the file must be hashed;
 * PD_ENOMEM. */
int scan_cache_large(struct scan_cache *c, struct scan *s, size_t i, uint32_t mean);
/* Takes the bundle that begins with entry i from the cache. 1: *last is the entry of its last file;
 * 0; PD_ENOMEM. */
int scan_cache_bundle(struct scan_cache *c, struct scan *s, size_t i, size_t *last);

/* Keeps new hashes for the next run if they are reliable: of entry i, or of the bundle with the
 * members from first_member on, hashed into `object`. */
void scan_cache_keep_large(struct scan_cache *c, const struct scan *s, size_t i, uint32_t mean);
void scan_cache_keep_bundle(struct scan_cache *c, const struct scan *s, size_t first_member,
                            uint32_t object);

void scan_cache_save(struct scan_cache *c); /* writes the file if there are new units */
