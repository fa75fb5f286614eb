/* SPDX-License-Identifier: Apache-2.0 */
/* outfile.h - a file that is written from beginning to end, past the page cache where possible.
 *
 *     fill outfile_room() ─▶ outfile_write ─▶ fill the other buffer ─▶ ... ─▶ outfile_sync
 *                            the disk takes the first buffer meanwhile
 *
 * A checkpoint is not read again soon, and page cache for it is expensive: the copy into the cache
 * was more than half of the cost, most of all on a virtual machine, whose host must find the memory
 * first. A large file is therefore written with O_DIRECT and the kernel's asynchronous I/O, with
 * two buffers in turn, into preallocated blocks. Where a file system, kernel or container lacks
 * these, and for the last bytes of a file, writes are ordinary.
 *
 * Only open and release allocate or free memory, so a child of fork can continue with a file that
 * its parent has settled. */
#pragma once

#include <linux/aio_abi.h>

enum { OUTFILE_BUFFER = 1 << 20 };

struct outfile {
    int fd; /* -1: closed */
    char path[PATH_MAX];
    pid_t opened_by; /* process that opened the file; a child of fork starts no thread */
    uint8_t *buffer[2];
    int current;             /* the buffer that is being filled */
    uint64_t total, written; /* bytes of the whole file; bytes given to outfile_write */
    uint64_t on_its_way;     /* without O_DIRECT: bytes whose write-back has been started */
    enum outfile_way { OUTFILE_NEW, OUTFILE_CACHED, OUTFILE_DIRECT, OUTFILE_ASYNC } way;
    aio_context_t aio; /* OUTFILE_ASYNC */
    struct iocb io;    /* I/O of the other buffer, when n_under_way > 0 */
    size_t n_under_way;
};

/* Create an empty file, replacing an existing one. *o may be uninitialized. On failure there is
 * nothing to release. */
int outfile_open(struct outfile *o, const char *path, struct pd_err *err);
static inline uint8_t *outfile_room(const struct outfile *o) {
    return o->buffer[o->current];
} /* of OUTFILE_BUFFER bytes */
/* Write the first n bytes of the room. n < OUTFILE_BUFFER only at the end of o->total, which the
 * caller sets before the first write. */
int outfile_write(struct outfile *o, size_t n, struct pd_err *err);
/* Wait until all writes have finished; after that a child of fork may write. */
int outfile_settle(struct outfile *o, struct pd_err *err);
int outfile_sync(struct outfile *o, struct pd_err *err); /* syncs the file to disk and closes it */
void outfile_release(struct outfile *o); /* closes, also an incomplete file; the file stays */
