/* SPDX-License-Identifier: Apache-2.0 */
/* reader.c - see reader.h. The reader takes the blocks of a pipe in order; a block knows the
 * position of each of its samples. */
#include "data/read/reader.h"

#include "math/hash.h"
#include "math/rng.h"
#include "data/input/fetch.h"
#include "data/schema/format.h"
#include "data/read/pipe.h"

enum { MAX_SHUFFLE = 1 << 28 };

struct data_reader {
    struct data_spec spec;
    struct data_schema *own_schema; /* made of the spec; NULL: the caller's schema is used */
    const struct data_schema *schema;
    struct data_parse_plan *plan;
    char *dir;
    uint32_t stream;
    struct data_files files; /* files of this stream */
    uint64_t files_hash;
    struct data_pipe pipe;

    int started;                 /* the pipe was started */
    struct data_block *block;    /* current block, or NULL */
    uint32_t at, at_bad;         /* next sample and next bad line of the block */
    uint64_t file, offset, line; /* without a block: where the next block begins */
    uint64_t end;                /* the first file that is not read */
    uint32_t name; /* stream number of the samples: the stream, or the file that is read alone */
    uint64_t raw;  /* bytes of `file` on disk before the block */
    uint64_t pass, index, bad_lines;
    int ended, failed; /* failed: an error was returned; only rewind and seek help */

    struct pd_batch pool;  /* the shuffle buffer; cap 0: none */
    uint32_t *order;       /* [pool.cap] */
    uint32_t given;        /* samples of the pool already returned */
    struct data_pos group; /* place where the pool's samples begin */
};

int data_spec_check(const struct data_spec *s, struct pd_err *err) {
    struct data_schema *schema = NULL;
    int rc = 0;
    if (!s->schema)
        rc = data_schema_plain(&schema, s->format, s->n_fields, s->vocabulary, s->start_id,
                               s->end_id, err);
    data_schema_free(schema);
    if (!rc && s->shuffle_buffer > MAX_SHUFFLE)
        rc = pd_fail(err, PD_ECONF, "shuffle_buffer is at most %d samples", MAX_SHUFFLE);
    return rc;
}

/* --- in and out --- */

static int take_files(struct data_reader *r, const struct data_files *files, uint32_t n_streams) {
    uint64_t h = 0xcbf29ce484222325u; /* FNV-1a over the names, each with its NUL */
    for (size_t i = 0; i < files->n; i++) {
        if (data_stream_of(i, n_streams) != r->stream || !*files->path[i])
            continue;
        if (data_files_add(&r->files, files->path[i]))
            return PD_ENOMEM;
        for (const char *s = files->path[i];; s++) {
            h = (h ^ (uint8_t)*s) * 0x100000001b3u;
            if (!*s)
                break;
        }
    }
    r->files_hash = h;
    return 0;
}

static int make_pool(struct data_reader *r) {
    struct pd_field fields[PD_MAX_FIELDS];
    uint32_t n = (uint32_t)r->spec.shuffle_buffer;
    if (n <= 1)
        return 0;
    for (uint32_t k = 0; k < r->schema->n_fields; k++)
        fields[k] = r->schema->field[k].batch;
    r->order = pd_calloc(n, sizeof *r->order);
    return r->order ? pd_batch_init(&r->pool, fields, r->schema->n_fields, n) : PD_ENOMEM;
}

/* Ensures that the file whose header names the columns is on this node. */
static int make_ready(const struct data_reader *r, struct pd_err *err) {
    int header = r->files.n && r->schema->format->any_fields && !r->schema->n_columns;
    return header ? data_fetch_ensure(r->spec.fetch, r->files.path[0], err) : 0;
}

