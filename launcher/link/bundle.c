/* SPDX-License-Identifier: Apache-2.0 */
/* bundle.c - the single-file release: behind its own bytes paddlectl carries a packed tar of all
 * that `make install` installs, and after it a trailer:
 *
 *   ELF | tar.zst | "PDBUNDLE" | 32 hexadecimal digits, the hash of the tar | its offset, 20 digits
 *
 * The trailer is a frame that zstd skips. The tar is unpacked once, to CACHE/paddlectl/HASH, where
 * CACHE is XDG_CACHE_HOME or ~/.cache. */
#include "launcher/link/bundle.h"

#include <archive.h>
#include <archive_entry.h>
#include <openssl/sha.h>
#include <sys/mman.h>

/* FRAME: the header of a frame that zstd skips */
enum { HASH = 32, DIGITS = 20, FRAME = 8, TRAILER = 8 + HASH + DIGITS };

/* 1: this program has a bundle. */
static int find_bundle(int fd, char hash[HASH + 1], int64_t *offset) {
    char t[TRAILER + 1] = "";
    off_t size = lseek(fd, 0, SEEK_END);
    if (size < TRAILER || pread(fd, t, TRAILER, size - TRAILER) != TRAILER ||
        !pd_starts_with(t, "PDBUNDLE"))
        return 0;
    pd_fmt(hash, HASH + 1, "%.*s", HASH, t + 8);
    return !pd_parse_i64(t + 8 + HASH, 0, size, offset) && strspn(hash, "0123456789abcdef") == HASH;
}

/* The packed bytes have the hash of the trailer. A reader of the tar stops at its end, before the
 * checksum of zstd, and damage in stored bytes would go unnoticed. */
static int check_whole(int fd, const char *hash, int64_t offset, struct pd_err *err) {
    const off_t size = lseek(fd, 0, SEEK_END), end = size - TRAILER - FRAME;
    uint8_t sum[SHA256_DIGEST_LENGTH];
    char hex[2 * sizeof sum + 1] = "";
    uint8_t *all = offset < end ? mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, fd, 0) : NULL;
    if (all == MAP_FAILED)
        return pd_fail_errno(err, PD_EIO, errno, "cannot read this program");
    if (all) {
        SHA256(all + offset, (size_t)(end - offset), sum);
        pd_hex(hex, sum, sizeof sum);
        munmap(all, (size_t)size);
    }
    return strncmp(hex, hash, HASH)
               ? pd_fail(err, PD_EDATA,
                         "this program is damaged: its packed part has another "
                         "checksum")
               : 0;
}

static int damaged(struct archive *a, struct pd_err *err) {
    return pd_fail(err, PD_EDATA, "this program is damaged: %s", archive_error_string(a));
}

static int write_entry(struct archive *a, struct archive_entry *e, const char *to,
                       struct pd_err *err) {
    char part[1 << 16];
    la_ssize_t n;
    if (archive_entry_filetype(e) == AE_IFDIR)
        return pd_mkdirs(to, 0700, err);
    int fd = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, archive_entry_perm(e) & 0777);
    if (fd < 0)
        return pd_fail_errno(err, PD_EIO, errno, "cannot write %s", to);
    while ((n = archive_read_data(a, part, sizeof part)) > 0)
        if (pd_write_all(fd, part, (size_t)n))
            break;
    int rc = 0;
    if (n > 0)
        rc = pd_fail_errno(err, PD_EIO, errno, "cannot write %s", to);
    if (close(fd) && !rc)
        rc = pd_fail_errno(err, PD_EIO, errno, "cannot write %s", to);
    return rc || !n ? rc : damaged(a, err);
}

static int unpack(int fd, int64_t offset, const char *dir, struct pd_err *err) {
    struct archive *a = archive_read_new();
    struct archive_entry *e;
    char to[PATH_MAX];
    int rc = 0, r = ARCHIVE_OK;
    if (!a)
        return pd_oom(err, "the programs");
    if (lseek(fd, (off_t)offset, SEEK_SET) < 0 || archive_read_support_format_tar(a) ||
        archive_read_support_filter_zstd(a) || archive_read_open_fd(a, fd, 1 << 16))
        rc = damaged(a, err);
    while (!rc && (r = archive_read_next_header(a, &e)) == ARCHIVE_OK)
        rc = pd_fmt(to, sizeof to, "%s/%s", dir, archive_entry_pathname(e))
                 ? pd_fail(err, PD_EIO, "path too long: %s", dir)
                 : write_entry(a, e, to, err);
    if (!rc && r != ARCHIVE_EOF)
        rc = damaged(a, err);
    archive_read_free(a);
    return rc;
}

/* Unpack beside `dir` and rename: `dir` is absent or whole. */
static int unpack_once(int fd, const char *hash, int64_t offset, const char *dir,
                       struct pd_err *err) {
    char part[PATH_MAX];
    struct stat st;
    if (!stat(dir, &st))
        return 0;
    int rc = check_whole(fd, hash, offset, err);
    if (rc)
        return rc;
    if (pd_fmt(part, sizeof part, "%s.XXXXXX", dir) || !mkdtemp(part))
        return pd_fail_errno(err, PD_EIO, errno, "cannot write %s", dir);
    rc = unpack(fd, offset, part, err);
    int folder = rc ? -1 : open(part, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (!rc && (folder < 0 || syncfs(folder)))
        rc = pd_fail_errno(err, PD_EIO, errno, "cannot write %s", dir);
    if (folder >= 0)
        close(folder);
    /* Another paddlectl may have been faster. */
    if (!rc && rename(part, dir) && stat(dir, &st))
        rc = pd_fail_errno(err, PD_EIO, errno, "cannot write %s", dir);
    pd_rm_tree(part, NULL);
    return rc;
}

int bundle_self_dir(char *out, size_t cap, struct pd_err *err) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char hash[HASH + 1], base[PATH_MAX], dir[PATH_MAX];
    int64_t offset;
    int rc = 0, fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || !find_bundle(fd, hash, &offset)) {
        rc = pd_self_dir(out, cap)
                 ? pd_fail(err, PD_ENOENT, "cannot find out where this program lies (/proc)")
                 : 0;
    } else if ((!cache || *cache != '/') && (!home || *home != '/')) {
        rc = pd_fail(err, PD_ENOENT,
                     "this paddlectl unpacks its programs below ~/.cache: set HOME or "
                     "XDG_CACHE_HOME");
    } else if (cache && *cache == '/' ? pd_fmt(base, sizeof base, "%s/paddlectl", cache)
                                      : pd_fmt(base, sizeof base, "%s/.cache/paddlectl", home)) {
        rc = pd_fail(err, PD_EIO, "path too long: %s", home);
    } else if (pd_fmt(dir, sizeof dir, "%s/%s", base, hash) || pd_fmt(out, cap, "%s/bin", dir)) {
        rc = pd_fail(err, PD_EIO, "path too long: %s", base);
    } else {
        rc = pd_mkdirs(base, 0700, err);
        if (!rc)
            rc = pd_private_dir(base, err); /* programs that run come from there */
        if (!rc)
            rc = unpack_once(fd, hash, offset, dir, err);
    }
    if (fd >= 0)
        close(fd);
    return rc;
}
