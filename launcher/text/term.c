/* SPDX-License-Identifier: Apache-2.0 */
/* term.c - see term.h. */
#include "launcher/text/term.h"

#include <langinfo.h>
#include <locale.h>
#include <sys/ioctl.h>
#include <wchar.h>

int term_is_live(int fd) {
    const char *term = getenv("TERM");
    return isatty(fd) && term && *term && strcmp(term, "dumb");
}

int term_has_colour(int fd) {
    const char *no = getenv("NO_COLOR");
    return term_is_live(fd) && !(no && *no);
}

int term_is_utf8(void) {
    const locale_t l = newlocale(LC_CTYPE_MASK, "", (locale_t)0);
    const int is = l && !strcmp(nl_langinfo_l(CODESET, l), "UTF-8");
    if (l)
        freelocale(l);
    return is;
}

int term_is_foreground(int fd) {
    pid_t group = tcgetpgrp(fd);
    return group < 0 || group == getpgrp(); /* < 0: no terminal, or not the controlling one */
}

int term_width(int fd) {
    struct winsize w;
    return !ioctl(fd, TIOCGWINSZ, &w) && w.ws_col >= 20 ? w.ws_col : 80;
}

int term_limit(int fd) { return isatty(fd) ? term_width(fd) : 0; }

int term_height(int fd) {
    struct winsize w;
    return !ioctl(fd, TIOCGWINSZ, &w) && w.ws_row >= 4 ? w.ws_row : 24;
}

/* Length and columns of the character or colour sequence at p. */
static size_t next(const char *p, size_t n, size_t *columns) {
    mbstate_t state = {0};
    wchar_t c = 0;
    *columns = 0;
    if (*p == 033) {
        const char *end = memchr(p, 'm', n);
        return end ? (size_t)(end - p) + 1 : n;
    }
    if (*p >= ' ' && *p < 0x7f) { /* most text */
        *columns = 1;
        return 1;
    }
    size_t k = mbrtowc(&c, p, n, &state);
    if (k == 0 || k > n) { /* a NUL, or no UTF-8 */
        *columns = 1;
        return 1;
    }
    int w = wcwidth(c);
    *columns = w > 0 ? (size_t)w : 0;
    return k;
}

size_t term_fit(const char *p, size_t n, size_t columns) {
    size_t at = 0, used = 0, w;
    while (at < n) {
        size_t k = next(p + at, n - at, &w);
        if (used + w > columns)
            break;
        used += w;
        at += k;
    }
    return at;
}

size_t term_columns(const char *p, size_t n) {
    size_t columns = 0, w;
    for (size_t at = 0; at < n; columns += w)
        at += next(p + at, n - at, &w);
    return columns;
}
