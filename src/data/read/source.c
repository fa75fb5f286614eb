/* SPDX-License-Identifier: Apache-2.0 */
/* source.c - see source.h. */
#include "data/read/source.h"

#include "data/input/fetch.h"
#include "data/schema/format.h"

enum { READ_BYTES = 64 * 1024 };

int data_source_init(struct data_source *s, const struct data_schema *schema, const char *dir,
                     const struct data_files *files) {
    memset(s, 0, sizeof *s);
    s->schema = schema;
    s->dir = dir;
    s->files = files;
    s->line = 1;
    s->end = files->n;
    return (s->tail = pd_malloc(BLOCK_BYTES)) ? 0 : PD_ENOMEM;
}

static void close_files(struct data_source *s) {
    data_input_close(s->in);
    data_input_close(s->labels);
    s->in = s->labels = NULL;
    s->n_tail = 0;
}

void data_source_release(struct data_source *s) {
    close_files(s);
    free(s->tail);
    s->tail = NULL;
}

void data_source_goto(struct data_source *s, struct data_place at, uint64_t end) {
    close_files(s);
    s->file = at.file;
    s->offset = at.offset;
    s->line = at.line;
    s->end = end < s->files->n ? end : s->files->n;
}

static int open_file(struct data_source *s, struct pd_err *err) {
    const char *name = s->files->path[s->file];
    if (s->file + 1 < s->end)
        data_fetch_prefetch(s->fetch,
                            s->files->path[s->file + 1]); /* prefetch while this file is read */
    char path[PATH_MAX];
    int as_given = name[0] == '/' || !strcmp(s->dir, ".");
    if (pd_fmt(path, sizeof path, "%s%s%s", as_given ? "" : s->dir, as_given ? "" : "/", name))
        return pd_fail(err, PD_EIO, "path too long: %s/%s", s->dir, name);
    if (s->schema->format->records)
        return data_idx_open(s, path, name, err);
    int rc = data_fetch_open(s->fetch, &s->in, path, name, err);
    return rc ? rc : data_input_skip_to(s->in, s->offset, err);
}

static uint64_t count_lines(const char *s, size_t n) {
    uint64_t lines = 0;
    for (const char *p = s, *end = s + n; (p = memchr(p, '\n', (size_t)(end - p))); p++)
        lines++;
    return lines;
}

/* Skips the rest of a line that is too long, including its newline. */
static int skip_line(struct data_source *s, struct data_block *b) {
    s->offset += b->len;
    for (;;) {
        int64_t k = data_input_read(s->in, b->text, READ_BYTES, &b->err);
        if (k < 0)
            return (int)k;
        char *nl = k ? memchr(b->text, '\n', (size_t)k) : NULL;
        if (nl) {
            size_t used = (size_t)(nl - b->text) + 1;
            s->n_tail = (size_t)k - used;
            memcpy(s->tail, nl + 1, s->n_tail);
            s->offset += used;
            break;
        }
        s->offset += (uint64_t)k;
        if (!k)
            break;
    }
    s->line++;
    b->len = 0;
    b->long_line = 1;
    return 1;
}

/* Reads the next lines of the open file. 1; 0: end of file; PD_E*. */
static int fill_lines(struct data_source *s, struct data_block *b) {
    size_t seen = 0;
    char *nl = NULL;
    int at_end = 0;
    /* The tail fits: it is shorter than a read, and text has room for more than a read. */
    memcpy(b->text, s->tail, s->n_tail);
    b->len = s->n_tail;
    s->n_tail = 0;
    while (!at_end && (b->len + READ_BYTES <= BLOCK_BYTES || !nl)) {
        nl = nl ? nl : memrchr(b->text + seen, '\n', b->len - seen);
        if (b->len + READ_BYTES > BLOCK_BYTES && nl)
            break;
        seen = b->len;
        if (!nl && b->len > DATA_MAX_LINE)
            return skip_line(s, b);
        if (data_block_reserve(b, b->len + READ_BYTES))
            return pd_fail(&b->err, PD_ENOMEM, "out of memory for lines of %s",
                           s->files->path[s->file]);
        int64_t k = data_input_read(s->in, b->text + b->len, READ_BYTES, &b->err);
        if (k < 0)
            return (int)k;
        at_end = k == 0;
        b->len += (size_t)k;
        if (!at_end && data_input_may_wait(s->in) &&
            memrchr(b->text, '\n', b->len)) /* from a pipe: pass on whole lines as they come */
            break;
    }
    if (!b->len)
        return 0;
    if (!at_end) {
        nl = memrchr(b->text, '\n', b->len);
        size_t used = (size_t)(nl - b->text) + 1;
        s->n_tail = b->len - used;
        memcpy(s->tail, nl + 1, s->n_tail);
        b->len = used;
    }
    s->offset += b->len;
    s->line += count_lines(b->text, b->len) + (b->text[b->len - 1] != '\n');
    return 1;
}

void data_source_fill(struct data_source *s, struct data_block *b) {
    for (;;) {
        if (s->file >= s->end) {
            b->is_end = 1;
            b->file = b->end_offset = 0;
            return;
        }
        if (!s->in && (b->rc = open_file(s, &b->err)))
            return;
        b->file = s->file;
        b->offset = s->offset;
        b->line = s->line;
        b->header = s->schema->header;
        int rc = s->schema->format->records ? data_idx_fill(s, b, s->files->path[s->file])
                                            : fill_lines(s, b);
        if (rc < 0) {
            b->rc = rc;
            b->len = 0;
            return;
        }
        b->end_offset = s->offset;
        b->end_line = s->line;
        b->end_raw = data_input_raw_offset(s->in);
        if (rc)
            return;
        close_files(s);
        s->file++;
        s->offset = 0;
        s->line = 1;
    }
}
