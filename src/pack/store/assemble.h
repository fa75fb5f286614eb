/* SPDX-License-Identifier: Apache-2.0 */
/* assemble.h - builds a package's tree from its root object while its objects arrive.
 *
 *     root ─▶ manifest objects, level by level ─▶ entries in order ─▶ objects: from the store or
 *                                                       │             requested from the source
 *             TARGET.part-XXXXXX/   built here; each byte is written once, at its place
 *             TARGET                after rename; then the catalog is published (store.h)
 *
 * Not thread-safe and without threads of its own: call from one thread at a time. Memory: per entry
 * a record and its path (at most MANIFEST_ENTRIES, MANIFEST_PATH_BYTES), 56 bytes per object, and
 * the outstanding requests.
 */
#pragma once

#include "pack/object/object.h"
#include "pack/store/store.h"

struct assemble_opts {
    const char *root;   /* ROOT, absolute */
    const char *target; /* absolute, below ROOT; its folder exists */
    /* The folder (absolute, below ROOT) into which the caller later moves the contents of TARGET;
     * NULL: they stay in TARGET. */
    const char *lies_in;
    /* The package is one regular file (the worker), and TARGET becomes this file, mode 0755. */
    int single_file;
    /* An interrupted package leaves what came to the store, as a rest (store.h). */
    int keeps_rest;
    int durable;     /* sync to disk before the rename, for trees that later jobs reuse */
    uint64_t window; /* maximum bytes of outstanding requests; 0: 16 MiB */
    /* A folder of which files are read: the bytes of a file PATH that stand at the same place of
     * old/PATH<old_suffix>, else of old/PATH, are not requested. NULL: none. The strings outlive
     * the call. */
    const char *old, *old_suffix;
    uint64_t due; /* bytes that others have announced for the same disk, and not written */
    /* An unfinished package of which most objects are expected in this one, too: what it has is not
     * requested again. The new one takes it over, also on failure. NULL: none. */
    struct assemble *before;
};

struct assemble_totals {
    uint64_t entries, bytes; /* totals of the package, from its root */
    uint64_t have;           /* bytes of contents already in the tree */
    /* Known when the manifest is complete: bytes of contents that the store has; of these, what an
     * interrupted transfer left; and what of them is not in the tree yet. */
    uint64_t here, rest, here_left;
    uint64_t fetched; /* raw bytes of objects received through assemble_put, manifest included */
    uint64_t asked;   /* raw bytes of outstanding requests */
    int manifest_complete;
};

struct assemble;
/* A package is held to its announcement, the totals of its root: its files, its distinct objects
 * and its manifest (manifest_bytes_max) may not have more bytes, and no more may come than was
 * requested.
 *
 * PD_EEXIST: the target exists. PD_ENOSPC: the package is larger than the free disk space.
 * PD_EDATA: not a root object. */
int assemble_new(struct assemble **out, struct store *st, const struct assemble_opts *o,
                 const void *root_raw, size_t n, struct pd_err *err);
/* Removes an unfinished tree, or makes a rest of it. NULL is fine. */
void assemble_free(struct assemble *a);

/* Accepts an object whose bytes object_decode has verified. An object that came twice, because two
 * sources were asked, is ignored. PD_EPROTO: more bytes came than were requested. */
int assemble_put(struct assemble *a, const struct object_id *id, const uint8_t *raw,
                 uint32_t raw_len, struct pd_err *err);

/* Works for about budget_ms. 1: call again at once; 0: waiting for objects, or complete. */
int assemble_step(struct assemble *a, unsigned budget_ms, struct pd_err *err);
/* Returns up to `max` ids to request from the source now, each id once. At most 2048 requests are
 * outstanding at a time. */
size_t assemble_need(struct assemble *a, struct object_id *ids, size_t max);
/* After a change of the source: requests everything that is missing once more. */
void assemble_ask_again(struct assemble *a);
/* 1 if the tree is complete; assemble_finish may then be called. */
int assemble_complete(const struct assemble *a);
/* Sets times and modes of folders, syncs, renames, publishes the catalog. PD_EEXIST: the target has
 * appeared meanwhile; the tree is removed. */
int assemble_finish(struct assemble *a, struct pd_err *err);
/* store_part_hold for the catalog of a finished package. */
int assemble_hold(const struct assemble *a);

/* For relays: reads an object that is already here. 1 and its verified bytes; 0: not here yet. Also
 * allowed after assemble_finish. */
int assemble_read(struct assemble *a, const struct object_id *id, uint8_t buf[OBJECT_MAX],
                  uint32_t *raw_len);
void assemble_totals(const struct assemble *a, struct assemble_totals *t);
