/* pack.h - packages: a folder, an archive or one file as a tar.zst stream, and such a stream back
 * into a folder.
 *
 *     pack_tree ─▶ sink(bytes) ─▶ frames ─▶ pack_spool ─▶ pack_extract: beside the target, checked,
 *                    SHA-256                   SHA-256     synced, renamed; nothing after a failure
 *
 * Invariants:
 * - The same tree gives the same bytes: entries sorted by bytes, owner 0:0, no access or change
 * times, names as raw bytes (so any name survives and no locale matters).
 * - Memory is bounded by the largest single folder's names, not by the size of the tree.
 * - What the sender refuses (links that lead out, devices, set-id bits) the receiver refuses again:
 * it trusts nobody.
 */
#ifndef PD_PACK_PACK_H
#define PD_PACK_PACK_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { PACK_CHUNK = 256 << 10 };

/* Where packed bytes go, at most PACK_CHUNK at a time. 0, or PD_E* with `err` set: packing then
 * ends with it. */
typedef int (*pack_sink)(void *arg, const void *p, size_t n, struct pd_err *err);

struct pack_result {
    uint64_t files, bytes; /* entries of any kind, and bytes of file contents */
    uint64_t packed;       /* bytes of the tar.zst */
    char sha256[65];       /* of the tar.zst, hex */
    unsigned
        skipped; /* PACK_OUTPUTS only: entries that can't travel (devices, links that lead out) */
    char first_skipped[256];
};

enum pack_flags {
    PACK_OUTPUTS = 1, /* skip and count what can't travel, instead of failing */
};

/* A missing or unreadable folder is PD_ENOENT or PD_EIO; a link that leads out, a device, a set-id
 * bit PD_EDATA. All messages name the path. A set-gid bit of a folder (inherited by what is created
 * in it) is dropped. */
int pack_tree(const char *dir, unsigned flags, pack_sink sink, void *arg, struct pack_result *res,
              struct pd_err *err);

struct pack_limits {
    uint64_t max_files, max_bytes; /* of the extracted tree; 0: the defaults below */
};
#define PACK_MAX_FILES 4000000u
#define PACK_MAX_BYTES (UINT64_C(1) << 42)

/* Extract the tar.zst read from `fd` (from its current position) as the folder `target`, which must
 * not exist (PD_EEXIST). It is built beside it as "<target>.part-XXXXXX", then renamed; on failure
 * nothing is left. A hostile or damaged archive is PD_EDATA, a full disk PD_ENOSPC. May be called
 * from any thread. */
int pack_extract(int fd, const char *target, const struct pack_limits *limits,
                 struct pack_result *res, struct pd_err *err);

/* A package on its way in: bytes go to a nameless file under `dir` (so nothing is left even after
 * kill -9). */
struct pack_spool;
int pack_spool_new(struct pack_spool **out, const char *dir, struct pd_err *err);
int pack_spool_write(struct pack_spool *s, const void *p, size_t n, struct pd_err *err);
/* All bytes are here: PD_EDATA unless their count and SHA-256 are these. */
int pack_spool_verify(struct pack_spool *s, const char *sha256, uint64_t bytes, struct pd_err *err);
/* Once verified: pack_extract of what was spooled. */
int pack_spool_extract(struct pack_spool *s, const char *target, const struct pack_limits *limits,
                       struct pack_result *res, struct pd_err *err);
void pack_spool_free(struct pack_spool *s);

#endif
