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
    /* 'r' for each column that is aligned to the right, any other character for the left; NULL: all
     * left */
    const char *right;
    int failed;
};

void table_init(struct table *t, int n_columns, const char *right);
/* Append a row of n_columns strings, which are copied; NULL is "". */
void table_row(struct table *t, const char *const *cells);
/* Print with two blanks between columns. Columns that are empty below the head row are left out. */
void table_print(const struct table *t, FILE *f);
void table_release(struct table *t);

/* "812K", "1.2G" */
void table_bytes(char *out, size_t cap, double bytes);

#endif
