/* reader.h - a stream of samples: the files that belong to it, read in order, shuffled within a
 * bounded buffer.
 *
 *   file list of the job (sorted by bytes)   0 1 2 3 4 5 ...
 *   stream of file i: i mod n_streams        0 1 2 0 1 2      <- data_stream_of, the one place that
 * says so
 *
 *   files ─▶ blocks of lines ─▶ samples ─▶ shuffle buffer ─▶ batches
 *            (pipe.h: read and parsed ahead by threads)
 *
 * What the lines are is the schema's business (schema.h, docs/data.md). Files may be packed with
 * gzip or zstd. Memory is bounded: a few blocks, one line of at most DATA_MAX_LINE bytes, the
 * shuffle buffer; nothing is allocated once these have grown to what the data needs. What comes out
 * is a function of files, schema, seed, pass, stream and shuffle_buffer: not of threads or timing.
 *
 * A line that can't be read is reported through on_bad with file:line, counted and left out; more
 * than max_bad_lines of them in a pass end the reading with PD_EDATA. All functions: one thread at
 * a time per reader; nothing is shared between readers but the pool.
 */
#ifndef PD_DATA_READER_H
#define PD_DATA_READER_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "data/schema/batch.h"
#include "data/input/lines.h"
#include "data/schema/schema.h"

enum { DATA_POS_TEXT = 250 };

/* --- file lists --- */

struct data_files {
    char *
        *path; /* as the pattern gave them, relative to the folder; sorted by bytes after expand */
    size_t n, cap;
};

/* Append the regular files, and /dev/stdin, that match `pattern` (glob, several separated by blanks
 * or commas) in folder `dir` ("." = the current one) and sort the whole list by bytes. No match is
 * PD_ENOENT with the pattern in the message. Paths stay relative to `dir` if the pattern is. */
int data_files_expand(struct data_files *f, const char *dir, const char *pattern,
                      struct pd_err *err);
int data_files_add(struct data_files *f,
                   const char *path);          /* at the end, unsorted; 0 or PD_ENOMEM */
void data_files_sort(struct data_files *f);    /* by bytes, doubles removed */
void data_files_release(struct data_files *f); /* struct zeroed before first use */

/* Which stream reads file number `file` of the job's list. */
uint32_t data_stream_of(size_t file, uint32_t n_streams);
/* The contiguous streams [lo, hi) of trainer t of n_trainers. */
void data_stream_range(uint32_t n_streams, uint32_t n_trainers, uint32_t t, uint32_t *lo,
                       uint32_t *hi);

/* --- reader --- */

struct data_workers; /* pipe.h */
struct data_fetch;   /* fetch.h */

struct data_spec {
    const struct data_schema
        *schema;         /* outlives the reader; or NULL: plain ids, described by the next five */
    const char *format;  /* "ids", "ngram" */
    uint32_t n_fields;   /* 1..PD_MAX_FIELDS */
    uint64_t vocabulary; /* ids are below it; 0: not checked */
    uint64_t start_id, end_id; /* <s> and <e>, for ngram */
    uint64_t max_bad_lines;    /* per pass; 0: the first bad line ends the reading */
    uint64_t
        shuffle_buffer; /* samples are shuffled within groups of so many; 0 or 1: they are not */
    uint64_t
        seed; /* of shuffling and of skipgram's and cbow's draws, with the pass and the stream */
    struct data_fetch *fetch;     /* asked for files that are not there; NULL: that is an error */
    struct data_workers *workers; /* threads that read and parse ahead; NULL: none */
    void (*on_bad)(void *arg, const char *message); /* "data/x-00001:17: ...", from within
                                                       data_reader_next; may be NULL */
    void *arg;
};

/* Where the next sample comes from. Valid for the same file list, schema, and inside a group of
 * shuffled samples for the same seed and shuffle_buffer: `files_hash` and `order` find that out.
 * With a shuffle buffer: where its group begins, and how many samples of the group have been given
 * out. */
struct data_pos {
    uint64_t files_hash; /* of the names of this stream's files */
    uint64_t file;       /* number within the stream's own files; == their count at the end */
    uint64_t offset;     /* byte at which the line starts, of what is unpacked */
    uint64_t line;       /* its number, from 1 */
    uint64_t in_line;    /* samples of that line already delivered */
    uint64_t index;      /* samples of this pass before it */
    uint64_t bad_lines;  /* of this pass so far */
    uint64_t pass;
    uint64_t skip; /* samples of the group given out */
    uint64_t
        order; /* then: of what decides their order, seed and shuffle_buffer; 0: nobody knows */
};

struct data_reader;

/* 0 or PD_ECONF: is there such a format, and do the numbers fit it? */
int data_spec_check(const struct data_spec *spec, struct pd_err *err);

/* Reader of stream `stream` of `n_streams` over the job's list; files are opened in folder `dir`
 * when their turn comes, so that a node needs only those of its own streams; an empty name is no
 * file. Copies what it needs. */
int data_reader_new(struct data_reader **out, const struct data_spec *spec, const char *dir,
                    const struct data_files *files, uint32_t stream, uint32_t n_streams,
                    struct pd_err *err);
void data_reader_free(struct data_reader *r);

/* Append up to `n` samples (bounded by the room left) to `b`, which has n_fields fields. Returns
 * their number, less than n only at the end of the pass and then 0, or PD_EDATA, PD_ENOENT, PD_EIO;
 * after an error only rewind, seek and free are allowed. */
int data_reader_next(struct data_reader *r, uint32_t n, struct pd_batch *b, struct pd_err *err);

void data_reader_rewind(struct data_reader *r,
                        uint64_t pass); /* to the start of the stream, for pass number `pass` */
/* The same, but only this file of the stream's is read, as a stream by itself whose number is the
 * file's: what comes out is the same whoever reads it. Until the next rewind or seek. Bad lines of
 * the files that are read so in one pass add up. */
void data_reader_rewind_to_file(struct data_reader *r, uint64_t pass, uint64_t file);
/* This file may be read next: where it is not on this node, it is brought meanwhile. */
void data_reader_prefetch(const struct data_reader *r, uint64_t file);

/* tell: where the sample that _next would give next comes from, whatever was read ahead. seek: go
 * there; what follows is what would have followed, whichever process reads on and with how many
 * threads. Costs reading a packed file up to there, and refilling the shuffle buffer. PD_EDATA:
 * another list of files, or the file has changed; then only rewind, seek and free are allowed. */
void data_reader_tell(const struct data_reader *r, struct data_pos *pos);
int data_reader_seek(struct data_reader *r, const struct data_pos *pos, struct pd_err *err);
uint64_t data_reader_bad_lines(const struct data_reader *r); /* of this pass */
size_t data_reader_n_files(
    const struct data_reader *r); /* of this stream; 0 is allowed: no samples */

/* How far reading is: file number within the stream's own, and bytes of it as it is on disk. */
void data_reader_progress(const struct data_reader *r, uint64_t *file, uint64_t *bytes);

/* A position as one line of text without blanks, for a checkpoint's manifest. */
void data_pos_format(const struct data_pos *pos, char out[DATA_POS_TEXT]);
int data_pos_parse(const char *text, struct data_pos *pos); /* 0 or PD_EDATA */

#endif
