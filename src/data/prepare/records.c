/* SPDX-License-Identifier: Apache-2.0 */
/* records.c - see records.h. Each pass over the files calls one function for every good line: to
 * count it, to count its categories, or to deal it. */
#include "data/prepare/records.h"

#include "data/schema/block.h"
#include "data/schema/format.h"
#include "data/read/shuffle_buffer.h"
#include "data/prepare/prepare.h"
#include "data/prepare/shards.h"
#include "data/read/source.h"

enum { TRAIN, TEST, N_PARTS, FIRST_LINES = 10 };
static const char *const part_name[N_PARTS] = {"train", "test"};

struct records_part {
    int used;
    struct data_shards shards, labels; /* labels: those of images */
    struct data_shuffle_buffer held;   /* used with shuffle */
    uint64_t n;                        /* number of its lines, if they were counted before */
};

struct records {
    const struct data_records_opts *o;
    /* TRAIN: lines go to either part; TEST: files that are held out as a whole. */
    struct data_files files[N_PARTS];
    struct data_parse_plan *plan;
    struct data_source source;
    struct data_parser parser;
    struct data_block block;
    struct pd_buf copy; /* the block's text before parsing, which removes quotes in place */
    struct pd_buf rewritten;
    struct data_categories *categories; /* NULL: categories are not rewritten */
    struct data_idx_shape shape;        /* shape of the images */
    struct records_part part[N_PARTS];
    uint64_t total, at;  /* good lines of files[TRAIN], if counted; number of the current line */
    uint64_t last;       /* so many of the last lines are held out */
    int has_header;      /* the header is in the shards */
    int looked[N_PARTS]; /* these files have been read once: bad lines were counted */
    struct pd_buf first_bad; /* messages of bad lines in front of the first good one, NUL-ended */
    int has_good;
    struct data_records_counts c;
};

typedef int (*visit)(struct records *r, int whose, const char *p, size_t n, struct pd_err *err);

static int is_images(const struct records *r) { return r->o->schema->format->records; }

/* --- reading --- */

/* Files without a good line among the first ones have another format than the user believes. */
static int another_format(const struct records *r, const char *message, struct pd_err *err) {
    const struct data_format *f = r->o->schema->format;
    if (r->first_bad.len)
        message = (const char *)r->first_bad.data;
    if (r->o->config)
        return pd_fail(err, PD_EDATA,
                       "%s; format %s is %s. This format is in [data] of %s; a log with other "
                       "columns has format = csv or tsv",
                       message, f->name, f->text_line, r->o->config);
    return pd_fail(err, PD_EDATA,
                   "%s; format %s is %s. A log with other columns needs a train.ini that names "
                   "them, and prepare --config=train.ini: docs/tutorial.md, 'A log with your own "
                   "columns'",
                   message, f->name, f->text_line);
}

static int bad_line(struct records *r, const struct data_bad_line *bad, struct pd_err *err) {
    const char *message = (const char *)r->block.messages.data + bad->text;
    const uint64_t n = ++r->c.bad_lines;
    if (!r->has_good && r->o->schema->format->columns &&
        (n > r->o->max_bad_lines || n >= FIRST_LINES))
        return another_format(r, message, err);
    if (n > r->o->max_bad_lines)
        return pd_fail(err, PD_EDATA, "%s (bad lines: %" PRIu64 ", allowed: %" PRIu64 ")", message,
                       n, r->o->max_bad_lines);
    if (!r->has_good && r->o->schema->format->columns)
        pd_put(&r->first_bad, message, strlen(message) + 1);
    else if (r->o->on_bad)
        r->o->on_bad(r->o->arg, message);
    return 0;
}

/* The messages that waited for a good line. */
static void good_line(struct records *r) {
    const char *s = (const char *)r->first_bad.data, *end = s + r->first_bad.len;
    r->has_good = 1;
    for (; r->o->on_bad && s < end; s += strlen(s) + 1)
        r->o->on_bad(r->o->arg, s);
    pd_buf_clear(&r->first_bad);
}

