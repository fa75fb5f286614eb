/* scan_cache.h - what was hashed before, so that an unchanged tree is looked at, and not read.
 * Internal to src/pack.
 *
 * A file of UNITS in the order of the manifest: a large file with its objects, or a bundle with its
 * small files. A unit is used when the path, size, mtime, ctime and inode of all its files are what
 * they were, and what was hashed then was not fresh: a file that is written to again within the
 * grain of its file system's clock keeps its times. What is used wrongly in spite of that is
 * noticed when it is sent (scan_read). A cache that is missing, damaged or of another version is an
 * empty one.
 */
#ifndef PD_PACK_SCAN_CACHE_H
#define PD_PACK_SCAN_CACHE_H

#include "pack/scan/scan_internal.h"

struct scan_cache;

/* NULL: out of memory. */
struct scan_cache *scan_cache_open(const char *file);
void scan_cache_free(struct scan_cache *c); /* NULL is fine */

/* The objects and pieces of entry i, a large file, from the cache: 1; 0: it has to be hashed;
 * PD_ENOMEM. */
int scan_cache_large(struct scan_cache *c, struct scan *s, size_t i, uint32_t mean);
/* The bundle that begins with entry i: 1, and *last is its last file's entry; 0; PD_ENOMEM. */
int scan_cache_bundle(struct scan_cache *c, struct scan *s, size_t i, size_t *last);

/* Entry i was hashed now, or (bundle) the members from first_member on were, into `object`: kept
 * for the next time if it may be. */
void scan_cache_keep_large(struct scan_cache *c, const struct scan *s, size_t i, uint32_t mean);
void scan_cache_keep_bundle(struct scan_cache *c, const struct scan *s, size_t first_member,
                            uint32_t object);

void scan_cache_save(struct scan_cache *c); /* if anything is new */

#endif
