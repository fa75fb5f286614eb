/* shards.h - a set of files PREFIX-00000 .. in one folder, lines dealt to them in turn; all appear
 * at the end, or none. Files are open only while their buffer is written, so that their number is
 * not bounded by descriptors. */
#ifndef PD_DATA_SHARDS_H
#define PD_DATA_SHARDS_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "data/input/input.h"

enum { DATA_MAX_SHARDS = 100000 };

struct data_shards {
    char *dir, *prefix;
    uint32_t n, made;          /* made: temporary files [0, made) exist */
    struct pd_buf *buf;        /* [n] */
    size_t flush_at;           /* bytes in a buffer */
    enum data_packing packing; /* of the files: set after _start; their names end in .gz, .zst */
    uint64_t lines;
};

/* What a command line says of shards and of lines that are held out (every k-th; 0: none): 0 or
 * PD_EUSAGE. */
int data_shards_check(uint32_t n, uint64_t holdout, struct pd_err *err);

/* Makes the folder. `n` in 1..DATA_MAX_SHARDS. */
int data_shards_start(struct data_shards *s, const char *dir, const char *prefix, uint32_t n,
                      struct pd_err *err);
/* The first line of every shard, without its newline; before all others. 0 or PD_ENOMEM. */
int data_shards_header(struct data_shards *s, const char *line, size_t n);
/* The buffer of the line that comes next: append the line to it, without a newline, then call
 * _line. */
struct pd_buf *data_shards_buf(struct data_shards *s);
int data_shards_line(struct data_shards *s, struct pd_err *err);
int data_shards_record(struct data_shards *s,
                       struct pd_err *err); /* the same for what is no line: no newline is added */
/* Write what is left; nothing is visible yet. */
int data_shards_flush(struct data_shards *s, struct pd_err *err);
/* Give all files their names, then remove PREFIX-ddddd from n on, and those that are packed
 * otherwise. */
int data_shards_commit(struct data_shards *s, struct pd_err *err);
/* Remove the shards of this prefix; a folder that is not there has none. */
int data_shards_clear(const char *dir, const char *prefix, struct pd_err *err);
/* Removes what was not committed. For a zeroed struct too. */
void data_shards_release(struct data_shards *s);

#endif
