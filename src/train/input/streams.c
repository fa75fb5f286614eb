/* SPDX-License-Identifier: Apache-2.0 */
/* streams.c - see streams.h. */
#include "train/input/streams.h"

#include "train/input/prefetch.h"

#include "math/hash.h"
#include "data/read/file_list.h"

enum { AHEAD = 2 }; /* batches */

struct prepared_batch {    /* a batch, and the state of the streams after it */
    struct pd_batch batch; /* cap 0: samples are read directly into the caller's batch */
    uint32_t *count;       /* [hi - lo] samples of each stream */
    struct data_pos *before,
        *pos; /* [hi - lo] positions of the streams before and after the batch */
    double fraction;
    uint64_t bad_lines;
    struct pd_buf messages; /* of bad lines, each with its NUL */
    int rc;                 /* samples, 0 at the end, or PD_E* */
    struct pd_err err;
};

struct train_streams {
    uint32_t lo, hi, first, n_shares; /* stream i gets share i - first of n_shares of a batch */
    uint64_t batch_size, fingerprint;
    struct data_reader **reader;           /* [hi - lo] */
    struct prepared_batch made[AHEAD + 1]; /* the last element is the batch returned last */
    struct data_pos *earlier; /* [hi - lo] positions before the batch returned before the last */
    struct prepared_batch *filling; /* being filled, by any thread */
    struct train_prefetch *ahead;   /* NULL: no prefetch */
    int ran;                        /* the prefetch has moved the readers since the last seek */
    int over;                       /* the last batch was empty, or an error */
    void (*on_bad)(void *arg, const char *message);
    void *on_bad_arg;
    uint32_t n_streams;
    /* By file of the job's list, plus one more per stream: bytes of the stream before the file. */
    uint64_t *before;
    uint64_t total; /* bytes of all own files */
};

uint32_t train_stream_share(uint64_t batch_size, uint32_t n_streams, uint32_t s) {
    return (uint32_t)((s + 1) * batch_size / n_streams - s * batch_size / n_streams);
}

/* The size of a file; UINT64_MAX if stat fails. */
static uint64_t size_of(const char *dir, const char *path) {
    char full[PATH_MAX];
    struct stat st;
    int ok = *path &&
             !pd_fmt(full, sizeof full, "%s%s%s", *path == '/' ? "" : dir, *path == '/' ? "" : "/",
                     path) &&
             !stat(full, &st);
    return ok ? (uint64_t)st.st_size : UINT64_MAX;
}

/* Sums the sizes of the own files, for the fraction of a pass. A file that stat fails on counts as
 * empty; reading it reports the error. With comes_later such files are fetched when they are read,
 * and count as large as the others on average. */
static void measure(struct train_streams *s, const char *dir, const struct data_files *files,
                    uint32_t n_streams, int comes_later) {
    /* By file: first its size, then the bytes before the next file of its stream. */
    uint64_t *size = s->before + n_streams, n = 0, sum = 0;
    s->n_streams = n_streams;
    for (size_t i = 0; i < files->n; i++) {
        uint32_t stream = data_stream_of(i, n_streams);
        size[i] = stream >= s->lo && stream < s->hi ? size_of(dir, files->path[i]) : 0;
        if (stream >= s->lo && stream < s->hi && size[i] != UINT64_MAX) {
            n++;
            sum += size[i];
        }
    }
    for (size_t i = 0; i < files->n; i++) {
        if (size[i] == UINT64_MAX)
            size[i] = comes_later && n ? sum / n : 0;
        s->total += size[i];
        size[i] += s->before[i];
    }
}

static int prefetch_batch(void *arg, uint32_t i);

/* Keeps messages about unreadable lines until their batch is returned. */
static void note_bad(void *arg, const char *message) {
    struct train_streams *s = arg;
    pd_put(&s->filling->messages, message, strlen(message) + 1);
}

static int batch_init(struct train_streams *s, struct prepared_batch *m,
                      const struct data_schema *schema) {
    struct pd_field fields[PD_MAX_FIELDS];
    uint32_t n = s->hi - s->lo;
    m->count = pd_calloc(n, sizeof *m->count);
    m->before = pd_calloc(n, sizeof *m->before);
    m->pos = pd_calloc(n, sizeof *m->pos);
    if (!m->count || !m->before || !m->pos)
        return PD_ENOMEM;
    for (uint32_t k = 0; schema && k < schema->n_fields; k++)
        fields[k] = schema->field[k].batch;
    return schema ? pd_batch_init(&m->batch, fields, schema->n_fields, train_streams_max_batch(s))
                  : 0;
}

