/* SPDX-License-Identifier: Apache-2.0 */
/* packed_program.c - see packed_program.h. */
#include "pack/packed_program.h"

#include <sodium.h>
#include <zstd.h>

enum { HEAD = 18 }; /* the largest frame header */
#define MAX_BYTES (UINT64_C(1) << 30)

static uint64_t size_of(int fd) {
    uint8_t head[HEAD];
    ssize_t k = pd_read_full(fd, head, sizeof head);
    unsigned long long n =
        k > 0 ? ZSTD_getFrameContentSize(head, (size_t)k) : ZSTD_CONTENTSIZE_ERROR;
    return n == ZSTD_CONTENTSIZE_UNKNOWN || n == ZSTD_CONTENTSIZE_ERROR ? 0 : n;
}

uint64_t packed_program_size(const char *path) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    uint64_t n = fd < 0 ? 0 : size_of(fd);
    pd_close(fd);
    return n;
}

struct unpacking {
    int in, out;
    ZSTD_DCtx *d;
    uint8_t *in_buf, *out_buf;
    uint64_t size, done;
};

/* Unpacks the file; writes no more bytes than the frame's header says. */
static int unpack_all(struct unpacking *u, const char *from, struct pd_err *err) {
    ZSTD_inBuffer in = {u->in_buf, 0, 0};
    size_t left = 1;
    for (int full = 0;;) { /* full: zstd may still hold output that did not fit */
        if (in.pos == in.size && !full) {
            ssize_t k = read(u->in, u->in_buf, ZSTD_DStreamInSize());
            if (k < 0 && errno == EINTR)
                continue;
            if (k < 0)
                return pd_fail_errno(err, PD_EIO, errno, "cannot read %s", from);
            if (!k)
                break;
            in = (ZSTD_inBuffer){u->in_buf, (size_t)k, 0};
        }
        ZSTD_outBuffer out = {u->out_buf, ZSTD_DStreamOutSize(), 0};
        left = ZSTD_decompressStream(u->d, &out, &in);
        u->done += out.pos;
        full = out.pos == out.size;
        if (ZSTD_isError(left) || u->done > u->size || (!left && in.pos < in.size))
            return pd_fail(err, PD_EDATA, "%s is damaged", from);
        if (pd_fault("packed.write") ? (errno = ENOSPC, 1)
                                     : out.pos && pd_write_all(u->out, u->out_buf, out.pos))
            return pd_fail_errno(err, PD_EIO, errno, "cannot unpack %s", from);
    }
    return left || u->done != u->size ? pd_fail(err, PD_EDATA, "%s is damaged", from) : 0;
}

int packed_program_unpack(const char *from, const char *to, struct pd_err *err) {
    struct unpacking u = {.in = open(from, O_RDONLY | O_CLOEXEC), .out = -1};
    char aside[PATH_MAX], dir[PATH_MAX];
    const char *slash = strrchr(to, '/');
    int rc = 0;
    if (u.in < 0)
        return pd_fail_errno(err, PD_EIO, errno, "cannot open %s", from);
    u.size = size_of(u.in);
    if (!u.size || u.size > MAX_BYTES || lseek(u.in, 0, SEEK_SET))
        rc = pd_fail(err, PD_EDATA, "%s is not a packed file", from);
    else if (pd_fmt(dir, sizeof dir, "%.*s", (int)(slash - to), to) ||
             pd_fmt(aside, sizeof aside, "%s/tmp-%08x", dir, randombytes_random()))
        rc = pd_fail(err, PD_EIO, "path too long: %s", to);
    else if (pd_disk_room(-1, dir, to, u.size, 0, err))
        rc = err ? err->code : PD_ENOSPC;
    else if ((u.out = open(aside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700)) < 0)
        rc = pd_fail_errno(err, PD_EIO, errno, "cannot make %s", aside);
    if (rc) {
        close(u.in);
        return rc;
    }
    u.d = ZSTD_createDCtx();
    u.in_buf = pd_malloc(ZSTD_DStreamInSize());
    u.out_buf = pd_malloc(ZSTD_DStreamOutSize());
    rc = u.d && u.in_buf && u.out_buf ? unpack_all(&u, from, err)
                                      : pd_oom(err, "a program to unpack");
    if (!rc && (fchmod(u.out, 0755) || fsync(u.out) || rename(aside, to)))
        rc = pd_fail_errno(err, PD_EIO, errno, "cannot finish %s", to);
    if (rc)
        unlink(aside);
    ZSTD_freeDCtx(u.d);
    free(u.in_buf);
    free(u.out_buf);
    close(u.in);
    close(u.out);
    return rc ? rc : pd_fsync_dir(dir, err);
}
