/* SPDX-License-Identifier: Apache-2.0 */
/* reader.h - a stream of samples: the files of the stream, read in order, shuffled within a bounded
 * buffer.
 *
 *   file list of the job (sorted by bytes)   0 1 2 3 4 5 ...
 *   stream of file i: i mod n_streams        0 1 2 0 1 2      (data_stream_of)
 *
 *   files ─▶ blocks of lines ─▶ samples ─▶ shuffle buffer ─▶ batches
 *            (pipe.h: read and parsed ahead by threads)
 *
 * The schema says what the lines are (schema.h, docs/data.md). Files may be packed with gzip or
 * zstd. Memory is bounded: a few blocks, one line of at most DATA_MAX_LINE bytes, the shuffle
 * buffer. Nothing is allocated once these have grown to what the data needs. The samples depend on
 * files, schema, seed, pass, stream and shuffle_buffer, not on threads or timing.
 *
 * With data_schema.tells_empty on_bad also gets a note of each line without a sample.
 * An unreadable line is counted and skipped, and on_bad is called with file:line. The line that
 * exceeds max_bad_lines in a pass ends the reading: PD_EDATA names it. One thread at a time may use
 * a reader; readers share nothing but the pool.
 */
#pragma once

#include "data/schema/batch.h"
#include "data/input/lines.h"
#include "data/schema/schema.h"

enum { DATA_POS_TEXT = 250 };

/* --- file lists --- */

struct data_files {
    /* As the pattern gave them, relative to the folder; sorted by bytes after data_files_expand. */
    char **path;
    size_t n, cap;
};

/* Appends the regular files, and /dev/stdin, that match `pattern` in folder `dir` ("." is the
 * current one), then sorts the whole list by bytes. `pattern` holds glob patterns separated by
 * blanks or commas. Paths stay relative to `dir` if the pattern is relative. No match: PD_ENOENT
 * with the pattern in the message. */
int data_files_expand(struct data_files *f, const char *dir, const char *pattern,
                      struct pd_err *err);
int data_files_add(struct data_files *f, const char *path); /* appends, unsorted; 0 or PD_ENOMEM */
void data_files_sort(struct data_files *f);                 /* by bytes, duplicates removed */
void data_files_release(struct data_files *f); /* the struct is zeroed before first use */

/* The stream that reads file number `file` of the job's list. This is the only place that defines
 * it. */
uint32_t data_stream_of(size_t file, uint32_t n_streams);
/* The contiguous streams [lo, hi) of trainer t of n_trainers. */
void data_stream_range(uint32_t n_streams, uint32_t n_trainers, uint32_t t, uint32_t *lo,
                       uint32_t *hi);

/* --- reader --- */

struct data_workers; /* pipe.h */
struct data_fetch;   /* fetch.h */

struct data_spec {
    /* Must outlive the reader; NULL: plain ids, described by the next five members. */
    const struct data_schema *schema;
    const char *format;        /* "ids", "ngram" */
    uint32_t n_fields;         /* 1..PD_MAX_FIELDS */
    uint64_t vocabulary;       /* ids are below it; 0: not checked */
    uint64_t start_id, end_id; /* ids of <s> and <e>, for ngram */
    uint64_t max_bad_lines;    /* per pass; 0: the first bad line ends the reading */
    uint64_t shuffle_buffer;   /* samples are shuffled in groups of this size; 0 or 1: not */
    /* With pass and stream: the seed of shuffling and of the draws of skipgram and cbow. */
    uint64_t seed;
    struct data_fetch *fetch;     /* fetches missing files; NULL: a missing file is an error */
    struct data_workers *workers; /* threads that read and parse ahead; NULL: none */
    /* Called from data_reader_next with "data/x-00001:17: ..."; may be NULL. */
    void (*on_bad)(void *arg, const char *message);
    void *arg;
};

/* The place of the next sample. Valid only for the same file list and schema; inside a shuffled
 * group also only for the same seed and shuffle_buffer. `files_hash` and `order` detect a mismatch.
 * With a shuffle buffer: the place where the group begins, and the number of its samples that were
 * returned. */
struct data_pos {
    uint64_t files_hash; /* hash of the names of the stream's files */
    uint64_t file;       /* index into the stream's files; their count at the end of the pass */
    uint64_t offset;     /* unpacked byte at which the line starts */
    uint64_t line;       /* number of the line, from 1 */
    uint64_t in_line;    /* samples of the line already returned */
    uint64_t index;      /* samples of the pass already returned */
    uint64_t bad_lines;  /* of the pass so far */
    uint64_t pass;
    uint64_t skip;  /* samples of the shuffled group already returned */
    uint64_t order; /* with skip: hash of seed and shuffle_buffer; 0: unknown */
};

struct data_reader;

/* Checks that the format exists and that the numbers fit it. 0 or PD_ECONF. */
int data_spec_check(const struct data_spec *spec, struct pd_err *err);

/* A reader of stream `stream` of `n_streams` over the job's list. Files are opened in folder `dir`
 * when their turn comes, so that a node needs only the files of its own streams. An empty name
 * stands for no file. Copies its arguments. */
int data_reader_new(struct data_reader **out, const struct data_spec *spec, const char *dir,
                    const struct data_files *files, uint32_t stream, uint32_t n_streams,
                    struct pd_err *err);
void data_reader_free(struct data_reader *r);

/* Appends up to `n` samples to `b`, which has n_fields fields, as far as `b` has room. Returns
 * their number, which is less than n only at the end of the pass (then 0), or PD_EDATA, PD_ENOENT,
 * PD_EIO. After an error only rewind, seek and free are allowed. */
int data_reader_next(struct data_reader *r, uint32_t n, struct pd_batch *b, struct pd_err *err);

/* Goes to the start of the stream, for pass number `pass`. */
void data_reader_rewind(struct data_reader *r, uint64_t pass);
/* Goes to the start of one file of the stream; only this file is read until the next rewind or
 * seek. The file counts as a stream whose number is the file's, so the samples do not depend on the
 * reader. Bad lines of all files that are read so in one pass add up. */
void data_reader_rewind_to_file(struct data_reader *r, uint64_t pass, uint64_t file);
/* Prefetch: asks for a file of the stream that may be read next and is not on this node. */
void data_reader_prefetch(const struct data_reader *r, uint64_t file);

/* tell: the place of the sample that data_reader_next would return next; blocks read ahead do not
 * matter. seek: goes to this place; the following samples are the same in any process, with any
 * number of threads. seek reads a packed file up to the place and refills the shuffle buffer.
 * PD_EDATA: the list of files differs or a file has changed; then only rewind, seek and free are
 * allowed. */
void data_reader_tell(const struct data_reader *r, struct data_pos *pos);
int data_reader_seek(struct data_reader *r, const struct data_pos *pos, struct pd_err *err);
uint64_t data_reader_bad_lines(const struct data_reader *r); /* of this pass */
size_t data_reader_n_files(const struct data_reader *r);     /* of this stream; may be 0 */

/* Progress: index of the current file in the stream, and bytes of it as on disk. */
void data_reader_progress(const struct data_reader *r, uint64_t *file, uint64_t *bytes);

/* A position as one line of text without blanks, for a checkpoint's manifest. */
void data_pos_format(const struct data_pos *pos, char out[DATA_POS_TEXT]);
int data_pos_parse(const char *text, struct data_pos *pos); /* 0 or PD_EDATA */
