/* SPDX-License-Identifier: Apache-2.0 */
/* split.c - paddlectl split: lines dealt round-robin to shards, or to held-out shards. */
#include "data/read/shuffle_buffer.h"
#include "data/input/lines.h"
#include "data/prepare/prepare.h"
#include "data/prepare/shards.h"

struct line_split {
    const struct data_split_opts *o;
    struct data_shards train, test; /* test: used with holdout */
    struct data_split_counts c;
    struct pd_buf header; /* header of the first file */
    int has_header;
    struct data_shuffle_buffer lines; /* with shuffle: all lines */
};

void data_split_defaults(struct data_split_opts *o) {
    *o = (struct data_split_opts){
        .out = ".", .prefix = "train.txt", .test_prefix = "test.txt", .seed = 1, .pack = "none"};
}

static int deal_line(struct line_split *x, const char *line, size_t n, struct pd_err *err) {
    struct data_shards *s =
        x->o->holdout && (x->c.lines + 1) % x->o->holdout == 0 ? &x->test : &x->train;
    pd_put(data_shards_buf(s), line, n);
    x->c.lines++;
    x->c.test_lines += s == &x->test;
    x->c.bytes += n + 1;
    return data_shards_line(s, err);
}

static int deal_shuffled(struct line_split *x, struct pd_err *err) {
    int rc = 0;
    data_shuffle_buffer_shuffle(&x->lines, pd_rng_key(x->o->seed, PD_RNG_SHUFFLE, 1, 0));
    for (uint64_t i = 0; !rc && i < x->lines.n; i++) {
        size_t n;
        const char *line = data_shuffle_buffer_get(&x->lines, i, &n);
        rc = deal_line(x, line, n, err);
    }
    return rc;
}

static int take_header(struct line_split *x, const char *shown, const char *line, size_t n,
                       struct pd_err *err) {
    if (x->has_header) {
        if (x->header.len == n && !memcmp(x->header.data, line, n))
            return 0;
        return pd_fail(err, PD_EDATA, "%s:1: the header differs from that of the first file",
                       shown);
    }
    x->has_header = 1;
    pd_put(&x->header, line, n);
    if (x->header.failed || data_shards_header(&x->train, line, n) ||
        (x->o->holdout && data_shards_header(&x->test, line, n)))
        return pd_fail(err, PD_ENOMEM, "out of memory for a header");
    return 0;
}

static int take_line(void *arg, const char *shown, uint64_t number, const char *line, size_t n,
                     struct pd_err *err) {
    struct line_split *x = arg;
    if (x->o->header && number == 1)
        return take_header(x, shown, line, n, err);
    return x->o->shuffle ? data_shuffle_buffer_add(&x->lines, line, n, err)
                         : deal_line(x, line, n, err);
}

static int check_options(const struct data_split_opts *o, struct pd_err *err) {
    if (!o->n_inputs)
        return pd_fail(err, PD_EUSAGE, "no input file is given: which file should be split?");
    if (data_shards_check(o->shards, o->holdout, err))
        return PD_EUSAGE;
    const char *prefix[] = {o->prefix, o->test_prefix};
    for (int i = 0; i < 1 + (o->holdout > 0); i++)
        if (!*prefix[i] || strchr(prefix[i], '/'))
            return pd_fail(err, PD_EUSAGE, "prefix is a file name, not '%s'", prefix[i]);
    if (o->holdout && !strcmp(o->prefix, o->test_prefix))
        return pd_fail(err, PD_EUSAGE, "prefix and test_prefix are the same");
    return o->pack && data_packing_of(o->pack) < 0
               ? pd_fail(err, PD_EUSAGE, "pack is none, gzip or zstd, not '%s'", o->pack)
               : 0;
}

static int start_shards(struct line_split *x, struct data_shards *s, const char *prefix,
                        struct pd_err *err) {
    int rc = data_shards_start(s, x->o->out, prefix, x->o->shards, err);
    s->packing = x->o->pack ? (enum data_packing)data_packing_of(x->o->pack) : DATA_PLAIN;
    return rc;
}

int data_split(const struct data_split_opts *o, struct data_split_counts *counts,
               struct pd_err *err) {
    struct line_split x = {.o = o, .c = {.shards = o->shards}};
    struct data_lines l;
    int rc = check_options(o, err);
    if (rc || (rc = data_lines_init(&l, err)))
        return rc;
    pd_buf_init(&x.header);
    rc = start_shards(&x, &x.train, o->prefix, err);
    if (!rc && o->holdout)
        rc = start_shards(&x, &x.test, o->test_prefix, err);
    for (size_t i = 0; !rc && i < o->n_inputs; i++)
        rc = data_lines_each(&l, o->input[i], take_line, &x, err);
    if (!rc && o->shuffle)
        rc = deal_shuffled(&x, err);
    if (!rc)
        rc = data_shards_flush(&x.train, err);
    if (!rc && o->holdout)
        rc = data_shards_flush(&x.test, err);
    if (!rc)
        rc = data_shards_commit(&x.train, err);
    if (!rc && o->holdout)
        rc = data_shards_commit(&x.test, err);
    data_shards_release(&x.train);
    data_shards_release(&x.test);
    data_lines_release(&l);
    pd_buf_release(&x.header);
    data_shuffle_buffer_release(&x.lines);
    if (!rc)
        *counts = x.c;
    return rc;
}
