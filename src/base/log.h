/* log.h - the structured log of a program: one line a record, written with a single write(2), so
 * that threads and processes never tear each other's lines.
 *
 *   I1120 22:48:01.123456  4711 pass.c:88] pass 0 done
 *
 * The writer is a value that the program owns and hands down; libraries never print elsewhere.
 */
#ifndef PD_BASE_LOG_H
#define PD_BASE_LOG_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct pd_log_file;

enum pd_level { PD_DEBUG, PD_INFO, PD_WARN, PD_ERROR };

struct pd_log {
    int fd;                   /* where records go; -1: nowhere */
    int also_fd;              /* WARN and ERROR go here too; -1: no */
    enum pd_level level;      /* records below it are dropped */
    struct pd_log_file *file; /* what pd_log_open opened; else NULL */
};

/* A log on an open descriptor, which stays the caller's. */
void pd_log_init(struct pd_log *log, int fd, int also_fd, enum pd_level level);

/* A log in the file `path`, appended to. With a limit, a file that would grow beyond max_size
 * becomes path.1, that one path.2, up to path.keep, between two records. The limit is set before a
 * second thread writes. */
int pd_log_open(struct pd_log *log, const char *path, int also_fd, enum pd_level level,
                struct pd_err *err);
void pd_log_limit(struct pd_log *log, uint64_t max_size, unsigned keep); /* 0: none */
void pd_log_close(struct pd_log *log);
void pd_log_file_grows(struct pd_log_file *f,
                       size_t len); /* pd_log_at's: a record of len bytes is about to come */

void pd_log_at(const struct pd_log *log, enum pd_level level, const char *file, int line,
               const char *fmt, ...) __attribute__((format(printf, 5, 6)));

#define pd_debug(log, ...) pd_log_at(log, PD_DEBUG, __FILE__, __LINE__, __VA_ARGS__)
#define pd_info(log, ...) pd_log_at(log, PD_INFO, __FILE__, __LINE__, __VA_ARGS__)
#define pd_warn(log, ...) pd_log_at(log, PD_WARN, __FILE__, __LINE__, __VA_ARGS__)
#define pd_error(log, ...) pd_log_at(log, PD_ERROR, __FILE__, __LINE__, __VA_ARGS__)

#endif