static int open_readers(struct train_streams *s, const struct data_spec *spec, const char *dir,
                        const struct data_files *files, struct pd_err *err) {
    struct data_spec own = *spec;
    int ahead = spec->workers && spec->schema, rc = 0;
    s->on_bad = spec->on_bad;
    s->on_bad_arg = spec->arg;
    own.on_bad = note_bad;
    own.arg = s;
    for (uint32_t i = 0; i <= AHEAD && !rc; i++)
        if (batch_init(s, &s->made[i], ahead ? spec->schema : NULL))
            rc = pd_fail(err, PD_ENOMEM, "out of memory for batches");
    for (uint32_t i = s->lo; i < s->hi && !rc; i++)
        rc = data_reader_new(&s->reader[i - s->lo], &own, dir, files, i, s->n_streams, err);
    return !rc && ahead ? train_prefetch_new(&s->ahead, AHEAD, prefetch_batch, s, err) : rc;
}

/* Makes a list in which a node's own files fall on its own streams; the places of other streams are
 * empty. */
static int deal_own(struct data_files *files, uint32_t n_streams, uint32_t lo, uint32_t hi) {
    size_t rounds = (files->n + hi - lo - 1) / (hi - lo), n = rounds * n_streams;
    char **path = pd_calloc(n + 1, sizeof *path);
    int rc = path ? 0 : PD_ENOMEM;
    for (size_t i = 0; i < n && !rc; i++) {
        uint32_t stream = data_stream_of(i, n_streams);
        size_t own = i / n_streams * (hi - lo) + stream - lo;
        if (stream >= lo && stream < hi && own < files->n) {
            path[i] = files->path[own];
            files->path[own] = NULL;
        } else if (!(path[i] = pd_strdup(""))) {
            rc = PD_ENOMEM;
        }
    }
    data_files_release(files);
    *files = (struct data_files){path, path ? n : 0, n};
    return rc;
}

/* Lists the job's files, as far as this trainer knows them. */
static int list_files(struct data_files *files, const struct train_files *w, uint32_t n_streams,
                      uint32_t lo, uint32_t hi, struct pd_err *err) {
    struct pd_buf list = {0};
    int local = w->layout == PD_DATA_LOCAL,
        here = w->layout == PD_DATA_DISPATCHED && !strcmp(w->dir, ".");
    int rc = here ? data_files_read_list(&list, err) : 0;
    if (rc >= 0)
        rc = rc ? data_files_expand_list(files, (const char *)list.data, list.len, w->pattern, err)
                : data_files_expand(files, w->dir, w->pattern, err);
    pd_buf_release(&list);
    uint32_t need = local ? hi - lo : n_streams;
    if (!rc && files->n < need)
        rc = pd_fail(err, PD_EDATA,
                     "'%s = %s' matches %zu files for %u streams%s: each stream needs at least one "
                     "(paddlectl split makes them)",
                     w->what, w->pattern, files->n, need, local ? " of this node" : "");
    if (!rc && local && deal_own(files, n_streams, lo, hi))
        rc = pd_oom(err, "the streams of data");
    return rc;
}

int train_streams_of_list(struct train_streams **out, const struct data_spec *spec, const char *dir,
                          const struct data_files *files, uint32_t n_streams, uint32_t lo,
                          uint32_t hi, uint64_t batch_size, int own_batches, struct pd_err *err) {
    struct train_streams *s = pd_calloc(1, sizeof *s);
    if (!s)
        return pd_oom(err, "the streams of data");
    for (uint32_t i = 0; i <= AHEAD; i++)
        pd_buf_init(&s->made[i].messages);
    s->lo = lo;
    s->hi = hi;
    s->first = own_batches ? lo : 0;
    s->n_shares = own_batches ? hi - lo : n_streams;
    s->batch_size = batch_size;
    for (size_t i = 0; i < files->n; i++)
        for (const char *p = files->path[i]; p == files->path[i] || p[-1];
             p++) /* the NUL separates the names */
            s->fingerprint = pd_mix64(s->fingerprint ^ (uint64_t)(unsigned char)*p) + 1;
    s->reader = pd_calloc(hi - lo, sizeof *s->reader);
    s->before = pd_calloc(files->n + n_streams, sizeof *s->before);
    s->earlier = pd_calloc(hi - lo, sizeof *s->earlier);
    int rc = s->reader && s->before && s->earlier ? 0 : pd_oom(err, "the streams of data");
    if (!rc) {
        measure(s, dir, files, n_streams, spec->fetch != NULL);
        rc = open_readers(s, spec, dir, files, err);
    }
    if (rc) {
        train_streams_free(s);
        return rc;
    }
    train_streams_rewind(s, 0);
    *out = s;
    return 0;
}

