/* SPDX-License-Identifier: Apache-2.0 */
/* table.c - see table.h. */
#include "launcher/text/table.h"

#include "launcher/text/term.h"

void table_init(struct table *t, int n_columns, const char *right) {
    *t = (struct table){.n_columns = n_columns, .right = right};
}

void table_row(struct table *t, const char *const *cells) {
    if (t->n == t->cap) {
        size_t cap = t->cap ? 2 * t->cap : 32;
        void *v = pd_realloc(t->rows, cap * sizeof *t->rows);
        if (!v) {
            t->failed = 1;
            return;
        }
        t->rows = v;
        t->cap = cap;
    }
    memset(t->rows[t->n], 0, sizeof *t->rows);
    for (int c = 0; c < t->n_columns; c++)
        if (cells[c] && *cells[c]) {
            char *s = t->rows[t->n][c] = pd_strdup(cells[c]);
            t->failed |= !s;
            if (s) /* a row is one line, also if a node's text has several */
                for (pd_make_printable(s); *(s += strcspn(s, "\n\t"));)
                    *s = ' ';
        }
    t->n++;
}

static int width_of(const char *s) { return s ? (int)term_columns(s, strlen(s)) : 0; }

void table_fit(struct table *t, int limit, const char *leaving) {
    t->limit = limit;
    t->leaving = leaving;
}

struct layout { /* of the columns */
    int width[TABLE_COLUMNS], used[TABLE_COLUMNS], last;
};

static int total_width(const struct table *t, struct layout *l) {
    int total = 0;
    for (int c = 0; c < t->n_columns; c++) {
        l->last = l->used[c] ? c : l->last;
        total += l->used[c] ? l->width[c] + (total ? 2 : 0) : 0;
    }
    return total;
}

static void lay_out(const struct table *t, struct layout *l) {
    *l = (struct layout){.last = 0};
    for (size_t r = 0; r < t->n; r++)
        for (int c = 0; c < t->n_columns; c++) {
            int w = width_of(t->rows[r][c]);
            l->width[c] = w > l->width[c] ? w : l->width[c];
            l->used[c] |= w && (r || t->n == 1);
        }
    for (const char *p = t->leaving; total_width(t, l) > t->limit && t->limit && p && *p; p++)
        l->used[*p - 'a'] = 0;
    total_width(t, l);
}

static void put_row(const struct table *t, const struct layout *l, size_t row, struct pd_buf *b) {
    int pending = 0; /* blanks that are printed only if text follows */
    for (int c = 0; c <= l->last; c++) {
        const char *s = t->rows[row][c] ? t->rows[row][c] : "";
        int pad = l->width[c] - width_of(s),
            right = t->right && strlen(t->right) > (size_t)c && t->right[c] == 'r';
        if (!l->used[c])
            continue;
        pending += right ? pad : 0;
        if (*s)
            pd_put_fmt(b, "%*s%s", pending, "", s);
        pending = (*s ? 0 : pending) + (right ? 0 : pad) + 2;
    }
}

void table_print(const struct table *t, FILE *f) {
    struct layout l;
    struct pd_buf b = {0};
    lay_out(t, &l);
    for (size_t r = 0; r < t->n; r++) {
        pd_buf_clear(&b);
        put_row(t, &l, r, &b);
        const char *text = b.len ? (const char *)b.data : "";
        fwrite(text, 1, t->limit ? term_fit(text, b.len, (size_t)t->limit) : b.len, f);
        fputc('\n', f);
    }
    pd_buf_release(&b);
}

void table_release(struct table *t) {
    for (size_t r = 0; r < t->n; r++)
        for (int c = 0; c < t->n_columns; c++)
            free(t->rows[r][c]);
    free(t->rows);
    *t = (struct table){0};
}

void table_bytes(char *out, size_t cap, double bytes) {
    static const char units[] = "BKMGTP";
    size_t u = 0;
    while (bytes >= 1000 && u + 2 < sizeof units) {
        bytes /= 1024;
        u++;
    }
    snprintf(out, cap, bytes < 10 && u ? "%.1f%c" : "%.0f%c", bytes, units[u]);
}
