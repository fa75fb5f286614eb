/* SPDX-License-Identifier: Apache-2.0 */
/* show_text.c - see show_text.h. */
#include "launcher/view/show_text.h"

/* Each character of the pattern matches itself; 9: a digit; L: a level's letter. */
static const char prefix[] = "L9999 99:99:99.999999 ";
enum { PREFIX_TEXT = sizeof prefix - 1, SOURCE_MAX = 100 };

static int is_digit(char c) { return c >= '0' && c <= '9'; }

size_t show_prefix(const char *p, size_t n, enum show_level *level) {
    size_t i = 0, digits = 0, end;
    *level = SHOW_PLAIN;
    for (; i < PREFIX_TEXT && i < n; i++)
        if (prefix[i] == 'L'   ? !memchr("DIWEF", p[i], 5)
            : prefix[i] == '9' ? !is_digit(p[i])
                               : p[i] != prefix[i])
            return 0;
    for (; i < n && p[i] == ' '; i++)
        ;
    for (; i < n && is_digit(p[i]); i++)
        digits++;
    if (i >= n || p[i] != ' ' || !digits)
        return 0;
    end = n < i + SOURCE_MAX ? n : i + SOURCE_MAX;
    const char *close = memmem(p + i, end - i, "] ", 2);
    if (!close || !is_digit(close[-1]) || memchr(p + i + 1, ' ', (size_t)(close - p) - i - 1))
        return 0;
    *level = *p == 'W' ? SHOW_WARNING : *p == 'E' || *p == 'F' ? SHOW_ERROR : SHOW_PLAIN;
    return (size_t)(close - p) + 2;
}

/* Bytes of the sequence "\033[...m" at p; 0: it is none. *end: bytes of what begins like one. With
 * one of "?<=>" it is a question to the terminal or a setting of its keys, and no colour. */
static size_t colour_bytes(const char *p, size_t n, size_t *end) {
    int is_private = 0;
    *end = 1;
    if (n < 2 || p[0] != 033 || p[1] != '[')
        return 0;
    for (*end = 2; *end < n && (is_digit(p[*end]) || (p[*end] && strchr(";:?<=>", p[*end])));
         ++*end)
        is_private |= !is_digit(p[*end]) && p[*end] != ';' && p[*end] != ':';
    *end += *end < n;
    return p[*end - 1] == 'm' && !is_private ? *end : 0;
}

/* 1: colours were written. */
static int put_printable(struct pd_buf *b, const char *p, size_t n) {
    int coloured = 0;
    for (size_t bad; n; p += bad, n -= bad) {
        const size_t ok = pd_printable(p, n, &bad);
        pd_put(b, p, ok);
        p += ok;
        n -= ok;
        if (!bad)
            break;
        if (*p == 033 && colour_bytes(p, n, &bad)) {
            pd_put(b, p, bad);
            coloured = 1;
        } else if (*p == '\t' || *p == '\n') {
            pd_put_u8(b, (uint8_t)*p);
        } else if ((unsigned char)*p > 127 && bad == 1) {
            pd_put_u8(b, '?');
        }
    }
    return coloured;
}

static unsigned code_point(const char *s, size_t n) {
    const unsigned char *p = (const unsigned char *)s;
    return n == 1   ? p[0]
           : n == 2 ? (p[0] & 31u) << 6 | (p[1] & 63u)
                    : (p[0] & 15u) << 12 | (p[1] & 63u) << 6 | (p[2] & 63u);
}

void show_put_json(struct pd_buf *b, const char *p, size_t n) {
    for (size_t bad; n; p += bad, n -= bad) {
        const size_t ok = pd_printable(p, n, &bad);
        for (const char *end = p + ok; p < end;) {
            size_t run = 0;
            while (p + run < end && p[run] != '"' && p[run] != '\\')
                run++;
            pd_put(b, p, run);
            p += run;
            if (p < end)
                pd_put_fmt(b, "\\%c", *p++);
        }
        n -= ok;
        if (bad == 1 && (unsigned char)*p > 127)
            pd_put(b, "\xef\xbf\xbd", 3); /* a byte that is no UTF-8 */
        else if (bad && *p == '\n')
            pd_put(b, "\\n", 2);
        else if (bad)
            pd_put_fmt(b, "\\u%04x", code_point(p, bad));
    }
}

void show_put_text(struct pd_buf *b, const char *p, size_t n, enum show_level level, int colour) {
    static const char *const starts[N_SHOW_LEVELS] = {"", "\033[33m", "\033[31m"};
    const char *start = colour ? starts[level] : "";
    int coloured = *start != 0;
    pd_put(b, start, strlen(start));
    coloured |= put_printable(b, p, n);
    if (coloured)
        pd_put(b, "\033[m", 3);
}
