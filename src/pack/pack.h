/* pack.h - packs a folder as a tar.zst stream, and unpacks such a stream into a folder.
 *
 *     pack_tree ─▶ sink(bytes) ─▶ frames ─▶ pack_spool ─▶ pack_extract: beside the target, checked,
 *                    SHA-256                   SHA-256     synced, renamed; nothing after a failure
 *
 * Invariants:
 * - The same tree gives the same bytes: entries sorted by bytes, owner 0:0, no access or change
 *   times. Names are raw bytes, so every name survives and the locale does not matter.
 * - Memory is bounded by the names of the largest folder, not by the size of the tree.
 * - The receiver repeats all checks of the sender (links that leave the tree, devices, set-id
 *   bits): it does not trust the sender. */
#ifndef PD_PACK_PACK_H
#define PD_PACK_PACK_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { PACK_CHUNK = 256 << 10 };

/* Receives packed bytes, at most PACK_CHUNK at a time. Returns 0, or PD_E* with `err` set, which
 * ends the packing. */
typedef int (*pack_sink)(void *arg, const void *p, size_t n, struct pd_err *err);

struct pack_result {
    uint64_t files, bytes; /* files: entries of any kind; bytes: of file contents */
    uint64_t packed;       /* bytes of the tar.zst */
    char sha256[65];       /* of the tar.zst, hex */
    unsigned skipped; /* PACK_OUTPUTS only: entries that cannot be packed (devices, links that leave
                         the tree) */
    char first_skipped[256];
};

enum pack_flags {
    PACK_OUTPUTS = 1, /* skips and counts entries that cannot be packed, instead of failing */
};

/* Packs the folder `dir`. PD_ENOENT, PD_EIO: a folder is missing or unreadable. PD_EDATA: a link
 * that leaves the tree, a device, or a set-id bit. All messages name the path. The set-gid bit of a
 * folder, which new files inherit, is not packed. */
int pack_tree(const char *dir, unsigned flags, pack_sink sink, void *arg, struct pack_result *res,
              struct pd_err *err);

struct pack_limits {
    uint64_t max_files, max_bytes; /* of the extracted tree; 0: the constants below */
};
#define PACK_MAX_FILES 4000000u
#define PACK_MAX_BYTES (UINT64_C(1) << 42)

/* Extracts the tar.zst from the current position of `fd` as the folder `target`. It is built as
 * "<target>.part-XXXXXX", then renamed; after a failure nothing is left. PD_EEXIST: the target
 * exists. PD_EDATA: the archive is hostile or damaged. PD_ENOSPC: the disk is full. May be called
 * from any thread. */
int pack_extract(int fd, const char *target, const struct pack_limits *limits,
                 struct pack_result *res, struct pd_err *err);

/* A package that is being received. Its bytes go to a nameless file under `dir`, so that nothing is
 * left even after kill -9. */
struct pack_spool;
int pack_spool_new(struct pack_spool **out, const char *dir, struct pd_err *err);
int pack_spool_write(struct pack_spool *s, const void *p, size_t n, struct pd_err *err);
/* Call after all bytes. PD_EDATA: their number or SHA-256 differs. */
int pack_spool_verify(struct pack_spool *s, const char *sha256, uint64_t bytes, struct pd_err *err);
/* pack_extract of the received bytes, after pack_spool_verify. */
int pack_spool_extract(struct pack_spool *s, const char *target, const struct pack_limits *limits,
                       struct pack_result *res, struct pd_err *err);
void pack_spool_free(struct pack_spool *s);

#endif
