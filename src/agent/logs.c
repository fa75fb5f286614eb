/* logs.c - see logs.h. */
#include "agent/logs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/fs.h"
#include "base/str.h"

const char *const log_names[N_LOG_STREAMS] = {"server.log", "train.log", "events"};

struct record {
    uint64_t offset, time_us;
};

static int open_file(const char *job_dir, const char *fmt_dir, const char *name, const char *suffix, int read_only,
                     int *fd, uint64_t *size, struct pd_err *err) {
    char path[PATH_MAX];
    struct stat st;
    if (pd_fmt(path, sizeof path, "%s/%s/%s%s", job_dir, fmt_dir, name, suffix))
        return pd_fail(err, PD_EIO, "path too long: %s", job_dir);
    *fd = open(path, (read_only ? O_RDONLY : O_RDWR | O_CREAT | O_APPEND) | O_CLOEXEC, 0644);
    *size = 0;
    if (*fd < 0)
        return read_only && errno == ENOENT ? 0 : pd_fail_errno(err, PD_EIO, errno, "cannot open %s", path);
    if (fstat(*fd, &st))
        return pd_fail_errno(err, PD_EIO, errno, "cannot read %s", path);
    *size = (uint64_t)st.st_size;
    return 0;
}

int logs_open(struct logs *l, const char *job_dir, int read_only, struct pd_err *err) {
    for (int i = 0; i < N_LOG_STREAMS; i++)
        l->f[i] = (struct log_file){.fd = -1, .index = -1, .complete = read_only};
    for (int i = 0; i < N_LOG_STREAMS; i++) {
        struct log_file *f = &l->f[i];
        uint64_t bytes;
        int rc = open_file(job_dir, "log", log_names[i], "", read_only, &f->fd, &f->size, err);
        if (!rc)
            rc = open_file(job_dir, ".agent", log_names[i], ".idx", read_only, &f->index, &bytes, err);
        if (rc) {
            logs_close(l);
            return rc;
        }
        f->n_records = bytes / sizeof(struct record);
    }
    return 0;
}

void logs_close(struct logs *l) {
    for (int i = 0; i < N_LOG_STREAMS; i++) {
        if (l->f[i].fd >= 0)
            close(l->f[i].fd);
        if (l->f[i].index >= 0)
            close(l->f[i].index);
        l->f[i].fd = l->f[i].index = -1;
    }
}

/* The index's record first: should its bytes not make it, the next record begins at the same offset, and the
 * later one of two with one offset counts. */
int logs_append(struct logs *l, enum log_stream s, uint64_t time_us, const void *p, size_t n, struct pd_err *err) {
    struct log_file *f = &l->f[s];
    const struct record r = {f->size, time_us};
    if (!n)
        return 0;
    int torn = pd_fault("logs.torn") && write(f->index, &r, 5) == 5;
    if (torn || pd_fault("logs.write") ? (errno = ENOSPC, 1) : pd_write_all(f->index, &r, sizeof r)) {
        int e = errno;
        (void)!ftruncate(f->index, (off_t)(f->n_records * sizeof r)); /* half a record would shift all later ones */
        return pd_fail_errno(err, PD_EIO, e, "cannot write the index of %s", log_names[s]);
    }
    f->n_records++;
    if (pd_write_all(f->fd, p, n)) {
        int e = errno;
        struct stat st;
        if (!fstat(f->fd, &st))
            f->size = (uint64_t)st.st_size; /* a part may have been written */
        return pd_fail_errno(err, PD_EIO, e, "cannot write log/%s", log_names[s]);
    }
    f->size += n;
    return 0;
}

static int read_record(const struct log_file *f, uint64_t i, struct record *r) {
    return pread(f->index, r, sizeof *r, (off_t)(i * sizeof *r)) == (ssize_t)sizeof *r ? 0 : -1;
}

/* The last record at or before `offset`, and where the next one begins. */
static void find_record(const struct log_file *f, uint64_t offset, uint64_t hint, uint64_t *at, struct record *r,
                        uint64_t *end) {
    struct record q;
    uint64_t lo = 0, hi = f->n_records; /* record lo is at or before, record hi is behind */
    *r = (struct record){0, 0};
    *end = f->size;
    *at = 0;
    if (!hi || read_record(f, 0, &q) || q.offset > offset)
        return;
    if (hint < hi && !read_record(f, hint, &q) && q.offset <= offset) {
        lo = hint;
        for (int step = 0; step < 2 && lo + 1 < hi; step++) { /* reading in order moves by one record */
            if (read_record(f, lo + 1, &q) || q.offset > offset) {
                hi = lo + 1;
                break;
            }
            lo++;
        }
    }
    while (lo + 1 < hi) {
        uint64_t mid = lo + (hi - lo) / 2;
        if (!read_record(f, mid, &q) && q.offset <= offset)
            lo = mid;
        else
            hi = mid;
    }
    read_record(f, lo, r);
    if (lo + 1 < f->n_records && !read_record(f, lo + 1, &q))
        *end = q.offset;
    *at = lo;
}

int logs_read(const struct logs *l, enum log_stream s, uint64_t offset, void *buf, size_t cap, size_t *n,
              uint64_t *time_us, uint64_t *hint, struct pd_err *err) {
    const struct log_file *f = &l->f[s];
    struct record r;
    uint64_t end;
    *n = 0;
    if (f->fd < 0 || offset >= f->size)
        return 0;
    find_record(f, offset, *hint, hint, &r, &end);
    if (end <= offset || end > f->size)
        end = f->size;
    if (cap > end - offset)
        cap = (size_t)(end - offset);
    ssize_t k;
    do
        k = pread(f->fd, buf, cap, (off_t)offset);
    while (k < 0 && errno == EINTR);
    if (k <= 0)
        return pd_fail_errno(err, PD_EIO, k ? errno : EIO, "cannot read log/%s", log_names[s]);
    *n = (size_t)k;
    *time_us = r.time_us;
    return 0;
}

void logs_tail(const struct logs *l, enum log_stream s, uint64_t from, int lines, char *buf, size_t cap) {
    const struct log_file *f = &l->f[s];
    buf[0] = 0;
    if (f->fd < 0 || f->size <= from)
        return;
    uint64_t n = f->size - from;
    int whole = n < cap; /* else the first line may be cut */
    if (!whole)
        n = cap - 1;
    ssize_t k = pread(f->fd, buf, (size_t)n, (off_t)(f->size - n));
    if (k <= 0)
        return;
    buf[k] = 0;
    char *p = buf + k;
    if (p[-1] == '\n')
        p--;
    int seen = 0;
    while (p > buf && !(p[-1] == '\n' && ++seen == lines))
        p--;
    if (p == buf && !whole) {
        char *nl = memchr(buf, '\n', (size_t)k);
        if (nl && nl[1])
            p = nl + 1;
    }
    memmove(buf, p, (size_t)(buf + k - p) + 1);
}
