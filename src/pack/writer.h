/* writer.h - writes the tar.zst stream of a package. Internal to src/pack. */
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
    struct pd_err *err; /* gets the sink's own failure rather than libarchive's "write failed" */
    struct pd_err own;
    crypto_hash_sha256_state sha;
};

/* Opens a writer. It must not be moved until finish: libarchive holds its address. Returns 0 or
 * PD_E*. */
int pack_writer_open(struct pack_writer *w, pack_sink sink, void *arg, struct pack_result *res,
                     struct pd_err *err);
int pack_writer_header(struct pack_writer *w, struct archive_entry *e);
/* Ends the stream if `rc` is 0, frees everything in any case, and returns the first failure. */
int pack_writer_finish(struct pack_writer *w, int rc);

/* Copies `size` bytes of `fd` to the stream. If the file has become shorter, the missing bytes are
 * zeros, since the header is already written; *lacks is their number. */
int pack_writer_copy(struct pack_writer *w, int fd, uint64_t size, const char *path,
                     uint64_t *lacks);

#endif
