/* SPDX-License-Identifier: Apache-2.0 */
/* shards.h - a set of files PREFIX-00000, PREFIX-00001, ... in one folder. Lines are dealt to them
 * round-robin. All files appear at the end, or none. A file is open only while its buffer is
 * written, so that the number of shards is not limited by descriptors. */
#pragma once

#include "data/input/input.h"

enum { DATA_MAX_SHARDS = 100000 };

struct data_shards {
    char *dir, *prefix;
    uint32_t n, made;          /* temporary files [0, made) exist */
    struct pd_buf *buf;        /* [n] */
    size_t flush_at;           /* a buffer with this many bytes is written */
    enum data_packing packing; /* of the files; set by the caller after data_shards_start */
    uint64_t lines;
};

/* Checks the number of shards and `holdout` (every k-th line; 0: none). 0 or PD_EUSAGE. */
int data_shards_check(uint32_t n, uint64_t holdout, struct pd_err *err);

/* Creates the folder. `n` is 1..DATA_MAX_SHARDS. */
int data_shards_start(struct data_shards *s, const char *dir, const char *prefix, uint32_t n,
                      struct pd_err *err);
/* Adds `line` as the first line of every shard, before all others; without newline. 0 or PD_ENOMEM.
 */
int data_shards_header(struct data_shards *s, const char *line, size_t n);
/* The buffer for the next line: append the line without its newline, then call data_shards_line,
 * which adds the newline, or data_shards_record, which adds nothing. */
struct pd_buf *data_shards_buf(struct data_shards *s);
int data_shards_line(struct data_shards *s, struct pd_err *err);
int data_shards_record(struct data_shards *s, struct pd_err *err);
/* Writes all buffers. The files have temporary names until data_shards_commit. */
int data_shards_flush(struct data_shards *s, struct pd_err *err);
/* Gives all files their names. Then removes files PREFIX-ddddd of earlier runs: those with a number
 * of n or more, and those with another packing. */
int data_shards_commit(struct data_shards *s, struct pd_err *err);
/* Removes the shards with this prefix; a missing folder is no error. */
int data_shards_clear(const char *dir, const char *prefix, struct pd_err *err);
/* Removes uncommitted files. A zeroed struct may be released, too. */
void data_shards_release(struct data_shards *s);
