/* chunker.h - where file contents are cut into objects: content-defined, so that an edit changes
 * one or two objects.
 *
 * A gear hash rolls over the bytes; a cut is where enough of its bits are 0, with a stricter mask
 * below the mean and a laxer one above it (normalised chunking). Source: Xia et al., "FastCDC",
 * USENIX ATC'16. The table is made from a fixed seed, so every machine cuts alike.
 */
#ifndef PD_PACK_CHUNKER_H
#define PD_PACK_CHUNKER_H

#include <stddef.h>
#include <stdint.h>

struct chunker {
    uint32_t min, mean, max; /* bytes */
    uint64_t strict, lax;    /* masks */
};

/* Sizes for a file of `file_bytes` in a tree of about `tree_bytes` (0: not known). Means: 16 KiB
 * for files under 64 MiB, four times as much for larger ones, 128 KiB above 4 GiB, and never so
 * small that a tree has more than about half a million objects. min = mean/4, max = 4*mean (at most
 * 256 KiB). */
void chunker_init(struct chunker *c, uint64_t file_bytes, uint64_t tree_bytes);

/* How many bytes from `p` on the next object has: 1..max. `n` > 0 is what there is; with n < c->max
 * the caller says that the file ends there. A result equal to n < c->max may thus only be used at
 * the end of the file. Pure: no state between calls. */
size_t chunker_cut(const struct chunker *c, const uint8_t *p, size_t n);

/* Small files (below CHUNKER_SMALL) travel in BUNDLES: the bytes of files that follow each other in
 * the manifest, as one object. A bundle ends before the file that would take it over
 * CHUNKER_BUNDLE_MAX, and, once it has CHUNKER_BUNDLE_MIN bytes, behind a file whose path says so:
 * where bundles end depends on names, so that an edit changes one bundle. 1: end behind this one.
 */
enum { CHUNKER_SMALL = 16 << 10, CHUNKER_BUNDLE_MIN = 16 << 10, CHUNKER_BUNDLE_MAX = 128 << 10 };
int chunker_bundle_ends(const char *path, size_t path_len, size_t bundle_bytes,
                        uint64_t file_bytes);

#endif
