/* lines.h - a file line by line, with bounded memory and known byte offsets (of what is unpacked:
 * see input.h); shared by the readers of data and the commands that prepare it. */
#ifndef PD_DATA_LINES_H
#define PD_DATA_LINES_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "data/input/input.h"

enum { DATA_MAX_LINE = 1 << 20 };

struct data_lines {
    struct data_input *in; /* NULL: closed */
    char *buf;             /* DATA_MAX_LINE + a read's worth */
    size_t pos, len;       /* unread: buf[pos, len) */
    uint64_t offset;       /* in the file, of buf[pos] */
    uint64_t line;         /* number of lines begun, so of the last one returned */
    int at_end;            /* the file has no more bytes to read */
};

int data_lines_init(struct data_lines *l, struct pd_err *err);
void data_lines_release(struct data_lines *l);

/* Open `path` ("-": standard input) at `offset`, whose line has the number `line` + 1. `shown` is
 * the name that messages use. */
int data_lines_open(struct data_lines *l, const char *path, const char *shown, uint64_t offset,
                    uint64_t line, struct pd_err *err);

/* The next line without its newline, valid until the next call. 1: a line; 0: end of file; PD_EDATA
 * without a message: longer than DATA_MAX_LINE, skipped; PD_EIO, and PD_EDATA with a message when
 * packed data is broken. A last line without a newline counts. */
int data_lines_next(struct data_lines *l, char **line, size_t *n, struct pd_err *err);

/* Every line of a whole file ("-": standard input), in order, with its number; what `each` returns,
 * if not 0, ends it. A line that is longer than DATA_MAX_LINE is an error with its number: unlike
 * the readers of samples, who calls this loses nothing. */
typedef int data_lines_fn(void *arg, const char *shown, uint64_t number, const char *line, size_t n,
                          struct pd_err *err);
int data_lines_each(struct data_lines *l, const char *path, data_lines_fn *each, void *arg,
                    struct pd_err *err);

#endif
