/* SPDX-License-Identifier: Apache-2.0 */
/* ini_file.c - feeds inih line by line, because inih as packaged has three limits:
 *
 * - It reads at most 199 bytes of a line. A longer line is passed in pieces, each but the first
 * with a blank in front, which inih treats as continuation lines; the pieces are joined again here.
 * - It joins every indented line to the line above. An indented line that is a pair loses its
 * indentation here.
 * - It ends a section's name at the first ']', but "[host node[1-3]]" has brackets inside. Section
 * lines are read here, and inih gets "[s]" instead. */
#include "conf/ini_file.h"

#include <ini.h>

enum { MAX_FILE = 16 << 20, MAX_LINE = 64 << 10, PIECE = 150, MAX_NAME = 49, MAX_SECTION = 1000 };

enum join { FRESH, CONTINUED, SPLIT }; /* how a piece relates to the piece before it */

struct ini_reading {
    const char *path;
    const char *at, *end; /* remaining text of the file */
    const char *rest;     /* rest of a long line */
    size_t rest_len;
    int line; /* of the file */
    enum join join;
    pd_ini_pair on_pair;
    pd_ini_section on_section;
    pd_ini_span on_span;
    void *arg;
    char header[MAX_SECTION + 1]; /* section of the current line ... */
    /* ... and of the pair that is being joined */
    char section[MAX_SECTION + 1], name[MAX_NAME + 1];
    struct pd_buf value; /* value of that pair */
    int value_line, last_line, have;
    int rc;
    struct pd_err *err;
};

static int finish_pair(struct ini_reading *r) {
    if (!r->have || r->rc)
        return r->rc;
    r->have = 0;
    if (!r->on_pair && !r->on_span)
        return 0;
    pd_put_u8(&r->value, 0);
    if (r->value.failed)
        return r->rc = pd_fail(r->err, PD_ENOMEM, "%s: out of memory", r->path);
    if (r->on_span) {
        r->on_span(r->arg, r->section, r->name, (const char *)r->value.data, r->value_line,
                   r->last_line);
        return 0;
    }
    return r->rc = r->on_pair(r->arg, r->section, r->name, (const char *)r->value.data,
                              r->value_line, r->err);
}

static int on_piece(void *arg, const char *section, const char *name, const char *value) {
    struct ini_reading *r = arg;
    (void)section;
    if (r->rc)
        return 0;
    if (r->join == FRESH) {
        if (finish_pair(r))
            return 0;
        pd_fmt(r->section, sizeof r->section, "%s", r->header);
        snprintf(r->name, sizeof r->name, "%s", name);
        pd_buf_clear(&r->value);
        r->value_line = r->line;
        r->have = 1;
    } else if (r->join == CONTINUED && r->value.len) {
        pd_put_u8(&r->value, ' ');
    }
    pd_put(&r->value, value, strlen(value));
    r->last_line = r->line;
    return 1;
}

/* 1: an indented line is a pair of its own: blanks, a word, blanks, = or :. */
static int looks_like_pair(const char *s, const char *end) {
    while (s < end && isblank((unsigned char)*s))
        s++;
    const char *word = s;
    while (s < end && (isalnum((unsigned char)*s) || *s == '_' || *s == '-' || *s == '.'))
        s++;
    if (s == word)
        return 0;
    while (s < end && isblank((unsigned char)*s))
        s++;
    return s < end && *s == '=';
}

static int check_line(struct ini_reading *r, const char *s, const char *end) {
    size_t n = (size_t)(end - s);
    if (n > MAX_LINE)
        return pd_fail(r->err, PD_ECONF, "%s:%d: the line has %zu bytes, the limit is %d", r->path,
                       r->line, n, MAX_LINE);
    if (memchr(s, 0, n))
        return pd_fail(r->err, PD_ECONF, "%s:%d: the line holds a NUL byte", r->path, r->line);
    size_t name = strcspn(s, "=:\n");
    if (s < end && !strchr(";#[", *s) && !isblank((unsigned char)*s) && name > MAX_NAME && name < n)
        return pd_fail(r->err, PD_ECONF, "%s:%d: a name of %zu bytes, the limit is %d", r->path,
                       r->line, name, MAX_NAME);
    return 0;
}

/* Reads "[host node[1-3]] ; comment": the name is between the first bracket and the last bracket
 * before a comment. */
static int read_header(struct ini_reading *r, const char *s, const char *end) {
    const char *stop = s;
    for (const char *c = s; c + 1 < end; c++)
        if (isblank((unsigned char)*c) && (c[1] == ';' || c[1] == '#'))
            end = c;
    while (end > s && isspace((unsigned char)end[-1]))
        end--;
    if (end - s >= 2 && end[-1] == ']')
        stop = end - 1;
    size_t n = (size_t)(stop - s);
    if (!n)
        return pd_fail(r->err, PD_ECONF, "%s:%d: a section is written [name], not '%.*s'", r->path,
                       r->line, end - s > 100 ? 100 : (int)(end - s), s);
    if (--n > MAX_SECTION)
        return pd_fail(r->err, PD_ECONF, "%s:%d: a section's name of %zu bytes, the limit is %d",
                       r->path, r->line, n, MAX_SECTION);
    if (finish_pair(r)) /* finish the pair of the section above */
        return r->rc;
    memcpy(r->header, s + 1, n);
    r->header[n] = 0;
    return r->on_section ? r->on_section(r->arg, r->header, r->line, r->err) : 0;
}