static int take_header(struct records *r, const char *p, size_t n, struct pd_err *err) {
    if (r->has_header || !r->part[TRAIN].shards.n) /* already taken, or not dealing yet */
        return 0;
    r->has_header = 1;
    for (int k = 0; k < N_PARTS; k++)
        if (r->part[k].used && data_shards_header(&r->part[k].shards, p, n))
            return pd_fail(err, PD_ENOMEM, "out of memory for a header");
    return 0;
}

/* Visits the good lines of a parsed block. */
static int each_of_block(struct records *r, int whose, visit f, struct pd_err *err) {
    const struct data_block *b = &r->block;
    const char *p = (const char *)r->copy.data, *end = p + r->copy.len;
    size_t record = is_images(r) ? (size_t)r->parser.schema->field[0].batch.width + 1 : 0;
    uint32_t bad = 0;
    int rc = 0;
    for (uint32_t line = 0; p < end && !rc; line++) {
        const char *stop = record ? p + record : memchr(p, '\n', (size_t)(end - p));
        size_t n = (size_t)((stop ? stop : end) - p), len = n;
        len -= !record && n && p[n - 1] == '\r';
        if (b->header && line == 0 && b->line == 1)
            rc = take_header(r, p, len, err);
        else if (bad < b->n_bad && b->bad[bad].line == line)
            rc = r->looked[whose] ? 0 : bad_line(r, &b->bad[bad], err), bad++;
        else if (len) {
            if (!r->has_good)
                good_line(r);
            rc = f(r, whose, p, len, err);
        }
        p += n + (!record && stop);
    }
    for (; bad < b->n_bad && !rc && !r->looked[whose];
         bad++) /* a line that is too long has no text */
        rc = bad_line(r, &b->bad[bad], err);
    return rc;
}

static int each_line(struct records *r, int whose, visit f, struct pd_err *err) {
    const struct data_files *files = &r->files[whose];
    struct data_block *b = &r->block;
    int rc = 0;
    r->at = 0;
    data_source_release(&r->source);
    if (data_source_init(&r->source, r->o->schema, ".", files))
        return pd_fail(err, PD_ENOMEM, "out of memory to read %s", files->path[0]);
    while (!rc) {
        data_block_clear(b);
        data_source_fill(&r->source, b);
        if (b->is_end)
            break;
        pd_buf_clear(&r->copy);
        pd_put(&r->copy, b->text, b->len);
        if (r->copy.failed)
            rc = pd_fail(err, PD_ENOMEM, "out of memory to read %s", files->path[0]);
        else if (!b->rc)
            data_block_parse(b, &r->parser,
                             strcmp(files->path[b->file], "-") ? files->path[b->file]
                                                               : "standard input");
        if (!rc && b->rc)
            rc = pd_fail(err, b->rc, "%s", b->err.msg);
        if (!rc)
            rc = each_of_block(r, whose, f, err);
    }
    r->looked[whose] = 1;
    return rc;
}

/* --- the passes --- */

static int held_out(const struct records *r, int whose, uint64_t i) {
    const struct data_records_opts *o = r->o;
    if (whose == TEST || o->holdout_last)
        return whose == TEST || i >= r->total - r->last;
    return o->holdout && (i + 1) % o->holdout == 0;
}

static int count_line(struct records *r, int whose, const char *p, size_t n, struct pd_err *err) {
    (void)p, (void)n, (void)err;
    r->total += whose == TRAIN;
    r->part[TEST].n += whose == TEST;
    return 0;
}

static int count_categories(struct records *r, int whose, const char *p, size_t n,
                            struct pd_err *err) {
    return held_out(r, whose, r->at++) ? 0 : data_categories_count(r->categories, p, n, err);
}

