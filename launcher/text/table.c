/* table.c - see table.h. */
#include "launcher/text/table.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
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
        if (cells[c] && *cells[c] && !(t->rows[t->n][c] = pd_strdup(cells[c])))
            t->failed = 1;
    t->n++;
}

static int width_of(const char *s) { return s ? (int)term_columns(s, strlen(s)) : 0; }

void table_print(const struct table *t, FILE *f) {
    int width[TABLE_COLUMNS] = {0}, used[TABLE_COLUMNS] = {0}, last = 0;
    for (size_t r = 0; r < t->n; r++)
        for (int c = 0; c < t->n_columns; c++) {
            int w = width_of(t->rows[r][c]);
            width[c] = w > width[c] ? w : width[c];
            used[c] |= w && (r || t->n == 1);
        }
    for (int c = 0; c < t->n_columns; c++)
        last = used[c] ? c : last;
    for (size_t r = 0; r < t->n; r++) {
        /* blanks that are printed only if text follows */
        int pending = 0;
        for (int c = 0; c <= last; c++) {
            const char *s = t->rows[r][c] ? t->rows[r][c] : "";
            int pad = width[c] - width_of(s),
                right = t->right && strlen(t->right) > (size_t)c && t->right[c] == 'r';
            if (!used[c])
                continue;
            pending += right ? pad : 0;
            if (*s)
                fprintf(f, "%*s%s", pending, "", s);
            pending = (*s ? 0 : pending) + (right ? 0 : pad) + 2;
        }
        fputc('\n', f);
    }
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
