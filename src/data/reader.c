/* reader.c - see reader.h.
 *
 * A line is parsed once into `ids`; its samples are then windows of n_fields of it, whatever the format: a format
 * only says what surrounds the ids and how many windows there are. The position between two samples is the line's
 * start and the number of its windows delivered.
 */
#include "data/reader.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/str.h"
#include "data/lines.h"

struct data_reader;

struct format {
    const char *name;
    int sentence; /* <s> before and <e> behind the ids of a line */
    /* The number of windows in n ids; -1: the line is bad. */
    int64_t (*windows)(uint64_t n, uint32_t n_fields);
    const char *text;
};

static int64_t one_window(uint64_t n, uint32_t n_fields) { return n == n_fields ? 1 : -1; }
static int64_t sliding(uint64_t n, uint32_t n_fields) { return n < n_fields ? 0 : (int64_t)(n - n_fields + 1); }

static const struct format formats[] = {
    {"ids", 0, one_window, "one sample a line, one id per field"},
    {"ngram", 1, sliding, "a line is a sentence; samples are the windows over <s> line <e>"},
};
enum { N_FORMATS = sizeof formats / sizeof formats[0] };

struct data_reader {
    struct data_spec spec;
    const struct format *format;
    char *dir;
    uint32_t stream;
    struct data_files files;   /* of this stream */
    uint64_t files_hash;

    size_t file;               /* the one being read; == files.n at the end */
    struct data_lines lines;   /* open on it, or closed: it has not been opened yet */
    uint64_t *ids;             /* of the current line */
    size_t n_ids, cap_ids;
    uint64_t line_offset, line; /* where the current line starts, its number */
    uint64_t in_line, windows;  /* delivered, in all */
    uint64_t index, bad_lines;  /* of this pass */
    int failed;                 /* an error was returned; only rewind and seek help */
};

static const struct format *find_format(const char *name) {
    for (int i = 0; i < N_FORMATS; i++)
        if (!strcmp(formats[i].name, name))
            return &formats[i];
    return NULL;
}

int data_spec_check(const struct data_spec *s, struct pd_err *err) {
    const struct format *f = find_format(s->format);
    if (!f) {
        char known[200] = "";
        for (int i = 0; i < N_FORMATS; i++) {
            size_t n = strlen(known);
            snprintf(known + n, sizeof known - n, "%s%s", n ? ", " : "", formats[i].name);
        }
        return pd_fail(err, PD_ECONF, "unknown data format '%s' (known: %s)", s->format, known);
    }
    if (s->n_fields < 1 || s->n_fields > PD_MAX_FIELDS)
        return pd_fail(err, PD_ECONF, "%u fields; there can be 1 to %d", s->n_fields, PD_MAX_FIELDS);
    if (f->sentence && s->start_id == s->end_id)
        return pd_fail(err, PD_ECONF,
                       "format %s needs the ids of <s> and <e>: a vocabulary_file that has both, or start_id and end_id",
                       f->name);
    if (f->sentence && s->vocabulary && (s->start_id >= s->vocabulary || s->end_id >= s->vocabulary))
        return pd_fail(err, PD_ECONF, "start_id %" PRIu64 " or end_id %" PRIu64 " is not below the vocabulary, %" PRIu64,
                       s->start_id, s->end_id, s->vocabulary);
    return 0;
}

/* --- in and out ---------------------------------------------------------------------------------- */

