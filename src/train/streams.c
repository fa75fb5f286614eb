/* streams.c - see streams.h. */
#include "train/streams.h"

#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/fault.h"
#include "base/hash.h"
#include "base/str.h"

struct train_streams {
    uint32_t lo, hi, first, n_shares; /* a batch is cut into n_shares, of which stream i gets number i - first */
    uint64_t batch_size, fingerprint;
    struct data_reader **reader; /* [hi - lo] */
    struct data_pos *was;        /* [hi - lo], before the last batch */
    uint32_t *count;             /* [hi - lo], of the last batch */
    uint32_t n_streams;
    uint64_t *before;            /* by file of the job's list, and one more of each stream: bytes of its stream before it */
    uint64_t total;              /* bytes of all own files */
};

void train_stream_range(uint32_t n_streams, uint32_t n_trainers, uint32_t t, uint32_t *lo, uint32_t *hi) {
    *lo = (uint32_t)((uint64_t)t * n_streams / n_trainers);
    *hi = (uint32_t)((uint64_t)(t + 1) * n_streams / n_trainers);
}

uint32_t train_stream_share(uint64_t batch_size, uint32_t n_streams, uint32_t s) {
    return (uint32_t)((s + 1) * batch_size / n_streams - s * batch_size / n_streams);
}

/* How large the own files are, for telling how far a pass is. A file that can't be looked at counts as empty: whoever reads it
 * says what is wrong. */
static void measure(struct train_streams *s, const char *dir, const struct data_files *files, uint32_t n_streams) {
    s->n_streams = n_streams;
    for (size_t i = 0; i < files->n; i++) {
        uint32_t stream = data_stream_of(i, n_streams);
        char path[PATH_MAX];
        struct stat st;
        if (stream < s->lo || stream >= s->hi)
            continue;
        int known = !pd_fmt(path, sizeof path, "%s%s%s", *files->path[i] == '/' ? "" : dir, *files->path[i] == '/' ? "" : "/",
                            files->path[i]) && !stat(path, &st);
        uint64_t size = known ? (uint64_t)st.st_size : 0;
        s->total += size;
        s->before[i + n_streams] = s->before[i] + size;
    }
}

int train_streams_new(struct train_streams **out, const struct data_spec *spec, const char *dir, const char *pattern,
                      const char *what, uint32_t n_streams, uint32_t lo, uint32_t hi, uint64_t batch_size, int own_batches,
                      struct pd_err *err) {
    struct data_files files = {0};
    struct train_streams *s = pd_calloc(1, sizeof *s);
    int rc = s ? data_files_expand(&files, dir, pattern, err) : pd_fail(err, PD_ENOMEM, "out of memory");
    if (!rc && files.n < n_streams)
        rc = pd_fail(err, PD_EDATA,
                     "'%s = %s' matches %zu files for %u streams: each stream needs at least one (paddlectl split makes them)",
                     what, pattern, files.n, n_streams);
    if (rc)
        goto out;
    s->lo = lo;
    s->hi = hi;
    s->first = own_batches ? lo : 0;
    s->n_shares = own_batches ? hi - lo : n_streams;
    s->batch_size = batch_size;
    for (size_t i = 0; i < files.n; i++)
        for (const char *p = files.path[i]; p == files.path[i] || p[-1]; p++) /* the NUL parts the names */
            s->fingerprint = pd_mix64(s->fingerprint ^ (uint64_t)(unsigned char)*p) + 1;
    s->reader = pd_calloc(hi - lo, sizeof *s->reader);
    s->count = pd_calloc(hi - lo, sizeof *s->count);
    s->was = pd_calloc(hi - lo, sizeof *s->was);
    s->before = pd_calloc(files.n + n_streams, sizeof *s->before);
    if (!s->reader || !s->count || !s->was || !s->before) {
        rc = pd_fail(err, PD_ENOMEM, "out of memory");
        goto out;
    }
    measure(s, dir, &files, n_streams);
    for (uint32_t i = lo; i < hi && !rc; i++)
        rc = data_reader_new(&s->reader[i - lo], spec, dir, &files, i, n_streams, err);
out:
    data_files_release(&files);
    if (rc)
        train_streams_free(s);
    else
        *out = s;
    return rc;
}

void train_streams_free(struct train_streams *s) {
    if (!s)
        return;
    free(s->before);
    for (uint32_t i = s->lo; s->reader && i < s->hi; i++)
        data_reader_free(s->reader[i - s->lo]);
    free(s->reader);
    free(s->count);
    free(s->was);
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

const uint32_t *train_streams_counts(const struct train_streams *s) { return s->count; }

int train_streams_next(struct train_streams *s, struct pd_batch *b, struct pd_err *err) {
    pd_batch_clear(b);
    for (uint32_t i = s->lo; i < s->hi; i++) {
        data_reader_tell(s->reader[i - s->lo], &s->was[i - s->lo]);
        int n = data_reader_next(s->reader[i - s->lo], share_of(s, i), b, err);
        if (n < 0)
            return n;
        s->count[i - s->lo] = (uint32_t)n;
    }
    return (int)b->n;
}

void train_streams_rewind(struct train_streams *s, uint64_t pass) {
    for (uint32_t i = s->lo; i < s->hi; i++)
        data_reader_rewind(s->reader[i - s->lo], pass);
}

void train_streams_tell(const struct train_streams *s, uint32_t i, int before, char out[TRAIN_POS_TEXT]) {
    struct data_pos pos;
    data_reader_tell(s->reader[i], &pos);
    data_pos_format(before ? &s->was[i] : &pos, out);
}

int train_streams_seek(struct train_streams *s, uint32_t i, const char *text, struct pd_err *err) {
    struct data_pos pos;
    if (data_pos_parse(text, &pos))
        return pd_fail(err, PD_EDATA, "'%.100s' is no position in a stream of data", text);
    return data_reader_seek(s->reader[i], &pos, err);
}

double train_streams_fraction(const struct train_streams *s) {
    uint64_t done = 0;
    for (uint32_t i = s->lo; i < s->hi; i++) {
        uint64_t file, bytes;
        data_reader_progress(s->reader[i - s->lo], &file, &bytes);
        done += s->before[i + file * s->n_streams] + bytes; /* the job's number of the file: data_stream_of */
    }
    return s->total ? (double)done / (double)s->total : -1;
}

uint64_t train_streams_bad_lines(const struct train_streams *s) {
    uint64_t n = 0;
    for (uint32_t i = s->lo; i < s->hi; i++)
        n += data_reader_bad_lines(s->reader[i - s->lo]);
    return n;
}
