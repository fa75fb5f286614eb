/* SPDX-License-Identifier: Apache-2.0 */
/* lines.h - reads a file line by line with bounded memory and exact offsets (of unpacked bytes, see
 * input.h). Used by the readers of samples and by the commands that prepare data. */
#pragma once

#include "data/input/input.h"

enum { DATA_MAX_LINE = 1 << 20 };

struct data_lines {
    struct data_input *in; /* NULL: closed */
    char *buf;             /* DATA_MAX_LINE + a read's worth */
    size_t pos, len;       /* unread: buf[pos, len) */
    uint64_t offset;       /* of buf[pos] in the unpacked file */
    uint64_t line;         /* number of the line returned last, from 1 */
    int at_end;            /* the file has no more bytes to read */
};

int data_lines_init(struct data_lines *l, struct pd_err *err);
void data_lines_release(struct data_lines *l);

/* Opens `path` ("-" is standard input) at `offset`; the next line has the number `line` + 1.
 * Messages call the file `shown`. */
int data_lines_open(struct data_lines *l, const char *path, const char *shown, uint64_t offset,
                    uint64_t line, struct pd_err *err);

/* Returns the next line without its newline, valid until the next call. 1: a line; 0: end of file;
 * PD_EDATA without a message: the line is longer than DATA_MAX_LINE and was skipped; PD_EDATA with
 * a message: packed data is damaged; PD_EIO. A last line without a newline counts as a line. */
int data_lines_next(struct data_lines *l, char **line, size_t *n, struct pd_err *err);

/* Calls `each` for every line of a file ("-" is standard input), in order, with its number. Stops
 * when `each` returns a value other than 0 and returns it. A line longer than DATA_MAX_LINE is an
 * error that names the line: callers of this function must not lose lines, unlike the readers of
 * samples. */
typedef int data_lines_fn(void *arg, const char *shown, uint64_t number, const char *line, size_t n,
                          struct pd_err *err);
int data_lines_each(struct data_lines *l, const char *path, data_lines_fn *each, void *arg,
                    struct pd_err *err);