static int take_files(struct data_reader *r, const struct data_files *files, uint32_t n_streams) {
    uint64_t h = 0xcbf29ce484222325u; /* FNV-1a over the names, each with its NUL */
    for (size_t i = 0; i < files->n; i++) {
        if (data_stream_of(i, n_streams) != r->stream)
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

int data_reader_new(struct data_reader **out, const struct data_spec *spec, const char *dir,
                    const struct data_files *files, uint32_t stream, uint32_t n_streams, struct pd_err *err) {
    int rc = data_spec_check(spec, err);
    if (rc)
        return rc;
    if (stream >= n_streams)
        return pd_fail(err, PD_ECONF, "stream %u of %u", stream, n_streams);
    struct data_reader *r = pd_calloc(1, sizeof *r);
    if (!r)
        return pd_fail(err, PD_ENOMEM, "out of memory for a data reader");
    r->lines.fd = -1;
    r->spec = *spec;
    r->format = find_format(spec->format);
    r->spec.format = r->format->name;
    r->stream = stream;
    r->dir = pd_strdup(dir);
    if (!r->dir || take_files(r, files, n_streams))
        rc = pd_fail(err, PD_ENOMEM, "out of memory for a data reader");
    if (!rc)
        rc = data_lines_init(&r->lines, err);
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
    data_lines_release(&r->lines);
    data_files_release(&r->files);
    free(r->ids);
    free(r->dir);
    free(r);
}

/* --- lines --------------------------------------------------------------------------------------- */

static int open_file(struct data_reader *r, uint64_t offset, uint64_t line, struct pd_err *err) {
    const char *name = r->files.path[r->file];
    char path[PATH_MAX];
    int here = name[0] == '/' || !strcmp(r->dir, ".");
    if (pd_fmt(path, sizeof path, "%s%s%s", here ? "" : r->dir, here ? "" : "/", name))
        return pd_fail(err, PD_EIO, "path too long: %s/%s", r->dir, name);
    return data_lines_open(&r->lines, path, name, offset, line, err);
}

static int push_id(struct data_reader *r, uint64_t id) {
    if (r->n_ids == r->cap_ids) {
        size_t cap = r->cap_ids ? 2 * r->cap_ids : 256;
        uint64_t *grown = pd_realloc(r->ids, cap * sizeof *grown);
        if (!grown)
            return PD_ENOMEM;
        r->ids = grown;
        r->cap_ids = cap;
    }
    r->ids[r->n_ids++] = id;
    return 0;
}

static int is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

/* Fills r->ids from a line. 0, PD_ENOMEM, or PD_EDATA with the reason in `why`. */
static int parse_ids(struct data_reader *r, const char *s, size_t n, char *why, size_t cap) {
    const char *end = s + n;
    r->n_ids = 0;
    if (r->format->sentence && push_id(r, r->spec.start_id))
        return PD_ENOMEM;
    for (;;) {
        while (s < end && is_blank(*s))
            s++;
        if (s == end)
            break;
        const char *start = s;
        uint64_t v = 0;
        int overflow = 0;
        for (; s < end && *s >= '0' && *s <= '9'; s++) {
            uint64_t d = (uint64_t)(*s - '0');
            overflow |= v > (UINT64_MAX - d) / 10;
            v = v * 10 + d;
        }
        if (s == start || (s < end && !is_blank(*s)) || overflow) {
            while (s < end && !is_blank(*s))
                s++;
            snprintf(why, cap, "'%.*s' is not an id", (int)(s - start < 40 ? s - start : 40), start);
            return PD_EDATA;
        }
        if (r->spec.vocabulary && v >= r->spec.vocabulary) {
            snprintf(why, cap, "id %" PRIu64 " is not below the vocabulary, %" PRIu64, v, r->spec.vocabulary);
            return PD_EDATA;
        }
        if (push_id(r, v))
            return PD_ENOMEM;
    }
    if (r->format->sentence && r->n_ids > 1 && push_id(r, r->spec.end_id))
        return PD_ENOMEM;
    return 0;
}

static int bad_line(struct data_reader *r, const char *why, struct pd_err *err) {
    struct pd_err e = {0};
    pd_fail(&e, PD_EDATA, "%s:%" PRIu64 ": %s", r->files.path[r->file], r->lines.line, why);
    if (r->spec.on_bad)
        r->spec.on_bad(r->spec.arg, e.msg);
    r->windows = r->in_line = 0;
    if (++r->bad_lines <= r->spec.max_bad_lines)
        return 0;
    return pd_fail(err, PD_EDATA, "%s (bad lines: %" PRIu64 ", allowed: %" PRIu64 ")", e.msg, r->bad_lines,
                   r->spec.max_bad_lines);
}

/* Take over a line: r->windows says how many samples it has. */
static int take_line(struct data_reader *r, const char *s, size_t n, struct pd_err *err) {
    char why[200];
    int rc = parse_ids(r, s, n, why, sizeof why);
    if (rc == PD_ENOMEM)
        return pd_fail(err, PD_ENOMEM, "%s: out of memory for a line", r->files.path[r->file]);
    if (rc)
        return bad_line(r, why, err);
    r->in_line = r->windows = 0;
    if (r->n_ids == (r->format->sentence ? 1u : 0u)) /* a blank line */
        return 0;
    int64_t w = r->format->windows(r->n_ids, r->spec.n_fields);
    if (w < 0) {
        snprintf(why, sizeof why, "%zu ids, but there are %u fields", r->n_ids, r->spec.n_fields);
        return bad_line(r, why, err);
    }
    r->windows = (uint64_t)w;
    return 0;
}

/* Go on to the next line, in the next file if need be. 1: there is one (maybe without samples), 0: the end. */
static int next_line(struct data_reader *r, struct pd_err *err) {
    while (r->file < r->files.n) {
        int rc = r->lines.fd < 0 ? open_file(r, 0, 0, err) : 0;
        if (rc)
            return rc;
        char *s;
        size_t n;
        r->line_offset = r->lines.offset;
        rc = data_lines_next(&r->lines, r->files.path[r->file], &s, &n, err);
        r->line = r->lines.line;
        if (rc == 1)
            rc = take_line(r, s, n, err);
        else if (rc == PD_EDATA)
            rc = bad_line(r, "the line is longer than 1 MiB", err);
        else if (rc == 0) {
            data_lines_close(&r->lines);
            r->file++;
            r->line_offset = r->line = r->windows = r->in_line = 0;
            continue;
        }
        return rc ? rc : 1;
    }
    return 0;
}

/* --- samples ------------------------------------------------------------------------------------- */

static void emit(struct data_reader *r, struct pd_batch *b) {
    const uint64_t *w = r->ids + r->in_line;
    for (uint32_t k = 0; k < r->spec.n_fields; k++)
        b->ids[k][b->n] = w[k];
    b->stream[b->n] = r->stream;
    b->index[b->n] = r->index;
    b->n++;
    r->in_line++;
    r->index++;
}

int data_reader_next(struct data_reader *r, uint32_t n, struct pd_batch *b, struct pd_err *err) {
    uint32_t got = 0;
    if (r->failed)
        return pd_fail(err, PD_EDATA, "the data reader has failed before");
    if (n > b->cap - b->n)
        n = b->cap - b->n;
    if (n > INT_MAX)
        n = INT_MAX;
    while (got < n) {
        if (r->in_line < r->windows) {
            emit(r, b);
            got++;
            continue;
        }
        int rc = next_line(r, err);
        if (rc < 0) {
            b->n -= got;
            r->failed = 1;
            return rc;
        }
        if (rc == 0)
            break;
    }
    return (int)got;
}

/* --- position ------------------------------------------------------------------------------------ */

void data_reader_rewind(struct data_reader *r) {
    data_lines_close(&r->lines);
    r->file = 0;
    r->line_offset = r->line = r->in_line = r->windows = r->index = r->bad_lines = 0;
    r->failed = 0;
}

/* Behind the last sample of a line the position is the start of the next line. */
void data_reader_tell(const struct data_reader *r, struct data_pos *pos) {
    int inside = r->in_line < r->windows;
    int open = r->lines.fd >= 0;
    *pos = (struct data_pos){.files_hash = r->files_hash,
                             .file = r->file,
                             .offset = inside ? r->line_offset : open ? r->lines.offset : 0,
                             .line = inside ? r->line : open ? r->lines.line + 1 : 1,
                             .in_line = inside ? r->in_line : 0,
                             .index = r->index,
                             .bad_lines = r->bad_lines};
}

int data_reader_seek(struct data_reader *r, const struct data_pos *pos, struct pd_err *err) {
    data_reader_rewind(r);
    r->failed = 1; /* until it has worked */
    if (pos->files_hash != r->files_hash || pos->file > r->files.n || pos->line < 1)
        return pd_fail(err, PD_EDATA, "the saved position belongs to another list of files (stream %u)", r->stream);
    r->file = (size_t)pos->file;
    r->index = pos->index;
    r->bad_lines = pos->bad_lines;
    if (r->file < r->files.n) {
        int rc = open_file(r, pos->offset, pos->line - 1, err);
        if (!rc && pos->in_line) {
            size_t at = r->file;
            rc = next_line(r, err);
            if (rc >= 0 && (rc == 0 || r->file != at || pos->in_line > r->windows))
                rc = pd_fail(err, PD_EDATA, "%s:%" PRIu64 ": the file has changed since its position was saved",
                             r->files.path[at], pos->line);
        }
        if (rc < 0)
            return rc;
        r->in_line = pos->in_line;
    }
    r->failed = 0;
    return 0;
}

uint64_t data_reader_bad_lines(const struct data_reader *r) { return r->bad_lines; }
size_t data_reader_n_files(const struct data_reader *r) { return r->files.n; }

#define POS_FMT "v1:%016" PRIx64 ":%" PRIu64 ":%" PRIu64 ":%" PRIu64 ":%" PRIu64 ":%" PRIu64 ":%" PRIu64

void data_pos_format(const struct data_pos *p, char out[DATA_POS_TEXT]) {
    snprintf(out, DATA_POS_TEXT, POS_FMT, p->files_hash, p->file, p->offset, p->line, p->in_line, p->index,
             p->bad_lines);
}

int data_pos_parse(const char *text, struct data_pos *pos) {
    char copy[DATA_POS_TEXT], hash[17] = "", *at = copy;
    uint8_t bytes[8];
    uint64_t v[6];
    if (pd_fmt(copy, sizeof copy, "%s", text) || !pd_starts(copy, "v1:"))
        return PD_EDATA;
    at += 3;
    char *colon = strchr(at, ':');
    if (!colon || colon - at != 16)
        return PD_EDATA;
    memcpy(hash, at, 16);
    if (pd_unhex(bytes, 8, hash))
        return PD_EDATA;
    at = colon + 1;
    for (int i = 0; i < 6; i++) {
        colon = strchr(at, ':');
        if ((colon == NULL) != (i == 5))
            return PD_EDATA;
        if (colon)
            *colon = 0;
        if (pd_parse_u64(at, INT64_MAX, &v[i]))
            return PD_EDATA;
        at = colon ? colon + 1 : at;
    }
    uint64_t h = 0;
    for (int i = 0; i < 8; i++)
        h = h << 8 | bytes[i];
    *pos = (struct data_pos){h, v[0], v[1], v[2], v[3], v[4], v[5]};
    return 0;
}
