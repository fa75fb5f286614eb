/* lines.c - see lines.h. */
#include "data/lines.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"

enum { READ_BYTES = 256 * 1024, BUF_BYTES = DATA_MAX_LINE + 1 + READ_BYTES };

int data_lines_init(struct data_lines *l, struct pd_err *err) {
    memset(l, 0, sizeof *l);
    l->fd = -1;
    l->buf = pd_malloc(BUF_BYTES);
    return l->buf ? 0 : pd_fail(err, PD_ENOMEM, "out of memory for a file's buffer");
}

void data_lines_release(struct data_lines *l) {
    data_lines_close(l);
    free(l->buf);
    l->buf = NULL;
}

int data_lines_open(struct data_lines *l, const char *path, const char *shown, uint64_t offset, uint64_t line,
                    struct pd_err *err) {
    data_lines_close(l);
    int std_in = !strcmp(path, "-");
    int fd = std_in ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return pd_fail_errno(err, errno == ENOENT ? PD_ENOENT : PD_EIO, errno, "cannot open %s", shown);
    struct stat st;
    if (fstat(fd, &st) || S_ISDIR(st.st_mode)) {
        close(fd);
        return pd_fail(err, PD_EIO, "%s is a folder", shown);
    }
    if (offset && lseek(fd, (off_t)offset, SEEK_SET) != (off_t)offset) {
        close(fd);
        return pd_fail_errno(err, PD_EIO, errno, "cannot seek in %s", shown);
    }
    l->fd = fd;
    l->pos = l->len = 0;
    l->offset = offset;
    l->line = line;
    l->at_end = 0;
    return 0;
}

void data_lines_close(struct data_lines *l) {
    if (l->fd >= 0)
        close(l->fd);
    l->fd = -1;
}

/* More bytes behind those unread; there is always room for a read. */
static int refill(struct data_lines *l, const char *shown, struct pd_err *err) {
    memmove(l->buf, l->buf + l->pos, l->len - l->pos);
    l->len -= l->pos;
    l->pos = 0;
    ssize_t k;
    do
        k = read(l->fd, l->buf + l->len, READ_BYTES);
    while (k < 0 && errno == EINTR);
    if (k < 0 || pd_fault("data.read"))
        return pd_fail_errno(err, PD_EIO, k < 0 ? errno : EIO, "cannot read %s", shown);
    l->at_end = k == 0;
    l->len += (size_t)k;
    return 0;
}

static void advance(struct data_lines *l, size_t n) {
    l->pos += n;
    l->offset += n;
}

/* Drop bytes up to and with the next newline. */
static int skip_line(struct data_lines *l, const char *shown, struct pd_err *err) {
    for (;;) {
        char *nl = memchr(l->buf + l->pos, '\n', l->len - l->pos);
        if (nl) {
            advance(l, (size_t)(nl - (l->buf + l->pos)) + 1);
            return PD_EDATA;
        }
        advance(l, l->len - l->pos);
        if (l->at_end)
            return PD_EDATA;
        int rc = refill(l, shown, err);
        if (rc)
            return rc;
    }
}

int data_lines_next(struct data_lines *l, const char *shown, char **line, size_t *n, struct pd_err *err) {
    size_t seen = 0;
    for (;;) {
        char *start = l->buf + l->pos;
        size_t have = l->len - l->pos;
        char *nl = memchr(start + seen, '\n', have - seen);
        size_t len = nl ? (size_t)(nl - start) : have;
        if (len > DATA_MAX_LINE) {
            l->line++;
            return skip_line(l, shown, err);
        }
        if (nl || (l->at_end && have)) {
            l->line++;
            advance(l, len + (nl != NULL));
            *line = start;
            *n = len;
            return 1;
        }
        if (l->at_end)
            return 0;
        seen = have;
        int rc = refill(l, shown, err);
        if (rc)
            return rc;
    }
}
