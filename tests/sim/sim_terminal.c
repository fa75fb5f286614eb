/* SPDX-License-Identifier: Apache-2.0 */
/* sim_terminal.c - what paddlectl shows: its view and its writes to stdout and stderr. Each line of
 * a process must be shown once and in its order. */

#include "launcher/view/view.h"
#include "tests/sim/sim.h"

static int next_line[SIM_PIDS];

/* Each line of a process comes once and in its order. */
static void check_line(const char *s) {
    int pid, line;
    const char *p = strstr(s, "P1");
    if (!p || !strncmp(s, "    | ", 6) /* the last lines of a failed process */ ||
        sscanf(p, "P%d %d of", &pid, &line) != 2)
        return;
    if (pid < 0 || pid >= SIM_PIDS || line != next_line[pid])
        sim_fail("line %d of process %d is shown, not line %d", line, pid,
                 pid < SIM_PIDS ? next_line[pid] : 0);
    next_line[pid]++;
}

void sim_check_lines(void) {
    for (int m = 0; m < SIM_NODES; m++)
        for (int k = 0; k < 2; k++)
            for (size_t i = 0; i < S.m[m].log_n[k]; i++) {
                int pid, line;
                const char *s = S.m[m].log[k] + i;
                if (*s == 'P' && (!i || s[-1] == '\n') &&
                    sscanf(s, "P%d %d of", &pid, &line) == 2 && line >= next_line[pid])
                    sim_fail("line %d of process %d is in the log of node %d, and was not shown",
                             line, pid, m);
            }
}

static void show(const char *s, size_t n) {
    if (S.here && S.here->machine > SIM_LAUNCHER) {
        sim_trace("> %.*s", (int)n, s);
        return;
    }
    if (S.text_n + n + 1 > S.text_cap)
        S.text = realloc(S.text, S.text_cap = 2 * (S.text_n + n + 1));
    memcpy(S.text + S.text_n, s, n);
    S.text_n += n;
    S.text[S.text_n] = 0;
    for (size_t k; n; s += k, n -= k) {
        const char *nl = memchr(s, '\n', n);
        k = nl ? (size_t)(nl + 1 - s) : n;
        char line[400];
        snprintf(line, sizeof line, "%.*s", (int)(nl ? k - 1 : k), s);
        check_line(line);
        sim_trace("> %s", line);
    }
}

ssize_t __real_write(int fd, const void *p, size_t n);
ssize_t __wrap_write(int fd, const void *p, size_t n);
ssize_t __wrap_write(int fd, const void *p, size_t n) {
    if ((fd == 1 || fd == 2) && S.here && S.here->machine >= SIM_LAUNCHER)
        show(p, n);
    else if (fd < FAKE_FD)
        return __real_write(fd, p, n);
    return (ssize_t)n;
}
static void __attribute__((format(printf, 1, 0))) show_format(const char *fmt, va_list ap) {
    char text[2000];
    vsnprintf(text, sizeof text, fmt, ap);
    show(text, strlen(text));
}
int __wrap_dprintf(int fd, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int __wrap_dprintf(int fd, const char *fmt, ...) {
    va_list ap;
    (void)fd;
    va_start(ap, fmt);
    show_format(fmt, ap);
    va_end(ap);
    return 0;
}
/* The same with _FORTIFY_SOURCE. */
int __wrap___dprintf_chk(int fd, int flag, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
int __wrap___dprintf_chk(int fd, int flag, const char *fmt, ...) {
    va_list ap;
    (void)fd;
    (void)flag;
    va_start(ap, fmt);
    show_format(fmt, ap);
    va_end(ap);
    return 0;
}

int __wrap_view_new(struct view **out, int fd, enum view_colour c, struct pd_err *err);
int __wrap_view_new(struct view **out, int fd, enum view_colour c, struct pd_err *err) {
    (void)fd;
    (void)c;
    (void)err;
    *out = malloc(1);
    return 0;
}
void __wrap_view_free(struct view *v, uint64_t ms);
void __wrap_view_free(struct view *v, uint64_t ms) {
    (void)ms;
    free(v);
}
void __wrap_view_put(struct view *v, const void *p, size_t n);
void __wrap_view_put(struct view *v, const void *p, size_t n) {
    (void)v;
    show(p, n);
}
void __wrap_view_printf(struct view *v, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void __wrap_view_printf(struct view *v, const char *fmt, ...) {
    char text[2000];
    va_list ap;
    (void)v;
    va_start(ap, fmt);
    const int n = vsnprintf(text, sizeof text - 1, fmt, ap);
    va_end(ap);
    const size_t len = n < (int)sizeof text - 2 ? (size_t)n : sizeof text - 2;
    text[len] = '\n';
    show(text, len + 1);
}
#define VIEW_NUMBER(type, name, value)   \
    type __wrap_##name(struct view *v);  \
    type __wrap_##name(struct view *v) { \
        (void)v;                         \
        return value;                    \
    }
VIEW_NUMBER(int, view_is_live, 0)
VIEW_NUMBER(int, view_is_terminal, 0)
VIEW_NUMBER(int, view_has_colour, 0)
VIEW_NUMBER(int, view_width, 80)
VIEW_NUMBER(int, view_height, 24)
VIEW_NUMBER(int, view_is_broken, 0)
VIEW_NUMBER(size_t, view_backlog, 0)
void __wrap_view_live(struct view *v, const char *text, size_t n);
void __wrap_view_live(struct view *v, const char *text, size_t n) {
    (void)v;
    (void)text;
    (void)n;
}
void __wrap_view_on_room(struct view *v, void (*room)(void *arg), void *arg);
void __wrap_view_on_room(struct view *v, void (*room)(void *arg), void *arg) {
    (void)v;
    (void)room;
    (void)arg;
}

void sim_terminal_reset(void) {
    memset(next_line, 0, sizeof next_line);
    free(S.text);
}
