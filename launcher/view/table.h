/* table.h - rows of text in columns, for commands that report. */
#ifndef LAUNCHER_TABLE_H
#define LAUNCHER_TABLE_H

#include <stddef.h>
#include <stdio.h>

enum { TABLE_COLUMNS = 14 };

struct table {
    char *(*rows)[TABLE_COLUMNS];
    size_t n, cap;
    int n_columns;
    const char
        *right; /* 'r' for each column that is aligned to the right, else anything; NULL: none */
    int failed;
};

void table_init(struct table *t, int n_columns, const char *right);
/* The next row: n_columns strings; NULL is "". They are copied. */
void table_row(struct table *t, const char *const *cells);
/* Two blanks between columns; columns in which no row but the first (the heads) has anything are
 * left out. */
void table_print(const struct table *t, FILE *f);
void table_release(struct table *t);

/* "812K", "1.2G" */
void table_bytes(char *out, size_t cap, double bytes);

#endif