int data_reader_new(struct data_reader **out, const struct data_spec *spec, const char *dir,
                    const struct data_files *files, uint32_t stream, uint32_t n_streams,
                    struct pd_err *err) {
    int rc = data_spec_check(spec, err);
    if (rc)
        return rc;
    if (stream >= n_streams)
        return pd_fail(err, PD_ECONF, "stream %u of %u", stream, n_streams);
    struct data_reader *r = pd_calloc(1, sizeof *r);
    if (!r)
        return pd_fail(err, PD_ENOMEM, "out of memory for a data reader");
    r->spec = *spec;
    r->schema = spec->schema;
    r->stream = stream;
    r->name = stream;
    r->line = 1;
    if (!r->schema) {
        rc = data_schema_plain(&r->own_schema, spec->format, spec->n_fields, spec->vocabulary,
                               spec->start_id, spec->end_id, err);
        r->schema = r->own_schema;
    }
    r->dir = pd_strdup(dir);
    if (!rc && (!r->dir || take_files(r, files, n_streams)))
        rc = pd_fail(err, PD_ENOMEM, "out of memory for a data reader");
    if (!rc)
        rc = make_ready(r, err);
    if (!rc)
        rc = data_parse_plan_new(&r->plan, r->schema, dir, dir,
                                 r->files.n ? r->files.path[0] : NULL, err);
    if (!rc && make_pool(r))
        rc = pd_fail(err, PD_ENOMEM, "out of memory for a shuffle_buffer of %" PRIu64 " samples",
                     spec->shuffle_buffer);
    if (!rc)
        rc = data_pipe_init(&r->pipe, spec->workers, r->schema, r->plan, r->dir, &r->files,
                            spec->seed, err);
    if (!rc)
        r->pipe.source.fetch = spec->fetch;
    r->end = r->files.n;
    if (rc) {
        data_reader_free(r);
        return rc;
    }
    *out = r;
    return 0;
}

void data_reader_free(struct data_reader *r) {
    if (!r)
        return;
    data_pipe_release(&r->pipe);
    data_files_release(&r->files);
    data_parse_plan_free(r->plan);
    data_schema_free(r->own_schema);
    pd_batch_release(&r->pool);
    free(r->order);
    free(r->dir);
    free(r);
}

/* --- blocks --- */

static int report(struct data_reader *r, const struct data_bad_line *bad, struct pd_err *err) {
    const char *message = (const char *)r->block->messages.data + bad->text;
    if (!bad->is_note && ++r->bad_lines > r->spec.max_bad_lines)
        return pd_fail(err, PD_EDATA, "%s (bad lines: %" PRIu64 ", allowed: %" PRIu64 ")", message,
                       r->bad_lines, r->spec.max_bad_lines);
    if (r->spec.on_bad)
        r->spec.on_bad(r->spec.arg, message);
    return 0;
}

/* The block is used up: reading continues behind it. */
static int leave_block(struct data_reader *r, struct pd_err *err) {
    const struct data_block *b = r->block;
    if (b->rc)
        return pd_fail(err, b->rc, "%s", b->err.msg);
    r->file = b->file;
    r->offset = b->end_offset;
    r->line = b->end_line;
    r->raw = b->end_raw;
    r->block = NULL;
    data_pipe_give(&r->pipe);
    return 0;
}

static void next_block(struct data_reader *r) {
    if (!r->started) {
        data_pipe_start(&r->pipe, r->pass, r->name,
                        (struct data_place){r->file, r->offset, r->line}, r->end);
        r->started = 1;
    }
    struct data_block *b = data_pipe_take(&r->pipe);
    if (b->is_end) {
        r->ended = 1;
        r->file = r->end;
        r->offset = r->raw = 0;
        r->line = 1;
        return;
    }
    r->block = b;
    r->at = r->at_bad = 0;
}

/* Appends up to n samples to b, in the order of the files. Returns as data_reader_next. */
static int deliver(struct data_reader *r, uint32_t n, struct pd_batch *b, struct pd_err *err) {
    uint32_t got = 0;
    int rc = 0;
    while (got < n && !rc && !r->ended) {
        if (!r->block) {
            next_block(r);
            continue;
        }
        const struct data_block *x = r->block;
        const struct data_bad_line *bad = r->at_bad < x->n_bad ? &x->bad[r->at_bad] : NULL;
        if (bad && bad->before <= r->at) {
            r->at_bad++;
            rc = report(r, bad, err);
            continue;
        }
        uint32_t run = (bad ? bad->before : x->samples.n) - r->at;
        run = run < n - got ? run : n - got;
        if (!run) {
            rc = leave_block(r, err);
            continue;
        }
        uint32_t first = b->n;
        if (pd_batch_append(b, &x->samples, r->at, run)) {
            rc = pd_fail(err, PD_ENOMEM, "out of memory for a batch's lists");
            break;
        }
        for (uint32_t i = 0; i < run; i++) {
            b->stream[first + i] = r->name;
            b->index[first + i] = r->index++;
        }
        r->at += run;
        got += run;
    }
    if (!rc)
        return (int)got;
    b->n -= got;
    r->failed = 1;
    return rc;
}

