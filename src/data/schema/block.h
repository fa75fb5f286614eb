/* block.h - a piece of a file on its way through the reader: whole lines (or records), then the
 * samples that are in them.
 *
 *   source_fill     text[0, len), begins at `offset` with line number `line` of file `file`     in
 * the order of the stream block_parse     samples, where each stands, and the lines that can't be
 * read                on any thread reader          takes them in the order of the stream
 *
 * A block has everything that parsing needs for itself, so blocks are parsed at the same time
 * without knowing of each other. Its memory grows to what the data needs and is then used again.
 */
#ifndef PD_DATA_BLOCK_H
#define PD_DATA_BLOCK_H

#include "base/buf.h"
#include "math/rng.h"
#include "data/schema/parse_plan.h"

enum { BLOCK_BYTES = 128 * 1024 };

struct data_bad_line { /* a line that can't be read */
    uint32_t before;   /* it stands before sample number so many of the block */
    uint32_t at, line; /* as in data_sample_place */
    uint32_t text;     /* the message: where it begins in block.messages */
};

struct data_sample_place {
    uint32_t at;      /* the line's first byte in text */
    uint32_t line;    /* lines before it in the block */
    uint32_t in_line; /* samples of the line before it */
};

struct data_block {
    /* the chunk */
    uint64_t file, offset, line;            /* line: from 1 */
    uint64_t end_offset, end_line, end_raw; /* behind it; raw: see data_input_raw_offset */
    char *text;
    size_t len, cap_text;
    int header;    /* its first line is the file's header */
    int long_line; /* no text: a line longer than DATA_MAX_LINE stood here */
    int is_end;    /* no text: the stream has ended */
    /* what came of it */
    struct pd_batch samples;
    struct data_sample_place *where; /* [samples.cap] */
    struct data_bad_line *bad;
    uint32_t n_bad, cap_bad;
    struct pd_buf messages;
    int rc; /* PD_E*: reading has failed behind these samples */
    struct pd_err err;
};

/* While a line is taken apart. */
struct data_parser {
    const struct data_parse_plan *plan;
    const struct data_schema *schema;
    struct data_block *block;
    struct data_sample_place where; /* of the next sample */
    char why[200];                  /* why the line is bad */
    uint64_t *ids;                  /* scratch: a line's ids */
    size_t n_ids, cap_ids;
    uint64_t seed, pass; /* of the random numbers of skipgram and cbow */
    uint32_t stream;
};

int data_block_init(struct data_block *b, const struct data_schema *s); /* 0 or PD_ENOMEM */
void data_block_release(struct data_block *b);
void data_block_clear(struct data_block *b);                /* empty, memory kept */
int data_block_reserve(struct data_block *b, size_t bytes); /* room for text; 0 or PD_ENOMEM */

/* Fill samples, bad, rc from text. `name` is the file's, for messages. */
void data_block_parse(struct data_block *b, struct data_parser *p, const char *name);

/* --- for the formats --- */

/* Room for one more sample, at samples.n: its lists are empty. NULL: out of memory. */
struct pd_batch *data_sample_begin(struct data_parser *p);
/* Give list field k of that sample one more id. 0, PD_ENOMEM, or PD_EDATA with p->why: too many. */
int data_sample_add_id(struct data_parser *p, uint32_t k, uint64_t id, float weight);
void data_sample_end(struct data_parser *p);

/* Numbers out of [s, end). 1: the whole of it is one. */
int data_parse_id(const char *s, const char *end, uint64_t *out);
int data_parse_number(const char *s, const char *end, double *out); /* finite */
/* Number `slot` of dense field f as the network gets it: its transform, then its mean and std. 1;
 * 0: it is too large for a float. */
int data_scale(const struct data_parse_plan *plan, const struct data_field *f, uint32_t slot,
               double x, float *out);
int data_bad_text(struct data_parser *p, const char *s, const char *end,
                  const char *what); /* PD_EDATA, "'text' WHAT" */

#endif
