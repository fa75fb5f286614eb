/* SPDX-License-Identifier: Apache-2.0 */
/* block.h - a piece of a file on its way through the reader: first whole lines (or records), then
 * the samples in them.
 *
 *   data_source_fill   fills text[0, len), line number `line` at `offset` of file `file`; in order
 *   data_block_parse   makes samples, their places, and bad lines; on any thread
 *   reader             takes the blocks in the order of the stream
 *
 * A block holds everything that its parsing needs, so that blocks are parsed in parallel and
 * independently. Its memory grows to what the data needs and is reused.
 */
#pragma once

#include "math/rng.h"
#include "data/schema/parse_plan.h"

enum { BLOCK_BYTES = 128 * 1024 };

struct data_bad_line { /* an unreadable line */
    uint32_t before;   /* number of the block's samples in front of the line */
    uint32_t at, line; /* as in data_sample_place */
    uint32_t text;     /* offset of the message in block.messages */
    int is_note;       /* the line is readable, but has no sample: data_schema.tells_empty */
};

struct data_sample_place {
    uint32_t at;      /* offset of the line in text */
    uint32_t line;    /* lines of the block before the line */
    uint32_t in_line; /* samples of the line before the sample */
};

struct data_block {
    /* the text */
    uint64_t file, offset, line;            /* line: from 1 */
    uint64_t end_offset, end_line, end_raw; /* end of the text; raw: see data_input_raw_offset */
    char *text;
    size_t len, cap_text;
    int header;    /* the first line is the file's header */
    int long_line; /* no text: the block replaces a line longer than DATA_MAX_LINE */
    int is_end;    /* no text: end of the stream */
    /* the result of parsing */
    struct pd_batch samples;
    struct data_sample_place *where; /* [samples.cap] */
    struct data_bad_line *bad;
    uint32_t n_bad;
    size_t cap_bad;
    struct pd_buf messages;
    int rc; /* PD_E*: reading failed behind these samples */
    struct pd_err err;
};

/* State of the parser of a block's lines. */
struct data_parser {
    const struct data_parse_plan *plan;
    const struct data_schema *schema;
    struct data_block *block;
    struct data_sample_place where; /* place of the next sample */
    char why[300];                  /* why the line is bad */
    uint64_t *ids;                  /* scratch: ids of a line */
    size_t n_ids, cap_ids;
    uint64_t seed, pass; /* for the random numbers of skipgram and cbow */
    uint32_t stream;
};

int data_block_init(struct data_block *b, const struct data_schema *s); /* 0 or PD_ENOMEM */
void data_block_release(struct data_block *b);
void data_block_clear(struct data_block *b); /* empties the block, keeps its memory */
int data_block_reserve(struct data_block *b, size_t bytes); /* room for text; 0 or PD_ENOMEM */

/* Sets samples, bad and rc from text. Messages call the file `name`. */
void data_block_parse(struct data_block *b, struct data_parser *p, const char *name);

/* --- for the formats --- */

/* Begins a sample, at index samples.n, with empty lists. NULL: out of memory. */
struct pd_batch *data_sample_begin(struct data_parser *p);
/* Appends an id to list field k of this sample. 0, PD_ENOMEM, or PD_EDATA with p->why: too many
 * ids. */
int data_sample_add_id(struct data_parser *p, uint32_t k, uint64_t id, float weight);
void data_sample_end(struct data_parser *p);
/* The fields of data_schema.may_lack become zeros, or lists without ids. */
void data_sample_lacks(struct data_parser *p);

/* Parse [s, end) as a number. 1 if the whole text is a number. */
int data_parse_id(const char *s, const char *end, uint64_t *out);
int data_parse_number(const char *s, const char *end, double *out); /* finite */
/* Scales number `slot` of dense field f for the network: its transform, then mean and std. 1; 0:
 * too large for a float. */
int data_scale(const struct data_parse_plan *plan, const struct data_field *f, uint32_t slot,
               double x, float *out);
/* Why the line that was parsed last has no sample: p->why. */
const char *data_no_sample(struct data_parser *p);
/* Sets p->why and returns PD_EDATA. data_bad_text: to "'text' WHAT". */
int data_bad(struct data_parser *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int data_bad_text(struct data_parser *p, const char *s, const char *end, const char *what);
/* The bad line has too few columns or ids: if none may be missing, p->why says for which layer. */
int data_bad_short(struct data_parser *p);
