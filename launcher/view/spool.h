/* spool.h - bytes of unknown number that are kept until they are shown: the first ones in memory,
 * all of them in a file without a name once they are too many. */
#ifndef LAUNCHER_SPOOL_H
#define LAUNCHER_SPOOL_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

enum { SPOOL_DIGEST = 32 };

struct spool {
    uint8_t *mem;    /* NULL: nothing yet, or in the file */
    size_t cap, max; /* of mem */
    int fd;          /* -1: all in memory */
    uint64_t size;   /* bytes put since the beginning, or since spool_restart */
    int failed;      /* it is cut: nothing more is taken */
};

void spool_init(struct spool *s, size_t max_memory);
void spool_release(struct spool *s);

/* PD_EIO, PD_ENOSPC or PD_ENOMEM, once; what comes after that is dropped. */
int spool_put(struct spool *s, const void *p, size_t n, struct pd_err *err);
ssize_t spool_read(const struct spool *s, uint64_t offset, void *p,
                   size_t n);        /* fewer than n only at the end; -1 */
void spool_restart(struct spool *s); /* what is there was read, and takes no room any more */

/* Equal bytes, equal digests. 0, or -1 when they can't be read any more. */
int spool_digest(const struct spool *s, uint8_t out[SPOOL_DIGEST]);

#endif
