/* assemble.h - a package's root object into its tree, while its objects arrive.
 *
 *     root ─▶ manifest objects, level by level ─▶ entries in order ─▶ each object: from the store, else asked for
 *                                                       │
 *             TARGET.part-XXXXXX/   built here, each byte written once, where it belongs
 *             TARGET                after rename; then the catalog is published (store.h)
 *
 * Not thread-safe, and no thread of its own: the caller calls from one thread at a time. Memory: a
 * record an entry and its path (at most MANIFEST_ENTRIES, MANIFEST_PATH_BYTES), 56 bytes an object,
 * and what is asked for at once.
 */
#ifndef PD_PACK_ASSEMBLE_H
#define PD_PACK_ASSEMBLE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "pack/object/object.h"
#include "pack/store/store.h"

struct assemble_opts {
    const char *root;    /* ROOT, absolute */
    const char *target;  /* absolute, below ROOT; its folder exists */
    const char *lies_in; /* the folder, absolute, below ROOT, into which the caller moves what is in
                            TARGET; NULL: it stays there */
    int single_file;     /* the package is one regular file, and TARGET becomes that file, mode 0755
                            (the worker) */
    int durable;         /* on disk before it is renamed: for what later jobs reuse */
    uint64_t window;     /* bytes asked for at once; 0: 16 MiB */
};

struct assemble_totals {
    uint64_t entries, bytes; /* of the package: entries, bytes of contents (root) */
    uint64_t have;           /* bytes of contents that are in the tree */
    uint64_t fetched; /* raw bytes of objects that came through assemble_put, manifest included */
    uint64_t asked;   /* raw bytes asked for and not here yet */
    int manifest_complete;
};

struct assemble;
/* PD_EEXIST: the target exists. PD_ENOSPC: the package says that it is larger than the free disk.
 * PD_EDATA: not a root object. */
int assemble_new(struct assemble **out, struct store *st, const struct assemble_opts *o,
                 const void *root_raw, size_t n, struct pd_err *err);
void assemble_free(struct assemble *a); /* unfinished: the tree goes; NULL is fine */

/* An object came; its bytes were checked by object_decode. One that nobody asked for is ignored. */
int assemble_put(struct assemble *a, const struct object_id *id, const uint8_t *raw,
                 uint32_t raw_len, struct pd_err *err);

/* Goes on with what is here, for about budget_ms. 1: there is more to do at once; 0: it waits for
 * objects, or is complete. */
int assemble_step(struct assemble *a, unsigned budget_ms, struct pd_err *err);
/* Up to `max` ids to ask the source for now, each once; at most 2048 are asked for and not here at
 * a time. */
size_t assemble_need(struct assemble *a, struct object_id *ids, size_t max);
void assemble_ask_again(
    struct assemble *a); /* another source: everything that is lacking is asked for once more */
int assemble_complete(
    const struct assemble *a); /* 1: all is in the tree, assemble_finish may be called */
/* Times and modes of folders, sync, rename, catalog. The target may have appeared: PD_EEXIST, and
 * the tree goes. */
int assemble_finish(struct assemble *a, struct pd_err *err);
/* store_part_hold of a finished package's catalog. */
int assemble_hold(const struct assemble *a);

/* For relays: an object that is here already: 1, and its bytes (verified); 0: not yet. Also after
 * assemble_finish. */
int assemble_read(struct assemble *a, const struct object_id *id, uint8_t buf[OBJECT_MAX],
                  uint32_t *raw_len);
void assemble_totals(const struct assemble *a, struct assemble_totals *t);

#endif
