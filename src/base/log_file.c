/* SPDX-License-Identifier: Apache-2.0 */
/* log_file.c - a log in files of limited size: PATH, PATH.1 (the newest old file) to PATH.keep.
 *
 * A rotation keeps the number of the descriptor: dup3 replaces the file behind it. Threads that are
 * about to write therefore need no lock; each record goes whole into the old or the new file.
 *
 * Several processes may write to the same PATH. The process that finds PATH too long rotates it,
 * under a lock on the file. The other processes notice that PATH is now another file. */
#include <sys/file.h>

struct pd_log_file {
    char path[PATH_MAX];
    int fd;
    uint64_t max;
    unsigned keep;
    /* size: bytes that this process knows of. Above limit the process checks the file. */
    atomic_ullong size, limit;
    atomic_flag busy;
};

enum { OPEN_FLAGS = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC };

int pd_log_open(struct pd_log *log, const char *path, int also_fd, enum pd_level level,
                struct pd_err *err) {
    struct stat st;
    struct pd_log_file *f = pd_calloc(1, sizeof *f);
    if (!f)
        return pd_oom(err, "a log file");
    int rc = pd_fmt(f->path, sizeof f->path, "%s", path)
                 ? pd_fail(err, PD_ECONF, "path too long: %s", path)
                 : 0;
    if (!rc && ((f->fd = open(path, OPEN_FLAGS, 0644)) < 0 || fstat(f->fd, &st)))
        rc = pd_fail_errno(err, PD_EIO, errno, "cannot open %s", path);
    if (rc) {
        if (f->fd > 0)
            close(f->fd);
        free(f);
        return rc;
    }
    atomic_init(&f->size, (unsigned long long)st.st_size);
    atomic_init(&f->limit, ULLONG_MAX);
    atomic_flag_clear(&f->busy);
    *log = (struct pd_log){.fd = f->fd, .also_fd = also_fd, .level = level, .file = f};
    return 0;
}

void pd_log_limit(struct pd_log *log, uint64_t max_size, unsigned keep) {
    if (!log->file)
        return;
    log->file->max = max_size;
    log->file->keep = keep;
    atomic_store(&log->file->limit, max_size ? max_size : ULLONG_MAX);
}

void pd_log_close(struct pd_log *log) {
    if (!log->file)
        return;
    close(log->file->fd);
    free(log->file);
    *log = (struct pd_log){.fd = -1, .also_fd = -1, .level = log->level};
}

static void put_behind(struct pd_log_file *f, int fd, uint64_t size) {
    dup3(fd, f->fd, O_CLOEXEC);
    close(fd);
    atomic_store(&f->size, size);
    atomic_store(&f->limit, f->max);
}

/* Rename .1 to .2 and so on, drop .keep, and link PATH to PATH.1. A missing number does not matter.
 * PATH keeps its own name until the new file replaces it. Without that, another process could
 * create PATH in the meantime, and its records would be lost. Only a file system without hard links
 * has that gap. */
static int shift_names(const struct pd_log_file *f, const struct stat *its) {
    char from[PATH_MAX + 16], to[PATH_MAX + 16];
    struct stat first;
    pd_fmt(to, sizeof to, "%s.1", f->path);
    if (f->keep && !stat(to, &first) && first.st_ino == its->st_ino && first.st_dev == its->st_dev)
        return 0; /* a process that was killed here has done this already */
    for (unsigned i = f->keep; i-- > 0;) {
        pd_fmt(from, sizeof from, i ? "%s.%u" : "%s", f->path, i);
        pd_fmt(to, sizeof to, "%s.%u", f->path, i + 1);
        if (!i && (!unlink(to) || errno == ENOENT) && !link(from, to))
            return 0;
        if (rename(from, to) && errno != ENOENT)
            return -1;
    }
    return 0;
}

static int rotate(struct pd_log_file *f, size_t len) {
    char fresh[PATH_MAX + 16];
    struct stat there, mine;
    int fd;
    if (fstat(f->fd, &mine))
        return -1;
    if (stat(f->path, &there) || there.st_ino != mine.st_ino ||
        there.st_dev != mine.st_dev) { /* another process has rotated PATH */
        if ((fd = open(f->path, OPEN_FLAGS, 0644)) < 0)
            return -1;
        put_behind(f, fd, (uint64_t)(fstat(fd, &there) ? 0 : there.st_size) + len);
        return 0;
    }
    if (!mine.st_size || (uint64_t)mine.st_size + len <= f->max) { /* PATH was truncated */
        atomic_store(&f->size, (unsigned long long)mine.st_size + len);
        return 0;
    }
    if (pd_fmt(fresh, sizeof fresh, "%s.new", f->path) ||
        (fd = open(fresh, OPEN_FLAGS | O_TRUNC, 0644)) < 0)
        return -1;
    if (shift_names(f, &mine) || rename(fresh, f->path)) {
        unlink(fresh);
        close(fd);
        return -1;
    }
    put_behind(f, fd, len);
    return 0;
}

void pd_log_file_grows(struct pd_log_file *f, size_t len) {
    const unsigned long long size = atomic_fetch_add(&f->size, len) + len;
    if (size <= atomic_load(&f->limit) || atomic_flag_test_and_set(&f->busy))
        return;
    /* A lock belongs to the open file, and put_behind replaces the open file of f's descriptor. So
     * the lock uses a descriptor of its own. */
    int lock = open(f->path, O_RDONLY | O_CLOEXEC);
    if (lock < 0 || !flock(lock, LOCK_EX | LOCK_NB)) {
        if (rotate(f, len))
            /* Rotation failed, for example because the disk is full: try again later. */
            atomic_store(&f->limit, size + f->max / 8 + 1);
    }
    pd_close(lock);
    atomic_flag_clear(&f->busy);
}
