/* SPDX-License-Identifier: Apache-2.0 */
/* lines.c - see lines.h. */
#include "data/input/lines.h"

enum { READ_BYTES = 256 * 1024, BUF_BYTES = DATA_MAX_LINE + 1 + READ_BYTES };

int data_lines_init(struct data_lines *l, struct pd_err *err) {
    memset(l, 0, sizeof *l);
    l->buf = pd_malloc(BUF_BYTES);
    return l->buf ? 0 : pd_fail(err, PD_ENOMEM, "out of memory for a file's buffer");
}

static void close_file(struct data_lines *l) {
    data_input_close(l->in);
    l->in = NULL;
}

void data_lines_release(struct data_lines *l) {
    close_file(l);
    free(l->buf);
    l->buf = NULL;
}

int data_lines_open(struct data_lines *l, const char *path, const char *shown, uint64_t offset,
                    uint64_t line, struct pd_err *err) {
    close_file(l);
    int rc = data_input_open(&l->in, path, shown, err);
    if (!rc)
        rc = data_input_skip_to(l->in, offset, err);
    if (rc) {
        close_file(l);
        return rc;
    }
    l->pos = l->len = 0;
    l->offset = offset;
    l->line = line;
    l->at_end = 0;
    return 0;
}

/* Appends bytes to the unread ones; the buffer always has room for a read. */
static int refill(struct data_lines *l, struct pd_err *err) {
    memmove(l->buf, l->buf + l->pos, l->len - l->pos);
    l->len -= l->pos;
    l->pos = 0;
    int64_t k = data_input_read(l->in, l->buf + l->len, READ_BYTES, err);
    if (k < 0)
        return (int)k;
    l->at_end = k == 0;
    l->len += (size_t)k;
    return 0;
}

static void advance(struct data_lines *l, size_t n) {
    l->pos += n;
    l->offset += n;
}

/* Drops bytes up to and including the next newline. */
static int skip_line(struct data_lines *l, struct pd_err *err) {
    for (;;) {
        char *nl = memchr(l->buf + l->pos, '\n', l->len - l->pos);
        if (nl) {
            advance(l, (size_t)(nl - (l->buf + l->pos)) + 1);
            return PD_EDATA;
        }
        advance(l, l->len - l->pos);
        if (l->at_end)
            return PD_EDATA;
        int rc = refill(l, err);
        if (rc)
            return rc;
    }
}

int data_lines_next(struct data_lines *l, char **line, size_t *n, struct pd_err *err) {
    size_t seen = 0;
    for (;;) {
        char *start = l->buf + l->pos;
        size_t have = l->len - l->pos;
        char *nl = memchr(start + seen, '\n', have - seen);
        size_t len = nl ? (size_t)(nl - start) : have;
        if (len > DATA_MAX_LINE) {
            l->line++;
            return skip_line(l, err);
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
        int rc = refill(l, err);
        if (rc)
            return rc;
    }
}

int data_lines_each(struct data_lines *l, const char *path, data_lines_fn *each, void *arg,
                    struct pd_err *err) {
    const char *shown = strcmp(path, "-") ? path : "standard input";
    char *line;
    size_t n;
    int rc = data_lines_open(l, path, shown, 0, 0, err);
    while (!rc && (rc = data_lines_next(l, &line, &n, err)) == 1)
        rc = each(arg, shown, l->line, line, n, err);
    return rc == PD_EDATA ? pd_fail(err, PD_EDATA, "%s:%llu: the line is longer than 1 MiB", shown,
                                    (unsigned long long)l->line)
                          : rc;
}
