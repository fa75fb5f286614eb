/* SPDX-License-Identifier: Apache-2.0 */
/* outfile.c - see outfile.h. */
#include "model/outfile.h"

#include <sys/syscall.h>

#include "thread/run_later.h"

enum { PAGE = 4096, LARGE = 4 * OUTFILE_BUFFER, WRITE_BACK = 8 << 20 };

int outfile_open(struct outfile *o, const char *path, struct pd_err *err) {
    memset(o, 0, sizeof *o);
    o->fd = -1;
    o->opened_by = getpid();
    if (pd_fmt(o->path, sizeof o->path, "%s", path))
        return pd_fail(err, PD_EIO, "path too long: %s", path);
    for (int i = 0; i < 2; i++)
        o->buffer[i] = pd_fault("alloc") ? NULL : aligned_alloc(PAGE, OUTFILE_BUFFER);
    if (!o->buffer[0] || !o->buffer[1]) {
        outfile_release(o);
        return pd_fail(err, PD_ENOMEM, "no memory to write %s", path);
    }
    o->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (o->fd < 0) {
        const int why = errno;
        outfile_release(o);
        return pd_fail_errno(err, PD_EIO, why, "cannot create %s", path);
    }
    return 0;
}

static int set_direct(const struct outfile *o, int on) {
    const int flags = fcntl(o->fd, F_GETFL);
    return flags < 0 ? -1 : fcntl(o->fd, F_SETFL, on ? flags | O_DIRECT : flags & ~O_DIRECT);
}

/* Chooses the method at the first write. Blocks are preallocated, because a write that extends the
 * file would have to be waited for. */
static void choose_way(struct outfile *o) {
    o->way = OUTFILE_CACHED;
    if (o->total < LARGE || pd_fault("outfile.cached") || fallocate(o->fd, 0, 0, (off_t)o->total) ||
        set_direct(o, 1))
        return;
    o->way = OUTFILE_DIRECT;
    if (!pd_fault("outfile.direct") && !syscall(SYS_io_setup, 1, &o->aio))
        o->way = OUTFILE_ASYNC;
}

/* Writes the rest of a piece in the ordinary way. A file system that accepts O_DIRECT may still
 * refuse a write or end it early. */
static int write_plain(struct outfile *o, const uint8_t *p, size_t n, uint64_t at) {
    while (n) {
        const ssize_t k = pwrite(o->fd, p, n, (off_t)at);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0 && errno == EINVAL && o->way != OUTFILE_CACHED && !set_direct(o, 0)) {
            o->way = OUTFILE_CACHED;
            continue;
        }
        if (k <= 0) {
            errno = k ? errno : EIO;
            return -1;
        }
        if (o->way != OUTFILE_CACHED && (size_t)k < n && k % PAGE) { /* the rest is not aligned */
            if (set_direct(o, 0))
                return -1;
            o->way = OUTFILE_CACHED;
        }
        p += k;
        n -= (size_t)k;
        at += (uint64_t)k;
    }
    return 0;
}

/* Waits until the other buffer is free. */
static int wait_other(struct outfile *o) {
    struct io_event e;
    const size_t n = o->n_under_way;
    long rc;
    if (!n)
        return 0;
    while ((rc = syscall(SYS_io_getevents, o->aio, 1, 1, &e, NULL)) < 0 && errno == EINTR) {
    }
    o->n_under_way = 0;
    if (rc != 1)
        return -1;
    const size_t done = e.res > 0 ? (size_t)e.res : 0;
    if (e.res < 0 && e.res != -EINVAL && e.res != -EAGAIN) {
        errno = (int)-e.res;
        return -1;
    }
    return done < n ? write_plain(o, o->buffer[1 - o->current] + done, n - done,
                                  (uint64_t)o->io.aio_offset + done)
                    : 0;
}

static int submit(struct outfile *o, size_t n) {
    struct iocb *list = &o->io;
    o->io = (struct iocb){.aio_lio_opcode = IOCB_CMD_PWRITE,
                          .aio_fildes = (uint32_t)o->fd,
                          .aio_buf = (uintptr_t)outfile_room(o),
                          .aio_nbytes = n,
                          .aio_offset = (int64_t)o->written};
    if (syscall(SYS_io_submit, o->aio, 1, &list) != 1)
        return -1;
    o->n_under_way = n;
    return 0;
}

static int put(struct outfile *o, size_t n) {
    if (wait_other(o))
        return -1;
    if (o->way != OUTFILE_CACHED && n % PAGE) { /* the last bytes */
        if (set_direct(o, 0))
            return -1;
        o->way = OUTFILE_CACHED;
    }
    if (o->way == OUTFILE_ASYNC && !submit(o, n))
        return 0;
    return write_plain(o, outfile_room(o), n, o->written);
}

int outfile_write(struct outfile *o, size_t n, struct pd_err *err) {
    if (o->way == OUTFILE_NEW)
        choose_way(o);
    if (pd_fault("model.write"))
        return pd_fail_errno(err, PD_EIO, ENOSPC, "cannot write %s", o->path);
    if (n && put(o, n))
        return pd_fail_errno(err, PD_EIO, errno, "cannot write %s", o->path);
    o->written += n;
    o->current = 1 - o->current;
    if (o->way == OUTFILE_CACHED &&
        o->written - o->on_its_way >= WRITE_BACK) { /* else the disk would start only at fsync */
        (void)sync_file_range(o->fd, (off_t)o->on_its_way, (off_t)(o->written - o->on_its_way),
                              SYNC_FILE_RANGE_WRITE);
        o->on_its_way = o->written;
    }
    return 0;
}

static void destroy(void *aio) { (void)syscall(SYS_io_destroy, (aio_context_t)(uintptr_t)aio); }

/* Closes the asynchronous context. The kernel needs 10 to 30 ms for that, even without I/O under
 * way; a thread does it in the background if possible. */
static void end_async(struct outfile *o) {
    void *aio = (void *)(uintptr_t)o->aio;
    if (o->aio && !o->n_under_way && getpid() == o->opened_by)
        pd_run_later(destroy, aio);
    else if (o->aio)
        destroy(aio);
    o->aio = 0;
    o->n_under_way = 0;
    if (o->way == OUTFILE_ASYNC)
        o->way = OUTFILE_DIRECT;
}

int outfile_settle(struct outfile *o, struct pd_err *err) {
    const int rc = wait_other(o), why = errno;
    end_async(o);
    return rc ? pd_fail_errno(err, PD_EIO, why, "cannot write %s", o->path) : 0;
}

static int drop(struct outfile *o) {
    end_async(o);
    const int fd = o->fd;
    o->fd = -1;
    return fd >= 0 ? close(fd) : 0;
}

int outfile_sync(struct outfile *o, struct pd_err *err) {
    int rc = wait_other(o) || fsync(o->fd) ? -1 : 0, why = errno;
    if (drop(o) && !rc) {
        rc = -1;
        why = errno;
    }
    return rc ? pd_fail_errno(err, PD_EIO, why, "cannot write %s", o->path) : 0;
}

void outfile_release(struct outfile *o) {
    (void)drop(o);
    free(o->buffer[0]);
    free(o->buffer[1]);
    o->buffer[0] = o->buffer[1] = NULL;
}
