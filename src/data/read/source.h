/* source.h - the files of a stream cut into blocks of whole lines, in order. One thread at a time.
 */
#ifndef PD_DATA_SOURCE_H
#define PD_DATA_SOURCE_H

#include "data/schema/block.h"
#include "data/input/input.h"
#include "data/read/reader.h"

struct data_source {
    const struct data_schema *schema;
    const char *dir;
    const struct data_files *files;
    struct data_fetch *fetch;  /* or NULL */
    uint64_t file, end;        /* the one being read; the first that is not */
    struct data_input *in;     /* open on it, or NULL */
    struct data_input *labels; /* idx: the file beside it */
    uint32_t idx_left;         /* idx: images of this file still to come */
    uint64_t offset, line;     /* of the next block */
    char *tail;                /* [BLOCK_BYTES] bytes behind the last block's last line */
    size_t n_tail;
};

int data_source_init(struct data_source *s, const struct data_schema *schema, const char *dir,
                     const struct data_files *files);
void data_source_release(struct data_source *s);

struct data_place {              /* of a line's start */
    uint64_t file, offset, line; /* unpacked offset; line: from 1 */
};

/* Go on at this place and stop before file `end` (at the latest behind the last). Opens nothing
 * yet. */
void data_source_goto(struct data_source *s, struct data_place at, uint64_t end);

/* Fill the next block (cleared before): its chunk, is_end, or rc and err. */
void data_source_fill(struct data_source *s, struct data_block *b);

/* What an idx file of unsigned bytes holds: dim[0] items of dim[1] x dim[2] x ... = size bytes
 * each. */
enum { IDX_MAX_DIMS = 4 };
struct data_idx_shape {
    uint32_t n_dims, dim[IDX_MAX_DIMS];
    uint64_t size;
};
int data_idx_shape(const char *path, struct data_idx_shape *out, struct pd_err *err);

/* Images, records of an idx file: open both files, and read as a block (source_idx.c). */
int data_idx_open(struct data_source *s, const char *path, const char *shown, struct pd_err *err);
int data_idx_fill(struct data_source *s, struct data_block *b, const char *shown);

#endif