static int put_line(struct records *r, struct records_part *to, const char *p, size_t n,
                    struct pd_err *err) {
    if (!is_images(r)) {
        pd_put(data_shards_buf(&to->shards), p, n);
        return data_shards_line(&to->shards, err);
    }
    pd_put(data_shards_buf(&to->shards), p, n - 1);
    pd_put(data_shards_buf(&to->labels), p + n - 1, 1);
    int rc = data_shards_record(&to->shards, err);
    return rc ? rc : data_shards_record(&to->labels, err);
}

static int deal_line(struct records *r, int whose, const char *p, size_t n, struct pd_err *err) {
    int k = held_out(r, whose, r->at++) ? TEST : TRAIN;
    r->c.lines++;
    r->c.train_lines += k == TRAIN;
    r->c.test_lines += k == TEST;
    if (r->categories) {
        pd_buf_clear(&r->rewritten);
        int rc = data_categories_rewrite(r->categories, p, n, &r->rewritten, err);
        if (rc)
            return rc;
        p = (const char *)r->rewritten.data;
        n = r->rewritten.len;
    }
    return r->o->shuffle ? data_shuffle_buffer_add(&r->part[k].held, p, n, err)
                         : put_line(r, &r->part[k], p, n, err);
}

static int deal_shuffled(struct records *r, int k, struct pd_err *err) {
    struct records_part *p = &r->part[k];
    int rc = 0;
    data_shuffle_buffer_shuffle(&p->held, pd_rng_key(r->o->seed, PD_RNG_SHUFFLE, 2, (uint64_t)k));
    for (uint64_t i = 0; i < p->held.n && !rc; i++) {
        size_t n;
        const char *line = data_shuffle_buffer_get(&p->held, i, &n);
        rc = put_line(r, p, line, n, err);
    }
    return rc;
}

/* --- shards --- */

/* A file of images begins with their number. */
static void image_header(struct data_shards *s, uint64_t n, const struct data_idx_shape *x,
                         uint32_t n_dims) {
    for (uint32_t i = 0; i < s->n; i++) {
        uint64_t own = n / s->n + (i < n % s->n);
        const uint8_t head[8] = {0,
                                 0,
                                 8,
                                 (uint8_t)n_dims,
                                 (uint8_t)(own >> 24),
                                 (uint8_t)(own >> 16),
                                 (uint8_t)(own >> 8),
                                 (uint8_t)own};
        pd_put(&s->buf[i], head, sizeof head);
        for (uint32_t d = 1; d < n_dims; d++)
            for (int shift = 24; shift >= 0; shift -= 8)
                pd_put_u8(&s->buf[i], (uint8_t)(x->dim[d] >> shift));
    }
}

static int shard_names(const struct records *r, int k, const char *what, char dir[PATH_MAX],
                       char name[64], struct pd_err *err) {
    if (is_images(r))
        (void)pd_fmt(name, 64, "%s-%s-idx%u-ubyte", part_name[k], what,
                     strcmp(what, "images") ? 1 : r->shape.n_dims);
    else
        (void)pd_fmt(name, 64, "%s.txt", part_name[k]);
    return pd_fmt(dir, PATH_MAX, "%s/%s_data_dir", r->o->out, part_name[k])
               ? pd_fail(err, PD_EIO, "path too long: %s", r->o->out)
               : 0;
}

static int start_shards(struct records *r, int k, const char *what, struct data_shards *s,
                        struct pd_err *err) {
    char dir[PATH_MAX], name[64];
    int rc = shard_names(r, k, what, dir, name, err);
    if (rc || (rc = data_shards_start(s, dir, name, r->o->shards, err)))
        return rc;
    s->packing = (enum data_packing)data_packing_of(r->o->pack);
    if (is_images(r))
        image_header(s, r->part[k].n, &r->shape, strcmp(what, "images") ? 1 : r->shape.n_dims);
    return 0;
}

