/* SPDX-License-Identifier: Apache-2.0 */
/* log.h - the structured log of a program. Each record is one line, written by a single write(2),
 * so that threads and processes never mix their lines.
 *
 *   I1120 22:48:01.123456  4711 pass.c:88] pass 0 done
 *
 * The writer is a value that the program owns and passes down. Libraries print nowhere else. */
#pragma once

struct pd_log_file;

enum pd_level { PD_DEBUG, PD_INFO, PD_WARN, PD_ERROR };

struct pd_log {
    int fd;                   /* records go here; -1: nowhere */
    int also_fd;              /* copy of WARN and ERROR records; -1: none */
    enum pd_level level;      /* records below it are dropped */
    struct pd_log_file *file; /* set by pd_log_open; else NULL */
};

/* A log on an open descriptor; the caller closes the descriptor. */
void pd_log_init(struct pd_log *log, int fd, int also_fd, enum pd_level level);

/* Open a log that appends to the file `path`. With a limit (pd_log_limit), the file never grows
 * beyond max_size: between two records `path` is renamed to path.1, path.1 to path.2, up to
 * path.keep. Set the limit before a second thread writes. */
int pd_log_open(struct pd_log *log, const char *path, int also_fd, enum pd_level level,
                struct pd_err *err);
void pd_log_limit(struct pd_log *log, uint64_t max_size, unsigned keep); /* 0: none */
void pd_log_close(struct pd_log *log);
/* Called by pd_log_write before it writes a record of len bytes. */
void pd_log_file_grows(struct pd_log_file *f, size_t len);

void pd_log_write(const struct pd_log *log, enum pd_level level, const char *file, int line,
                  const char *fmt, ...) __attribute__((format(printf, 5, 6)));

#define pd_debug(log, ...) pd_log_write(log, PD_DEBUG, __FILE__, __LINE__, __VA_ARGS__)
#define pd_info(log, ...) pd_log_write(log, PD_INFO, __FILE__, __LINE__, __VA_ARGS__)
#define pd_warn(log, ...) pd_log_write(log, PD_WARN, __FILE__, __LINE__, __VA_ARGS__)
#define pd_error(log, ...) pd_log_write(log, PD_ERROR, __FILE__, __LINE__, __VA_ARGS__)