int train_streams_new(struct train_streams **out, const struct data_spec *spec,
                      const struct train_files *where, uint32_t n_streams, uint32_t lo, uint32_t hi,
                      uint64_t batch_size, int own_batches, struct pd_err *err) {
    struct data_files files = {0};
    int rc = list_files(&files, where, n_streams, lo, hi, err);
    if (!rc)
        rc = train_streams_of_list(out, spec, where->dir, &files, n_streams, lo, hi, batch_size,
                                   own_batches, err);
    if (!rc && where->layout == PD_DATA_LOCAL)
        (*out)->fingerprint = 0; /* each trainer has its own list */
    data_files_release(&files);
    return rc;
}

void train_streams_free(struct train_streams *s) {
    if (!s)
        return;
    train_prefetch_free(s->ahead);
    for (uint32_t i = s->lo; s->reader && i < s->hi; i++)
        data_reader_free(s->reader[i - s->lo]);
    for (uint32_t i = 0; i <= AHEAD; i++) {
        struct prepared_batch *m = &s->made[i];
        pd_batch_release(&m->batch);
        pd_buf_release(&m->messages);
        free(m->count);
        free(m->before);
        free(m->pos);
    }
    free(s->earlier);
    free(s->before);
    free(s->reader);
    free(s);
}

uint64_t train_streams_fingerprint(const struct train_streams *s) { return s ? s->fingerprint : 0; }

static uint32_t share_of(const struct train_streams *s, uint32_t i) {
    return train_stream_share(s->batch_size, s->n_shares, i - s->first);
}

uint32_t train_streams_max_batch(const struct train_streams *s) {
    uint32_t n = 0;
    for (uint32_t i = s->lo; i < s->hi; i++)
        n += share_of(s, i);
    return n;
}

uint32_t train_streams_max_share(const struct train_streams *s) {
    uint32_t most = 0;
    for (uint32_t i = s->lo; i < s->hi; i++)
        most = share_of(s, i) > most ? share_of(s, i) : most;
    return most;
}

static double fraction(const struct train_streams *s) {
    uint64_t done = 0;
    for (uint32_t i = s->lo; i < s->hi; i++) {
        uint64_t file, bytes;
        data_reader_progress(s->reader[i - s->lo], &file, &bytes);
        done += s->before[i + file * s->n_streams] +
                bytes; /* number of the file in the job's list: data_stream_of */
    }
    return s->total ? (double)done / (double)s->total : -1;
}

/* Records positions, progress and bad lines in *m. */
static void record_state(struct train_streams *s, struct prepared_batch *m) {
    m->bad_lines = 0;
    m->fraction = fraction(s);
    for (uint32_t i = 0; i < s->hi - s->lo; i++) {
        data_reader_tell(s->reader[i], &m->pos[i]);
        m->bad_lines += data_reader_bad_lines(s->reader[i]);
    }
}

/* Reads the next step's samples into b. */
static void fill_batch(struct train_streams *s, struct prepared_batch *m, struct pd_batch *b) {
    s->filling = m;
    pd_batch_clear(b);
    pd_buf_clear(&m->messages);
    pd_err_clear(&m->err);
    m->rc = 0;
    for (uint32_t i = 0; i < s->hi - s->lo && m->rc >= 0; i++) {
        data_reader_tell(s->reader[i], &m->before[i]);
        int n = data_reader_next(s->reader[i], share_of(s, s->lo + i), b, &m->err);
        m->count[i] = n > 0 ? (uint32_t)n : 0;
        m->rc = n < 0 ? n : m->rc + n;
    }
    if (m->messages.failed)
        m->rc = pd_fail(&m->err, PD_ENOMEM, "out of memory for the messages of bad lines");
    record_state(s, m);
}

