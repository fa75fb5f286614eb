/* outfile.h - a file that is written from its beginning to its end, past the page cache where that
 * is possible.
 *
 *     fill outfile_room() ─▶ outfile_write ─▶ fill the other buffer while the disk takes the first ─▶ ... ─▶ outfile_sync
 *
 * A checkpoint is not read again soon, and pages for it are dear: the copy into them was more than
 * half of what writing one cost, most of all on a virtual machine, whose host has to find the
 * memory first. So a large file is written with O_DIRECT and the kernel's asynchronous I/O, two
 * buffers in turn, into blocks that are reserved before. Where a file system, kernel or container
 * has none of this, or at the file's last bytes, it is written as usual.
 *
 * Nothing here takes or frees memory but open and release: a child of fork may go on with what its
 * parent has settled.
 */
#ifndef PD_MODEL_OUTFILE_H
#define PD_MODEL_OUTFILE_H

#include <limits.h>
#include <linux/aio_abi.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

enum { OUTFILE_BUFFER = 1 << 20 };

struct outfile {
    int fd; /* -1: closed */
    char path[PATH_MAX];
    pid_t opened_by; /* a child of fork begins no thread */
    uint8_t *buffer[2];
    int current;             /* of the buffers the one that is being filled */
    uint64_t total, written; /* bytes it will have; given to outfile_write */
    uint64_t on_its_way;     /* without O_DIRECT: so many the disk was told of */
    enum outfile_way { OUTFILE_NEW, OUTFILE_CACHED, OUTFILE_DIRECT, OUTFILE_ASYNC } way;
    aio_context_t aio; /* OUTFILE_ASYNC */
    struct iocb io;    /* of the other buffer, when n_under_way > 0 */
    size_t n_under_way;
};

/* An empty file, in place of one that is there; in a struct of any content. On failure nothing is
 * to be released. */
int outfile_open(struct outfile *o, const char *path, struct pd_err *err);
static inline uint8_t *outfile_room(const struct outfile *o) {
    return o->buffer[o->current];
} /* of OUTFILE_BUFFER bytes */
/* The first n bytes of the room come next; fewer than OUTFILE_BUFFER only at the end of o->total,
 * which is set before the first one. */
int outfile_write(struct outfile *o, size_t n, struct pd_err *err);
/* What was written has arrived; from here on a child of fork may write. */
int outfile_settle(struct outfile *o, struct pd_err *err);
int outfile_sync(struct outfile *o, struct pd_err *err); /* all is on the disk; closes */
void outfile_release(struct outfile *o); /* closes, also in the middle; the file stays */

#endif