/* --- shuffling --- */

static void tell_in_order(const struct data_reader *r, struct data_pos *pos);

/* Reads the next group of samples and shuffles it. The order depends on seed, pass, stream and the
 * number of samples before the group. */
static int fill_pool(struct data_reader *r, struct pd_err *err) {
    struct pd_rng_key key = pd_rng_key(r->spec.seed, PD_RNG_READER, r->pass, r->name);
    uint64_t group = r->index;
    tell_in_order(r, &r->group);
    pd_batch_clear(&r->pool);
    r->given = 0;
    int n = deliver(r, r->pool.cap, &r->pool, err);
    for (uint32_t i = 0; n > 0 && i < r->pool.n; i++)
        r->order[i] = i;
    for (uint32_t i = n > 0 ? r->pool.n : 0; i > 1; i--) {
        uint32_t j = (uint32_t)pd_rng_below(key, group, i, i), t = r->order[i - 1];
        r->order[i - 1] = r->order[j];
        r->order[j] = t;
    }
    return n;
}

static int deliver_shuffled(struct data_reader *r, uint32_t n, struct pd_batch *b,
                            struct pd_err *err) {
    uint32_t got = 0;
    int rc = 1;
    while (got < n) {
        if (r->given == r->pool.n && (rc = fill_pool(r, err)) <= 0)
            break;
        if (pd_batch_append(b, &r->pool, r->order[r->given], 1)) {
            rc = pd_fail(err, PD_ENOMEM, "out of memory for a batch's lists");
            r->failed = 1;
            break;
        }
        r->given++;
        got++;
    }
    if (rc >= 0)
        return (int)got;
    b->n -= got;
    return rc;
}

int data_reader_next(struct data_reader *r, uint32_t n, struct pd_batch *b, struct pd_err *err) {
    if (r->failed)
        return pd_fail(err, PD_EDATA, "the data reader failed earlier");
    if (n > b->cap - b->n)
        n = b->cap - b->n;
    if (n > INT_MAX)
        n = INT_MAX;
    return r->pool.cap ? deliver_shuffled(r, n, b, err) : deliver(r, n, b, err);
}

/* --- position --- */

static void go_to(struct data_reader *r, uint64_t pass, uint64_t file, uint64_t offset,
                  uint64_t line) {
    r->block = NULL;
    r->started = r->ended = r->failed = 0;
    r->pass = pass;
    r->file = file;
    r->offset = offset;
    r->line = line;
    r->raw = 0;
    r->end = r->files.n;
    r->name = r->stream;
    r->index = r->bad_lines = 0;
    r->given = 0;
    pd_batch_clear(&r->pool);
}

void data_reader_rewind(struct data_reader *r, uint64_t pass) { go_to(r, pass, 0, 0, 1); }

void data_reader_rewind_to_file(struct data_reader *r, uint64_t pass, uint64_t file) {
    uint64_t bad_lines = pass == r->pass ? r->bad_lines : 0;
    go_to(r, pass, file, 0, 1);
    r->bad_lines = bad_lines;
    r->end = file + 1;
    r->name = (uint32_t)file;
}

void data_reader_prefetch(const struct data_reader *r, uint64_t file) {
    if (file < r->files.n)
        data_fetch_prefetch(r->spec.fetch, r->files.path[file]);
}

/* Behind the last sample of a line the position is the start of the next line that has a sample or
 * is unreadable. */
