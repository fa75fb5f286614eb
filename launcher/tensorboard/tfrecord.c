/* SPDX-License-Identifier: Apache-2.0 */
/* tfrecord.c - see tfrecord.h. */
#include "launcher/tensorboard/tfrecord.h"

#include <sys/file.h>

/* CRC-32C (RFC 3720, appendix B.4): the reflected polynomial is 0x82f63b78. Event files are small,
 * so that a table is not worth its code. */
static uint32_t masked_crc(const void *p, size_t n) {
    const uint8_t *byte = p;
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < n; i++) {
        crc ^= byte[i];
        for (int k = 0; k < 8; k++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
    }
    crc = ~crc;
    return (crc >> 15 | crc << 17) + 0xa282ead8;
}

int tfrecord_open(struct tfrecord *f, const char *path, struct pd_err *err) {
    struct stat st;
    *f = (struct tfrecord){.fd = -1};
    if (pd_fmt(f->path, sizeof f->path, "%s", path))
        return pd_fail(err, PD_EUSAGE, "%s: the path is too long", path);
    f->fd = pd_open_regular(path, O_RDWR | O_CREAT, 0644, &st);
    if (f->fd < 0)
        return pd_fail_errno(err, PD_EIO, errno, "%s", path);
    if (flock(f->fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK) {
        tfrecord_close(f);
        return pd_fail(err, PD_EEXIST, "%s: another paddlectl writes this file", path);
    }
    f->size = (uint64_t)st.st_size;
    return 0;
}

void tfrecord_put(struct tfrecord *f, const void *p, size_t n) {
    const size_t at = f->out.len;
    pd_put_u64(&f->out, n);
    pd_put_u32(&f->out, f->out.failed ? 0 : masked_crc(f->out.data + at, sizeof(uint64_t)));
    pd_put(&f->out, p, n);
    pd_put_u32(&f->out, masked_crc(p, n));
}

/* 1: the file has the records in f->out already. */
static int has_them(const struct tfrecord *f) {
    uint8_t part[4096];
    if (f->size - f->at < f->out.len)
        return 0;
    for (size_t done = 0; done < f->out.len;) {
        const size_t left = f->out.len - done;
        const ssize_t n =
            pread(f->fd, part, left < sizeof part ? left : sizeof part, (off_t)(f->at + done));
        if (n <= 0 || memcmp(part, f->out.data + done, (size_t)n))
            return 0;
        done += (size_t)n;
    }
    return 1;
}

int tfrecord_cut(struct tfrecord *f, struct pd_err *err) {
    if (f->size == f->at)
        return 0;
    if (ftruncate(f->fd, (off_t)f->at))
        return pd_fail_errno(err, PD_EIO, errno, "%s", f->path);
    f->size = f->at;
    return 0;
}

int tfrecord_write(struct tfrecord *f, struct pd_err *err) {
    int rc = f->out.failed ? pd_oom(err, "an event file") : 0;
    if (!rc && f->size > f->at && !has_them(f))
        rc = tfrecord_cut(f, err);
    if (!rc && f->size == f->at) {
        const int full = pd_fault("tensorboard.write");
        errno = ENOSPC;
        if (full || lseek(f->fd, (off_t)f->at, SEEK_SET) < 0 ||
            pd_write_all(f->fd, f->out.data, f->out.len)) {
            rc = pd_fail_errno(err, PD_EIO, errno, "%s", f->path);
            f->size = UINT64_MAX; /* a part may have been written */
            tfrecord_cut(f, NULL);
        } else {
            f->size += f->out.len;
        }
    }
    if (!rc)
        f->at += f->out.len;
    pd_buf_clear(&f->out);
    return rc;
}

void tfrecord_rewind(struct tfrecord *f) {
    f->at = 0;
    pd_buf_clear(&f->out);
}

void tfrecord_close(struct tfrecord *f) {
    pd_close(f->fd);
    pd_buf_release(&f->out);
    f->fd = -1;
}
