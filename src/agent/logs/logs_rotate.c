/* SPDX-License-Identifier: Apache-2.0 */
/* logs_rotate.c - the files of a stream: finding and rotating them.
 *
 * A rotation is a sequence of steps. logs_open understands the state after each step:
 *
 *     create NAME.new and NAME.new.idx     may fail on a full disk; nothing has changed then
 *     remove NAME.keep, then its index     an index without a file is the oldest index
 *     NAME.i -> NAME.(i+1), oldest first   numbers may have gaps; only their order counts
 *     NAME   -> NAME.1                     NAME may be missing
 *     NAME.new -> NAME                     NAME may lack an index: it begins where NAME.1 ends
 *     NAME.new.idx -> NAME.start.idx */
#include "agent/logs/logs_internal.h"

enum { MAX_FOUND = LOGS_KEEP_MAX + 2 }; /* during a rotation there is one file more */

const char *const log_names[N_LOG_STREAMS] = {"server.log", "train.log", "events"};

/* log/NAME.number; 0: log/NAME */
static int file_path(const struct logs *l, enum log_stream s, unsigned number, char out[PATH_MAX]) {
    return number ? pd_fmt(out, PATH_MAX, "%s/log/%s.%u", l->dir, log_names[s], number)
                  : pd_fmt(out, PATH_MAX, "%s/log/%s", l->dir, log_names[s]);
}

/* .agent/NAME.start.idx */
static int index_path(const struct logs *l, enum log_stream s, uint64_t start, char out[PATH_MAX]) {
    return pd_fmt(out, PATH_MAX, "%s/.agent/%s.%llu.idx", l->dir, log_names[s],
                  (unsigned long long)start);
}

/* --- finding files --- */

struct found_log {
    struct {
        unsigned number;
        uint64_t size;
    } file[MAX_FOUND];
    uint64_t start[MAX_FOUND]; /* the start offsets of the indexes, latest first */
    unsigned n_files, n_starts;
};

static int find_files(const struct logs *l, enum log_stream s, struct found_log *f,
                      struct pd_err *err) {
    char path[PATH_MAX];
    struct stat st;
    for (unsigned n = 0; n < MAX_FOUND; n++) {
        if (file_path(l, s, n, path))
            return pd_fail(err, PD_EIO, "path too long: %s", l->dir);
        if (stat(path, &st) || !S_ISREG(st.st_mode))
            continue;
        f->file[f->n_files].number = n;
        f->file[f->n_files++].size = (uint64_t)st.st_size;
    }
    return 0;
}

static int latest_first(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x < y) - (x > y);
}

static void find_indexes(const struct logs *l, enum log_stream s, struct found_log *f) {
    char path[PATH_MAX];
    DIR *d = pd_fmt(path, sizeof path, "%s/.agent", l->dir) ? NULL : opendir(path);
    size_t len = strlen(log_names[s]);
    struct dirent *e;
    while (d && (e = readdir(d)) && f->n_starts < MAX_FOUND) {
        char digits[24];
        const char *at = e->d_name + len + 1;
        if (!pd_starts_with(e->d_name, log_names[s]) || e->d_name[len] != '.' ||
            !pd_ends_with(at, ".idx") ||
            pd_fmt(digits, sizeof digits, "%.*s", (int)(strlen(at) - 4), at) ||
            pd_parse_u64(digits, INT64_MAX, &f->start[f->n_starts]))
            continue;
        f->n_starts++;
    }
    pd_closedir(d);
    qsort(f->start, f->n_starts, sizeof *f->start, latest_first);
}

/* Matches files and indexes in order, latest first. Only the newest file may have no index. */
static void match(struct log_file *lf, const struct found_log *f) {
    unsigned i = f->n_files && !f->file[0].number, k = 0;
    uint64_t next = 0; /* where the previously matched (later) file begins */
    if (i && f->n_files <= f->n_starts) {
        lf->start = next = f->start[k++];
        lf->size = lf->start + f->file[0].size;
    } else if (f->n_starts && f->n_files > i) { /* no index of the newest file, or no such file */
        lf->start = next = f->start[0] + f->file[i].size;
        lf->size = lf->start + (i ? f->file[0].size : 0);
    } else {
        lf->start = f->n_starts ? f->start[0] : 0;
        lf->size = lf->start + (i ? f->file[0].size : 0);
    }
    lf->first = lf->start;
    for (; i < f->n_files && k < f->n_starts && lf->n_old < LOGS_KEEP_MAX; i++, k++) {
        uint64_t room = next - f->start[k];
        lf->old[lf->n_old++] = (struct log_old){f->file[i].number, f->start[k],
                                                f->file[i].size < room ? f->file[i].size : room};
        lf->first = next = f->start[k];
    }
}

