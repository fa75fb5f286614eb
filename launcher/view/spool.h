/* SPDX-License-Identifier: Apache-2.0 */
/* spool.h - keeps any number of bytes until they are shown: in memory, or all of them in an unnamed
 * file when they are too many. */
#pragma once

enum { SPOOL_DIGEST = 32 };

struct spool {
    uint8_t *mem;    /* NULL: empty, or in the file */
    size_t cap, max; /* of mem */
    int fd;          /* -1: all in memory */
    uint64_t size;   /* bytes put since the beginning, or since spool_restart */
    int failed;      /* the text is cut: no more bytes are taken */
};

void spool_init(struct spool *s, size_t max_memory);
void spool_release(struct spool *s);

/* Append bytes. PD_EIO, PD_ENOSPC or PD_ENOMEM is returned once; later bytes are dropped. */
int spool_put(struct spool *s, const void *p, size_t n, struct pd_err *err);
/* fewer than n only at the end; -1: error */
ssize_t spool_read(const struct spool *s, uint64_t offset, void *p, size_t n);
void spool_restart(struct spool *s); /* forget the bytes, which were read, and free their room */

/* Equal bytes have equal digests. 0, or -1 if the bytes cannot be read. */
int spool_digest(const struct spool *s, uint8_t out[SPOOL_DIGEST]);
