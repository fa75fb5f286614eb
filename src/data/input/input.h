/* SPDX-License-Identifier: Apache-2.0 */
/* input.h - the bytes of a data file, plain or packed with gzip or zstd. The first bytes of the
 * file tell the packing; the name does not matter. Offsets count unpacked bytes. Memory is bounded.
 * One thread at a time. */
#pragma once

struct data_input;

/* Opens `path` ("-" is standard input); messages call the file `shown`. PD_ENOENT; PD_EIO, also for
 * a folder; PD_ENOMEM. */
int data_input_open(struct data_input **out, const char *path, const char *shown,
                    struct pd_err *err);
void data_input_close(struct data_input *in);

/* Reads up to `n` bytes. Returns fewer than n only before the end of the file, and 0 at the end.
 * PD_EIO; PD_EDATA if packed data is damaged or cut off. */
int64_t data_input_read(struct data_input *in, void *p, size_t n, struct pd_err *err);

/* 1 if the next read may block: the input is not a regular file and the buffer is empty. */
int data_input_may_wait(const struct data_input *in);

/* Moves forward to the unpacked `offset`: seeks if the file allows it, otherwise reads and drops
 * bytes. PD_EDATA if the file is shorter. */
int data_input_skip_to(struct data_input *in, uint64_t offset, struct pd_err *err);

uint64_t data_input_offset(const struct data_input *in); /* unpacked bytes returned so far */
/* Bytes read from the file on disk so far: packed bytes, for progress. */
uint64_t data_input_raw_offset(const struct data_input *in);

/* --- writing --- */

enum data_packing { DATA_PLAIN, DATA_GZIP, DATA_ZSTD };
int data_packing_of(const char *text);                /* "none", "gzip", "zstd"; else -1 */
const char *data_packing_suffix(enum data_packing p); /* "", ".gz", ".zst" */

/* Packs `n` bytes as one member (gzip) or frame (zstd) into *out, which the caller frees. Members
 * in a row unpack to their texts in a row. 0 or PD_ENOMEM. */
int data_pack(enum data_packing p, const void *text, size_t n, void **out, size_t *n_out);
