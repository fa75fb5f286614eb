/* SPDX-License-Identifier: Apache-2.0 */
/* source_idx.c - pairs of idx files: images (unsigned bytes of two or more dimensions) and their
 * labels (unsigned bytes). All numbers are big-endian.
 *
 *   train-images-idx3-ubyte      00 00 08 03 | n | rows | columns | n * rows * columns bytes
 *   train-labels-idx1-ubyte      00 00 08 01 | n | n bytes
 *
 * The name of the labels is that of the images with the last "images" replaced by "labels", then
 * the last "idx" and its digit by "idx1". Source: the description at the data set's home,
 * http://yann.lecun.com/exdb/mnist/. */
#include "data/input/fetch.h"
#include "data/read/source.h"

enum { RECORDS = 64, IMAGES_HEADER_MAX = 4 + 4 * 4, LABELS_HEADER = 8 };

static const char *last_of(const char *s, const char *word) {
    const char *found = NULL;
    for (const char *p = s; (p = strstr(p, word)); p++)
        found = p;
    return found;
}

static int labels_name(const char *images, char out[PATH_MAX]) {
    const char *at = last_of(images, "images");
    if (!at || pd_fmt(out, PATH_MAX, "%.*slabels%s", (int)(at - images), images, at + 6))
        return -1;
    char *idx = (char *)(uintptr_t)last_of(out, "idx");
    if (idx && idx[3] >= '2' && idx[3] <= '9')
        idx[3] = '1';
    return 0;
}

static int read_exactly(struct data_input *in, void *p, size_t n, const char *shown,
                        struct pd_err *err) {
    for (size_t got = 0; got < n;) {
        int64_t k = data_input_read(in, (char *)p + got, n - got, err);
        if (k < 0)
            return (int)k;
        if (k == 0)
            return pd_fail(err, PD_EDATA, "%s: the file is cut off after %llu bytes", shown,
                           (unsigned long long)data_input_offset(in));
        got += (size_t)k;
    }
    return 0;
}

static uint32_t big_endian(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static int read_header(struct data_input *in, const char *shown, struct data_idx_shape *x,
                       struct pd_err *err) {
    uint8_t h[4];
    int rc = read_exactly(in, h, 4, shown, err);
    if (rc)
        return rc;
    if (h[0] || h[1] || h[2] != 8 || h[3] < 1 || h[3] > IDX_MAX_DIMS)
        return pd_fail(
            err, PD_EDATA,
            "%s: it is not an idx file of unsigned bytes (it begins with %02x %02x %02x %02x)",
            shown, h[0], h[1], h[2], h[3]);
    *x = (struct data_idx_shape){.n_dims = h[3], .size = 1};
    for (uint32_t i = 0; i < x->n_dims && !rc; i++) {
        rc = read_exactly(in, h, 4, shown, err);
        x->dim[i] = big_endian(h);
        if (i && (x->dim[i] < 1 || (x->size *= x->dim[i]) > PD_MAX_WIDTH))
            return pd_fail(err, PD_EDATA, "%s: its items have more than %d bytes, or none", shown,
                           PD_MAX_WIDTH);
    }
    return rc;
}

int data_idx_shape(const char *path, struct data_idx_shape *out, struct pd_err *err) {
    struct data_input *in;
    int rc = data_input_open(&in, path, path, err);
    if (rc)
        return rc;
    rc = read_header(in, path, out, err);
    data_input_close(in);
    return rc;
}

/* infer: the images have no file of labels. */
static int may_lack_labels(const struct data_source *s, const char *path) {
    char labels[PATH_MAX];
    return s->schema->may_lack[1] && (labels_name(path, labels) || access(labels, F_OK));
}

static int open_labels(struct data_source *s, const char *path, uint32_t n, const char *shown,
                       struct pd_err *err) {
    char labels[PATH_MAX];
    struct data_idx_shape classes = {0};
    if (may_lack_labels(s, path))
        return 0;
    if (labels_name(path, labels))
        return pd_fail(
            err, PD_EDATA,
            "%s: the name does not contain 'images', so the name of its labels is unknown", shown);
    int rc = data_input_open(&s->labels, labels, labels, err);
    if (!rc)
        rc = read_header(s->labels, labels, &classes, err);
    if (!rc && (classes.size != 1 || classes.dim[0] != n))
        rc = pd_fail(err, PD_EDATA, "%s has %u images, but %s has %u labels", shown, n, labels,
                     classes.dim[0]);
    return rc;
}

int data_idx_open(struct data_source *s, const char *path, const char *shown, struct pd_err *err) {
    struct data_idx_shape images = {0};
    uint32_t n, width = s->schema->field[0].batch.width;
    int rc = data_fetch_open(s->fetch, &s->in, path, shown, err);
    if (!rc)
        rc = read_header(s->in, shown, &images, err);
    n = images.dim[0];
    if (!rc)
        rc = open_labels(s, path, n, shown, err);
    if (!rc && images.size != width)
        rc = pd_fail(err, PD_EDATA,
                     "%s: its images have %" PRIu64 " pixels, but the field '%s' has size %u",
                     shown, images.size, s->schema->field[0].batch.name, width);
    if (!rc && s->offset) {
        rc = data_input_skip_to(s->in, s->offset, err);
        if (!rc && s->labels)
            rc = data_input_skip_to(s->labels, LABELS_HEADER + s->line - 1, err);
    }
    s->offset = rc ? s->offset : data_input_offset(s->in);
    s->idx_left = n >= s->line - 1 ? n - (uint32_t)(s->line - 1) : 0;
    return rc;
}

int data_idx_fill(struct data_source *s, struct data_block *b, const char *shown) {
    uint32_t width = s->schema->field[0].batch.width, most = BLOCK_BYTES / (width + 1),
             n = most < RECORDS ? most : RECORDS;
    n = n ? n : 1;
    n = n < s->idx_left ? n : s->idx_left;
    if (!n)
        return 0;
    b->offset = s->offset; /* behind the header, which data_idx_open has read */
    if (data_block_reserve(b, (size_t)n * (width + 1)))
        return pd_fail(&b->err, PD_ENOMEM, "out of memory for images of %s", shown);
    for (uint32_t i = 0; i < n; i++) {
        char *to = b->text + (size_t)i * (width + 1);
        int rc = read_exactly(s->in, to, width, shown, &b->err);
        to[width] = 0;
        if (!rc && s->labels)
            rc = read_exactly(s->labels, to + width, 1, "its labels", &b->err);
        if (rc)
            return rc;
    }
    b->len = (size_t)n * (width + 1);
    s->offset += (uint64_t)n * width;
    s->line += n;
    s->idx_left -= n;
    return 1;
}
