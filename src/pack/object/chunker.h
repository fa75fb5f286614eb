/* SPDX-License-Identifier: Apache-2.0 */
/* chunker.h - where contents of files are cut into objects. Cuts are content-defined, so that an
 * edit changes only one or two objects.
 *
 * A gear hash rolls over the bytes; a cut is where enough of its bits are 0, with a stricter mask
 * below the mean size and a laxer mask above it (normalised chunking). Source: Xia et al.,
 * "FastCDC", USENIX ATC'16. The gear table is made from a fixed seed, so every machine cuts alike.
 */
#pragma once

struct chunker {
    uint32_t min, mean, max; /* bytes */
    uint64_t strict, lax;    /* masks */
};

/* Sets the sizes for a file of `file_bytes` in a tree of about `tree_bytes` (0: unknown). The mean
 * is 16 KiB for files under 64 MiB, four times as much for larger files, 128 KiB above 4 GiB. It is
 * larger if the tree would otherwise have more than about half a million objects. min = mean/4, max
 * = 4*mean (at most 256 KiB). */
void chunker_init(struct chunker *c, uint64_t file_bytes, uint64_t tree_bytes);

/* The length of the next object at `p`: 1..max. n > 0 bytes are available; n < c->max means that
 * the file ends there. A result equal to n < c->max is thus valid only at the end of the file.
 * Keeps no state between calls. */
size_t chunker_cut(const struct chunker *c, const uint8_t *p, size_t n);

/* Small files (below CHUNKER_SMALL) travel in BUNDLES: one object holds the bytes of files that are
 * adjacent in the manifest. A bundle ends before the file that would make it longer than
 * CHUNKER_BUNDLE_MAX. From CHUNKER_BUNDLE_MIN bytes on it also ends after a file whose path's hash
 * says so. The ends thus depend on names, and an edit changes one bundle. Returns 1 if the bundle
 * ends after this file. */
enum { CHUNKER_SMALL = 16 << 10, CHUNKER_BUNDLE_MIN = 16 << 10, CHUNKER_BUNDLE_MAX = 128 << 10 };
int chunker_bundle_ends(const char *path, size_t path_len, size_t bundle_bytes,
                        uint64_t file_bytes);
