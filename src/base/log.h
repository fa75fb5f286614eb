/* log.h - the structured log of a program: one line a record, written with a single write(2), so that
 * threads and processes never tear each other's lines.
 *
 *   I1120 22:48:01.123456  4711 pass.c:88] pass 0 done
 *
 * The writer is a value that the program owns and hands down; libraries never print elsewhere.
 */
#ifndef PD_BASE_LOG_H
#define PD_BASE_LOG_H

enum pd_level { PD_DEBUG, PD_INFO, PD_WARN, PD_ERROR };

struct pd_log {
    int fd;               /* where records go; -1: nowhere */
    int also_fd;          /* WARN and ERROR go here too; -1: no */
    enum pd_level level;  /* records below it are dropped */
};

/* A log on an open descriptor, which stays the caller's. */
void pd_log_init(struct pd_log *log, int fd, int also_fd, enum pd_level level);

void pd_log_at(const struct pd_log *log, enum pd_level level, const char *file, int line, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

#define pd_debug(log, ...) pd_log_at(log, PD_DEBUG, __FILE__, __LINE__, __VA_ARGS__)
#define pd_info(log, ...) pd_log_at(log, PD_INFO, __FILE__, __LINE__, __VA_ARGS__)
#define pd_warn(log, ...) pd_log_at(log, PD_WARN, __FILE__, __LINE__, __VA_ARGS__)
#define pd_error(log, ...) pd_log_at(log, PD_ERROR, __FILE__, __LINE__, __VA_ARGS__)

#endif