static int prefetch_batch(void *arg, uint32_t i) {
    struct train_streams *s = arg;
    fill_batch(s, &s->made[i], &s->made[i].batch);
    return s->made[i].rc > 0;
}

static struct prepared_batch *last(struct train_streams *s) { return &s->made[AHEAD]; }

const uint32_t *train_streams_counts(const struct train_streams *s) { return s->made[AHEAD].count; }

/* Both batches have the same fields and the same room, so swapping needs no copy. */
static void swap_batches(struct prepared_batch *a, struct prepared_batch *b) {
    struct prepared_batch t = *a;
    *a = *b;
    *b = t;
}

int train_streams_next(struct train_streams *s, struct pd_batch *b, struct pd_err *err) {
    struct prepared_batch *m = last(s);
    if (!s->over)
        memcpy(s->earlier, m->before, (s->hi - s->lo) * sizeof *m->before);
    if (!s->ahead) {
        fill_batch(s, m, b);
    } else if (!s->over) {
        s->ran = 1;
        swap_batches(m, &s->made[train_prefetch_take(s->ahead)]);
        train_prefetch_give(s->ahead);
        struct pd_batch t = *b;
        *b = m->batch;
        m->batch = t;
    } else {
        pd_batch_clear(b);
    }
    const char *text = (const char *)m->messages.data;
    for (size_t at = 0; at < m->messages.len; at += strlen(text + at) + 1)
        if (s->on_bad)
            s->on_bad(s->on_bad_arg, text + at);
    pd_buf_clear(&m->messages);
    s->over = m->rc <= 0;
    return m->rc < 0 ? pd_fail(err, m->rc, "%s", m->err.msg) : m->rc;
}

/* Records the state of the readers after they were moved; the prefetch is stopped. */
static void reset_state(struct train_streams *s) {
    struct prepared_batch *m = last(s);
    s->over = 0;
    m->rc = 0;
    record_state(s, m);
    memcpy(m->before, m->pos, (s->hi - s->lo) * sizeof *m->pos);
    memcpy(s->earlier, m->pos, (s->hi - s->lo) * sizeof *m->pos);
    memset(m->count, 0, (s->hi - s->lo) * sizeof *m->count);
}

static void stop_prefetch(struct train_streams *s) {
    if (s->ahead)
        train_prefetch_stop(s->ahead);
    s->ran = 0;
}

void train_streams_rewind(struct train_streams *s, uint64_t pass) {
    stop_prefetch(s);
    for (uint32_t i = s->lo; i < s->hi; i++)
        data_reader_rewind(s->reader[i - s->lo], pass);
    reset_state(s);
}

void train_streams_rewind_to_file(struct train_streams *s, uint64_t pass, uint64_t file) {
    stop_prefetch(s);
    data_reader_rewind_to_file(s->reader[0], pass, file);
    reset_state(s);
}

void train_streams_prefetch(struct train_streams *s, uint64_t file) {
    data_reader_prefetch(s->reader[0], file);
}

uint64_t train_streams_n_files(const struct train_streams *s) {
    return data_reader_n_files(s->reader[0]);
}

void train_streams_tell(const struct train_streams *s, uint32_t i, int back,
                        char out[TRAIN_POS_TEXT]) {
    const struct prepared_batch *m = &s->made[AHEAD];
    data_pos_format(back > 1 ? &s->earlier[i] : back ? &m->before[i] : &m->pos[i], out);
}

int train_streams_seek(struct train_streams *s, uint32_t i, const char *text, struct pd_err *err) {
    struct data_pos pos;
    if (data_pos_parse(text, &pos))
        return pd_fail(err, PD_EDATA, "'%.100s' is not a position in a stream of data", text);
    int rc = 0;
    if (s->ran)
        train_prefetch_stop(s->ahead);
    s->filling = last(s);
    if (s->ran) { /* the prefetch has moved the readers beyond the last batch returned */
        for (uint32_t k = 0; k < s->hi - s->lo && !rc; k++)
            rc = data_reader_seek(s->reader[k], &last(s)->pos[k], err);
        s->ran = 0;
    }
    if (!rc)
        rc = data_reader_seek(s->reader[i], &pos, err);
    reset_state(s);
    return rc;
}

double train_streams_fraction(const struct train_streams *s) { return s->made[AHEAD].fraction; }

uint64_t train_streams_bad_lines(const struct train_streams *s) { return s->made[AHEAD].bad_lines; }
