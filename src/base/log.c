/* SPDX-License-Identifier: Apache-2.0 */
/* log.c - formats a record on the stack and writes it with one call. */
#include <sys/syscall.h>

void pd_log_init(struct pd_log *log, int fd, int also_fd, enum pd_level level) {
    *log = (struct pd_log){.fd = fd, .also_fd = also_fd, .level = level};
}

void pd_log_write(const struct pd_log *log, enum pd_level level, const char *file, int line,
                  const char *fmt, ...) {
    if (!log || level < log->level || (log->fd < 0 && log->also_fd < 0))
        return;
    int saved = errno;
    struct timespec ts;
    struct tm tm;
    clock_gettime(CLOCK_REALTIME, &ts);
    localtime_r(&ts.tv_sec, &tm);
    const char *base = strrchr(file, '/');
    char text[2048];
    int n = snprintf(text, sizeof text, "%c%02d%02d %02d:%02d:%02d.%06ld %5ld %s:%d] ",
                     "DIWE"[level], tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec,
                     ts.tv_nsec / 1000, syscall(SYS_gettid), base ? base + 1 : file, line);
    va_list ap;
    va_start(ap, fmt);
    int m = vsnprintf(text + n, sizeof text - (size_t)n - 1, fmt, ap);
    va_end(ap);
    if (m < 0)
        text[n] = 0;
    /* Names from the network cannot look like another record. */
    pd_make_printable(text);
    size_t len = strlen(text);
    for (char *p = text; (p = memchr(p, '\n', len - (size_t)(p - text)));)
        *p = ' ';
    text[len++] = '\n';
    if (log->file)
        pd_log_file_grows(log->file, len);
    if (log->fd >= 0)
        (void)pd_write_all(log->fd, text, len);
    if (level >= PD_WARN && log->also_fd >= 0)
        (void)pd_write_all(log->also_fd, text, len);
    errno = saved;
}
