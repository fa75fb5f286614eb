/* writer.h - the tar.zst stream that every kind of package is. Internal to src/pack. */
#ifndef PD_PACK_WRITER_H
#define PD_PACK_WRITER_H

#include <archive.h>
#include <archive_entry.h>
#include <sodium.h>

#include "pack/pack.h"

struct pack_writer {
    struct archive *a;
    pack_sink sink;
    void *arg;
    struct pack_result *res;
    struct pd_err
        *err; /* where the sink's own failure goes; it wins over libarchive's "write failed" */
    struct pd_err own;
    crypto_hash_sha256_state sha;
};

/* The writer stays where it is from open to finish (libarchive holds its address). */
int pack_writer_open(struct pack_writer *w, pack_sink sink, void *arg, struct pack_result *res,
                     struct pd_err *err);
int pack_writer_header(struct pack_writer *w, struct archive_entry *e);
/* Ends the stream when `rc` is 0, frees everything in any case, and returns the first failure. */
int pack_writer_finish(struct pack_writer *w, int rc);

/* Copies `size` bytes of `fd` behind the header. Of a file that has become shorter the rest is
 * zeros, since the header is written: *lacks, how many. */
int pack_writer_copy(struct pack_writer *w, int fd, uint64_t size, const char *path,
                     uint64_t *lacks);

#endif
