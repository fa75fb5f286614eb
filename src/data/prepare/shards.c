/* SPDX-License-Identifier: Apache-2.0 */
/* shards.c - see shards.h. */
#include "data/prepare/shards.h"

enum { ALL_BUFFERS = 64 << 20, LARGEST_BUFFER = 256 << 10, SMALLEST_BUFFER = 512 };

static int name_of(const struct data_shards *s, uint32_t i, int final, char out[PATH_MAX],
                   struct pd_err *err) {
    if (pd_fmt(out, PATH_MAX, "%s/%s%s-%05u%s", s->dir, final ? "" : ".", s->prefix, i,
               final ? data_packing_suffix(s->packing) : ".tmp"))
        return pd_fail(err, PD_EIO, "path too long: %s/%s", s->dir, s->prefix);
    return 0;
}

int data_shards_check(uint32_t n, uint64_t holdout, struct pd_err *err) {
    if (n < 1 || n > DATA_MAX_SHARDS)
        return pd_fail(err, PD_EUSAGE, "shards is 1..%d, not %u", DATA_MAX_SHARDS, n);
    return holdout == 1 ? pd_fail(err, PD_EUSAGE,
                                  "holdout 1 would leave no training data; it is 0 or at least 2")
                        : 0;
}

int data_shards_start(struct data_shards *s, const char *dir, const char *prefix, uint32_t n,
                      struct pd_err *err) {
    memset(s, 0, sizeof *s);
    int rc = pd_mkdirs(dir, 0777, err);
    if (rc)
        return rc;
    s->dir = pd_strdup(dir);
    s->prefix = pd_strdup(prefix);
    s->buf = pd_calloc(n, sizeof *s->buf);
    if (!s->dir || !s->prefix || !s->buf)
        return pd_fail(err, PD_ENOMEM, "out of memory for %u shards", n);
    s->n = n;
    s->flush_at = ALL_BUFFERS / n;
    s->flush_at = s->flush_at > LARGEST_BUFFER    ? LARGEST_BUFFER
                  : s->flush_at < SMALLEST_BUFFER ? SMALLEST_BUFFER
                                                  : s->flush_at;
    for (uint32_t i = 0; i < n; i++)
        pd_buf_init(&s->buf[i]);
    for (; s->made < n; s->made++) {
        char path[PATH_MAX];
        if ((rc = name_of(s, s->made, 0, path, err)))
            return rc;
        int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
        if (fd < 0)
            return pd_fail_errno(err, PD_EIO, errno, "cannot create %s", path);
        close(fd);
    }
    return 0;
}

int data_shards_header(struct data_shards *s, const char *line, size_t n) {
    for (uint32_t i = 0; i < s->n; i++) {
        pd_put(&s->buf[i], line, n);
        pd_put(&s->buf[i], "\n", 1);
        if (s->buf[i].failed)
            return PD_ENOMEM;
    }
    return 0;
}

struct pd_buf *data_shards_buf(struct data_shards *s) {
    return &s->buf[s->lines % s->n];
}

static int write_buf(struct data_shards *s, uint32_t i, struct pd_err *err) {
    char path[PATH_MAX];
    struct pd_buf *b = &s->buf[i];
    if (b->failed)
        return pd_fail(err, PD_ENOMEM, "out of memory for a shard's lines");
    int rc = name_of(s, i, 0, path, err);
    if (rc || !b->len)
        return rc;
    void *packed = NULL; /* appended as one more member of the packed file */
    size_t n = b->len;
    if (s->packing != DATA_PLAIN && data_pack(s->packing, b->data, b->len, &packed, &n))
        return pd_fail(err, PD_ENOMEM, "out of memory for a shard's lines");
    int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        free(packed);
        return pd_fail_errno(err, PD_EIO, errno, "cannot open %s", path);
    }
    int e = pd_fault("shards.write")                         ? ENOSPC
            : pd_write_all(fd, packed ? packed : b->data, n) ? errno
                                                             : 0;
    free(packed);
    if (close(fd) && !e)
        e = errno;
    pd_buf_clear(b);
    return e ? pd_fail_errno(err, PD_EIO, e, "cannot write %s", path) : 0;
}

int data_shards_record(struct data_shards *s, struct pd_err *err) {
    uint32_t i = (uint32_t)(s->lines++ % s->n);
    return s->buf[i].failed || s->buf[i].len >= s->flush_at ? write_buf(s, i, err) : 0;
}

int data_shards_line(struct data_shards *s, struct pd_err *err) {
    pd_put(data_shards_buf(s), "\n", 1);
    return data_shards_record(s, err);
}

int data_shards_flush(struct data_shards *s, struct pd_err *err) {
    int rc = 0;
    for (uint32_t i = 0; !rc && i < s->n; i++)
        rc = write_buf(s, i, err);
    return rc;
}

/* The number of a file called PREFIX-ddddd, with or without .gz or .zst, and its packing; or -1. */
static int64_t shard_number(const struct data_shards *s, const char *name,
                            enum data_packing *packing) {
    size_t n = strlen(s->prefix);
    char digits[6] = "";
    uint64_t v;
    if (strncmp(name, s->prefix, n) || name[n] != '-' || strlen(name) < n + 6)
        return -1;
    memcpy(digits, name + n + 1, 5);
    for (int p = DATA_PLAIN; p <= DATA_ZSTD; p++)
        if (!strcmp(name + n + 6, data_packing_suffix((enum data_packing)p)) &&
            !pd_parse_u64(digits, 99999, &v)) {
            *packing = (enum data_packing)p;
            return (int64_t)v;
        }
    return -1;
}

static int remove_older(const struct data_shards *s, struct pd_err *err) {
    DIR *d = opendir(s->dir);
    if (!d)
        return pd_fail_errno(err, PD_EIO, errno, "cannot list %s", s->dir);
    int rc = 0;
    for (struct dirent *e; !rc && (e = readdir(d));) {
        enum data_packing packing = s->packing;
        int64_t i = shard_number(s, e->d_name, &packing);
        if (i >= 0 && (i >= (int64_t)s->n || packing != s->packing) &&
            unlinkat(dirfd(d), e->d_name, 0))
            rc = pd_fail_errno(err, PD_EIO, errno, "cannot remove %s/%s", s->dir, e->d_name);
    }
    closedir(d);
    return rc;
}

int data_shards_commit(struct data_shards *s, struct pd_err *err) {
    char from[PATH_MAX], to[PATH_MAX];
    for (uint32_t i = 0; i < s->n; i++) {
        int rc = name_of(s, i, 0, from, err);
        rc = rc ? rc : name_of(s, i, 1, to, err);
        if (rc)
            return rc;
        if (rename(from, to))
            return pd_fail_errno(err, PD_EIO, errno, "cannot rename %s to %s", from, to);
    }
    s->made = 0;
    return remove_older(s, err);
}

int data_shards_clear(const char *dir, const char *prefix, struct pd_err *err) {
    struct data_shards s = {
        .dir = (char *)(uintptr_t)dir, .prefix = (char *)(uintptr_t)prefix, .n = 0};
    return access(dir, F_OK) ? 0 : remove_older(&s, err);
}

void data_shards_release(struct data_shards *s) {
    char path[PATH_MAX];
    for (uint32_t i = 0; i < s->made; i++)
        if (!name_of(s, i, 0, path, NULL))
            unlink(path);
    for (uint32_t i = 0; s->buf && i < s->n; i++)
        pd_buf_release(&s->buf[i]);
    free(s->buf);
    free(s->dir);
    free(s->prefix);
    memset(s, 0, sizeof *s);
}
