/* blocks.c - see blocks.h. */
#include "launcher/view/blocks.h"

#include "launcher/text/fold.h"

enum { PIECE = 64 << 10 };

static int same(const struct block *a, const struct block *b) {
    return a->size == b->size && !memcmp(a->digest, b->digest, SPOOL_DIGEST);
}

/* 1 if the text is one line: no newline except as the last byte. 0, or -1 if it cannot be read. */
static int is_line(const struct spool *s) {
    char buf[4096];
    if (s->size > sizeof buf)
        return 0;
    ssize_t n = spool_read(s, 0, buf, sizeof buf);
    if (n <= 0)
        return -1;
    return !memchr(buf, '\n', (size_t)n - 1);
}

static int copy(const struct spool *s, FILE *f) {
    char *buf = pd_malloc(PIECE), last = '\n';
    ssize_t k = buf ? 1 : -1;
    for (uint64_t at = 0; k > 0 && at < s->size; at += (uint64_t)k) {
        if ((k = spool_read(s, at, buf, PIECE)) <= 0)
            break;
        last = buf[k - 1];
        if (fwrite(buf, 1, (size_t)k, f) != (size_t)k)
            k = -1;
    }
    free(buf);
    return k <= 0 || (last != '\n' && putc('\n', f) == EOF) ? -1 : 0;
}

static int show(struct block *v, size_t n, const char **names, FILE *f) {
    size_t k = 0;
    for (size_t i = 0; i < n; i++)
        if (!v[i].shown && same(v, &v[i])) {
            names[k++] = v[i].name;
            v[i].shown = 1;
        }
    char *who = fold_hosts(names, k), count[24] = "";
    int line = who ? is_line(v->text) : -1;
    if (k > 1)
        pd_fmt(count, sizeof count, " (%zu)", k);
    if (line >= 0 &&
        (line ? fprintf(f, "%s: ", who)
              : fprintf(f, "---------------\n%s%s\n---------------\n", who, count)) < 0)
        line = -1;
    if (line >= 0 && copy(v->text, f))
        line = -1;
    free(who);
    return line < 0 ? -1 : 0;
}

int blocks_show(struct block *v, size_t n, FILE *f, struct pd_err *err) {
    const char **names = pd_calloc(n ? n : 1, sizeof *names);
    int bad = !names;
    for (size_t i = 0; i < n && !bad; i++) {
        v[i].size = v[i].text->size;
        v[i].shown = !v[i].size;
        bad = spool_digest(v[i].text, v[i].digest);
    }
    for (size_t i = 0; i < n && !bad; i++)
        if (!v[i].shown)
            bad = show(v + i, n - i, names, f);
    free(names);
    if (!bad && !fflush(f))
        return 0;
    return pd_fail(err, PD_EIO, "cannot write the output: %s", strerror(errno));
}

/* Print one piece of UTF-8. Returns the bytes used: a character that the piece's end cuts is left
 * for the next call. */
static size_t json_piece(const char *s, size_t n, int last, FILE *f) {
    size_t i = 0;
    while (i < n) {
        size_t ok = pd_utf8_valid(s + i, n - i);
        for (size_t end = i + ok; i < end; i++) {
            unsigned char c = (unsigned char)s[i];
            if (c == '"' || c == '\\')
                fprintf(f, "\\%c", c);
            else if (c == '\n')
                fputs("\\n", f);
            else if (c < 32 || c == 127)
                fprintf(f, "\\u%04x", c);
            else
                putc(c, f);
        }
        if (i < n && n - i < 4 && !last)
            break;
        if (i < n) {
            fputs("\xef\xbf\xbd", f);
            i++;
        }
    }
    return i;
}

int blocks_json(const struct spool *s, FILE *f) {
    char *buf = pd_malloc(PIECE);
    ssize_t k = buf ? 1 : -1;
    putc('"', f);
    for (uint64_t at = 0; k > 0 && at < s->size;)
        if ((k = spool_read(s, at, buf, PIECE)) > 0)
            at += json_piece(buf, (size_t)k, at + (uint64_t)k == s->size, f);
    putc('"', f);
    free(buf);
    return k < 0 || ferror(f) ? -1 : 0;
}
