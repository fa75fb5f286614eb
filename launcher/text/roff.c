/* SPDX-License-Identifier: Apache-2.0 */
/* roff.c - manual pages in roff, from plain text and from Markdown; see roff.h. */
#include "launcher/text/roff.h"

enum { MAX_COLUMNS = 8, CELL_MAX = 1000 };

void roff_text(struct pd_buf *out, const char *s, size_t n, int at_start) {
    static const char signs[] = "\\-'`^~";
    static const char *const names[] = {"\\e", "\\-", "\\(aq", "\\(ga", "\\(ha", "\\(ti"};
    for (size_t i = 0; i < n; i++) {
        const char *sign = strchr(signs, s[i]);
        if (at_start && s[i] == '.')
            pd_put_fmt(out, "\\&");
        if (s[i] == '\n' && i + 1 < n && s[i + 1] == '\n') {
            pd_put_fmt(out, "\n.PP");
            i++;
        }
        if (sign && *sign)
            pd_put_fmt(out, "%s", names[sign - signs]);
        else
            pd_put_u8(out, (uint8_t)s[i]);
        at_start = s[i] == '\n';
    }
}

/* Text of one or more lines. `code` is bold, a link is its address: [a](b.md) becomes docs/b.md. */
static void inline_text(struct pd_buf *out, const char *s, size_t n) {
    for (size_t i = 0; i < n;) {
        const char *tick = s[i] == '`' ? memchr(s + i + 1, '`', n - i - 1) : NULL;
        const char *url = s[i] == '[' ? memmem(s + i, n - i, "](", 2) : NULL;
        const char *close = url ? memchr(url, ')', (size_t)(s + n - url)) : NULL;
        if (url && memchr(s + i + 1, '[', (size_t)(url - s) - i - 1))
            close = NULL; /* [data] before a link */
        if (tick) {
            pd_put_fmt(out, "\\fB");
            roff_text(out, s + i + 1, (size_t)(tick - s) - i - 1, 0);
            pd_put_fmt(out, "\\fR");
            i = (size_t)(tick - s) + 1;
        } else if (close) {
            pd_put_fmt(out, "docs/");
            roff_text(out, url + 2, (size_t)(close - url) - 2, 0);
            i = (size_t)(close - s) + 1;
        } else {
            roff_text(out, s + i, 1, !i || s[i - 1] == '\n');
            i++;
        }
    }
    pd_put_u8(out, '\n');
}

/* The cells of "| a | b |" without the bars and blanks around them. "\|" is a bar. */
static size_t split_row(const char *s, size_t n, char cells[MAX_COLUMNS][CELL_MAX]) {
    size_t count = 0, at = 0;
    for (size_t i = 2; i < n && count < MAX_COLUMNS; i++) {
        if (s[i] == '|') {
            while (at && cells[count][at - 1] == ' ')
                at--;
            cells[count++][at] = 0;
            at = 0;
            i++; /* the blank after the bar */
        } else {
            i += s[i] == '\\' && i + 1 < n && s[i + 1] == '|';
            if (at < CELL_MAX - 1)
                cells[count][at++] = s[i];
        }
    }
    return count;
}

/* A row of a table becomes an entry of a list, whose tag is the first cell. The row of headings
 * comes first, in italics. */
static void table_row(struct pd_buf *out, const char *s, size_t n, int is_head) {
    char cells[MAX_COLUMNS][CELL_MAX];
    size_t n_cells = split_row(s, n, cells), written = 0;
    for (size_t i = 0; i < n_cells; i++) {
        if (!cells[i][0])
            continue;
        pd_put_fmt(out, written == 0 ? ".TP\n" : written == 1 ? "" : ".br\n");
        pd_put_fmt(out, is_head ? ".I " : "");
        inline_text(out, cells[i], strlen(cells[i]));
        written++;
    }
}

static void heading(struct pd_buf *out, const char *s, size_t n, size_t level) {
    pd_put_fmt(out, level > 2 ? ".SS \"" : ".SH \"");
    for (size_t i = 0; i < n; i++)
        pd_put_u8(out, level > 2 ? (uint8_t)s[i] : (uint8_t)toupper((unsigned char)s[i]));
    pd_put_fmt(out, "\"\n");
}

void roff_markdown(const char *s, struct pd_buf *out) {
    static const char rule[] = "|---";
    int is_block = 0;
    for (const char *next; *s; s = next) {
        size_t n = strcspn(s, "\n"), level = strspn(s, "#"), indent = strspn(s, " ");
        next = s + n + (s[n] == '\n');
        if (is_block && (n ? indent < 4 : !pd_starts_with(next, "    "))) {
            pd_put_fmt(out, ".fi\n.RE\n");
            is_block = 0;
        }
        if (level == 1) {
            pd_put_fmt(out, ".SH DESCRIPTION\n"); /* the title */
        } else if (level) {
            heading(out, s + level + 1, n - level - 1, level);
        } else if (n && indent >= 4) {
            pd_put_fmt(out, is_block ? "" : ".PP\n.RS 4\n.nf\n");
            is_block = 1;
            roff_text(out, s + 4, n - 4, 1);
            pd_put_u8(out, '\n');
        } else if (is_block) {
            pd_put_fmt(out, ".sp\n");
        } else if (*s == '|') {
            if (!pd_starts_with(s, rule))
                table_row(out, s, n, pd_starts_with(next, rule));
        } else if (n) {
            const char *end = strstr(s, "\n\n");
            n = end ? (size_t)(end - s) : strlen(s);
            next = s + n;
            pd_put_fmt(out, ".PP\n");
            inline_text(out, s, n);
        }
    }
    if (is_block)
        pd_put_fmt(out, ".fi\n.RE\n");
}
