/* SPDX-License-Identifier: Apache-2.0 */
/* logs.c - see logs.h. */
#include "agent/logs/logs.h"

#include "agent/logs/logs_internal.h"

/* --- appending --- */

/* The record is written to the index before its bytes. If writing the bytes fails, the next record
 * has the same offset. Of two records with one offset, the later one counts. */
static int write_piece(struct log_file *f, enum log_stream s, uint64_t time_us, const char *p,
                       size_t n, struct pd_err *err) {
    const struct log_record r = {f->size, time_us};
    int torn = pd_fault("logs.torn") && write(f->index, &r, 5) == 5;
    if (torn || pd_fault("logs.write") ? (errno = ENOSPC, 1)
                                       : pd_write_all(f->index, &r, sizeof r)) {
        int e = errno;
        (void)!ftruncate(
            f->index,
            (off_t)(f->n_records * sizeof r)); /* a partial record would shift all later records */
        return pd_fail_errno(err, PD_EIO, e, "cannot write the index of %s", log_names[s]);
    }
    f->n_records++;
    if (pd_write_all(f->fd, p, n)) {
        int e = errno;
        struct stat st;
        if (!fstat(f->fd, &st))
            /* Some of the bytes may have been written. */
            f->size = f->start + (uint64_t)st.st_size;
        return pd_fail_errno(err, PD_EIO, e, "cannot write log/%s", log_names[s]);
    }
    f->size += n;
    f->mid_line = p[n - 1] != '\n';
    return 0;
}

/* How many of the n bytes go into the newest file, if all together exceed its limit. 0: rotate
 * first. */
static size_t share(const struct log_file *f, uint64_t max, const char *p, size_t n) {
    const uint64_t have = f->size - f->start, room = have < max ? max - have : 0;
    const char *nl = memrchr(p, '\n', room);
    if (nl)
        return (size_t)(nl + 1 - p);
    if (have && !f->mid_line)
        return 0;
    const uint64_t most = have < 2 * max ? 2 * max - have : 0; /* for a line that has no end yet */
    nl = memchr(p + room, '\n', n - room);
    const uint64_t want = nl ? (uint64_t)(nl + 1 - p) : n;
    return (size_t)(want < most ? want : most);
}

int logs_append(struct logs *l, enum log_stream s, uint64_t time_us, const void *bytes, size_t n,
                struct pd_err *err) {
    struct log_file *f = &l->f[s];
    const char *p = bytes;
    while (n) {
        size_t k = n;
        if (l->max_size && f->size - f->start + n > l->max_size && f->size >= f->retry_at)
            k = share(f, l->max_size, p, n);
        int rc = k ? write_piece(f, s, time_us, p, k, err) : logs_rotate(l, s, err);
        if (rc)
            return rc;
        p += k;
        n -= k;
    }
    return 0;
}

/* --- reading --- */

/* An open file of a stream. */
struct log_part {
    int fd, index;
    uint64_t start, end, n_records;
};

static int find_part(struct logs *l, enum log_stream s, uint64_t offset, struct log_part *p,
                     struct pd_err *err) {
    struct log_file *f = &l->f[s];
    unsigned i = 0;
    if (offset >= f->start) {
        *p = (struct log_part){f->fd, f->index, f->start, f->size, f->n_records};
        return 0;
    }
    while (i < f->n_old && f->old[i].start > offset)
        i++;
    if (i < f->n_old && (offset >= f->old[i].start + f->old[i].size || logs_open_old(l, s, i)))
        logs_forget_old(l, s, i);
    if (i >= f->n_old)
        return pd_fail(err, PD_ENOENT, "log/%s is kept from byte %llu on", log_names[s],
                       (unsigned long long)f->first);
    *p = (struct log_part){f->old_fd, f->old_index, f->old[i].start,
                           f->old[i].start + f->old[i].size, f->old_records};
    return 0;
}

static int read_record(const struct log_part *f, uint64_t i, struct log_record *r) {
    return pread(f->index, r, sizeof *r, (off_t)(i * sizeof *r)) == (ssize_t)sizeof *r ? 0 : -1;
}

/* Finds the last record at or before `offset`, and the offset at which the next record begins. */
static void find_record(const struct log_part *f, uint64_t offset, uint64_t hint, uint64_t *at,
                        struct log_record *r, uint64_t *end) {
    struct log_record q;
    uint64_t lo = 0, hi = f->n_records; /* lo: at or before `offset`; hi: after it */
    *r = (struct log_record){0, 0};
    *end = f->end;
    *at = 0;
    if (!hi || read_record(f, 0, &q) || q.offset > offset)
        return;
    if (hint < hi && !read_record(f, hint, &q) && q.offset <= offset) {
        lo = hint;
        for (int step = 0; step < 2 && lo + 1 < hi;
             step++) { /* sequential reading moves by one record */
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

int logs_read(struct logs *l, enum log_stream s, uint64_t offset, void *buf, size_t cap, size_t *n,
              uint64_t *time_us, uint64_t *hint, struct pd_err *err) {
    struct log_record r;
    struct log_part f = {0};
    uint64_t end;
    *n = 0;
    if (offset >= l->f[s].size)
        return 0;
    int rc = find_part(l, s, offset, &f, err);
    if (rc)
        return rc;
    find_record(&f, offset, *hint, hint, &r, &end);
    if (end <= offset || end > f.end)
        end = f.end;
    if (cap > end - offset)
        cap = (size_t)(end - offset);
    ssize_t k;
    do
        k = pread(f.fd, buf, cap, (off_t)(offset - f.start));
    while (k < 0 && errno == EINTR);
    if (k <= 0)
        return pd_fail_errno(err, PD_EIO, k ? errno : EIO, "cannot read log/%s", log_names[s]);
    *n = (size_t)k;
    *time_us = r.time_us;
    return 0;
}

void logs_tail(struct logs *l, enum log_stream s, uint64_t from, int lines, char *buf, size_t cap) {
    const struct log_file *f = &l->f[s];
    uint64_t time_us, hint = 0;
    buf[0] = 0;
    if (from < f->first)
        from = f->first;
    if (f->size <= from)
        return;
    int whole = f->size - from < cap; /* 0: the first line may be incomplete */
    uint64_t at = whole ? from : f->size - (cap - 1);
    size_t k = 0, got = 1;
    while (got && at + k < f->size &&
           !logs_read(l, s, at + k, buf + k, cap - 1 - k, &got, &time_us, &hint, NULL))
        k += got;
    buf[k] = 0;
    if (!k)
        return;
    char *p = buf + k;
    if (p[-1] == '\n')
        p--;
    int seen = 0;
    while (p > buf && !(p[-1] == '\n' && ++seen == lines))
        p--;
    if (p == buf && !whole) {
        char *nl = memchr(buf, '\n', k);
        if (nl && nl[1])
            p = nl + 1;
    }
    memmove(buf, p, (size_t)(buf + k - p) + 1);
}