static void tell_in_order(const struct data_reader *r, struct data_pos *pos) {
    const struct data_block *b = r->block;
    *pos = (struct data_pos){.files_hash = r->files_hash,
                             .file = r->file,
                             .offset = r->offset,
                             .line = r->line,
                             .index = r->index,
                             .bad_lines = r->bad_lines,
                             .pass = r->pass};
    if (!b)
        return;
    pos->file = b->file;
    pos->offset = b->end_offset;
    pos->line = b->end_line;
    int bad = r->at_bad < b->n_bad && b->bad[r->at_bad].before <= r->at;
    if (!bad && r->at >= b->samples.n)
        return;
    struct data_sample_place w =
        bad ? (struct data_sample_place){b->bad[r->at_bad].at, b->bad[r->at_bad].line, 0}
            : b->where[r->at];
    pos->offset =
        b->offset +
        (r->schema->format->records ? (uint64_t)w.line * r->schema->field[0].batch.width : w.at);
    pos->line = b->line + w.line;
    pos->in_line = w.in_line;
}

/* A hash of what determines a group's order besides its place. */
static uint64_t order_of(const struct data_reader *r) {
    return pd_mix64(r->spec.seed ^ pd_mix64(r->pool.cap)) >> 1 | 1;
}

void data_reader_tell(const struct data_reader *r, struct data_pos *pos) {
    if (r->given < r->pool.n) {
        *pos = r->group;
        pos->skip = r->given;
        pos->order = pos->skip ? order_of(r) : 0;
    } else {
        tell_in_order(r, pos);
    }
}

void data_reader_progress(const struct data_reader *r, uint64_t *file, uint64_t *bytes) {
    const struct data_block *b = r->block;
    *file = b ? b->file : r->file;
    *bytes = b && b->file != r->file ? 0 : r->raw;
    if (b && b->samples.n && b->end_raw > *bytes)
        *bytes += (uint64_t)((double)(b->end_raw - *bytes) * r->at / b->samples.n);
}

/* Skips the first `in_line` samples of the line with which the next block begins. */
static int into_line(struct data_reader *r, const struct data_pos *pos, struct pd_err *err) {
    next_block(r);
    const struct data_block *b = r->block;
    uint32_t n = 0;
    if (b && b->rc)
        return pd_fail(err, b->rc, "%s", b->err.msg);
    while (b && n < b->samples.n && b->where[n].line == 0)
        n++;
    if (!b || b->file != pos->file || pos->in_line > n)
        return pd_fail(err, PD_EDATA,
                       "%s:%" PRIu64 ": the file has changed since its position was saved",
                       r->files.path[pos->file], pos->line);
    r->at = (uint32_t)pos->in_line;
    return 0;
}

int data_reader_seek(struct data_reader *r, const struct data_pos *pos, struct pd_err *err) {
    int rc = 0;
    go_to(r, pos->pass, pos->file, pos->offset, pos->line);
    r->failed = 1; /* until the seek succeeds */
    if (pos->files_hash != r->files_hash || pos->file > r->files.n || pos->line < 1 ||
        (pos->skip && pos->skip >= r->pool.cap))
        return pd_fail(
            err, PD_EDATA,
            "the saved position belongs to another list of files or shuffle_buffer (stream %u)",
            r->stream);
    if (pos->skip && pos->order && pos->order != order_of(r))
        return pd_fail(err, PD_EDATA,
                       "the saved position lies inside a group of samples that were shuffled with "
                       "another seed or shuffle_buffer (stream %u)",
                       r->stream);
    r->index = pos->index;
    r->bad_lines = pos->bad_lines;
    if (pos->in_line && pos->file < r->files.n && (rc = into_line(r, pos, err)))
        return rc;
    if (pos->skip) {
        rc = fill_pool(r, err);
        if (rc >= 0 && pos->skip > r->pool.n)
            rc = pd_fail(err, PD_EDATA,
                         "the files of stream %u have changed since their position was saved",
                         r->stream);
        if (rc < 0)
            return rc;
        r->given = (uint32_t)pos->skip;
    }
    r->failed = 0;
    return 0;
}

uint64_t data_reader_bad_lines(const struct data_reader *r) { return r->bad_lines; }
size_t data_reader_n_files(const struct data_reader *r) { return r->files.n; }
