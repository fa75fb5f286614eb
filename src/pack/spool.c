/* spool.c - receives a package: hashes it while writing it to a nameless file. */
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault_point.h"
#include "base/fs.h"
#include "base/str.h"
#include "pack/pack.h"

struct pack_spool {
    int fd, verified;
    uint64_t bytes;
    crypto_hash_sha256_state sha;
    char hex[65];
    char dir[PATH_MAX]; /* for messages */
};

/* Uses O_TMPFILE if the file system has it, otherwise a file that is unlinked at once. */
static int open_nameless(const char *dir) {
    int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL))
        return fd;
    char path[PATH_MAX];
    if (pd_fmt(path, sizeof path, "%s/.spool-XXXXXX", dir)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0)
        unlink(path);
    return fd;
}

int pack_spool_new(struct pack_spool **out, const char *dir, struct pd_err *err) {
    struct pack_spool *s = pd_calloc(1, sizeof *s);
    if (!s || pd_fmt(s->dir, sizeof s->dir, "%s", dir)) {
        free(s);
        return pd_oom(err, "a package that arrives");
    }
    s->fd = open_nameless(dir);
    if (s->fd < 0) {
        int rc = pd_fail_errno(err, PD_EIO, errno, "cannot create a file in %s", dir);
        free(s);
        return rc;
    }
    crypto_hash_sha256_init(&s->sha);
    *out = s;
    return 0;
}

int pack_spool_write(struct pack_spool *s, const void *p, size_t n, struct pd_err *err) {
    if (pd_fault("pack.spool") ? (errno = ENOSPC, 1) : pd_write_all(s->fd, p, n))
        return pd_fail_errno(err, PD_EIO, errno, "cannot store a package in %s", s->dir);
    crypto_hash_sha256_update(&s->sha, p, n);
    s->bytes += n;
    return 0;
}

int pack_spool_verify(struct pack_spool *s, const char *sha256, uint64_t bytes,
                      struct pd_err *err) {
    uint8_t h[crypto_hash_sha256_BYTES];
    crypto_hash_sha256_final(&s->sha, h);
    pd_hex(s->hex, h, sizeof h);
    if (bytes != s->bytes)
        return pd_fail(err, PD_EDATA, "the package arrived with %llu bytes instead of %llu",
                       (unsigned long long)s->bytes, (unsigned long long)bytes);
    if (strcmp(s->hex, sha256))
        return pd_fail(err, PD_EDATA, "the package arrived with SHA-256 %s instead of %.64s",
                       s->hex, sha256);
    s->verified = 1;
    return 0;
}

int pack_spool_extract(struct pack_spool *s, const char *target, const struct pack_limits *limits,
                       struct pack_result *res, struct pd_err *err) {
    if (!s->verified)
        return pd_fail(err, PD_EDATA, "the package was not verified");
    if (lseek(s->fd, 0, SEEK_SET))
        return pd_fail_errno(err, PD_EIO, errno, "cannot read the package in %s", s->dir);
    int rc = pack_extract(s->fd, target, limits, res, err);
    if (!rc && res) {
        res->packed = s->bytes;
        memcpy(res->sha256, s->hex, sizeof res->sha256);
    }
    return rc;
}

void pack_spool_free(struct pack_spool *s) {
    if (!s)
        return;
    close(s->fd);
    free(s);
}