static int start_part(struct records *r, int k, struct pd_err *err) {
    int rc = start_shards(r, k, "images", &r->part[k].shards, err);
    return rc || !is_images(r) ? rc : start_shards(r, k, "labels", &r->part[k].labels, err);
}

static int commit_shards(struct records *r, int k, const char *what, struct data_shards *s,
                         struct pd_err *err) {
    char dir[PATH_MAX], name[64];
    if (r->part[k].used)
        return data_shards_commit(s, err);
    int rc = shard_names(r, k, what, dir, name, err);
    return rc ? rc : data_shards_clear(dir, name, err);
}

static int commit_part(struct records *r, int k, struct pd_err *err) {
    int rc = commit_shards(r, k, "images", &r->part[k].shards, err);
    return rc || !is_images(r) ? rc : commit_shards(r, k, "labels", &r->part[k].labels, err);
}

/* --- all of it --- */

static int check_options(const struct data_records_opts *o, struct pd_err *err) {
    const char *format = o->schema->format->name;
    int counted = o->encode == DATA_ENCODE_INDEX || o->min_count > 1;
    if (!o->n_inputs)
        return pd_fail(err, PD_EUSAGE, "no input file is given: which file should be prepared?");
    if (data_shards_check(o->shards, o->holdout, err))
        return PD_EUSAGE;
    if (data_packing_of(o->pack) < 0)
        return pd_fail(err, PD_EUSAGE, "pack is none, gzip or zstd, not '%s'", o->pack);
    if ((counted || o->encode != DATA_ENCODE_TEXT) && !o->schema->format->any_fields)
        return pd_fail(err, PD_EUSAGE,
                       "format %s has no category columns: min_count and encode do not apply",
                       format);
    if (o->buckets && o->encode != DATA_ENCODE_HASH)
        return pd_fail(err, PD_EUSAGE, "buckets needs encode = hash");
    for (size_t i = 0; i < o->n_inputs; i++)
        if (!strcmp(o->input[i], "-") && (counted || o->holdout_last || o->schema->format->records))
            return pd_fail(err, PD_EUSAGE,
                           "standard input can be read only once: it can't be used with min_count, "
                           "encode = index, holdout_last or format idx");
    return 0;
}

static int open_all(struct records *r, struct pd_err *err) {
    const struct data_records_opts *o = r->o;
    int rc = 0;
    for (size_t i = 0; i < o->n_inputs && !rc; i++)
        if (data_files_add(&r->files[TRAIN], o->input[i]))
            rc = pd_oom(err, "records");
    if (!rc && o->test)
        rc = data_files_expand(&r->files[TEST], ".", o->test, err);
    if (!rc)
        rc = data_parse_plan_new(&r->plan, o->schema, o->dir, ".", o->input[0], err);
    if (!rc && is_images(r))
        rc = data_idx_shape(o->input[0], &r->shape, err);
    if (!rc && data_block_init(&r->block, o->schema))
        rc = pd_oom(err, "records");
    if (!rc && (o->encode != DATA_ENCODE_TEXT || o->min_count > 1))
        rc = data_categories_new(&r->categories, r->plan, o->encode, o->buckets, err);
    r->parser = (struct data_parser){.plan = r->plan, .schema = o->schema};
    r->part[TRAIN].used = 1;
    r->part[TEST].used = o->holdout || o->holdout_last || o->test;
    return rc;
}