static int open_newest(struct logs *l, enum log_stream s, int read_only, struct pd_err *err) {
    struct log_file *f = &l->f[s];
    char path[PATH_MAX], index[PATH_MAX], last;
    struct stat st;
    if (file_path(l, s, 0, path) || index_path(l, s, f->start, index))
        return pd_fail(err, PD_EIO, "path too long: %s", l->dir);
    int flags = (read_only ? O_RDONLY : O_RDWR | O_CREAT | O_APPEND) | O_CLOEXEC;
    f->fd = open(path, flags, 0644);
    if (f->fd < 0 && !(read_only && errno == ENOENT))
        return pd_fail_errno(err, PD_EIO, errno, "cannot open %s", path);
    f->index = open(index, flags, 0644);
    if (f->index < 0 && !(read_only && errno == ENOENT))
        return pd_fail_errno(err, PD_EIO, errno, "cannot open %s", index);
    if (f->index >= 0 && !fstat(f->index, &st))
        f->n_records = (uint64_t)st.st_size / sizeof(struct log_record);
    f->mid_line = f->size > f->start && f->fd >= 0 &&
                  pread(f->fd, &last, 1, (off_t)(f->size - f->start - 1)) == 1 && last != '\n';
    return 0;
}

int logs_open(struct logs *l, const char *job_dir, int read_only, struct pd_err *err) {
    int rc = 0;
    l->max_size = l->keep = 0;
    for (int i = 0; i < N_LOG_STREAMS; i++)
        l->f[i] = (struct log_file){
            .fd = -1, .index = -1, .old_fd = -1, .old_index = -1, .complete = read_only};
    if (pd_fmt(l->dir, sizeof l->dir, "%s", job_dir))
        return pd_fail(err, PD_EIO, "path too long: %s", job_dir);
    for (int i = 0; i < N_LOG_STREAMS && !rc; i++) {
        struct found_log f = {0};
        rc = find_files(l, (enum log_stream)i, &f, err);
        if (rc)
            break;
        find_indexes(l, (enum log_stream)i, &f);
        match(&l->f[i], &f);
        rc = open_newest(l, (enum log_stream)i, read_only, err);
    }
    if (rc)
        logs_close(l);
    return rc;
}

