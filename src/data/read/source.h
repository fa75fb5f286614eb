/* SPDX-License-Identifier: Apache-2.0 */
/* source.h - cuts the files of a stream into blocks of whole lines, in order. One thread at a time.
 */
#pragma once

#include "data/schema/block.h"
#include "data/input/input.h"
#include "data/read/reader.h"

struct data_source {
    const struct data_schema *schema;
    const char *dir;
    const struct data_files *files;
    struct data_fetch *fetch;  /* fetches missing files; NULL: none */
    uint64_t file, end;        /* current file; the first file that is not read */
    struct data_input *in;     /* the open file, or NULL */
    struct data_input *labels; /* idx: the open file of labels */
    uint32_t idx_left;         /* idx: images of this file not read yet */
    uint64_t offset, line;     /* start of the next block */
    char *tail;                /* [BLOCK_BYTES] bytes read behind the last block's last line */
    size_t n_tail;
};

int data_source_init(struct data_source *s, const struct data_schema *schema, const char *dir,
                     const struct data_files *files);
void data_source_release(struct data_source *s);

struct data_place {              /* start of a line */
    uint64_t file, offset, line; /* unpacked offset; line: from 1 */
};

/* Continues at this place and stops before file `end`, or at the end of the list. Opens nothing
 * yet. */
void data_source_goto(struct data_source *s, struct data_place at, uint64_t end);

/* Fills the next block, which is empty: its text, or is_end, or rc and err. */
void data_source_fill(struct data_source *s, struct data_block *b);

/* The shape of an idx file of unsigned bytes: dim[0] items of dim[1] x dim[2] x ... = size bytes
 * each. */
enum { IDX_MAX_DIMS = 4 };
struct data_idx_shape {
    uint32_t n_dims, dim[IDX_MAX_DIMS];
    uint64_t size;
};
int data_idx_shape(const char *path, struct data_idx_shape *out, struct pd_err *err);

/* Images are records of an idx file: open both files, and read records into a block (source_idx.c).
 */
int data_idx_open(struct data_source *s, const char *path, const char *shown, struct pd_err *err);
int data_idx_fill(struct data_source *s, struct data_block *b, const char *shown);