/* The position to cut a long text so that no blank is lost and no comment begins: neither of the
 * bytes around the cut is blank, and the second byte does not start a comment. 0: no such position.
 */
static size_t cut_at(const char *s, size_t n) {
    if (n <= PIECE)
        return n;
    for (size_t i = PIECE; i > 60; i--)
        if (!isspace((unsigned char)s[i - 1]) && !isspace((unsigned char)s[i]) && s[i] != ';' &&
            s[i] != '#')
            return i;
    return 0;
}

static char *put_piece(struct ini_reading *r, char *out, const char *s, size_t n,
                       const char *prefix) {
    size_t k = cut_at(s, n);
    if (!k && n) {
        r->rc =
            pd_fail(r->err, PD_ECONF, "%s:%d: a run of blanks in a long line", r->path, r->line);
        return NULL;
    }
    snprintf(out, 199, "%s%.*s\n", prefix, (int)k, s);
    r->rest = k < n ? s + k : NULL;
    r->rest_len = n - k;
    return out;
}

static char *next_piece(char *out, int size, void *arg) {
    struct ini_reading *r = arg;
    (void)size; /* 200 as packaged; PIECE is smaller */
    if (r->rc)
        return NULL;
    if (r->rest) {
        r->join = SPLIT;
        return put_piece(r, out, r->rest, r->rest_len, " ");
    }
    if (r->at >= r->end)
        return NULL;
    const char *s = r->at, *nl = memchr(s, '\n', (size_t)(r->end - s)), *end = nl ? nl : r->end;
    r->at = nl ? nl + 1 : r->end;
    r->line++;
    if ((r->rc = check_line(r, s, end)))
        return NULL;
    while (end > s && isspace((unsigned char)end[-1]))
        end--;
    r->join = FRESH;
    if (s < end && isblank((unsigned char)*s)) {
        if (looks_like_pair(s, end) || !r->have) {
            while (s < end && isblank((unsigned char)*s))
                s++;
        } else {
            r->join = CONTINUED;
        }
    }
    if (s < end && *s == '[' && r->join == FRESH) {
        if ((r->rc = read_header(r, s, end)))
            return NULL;
        return put_piece(r, out, "[s]", 3, "");
    }
    const char *first = s;
    while (first < end && isblank((unsigned char)*first))
        first++;
    if (first < end && (*first == ';' || *first == '#'))
        s = end; /* a comment may have any length and position */
    return put_piece(r, out, s, (size_t)(end - s), "");
}

static int run(struct ini_reading *r, const char *text, size_t n) {
    r->at = text;
    r->end = text + n;
    pd_buf_init(&r->value);
    if (n >= 3 && !memcmp(text, "\xef\xbb\xbf", 3))
        r->at += 3;
    int bad_read = ini_parse_stream(next_piece, r, on_piece, r);
    finish_pair(r);
    if (!r->rc && bad_read) {
        /* inih counts pieces; feed them again up to that count to find the line of the file. */
        struct ini_reading again = {.path = r->path, .at = text, .end = r->end};
        char piece[200];
        for (int i = 0; i < bad_read && next_piece(piece, sizeof piece, &again); i++)
            again.have = 1;
        r->rc = bad_read < 0
                    ? pd_fail(r->err, PD_EIO, "%s: cannot be read", r->path)
                    : pd_fail(r->err, PD_ECONF, "%s:%d: neither 'name = value' nor '[section]'",
                              r->path, again.line);
    }
    pd_buf_release(&r->value);
    return r->rc;
}

int pd_ini_read(const char *path, pd_ini_section on_section, pd_ini_pair on_pair, void *arg,
                struct pd_err *err) {
    struct pd_buf text = {0};
    int rc = pd_read_file(path, MAX_FILE, &text, err);
    if (rc == PD_EIO || rc == PD_EDATA) { /* the wrong file: a folder, a huge file, a device */
        rc = PD_ECONF;
        if (err)
            err->code = rc;
    }
    struct ini_reading r = {
        .path = path, .on_pair = on_pair, .on_section = on_section, .arg = arg, .err = err};
    if (!rc)
        rc = run(&r, (const char *)text.data, text.len);
    pd_buf_release(&text);
    return rc;
}

int pd_ini_read_text(const char *name, const char *text, size_t n, pd_ini_section on_section,
                     pd_ini_pair on_pair, void *arg, struct pd_err *err) {
    struct ini_reading r = {
        .path = name, .on_section = on_section, .on_pair = on_pair, .arg = arg, .err = err};
    return run(&r, text, n);
}

int pd_ini_read_spans(const char *name, const char *text, size_t n, pd_ini_span on_span, void *arg,
                      struct pd_err *err) {
    struct ini_reading r = {.path = name, .on_span = on_span, .arg = arg, .err = err};
    return run(&r, text, n);
}
