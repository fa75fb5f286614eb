/* SPDX-License-Identifier: Apache-2.0 */
/* streams.h - the batches of one trainer, made of its share of each of its streams.
 *
 * Of a batch of B samples over S streams, stream s contributes floor((s+1)B/S) - floor(sB/S)
 * samples. Step k thus consists of the same samples, whichever trainer owns the stream. Streams
 * that have ended contribute none; the pass of a trainer ends when all its streams have ended.
 */
#pragma once

#include "conf/options.h"
#include "data/read/reader.h"

/* Samples of stream s in a batch of `batch_size`. */
uint32_t train_stream_share(uint64_t batch_size, uint32_t n_streams, uint32_t s);

struct train_streams;

/* With reader threads (spec->workers) one more thread prefetches batches; the result is the same.
 * spec->on_bad is called from train_streams_next. With own_batches, batch_size is that of this
 * trainer alone, divided among its streams: trainers have no common step. */
struct train_files {
    const char *dir, *pattern; /* relative to dir */
    const char *what;          /* "train" or "test", for messages */
    enum pd_data_layout layout;
};
int train_streams_new(struct train_streams **out, const struct data_spec *spec,
                      const struct train_files *where, uint32_t n_streams, uint32_t lo, uint32_t hi,
                      uint64_t batch_size, int own_batches, struct pd_err *err);
/* The same for a list of files, in the order of the list. Streams may be without files, and names
 * may be empty (""): no file. */
int train_streams_of_list(struct train_streams **out, const struct data_spec *spec, const char *dir,
                          const struct data_files *files, uint32_t n_streams, uint32_t lo,
                          uint32_t hi, uint64_t batch_size, int own_batches, struct pd_err *err);
void train_streams_free(struct train_streams *s);

/* A hash of the whole list of files, equal on all trainers of a job. 0 for NULL, and if each
 * trainer has its own list. */
uint64_t train_streams_fingerprint(const struct train_streams *s);

uint32_t train_streams_max_batch(const struct train_streams *s);
uint32_t train_streams_max_share(const struct train_streams *s); /* of a single stream */

/* Replaces `b` by the next step's samples and returns their number. 0: all streams have ended; or
 * PD_E*. */
int train_streams_next(struct train_streams *s, struct pd_batch *b, struct pd_err *err);
/* Number of samples from each stream, first stream first. The samples are in `b` in this order. */
const uint32_t *train_streams_counts(const struct train_streams *s);
/* tell: the position of stream lo + i as text without blanks: behind the last batch returned (back
 * = 0), in front of it (1), or in front of the batch before it (2). seek: moves this stream to a
 * position; the other streams stay. PD_EDATA. */
enum { TRAIN_POS_TEXT = 256 };
void train_streams_tell(const struct train_streams *s, uint32_t i, int back,
                        char out[TRAIN_POS_TEXT]);
int train_streams_seek(struct train_streams *s, uint32_t i, const char *text, struct pd_err *err);
void train_streams_rewind(struct train_streams *s, uint64_t pass);
/* Rewinds to one file of the first stream; only this file is read until the next rewind: see
 * data_reader_rewind_to_file. */
void train_streams_rewind_to_file(struct train_streams *s, uint64_t pass, uint64_t file);
/* Prefetch: this file of the first stream may be read next (data_fetch_prefetch). */
void train_streams_prefetch(struct train_streams *s, uint64_t file);
uint64_t train_streams_n_files(const struct train_streams *s); /* files of the first stream */
/* Share of this pass that has been read, 0..1, by bytes; -1: unknown. */
double train_streams_fraction(const struct train_streams *s);
uint64_t train_streams_bad_lines(const struct train_streams *s); /* of this pass */
