/* writer.c - writes pax tar through zstd into the sink and hashes it. */
#include "pack/writer.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"

/* Never reports a failure to libarchive: its writer (3.6.2) leaks its buffer after a failed write.
 * The sink's failure is kept, further bytes are dropped, and every step checks `own`. */
static la_ssize_t on_write(struct archive *a, void *arg, const void *p, size_t n) {
    struct pack_writer *w = arg;
    (void)a;
    if (w->own.code)
        return (la_ssize_t)n;
    crypto_hash_sha256_update(&w->sha, p, n);
    w->res->packed += n;
    int rc = w->sink(w->arg, p, n, &w->own);
    if (rc)
        pd_fail(&w->own, rc, "the package could not be written");
    return (la_ssize_t)n;
}

static int failed(struct pack_writer *w) {
    if (w->own.code)
        return pd_fail(w->err, w->own.code, "%s", w->own.msg);
    const char *s = w->a ? archive_error_string(w->a) : NULL;
    return pd_fail(w->err, w->a && archive_errno(w->a) == ENOMEM ? PD_ENOMEM : PD_EIO,
                   "packing failed: %s", s ? s : "unknown");
}

int pack_writer_open(struct pack_writer *w, pack_sink sink, void *arg, struct pack_result *res,
                     struct pd_err *err) {
    *w = (struct pack_writer){.sink = sink, .arg = arg, .res = res, .err = err};
    memset(res, 0, sizeof *res);
    crypto_hash_sha256_init(&w->sha);
    w->a = archive_write_new();
    if (!w->a)
        return pd_oom(err, "a package to send");
    /* BINARY: names are bytes, so libarchive converts nothing and the locale does not matter. */
    if (archive_write_add_filter_zstd(w->a) || archive_write_set_format_pax(w->a) ||
        archive_write_set_format_option(w->a, "pax", "hdrcharset", "BINARY") ||
        archive_write_set_bytes_per_block(w->a, PACK_CHUNK) ||
        archive_write_set_bytes_in_last_block(w->a, 1) ||
        archive_write_open(w->a, w, NULL, on_write, NULL))
        return failed(w);
    return 0;
}

int pack_writer_header(struct pack_writer *w, struct archive_entry *e) {
    w->res->files++;
    int rc = archive_write_header(w->a, e);
    return rc == ARCHIVE_OK && !w->own.code ? 0 : failed(w);
}

static int write_data(struct pack_writer *w, const void *p, size_t n) {
    w->res->bytes += n;
    return archive_write_data(w->a, p, n) == (la_ssize_t)n && !w->own.code ? 0 : failed(w);
}

int pack_writer_copy(struct pack_writer *w, int fd, uint64_t size, const char *path,
                     uint64_t *lacks) {
    char buf[65536];
    *lacks = 0;
    while (size) {
        size_t want = size < sizeof buf ? (size_t)size : sizeof buf;
        ssize_t k = *lacks ? 0 : read(fd, buf, want);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return pd_fail_errno(w->err, PD_EIO, errno, "cannot read %s", path);
        if (k == 0) {
            *lacks = *lacks ? *lacks : size;
            memset(buf, 0, want);
            k = (ssize_t)want;
        }
        int rc = write_data(w, buf, (size_t)k);
        if (rc)
            return rc;
        size -= (uint64_t)k;
    }
    return 0;
}

int pack_writer_finish(struct pack_writer *w, int rc) {
    if (!w->a)
        return rc;
    if (!rc && (archive_write_close(w->a) || w->own.code))
        rc = failed(w);
    if (rc)
        pd_fail(&w->own, rc, "given up"); /* so that the trailer does not reach the sink */
    archive_write_free(w->a);
    uint8_t h[crypto_hash_sha256_BYTES];
    crypto_hash_sha256_final(&w->sha, h);
    pd_hex(w->res->sha256, h, sizeof h);
    return rc;
}