static void close_fd(int *fd) {
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

void logs_close(struct logs *l) {
    for (int i = 0; i < N_LOG_STREAMS; i++) {
        close_fd(&l->f[i].fd);
        close_fd(&l->f[i].index);
        close_fd(&l->f[i].old_fd);
        close_fd(&l->f[i].old_index);
    }
}

void logs_limit(struct logs *l, uint64_t max_size, unsigned keep) {
    l->max_size = max_size;
    l->keep = keep < LOGS_KEEP_MAX ? keep : LOGS_KEEP_MAX;
}

/* --- reading rotated files --- */

int logs_open_old(struct logs *l, enum log_stream s, unsigned i) {
    struct log_file *f = &l->f[s];
    char path[PATH_MAX], index[PATH_MAX];
    struct stat st;
    if (f->old_fd >= 0 && f->old_start == f->old[i].start)
        return 0;
    close_fd(&f->old_fd);
    close_fd(&f->old_index);
    if (file_path(l, s, f->old[i].number, path) || index_path(l, s, f->old[i].start, index) ||
        (f->old_fd = open(path, O_RDONLY | O_CLOEXEC)) < 0)
        return -1;
    f->old_start = f->old[i].start;
    /* Without an index only the times are unknown. */
    f->old_index = open(index, O_RDONLY | O_CLOEXEC);
    f->old_records = f->old_index >= 0 && !fstat(f->old_index, &st)
                         ? (uint64_t)st.st_size / sizeof(struct log_record)
                         : 0;
    return 0;
}

void logs_forget_old(struct logs *l, enum log_stream s, unsigned i) {
    struct log_file *f = &l->f[s];
    f->n_old = i;
    close_fd(&f->old_fd); /* a removed file occupies disk space while it is open */
    close_fd(&f->old_index);
    f->first = i ? f->old[i - 1].start : f->start;
}

/* --- rotating --- */

struct fresh {
    char file[PATH_MAX], index[PATH_MAX];
    int fd, index_fd;
};

static int fresh_make(const struct logs *l, enum log_stream s, struct fresh *n) {
    const int flags = O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOFOLLOW;
    n->fd = n->index_fd = -1;
    if (pd_fmt(n->file, sizeof n->file, "%s/log/%s.new", l->dir, log_names[s]) ||
        pd_fmt(n->index, sizeof n->index, "%s/.agent/%s.new.idx", l->dir, log_names[s]) ||
        pd_fault("logs.rotate"))
        return -1;
    n->fd = open(n->file, flags, 0644);
    n->index_fd = n->fd < 0 || pd_fault("logs.rotate") ? -1 : open(n->index, flags, 0644);
    return n->index_fd < 0 ? -1 : 0;
}

static void fresh_drop(struct fresh *n) {
    if (n->fd >= 0)
        unlink(n->file);
    if (n->index_fd >= 0)
        unlink(n->index);
    close_fd(&n->fd);
    close_fd(&n->index_fd);
}

static int move(const struct logs *l, enum log_stream s, unsigned from, unsigned to) {
    char a[PATH_MAX], b[PATH_MAX];
    if (file_path(l, s, from, a) || file_path(l, s, to, b) || pd_fault("logs.rotate"))
        return -1;
    /* Another process removed the file: a read will notice it. */
    return rename(a, b) && errno != ENOENT ? -1 : 0;
}

/* Errors are ignored: the stream does not refer to the removed file any more. */
static void remove_file(const struct logs *l, enum log_stream s, unsigned number, uint64_t start) {
    char path[PATH_MAX];
    if (!file_path(l, s, number, path))
        unlink(path);
    pd_fault("logs.rotate");
    if (!index_path(l, s, start, path))
        unlink(path);
}

static void remove_oldest(struct logs *l, enum log_stream s, unsigned keep) {
    struct log_file *f = &l->f[s];
    while (f->n_old > keep) {
        const struct log_old o = f->old[f->n_old - 1];
        remove_file(l, s, o.number, o.start);
        logs_forget_old(l, s, f->n_old - 1);
    }
}

/* Frees the name NAME.1. The oldest file moves first, and numbers only grow, so no file is
 * overwritten. */
static int shift(struct logs *l, enum log_stream s) {
    struct log_file *f = &l->f[s];
    for (unsigned i = f->n_old; i-- > 0;)
        if (f->old[i].number != i + 2) {
            if (move(l, s, f->old[i].number, i + 2))
                return -1;
            f->old[i].number = i + 2;
        }
    return 0;
}

/* The new file becomes the newest file of the stream. Its name changes later. */
static void take_over(struct logs *l, enum log_stream s, struct fresh *n) {
    struct log_file *f = &l->f[s];
    if (l->keep) {
        memmove(f->old + 1, f->old, f->n_old * sizeof *f->old);
        f->old[0] = (struct log_old){1, f->start, f->size - f->start};
        f->n_old++;
    } else {
        f->first = f->size;
    }
    close(f->fd);
    close(f->index);
    f->fd = n->fd;
    f->index = n->index_fd;
    f->start = f->size;
    f->n_records = 0;
}

int logs_rotate(struct logs *l, enum log_stream s, struct pd_err *err) {
    struct log_file *f = &l->f[s];
    char path[PATH_MAX], index[PATH_MAX];
    struct fresh n;
    int made = !fresh_make(l, s, &n);
    if (made)
        remove_oldest(l, s, l->keep ? l->keep - 1 : 0);
    if (!made || (l->keep && (shift(l, s) || move(l, s, 0, 1)))) {
        fresh_drop(&n);
        f->retry_at = f->size + l->max_size / 8 + 1;
        return 0;
    }
    const uint64_t before = f->start, start = f->size;
    take_over(l, s, &n);
    if (file_path(l, s, 0, path) || pd_fault("logs.rotate") || rename(n.file, path) ||
        index_path(l, s, start, index) || pd_fault("logs.rotate") || rename(n.index, index))
        return pd_fail_errno(err, PD_EIO, errno, "cannot rotate log/%s", log_names[s]);
    if (!l->keep && !index_path(l, s, before, index))
        unlink(index);
    return 0;
}