/* Counts the lines of each part if their number is needed before dealing. */
static int count_lines(struct records *r, struct pd_err *err) {
    const struct data_records_opts *o = r->o;
    if (!o->holdout_last && !is_images(r))
        return 0;
    int rc = each_line(r, TRAIN, count_line, err);
    if (!rc && o->test && is_images(r))
        rc = each_line(r, TEST, count_line, err);
    if (!rc && !r->total && r->first_bad.len)
        rc = another_format(r, NULL, err);
    const uint64_t share = o->holdout ? r->total / o->holdout : 0;
    r->last = o->holdout && share < o->holdout_last ? share : o->holdout_last;
    if (!rc && r->last >= r->total)
        rc = pd_fail(err, PD_EDATA,
                     "%" PRIu64 " lines, %" PRIu64 " of them should be held out: give a "
                     "smaller holdout_last",
                     r->total, o->holdout_last);
    const uint64_t out = o->holdout_last ? r->last : share;
    r->part[TRAIN].n = r->total - out;
    r->part[TEST].n += out;
    return rc;
}

static int run(struct records *r, struct pd_err *err) {
    const struct data_records_opts *o = r->o;
    const int counted = o->encode == DATA_ENCODE_INDEX || o->min_count > 1;
    char dir[PATH_MAX];
    int rc = count_lines(r, err);
    if (!rc && counted && !(rc = each_line(r, TRAIN, count_categories, err)))
        rc = data_categories_finish(r->categories, o->min_count, err);
    for (int k = 0; k < N_PARTS && !rc; k++)
        rc = r->part[k].used ? start_part(r, k, err) : 0;
    if (!rc)
        rc = each_line(r, TRAIN, deal_line, err);
    if (!rc && o->test)
        rc = each_line(r, TEST, deal_line, err);
    if (!rc && !r->c.train_lines)
        rc = r->first_bad.len ? another_format(r, NULL, err)
                              : pd_fail(err, PD_EDATA, "there are no training samples in %s%s",
                                        o->input[0], o->n_inputs > 1 ? " and the other files" : "");
    if (!rc && is_images(r) &&
        (r->c.train_lines != r->part[TRAIN].n || r->c.test_lines != r->part[TEST].n))
        rc = pd_fail(err, PD_EDATA, "the input files changed while they were read");
    for (int k = 0; k < N_PARTS && !rc; k++) {
        if (o->shuffle)
            rc = deal_shuffled(r, k, err);
        if (!rc && r->part[k].used)
            rc = data_shards_flush(&r->part[k].shards, err);
        if (!rc && r->part[k].used && is_images(r))
            rc = data_shards_flush(&r->part[k].labels, err);
    }
    if (!rc && counted)
        rc = pd_fmt(dir, sizeof dir, "%s/vocabulary", o->out)
                 ? pd_fail(err, PD_EIO, "path too long: %s", o->out)
                 : data_categories_save(r->categories, dir, err);
    for (int k = 0; k < N_PARTS && !rc; k++)
        rc = commit_part(r, k, err);
    return rc;
}

int data_records(const struct data_records_opts *o, struct data_records_counts *counts,
                 struct pd_err *err) {
    struct records r = {.o = o};
    int rc = check_options(o, err);
    if (rc)
        return rc;
    pd_buf_init(&r.copy);
    pd_buf_init(&r.rewritten);
    pd_buf_init(&r.first_bad);
    rc = open_all(&r, err);
    if (!rc)
        rc = run(&r, err);
    if (!rc && r.categories) {
        r.c.counted = o->encode == DATA_ENCODE_INDEX || o->min_count > 1;
        r.c.categories = data_categories_distinct(r.categories);
        r.c.rare = data_categories_rare(r.categories);
    }
    if (!rc)
        *counts = r.c;
    for (int k = 0; k < N_PARTS; k++) {
        data_shards_release(&r.part[k].shards);
        data_shards_release(&r.part[k].labels);
        data_shuffle_buffer_release(&r.part[k].held);
        data_files_release(&r.files[k]);
    }
    data_source_release(&r.source);
    data_block_release(&r.block);
    data_categories_free(r.categories);
    data_parse_plan_free(r.plan);
    free(r.parser.ids);
    pd_buf_release(&r.copy);
    pd_buf_release(&r.rewritten);
    pd_buf_release(&r.first_bad);
    return rc;
}
