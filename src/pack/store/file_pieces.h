/* file_pieces.h - one file of a package by itself: the objects it is made of, and an id that names
 * exactly these bytes. For files that travel after the package did (agent/data.h).
 *
 *     pieces   u64 size, u64 mtime (ns, two's complement), u16 mode, u32 n, n x {u64 offset in the
 * file, u32 length, id 32} file id  BLAKE2b-256 of that
 *
 * Each piece is a whole object; what lies between pieces, or behind the last one, is a hole.
 * Whoever has the file id from somebody he trusts takes the pieces from anybody, and the objects
 * too: everything is compared with an id before it is used.
 */
#ifndef PD_PACK_FILE_PIECES_H
#define PD_PACK_FILE_PIECES_H

#include "base/buf.h"
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
int file_pieces_add(struct file_pieces *f, const struct object_id *id, uint32_t len,
                    uint64_t off); /* 0; PD_ENOMEM; PD_EDATA: too many */
void file_pieces_put(struct pd_buf *b, const struct file_pieces *f);
/* From anybody: bounded, ascending, inside the file. PD_EDATA. */
int file_pieces_get(struct file_pieces *f, const void *p, size_t n, struct pd_err *err);
/* How many bytes file_pieces_get needs, as the first bytes of them say: 0: not told yet; more than
 * FILE_PIECES_BYTES: too many. */
size_t file_pieces_length(const void *p, size_t n);
int file_pieces_id(const struct file_pieces *f, struct object_id *id); /* 0 or PD_ENOMEM */

/* The pieces of `path` in the package with this root object, whose manifest is in the store: 1; 0:
 * it has no such file, or its manifest is not here (any more), or the file shares an object with
 * others; PD_ENOMEM. Reads the manifest up to that file. */
int file_pieces_find(struct file_pieces *f, struct store *st, const void *root, size_t n,
                     const char *path);

#endif
