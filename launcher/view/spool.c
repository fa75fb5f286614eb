/* SPDX-License-Identifier: Apache-2.0 */
/* spool.c - see spool.h. */
#include "launcher/view/spool.h"

#include <sodium.h>

void spool_init(struct spool *s, size_t max_memory) {
    *s = (struct spool){.fd = -1, .max = max_memory};
}

void spool_release(struct spool *s) {
    free(s->mem);
    pd_close(s->fd);
    s->mem = NULL;
    s->fd = -1;
}

static int write_at(int fd, const uint8_t *p, size_t n, uint64_t at) {
    while (n) {
        ssize_t k = pwrite(fd, p, n, (off_t)at);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return -1;
        p += k;
        at += (uint64_t)k;
        n -= (size_t)k;
    }
    return 0;
}

static int open_file(void) {
    const char *dir = getenv("TMPDIR");
    char path[PATH_MAX];
    if (pd_fmt(path, sizeof path, "%s/paddlectl-XXXXXX", dir && *dir ? dir : "/tmp"))
        return -1;
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0)
        unlink(path);
    return fd;
}

static int fail(struct spool *s, int code, struct pd_err *err) {
    const char *dir = getenv("TMPDIR");
    s->failed = 1;
    if (code == PD_ENOMEM)
        return pd_fail(err, code, "out of memory");
    return pd_fail_errno(err, code, errno, "cannot keep it in %s", dir && *dir ? dir : "/tmp");
}

int spool_put(struct spool *s, const void *p, size_t n, struct pd_err *err) {
    if (s->failed || !n)
        return 0;
    if (s->fd < 0 && s->size + n <= s->max) {
        if (s->size + n > s->cap) {
            size_t cap = s->cap ? s->cap : 1024;
            while (cap < s->size + n)
                cap *= 2;
            uint8_t *mem = pd_realloc(s->mem, cap);
            if (!mem)
                return fail(s, PD_ENOMEM, err);
            s->mem = mem;
            s->cap = cap;
        }
        memcpy(s->mem + s->size, p, n);
    } else {
        if (s->fd < 0) {
            if ((s->fd = open_file()) < 0 || write_at(s->fd, s->mem, (size_t)s->size, 0))
                return fail(s, PD_EIO, err);
            free(s->mem);
            s->mem = NULL;
            s->cap = 0;
        }
        if (write_at(s->fd, p, n, s->size))
            return fail(s, PD_EIO, err);
    }
    s->size += n;
    return 0;
}

ssize_t spool_read(const struct spool *s, uint64_t offset, void *p, size_t n) {
    size_t done = 0;
    if (offset >= s->size)
        return 0;
    if (n > s->size - offset)
        n = (size_t)(s->size - offset);
    if (s->mem) {
        memcpy(p, s->mem + offset, n);
        return (ssize_t)n;
    }
    while (done < n) {
        ssize_t k = pread(s->fd, (char *)p + done, n - done, (off_t)(offset + done));
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return -1;
        done += (size_t)k;
    }
    return (ssize_t)n;
}

void spool_restart(struct spool *s) {
    if (s->fd >= 0)
        (void)!ftruncate(s->fd, 0);
    s->size = 0;
}

int spool_digest(const struct spool *s, uint8_t out[SPOOL_DIGEST]) {
    crypto_generichash_state hash;
    uint8_t buf[32768];
    ssize_t k = 0;
    crypto_generichash_init(&hash, NULL, 0, SPOOL_DIGEST);
    for (uint64_t at = 0; at < s->size && (k = spool_read(s, at, buf, sizeof buf)) > 0;
         at += (uint64_t)k)
        crypto_generichash_update(&hash, buf, (size_t)k);
    crypto_generichash_final(&hash, out, SPOOL_DIGEST);
    return k < 0 ? -1 : 0;
}
