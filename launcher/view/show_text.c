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

static int is_plain(const char *p, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (((unsigned char)p[i] < 32 && p[i] != '\t') || p[i] == 127)
            return 0;
    return 1;
}

/* 1: colours were written. */
static int put_printable(struct pd_buf *b, const char *p, size_t n) {
    int coloured = 0;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)p[i];
        if (c == 033 && i + 1 < n && p[i + 1] == '[') {
            size_t end = i + 2;
            while (end < n && (is_digit(p[end]) || (p[end] && strchr(";:?<=>", p[end]))))
                end++;
            if (end < n && p[end] == 'm') {
                pd_put(b, p + i, end + 1 - i);
                coloured = 1;
            }
            i = end;
        } else if ((c >= 32 && c != 127) || c == '\t') {
            pd_put_u8(b, c);
        }
    }
    return coloured;
}

void show_put_text(struct pd_buf *b, const char *p, size_t n, enum show_level level, int colour) {
    static const char *const starts[N_SHOW_LEVELS] = {"", "\033[33m", "\033[31m"};
    const char *start = colour ? starts[level] : "";
    int coloured = *start != 0;
    pd_put(b, start, strlen(start));
    if (is_plain(p, n))
        pd_put(b, p, n);
    else
        coloured |= put_printable(b, p, n);
    if (coloured)
        pd_put(b, "\033[m", 3);
}
