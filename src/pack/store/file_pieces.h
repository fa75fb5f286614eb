/* SPDX-License-Identifier: Apache-2.0 */
/* file_pieces.h - a single file of a package: the objects of which it is made, and an id that
 * identifies exactly these bytes. For files that are sent after the package (agent/files).
 *
 *     pieces   u64 size, u64 mtime (ns, two's complement), u16 mode, u32 n,
 *              n x {u64 offset in the file, u32 length, id 32}
 *     file id  BLAKE2b-256 of the pieces
 *
 * Each piece is a whole object; gaps between pieces, or behind the last one, are holes. A node that
 * has the file id from a trusted source can take pieces and objects from any node: everything is
 * compared with an id before use.
 */
#pragma once

#include "pack/object/object.h"
#include "pack/store/store.h"

enum { FILE_PIECES_MAX = 1 << 20, FILE_PIECES_BYTES = 22 + FILE_PIECES_MAX * (12 + OBJECT_ID) };

struct file_piece {
    struct object_id id;
    uint32_t len;
    uint64_t off;
};

struct file_pieces {
    uint64_t size;
    int64_t mtime_ns;
    unsigned mode;
    struct file_piece *v;
    size_t n, cap;
};

/* Zeroed before first use. */
void file_pieces_release(struct file_pieces *f);
/* 0; PD_ENOMEM; PD_EDATA: too many pieces. */
int file_pieces_add(struct file_pieces *f, const struct object_id *id, uint32_t len, uint64_t off);
void file_pieces_put(struct pd_buf *b, const struct file_pieces *f);
/* Parses untrusted bytes: checks that pieces are bounded, ascending and inside the file. PD_EDATA.
 */
int file_pieces_get(struct file_pieces *f, const void *p, size_t n, struct pd_err *err);
/* The number of bytes that file_pieces_get needs, from their first bytes. 0: not known yet; more
 * than FILE_PIECES_BYTES: too many. */
size_t file_pieces_length(const void *p, size_t n);
int file_pieces_id(const struct file_pieces *f, struct object_id *id); /* 0 or PD_ENOMEM */

/* Finds the pieces of `path` in the package with this root object, whose manifest is in the store.
 * 1; 0: no such file, the manifest is not here (any more), or the file shares an object with
 * others; PD_ENOMEM. Reads the manifest up to the file. */
int file_pieces_find(struct file_pieces *f, struct store *st, const void *root, size_t n,
                     const char *path);
