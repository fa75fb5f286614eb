/* SPDX-License-Identifier: Apache-2.0 */
/* blocks.c - see blocks.h. */
#include "launcher/view/blocks.h"

#include "launcher/text/fold.h"
#include "launcher/view/show_text.h"

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

static void put_raw(struct pd_buf *b, const char *p, size_t n) { pd_put(b, p, n); }

static void put_plain(struct pd_buf *b, const char *p, size_t n) {
    show_put_text(b, p, n, SHOW_PLAIN, 0);
}

/* Prints the text through `put`. The pieces end with a line or else with a whole character. */
static int copy(const struct spool *s, FILE *f,
                void (*put)(struct pd_buf *b, const char *p, size_t n)) {
    char *buf = pd_malloc(PIECE);
    struct pd_buf b = {0};
    int bad = !buf;
    for (uint64_t at = 0; !bad && at < s->size;) {
        ssize_t k = spool_read(s, at, buf, PIECE);
        if ((bad = k <= 0))
            break;
        if (at + (uint64_t)k < s->size) {
            const char *line = memrchr(buf, '\n', (size_t)k);
            const size_t whole = line ? (size_t)(line + 1 - buf) : pd_utf8_valid(buf, (size_t)k);
            k = line || (size_t)k - whole < 4 ? (ssize_t)whole : k;
        }
        pd_buf_clear(&b);
        put(&b, buf, (size_t)k);
        bad = b.failed || fwrite(b.data, 1, b.len, f) != b.len;
        at += (uint64_t)k;
    }
    pd_buf_release(&b);
    free(buf);
    return bad ? -1 : 0;
}

/* 1: the text does not end with a newline. */
static int lacks_newline(const struct spool *s) {
    char last = '\n';
    return s->size && spool_read(s, s->size - 1, &last, 1) == 1 && last != '\n';
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
    if (line >= 0 && (copy(v->text, f, isatty(fileno(f)) ? put_plain : put_raw) ||
                      (lacks_newline(v->text) && putc('\n', f) == EOF)))
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

int blocks_json(const struct spool *s, FILE *f) {
    putc('"', f);
    const int bad = copy(s, f, show_put_json);
    putc('"', f);
    return bad || ferror(f) ? -1 : 0;
}
