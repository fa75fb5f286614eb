/* SPDX-License-Identifier: Apache-2.0 */
/* table.h - rows of text in columns, for commands that report. */
#pragma once

enum { TABLE_COLUMNS = 15 };

struct table {
    char *(*rows)[TABLE_COLUMNS];
    size_t n, cap;
    int n_columns;
    /* 'r' for each column that is aligned to the right, any other character for the left; NULL: all
     * left */
    const char *right;
    int failed;
    int limit;           /* columns of the terminal; 0: no limit */
    const char *leaving; /* see table_fit */
};

void table_init(struct table *t, int n_columns, const char *right);
/* Append a row of n_columns strings, which are copied; NULL is "". */
void table_row(struct table *t, const char *const *cells);
/* Print lines of at most `limit` columns (0: any). While they are longer, columns are left out in
 * the order of `leaving`: "ca" is the third, then the first. Longer lines are cut. */
void table_fit(struct table *t, int limit, const char *leaving);
/* Print with two blanks between columns. Columns that are empty below the head row are left out. */
void table_print(const struct table *t, FILE *f);
void table_release(struct table *t);

/* "812K", "1.2G" */
void table_bytes(char *out, size_t cap, double bytes);
