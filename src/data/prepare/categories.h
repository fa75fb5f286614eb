/* SPDX-License-Identifier: Apache-2.0 */
/* categories.h - the category columns of lines of data. First the values are counted, then the
 * columns are rewritten with the resulting dictionaries.
 *
 *     training lines ──count──▶ one dictionary per column (or salt) ──finish──▶ without rare values
 *     all lines ──rewrite──▶ lines whose categories are encoded
 *
 * The contents of a rewritten column depend on the encoding:
 *
 *     text    the value itself; <rare> if its count is below min_count
 *     index   the value's number in the dictionary; 0 if it is rare or unknown
 *     hash    the id that a reader gives to the text (parse_plan.h), modulo `buckets` unless
 *             `buckets` is 0
 *
 * A missing value counts as the empty text; the text encoding leaves it as it is. Memory: linear in
 * the number of distinct values while counting.
 */
#pragma once

#include "data/schema/parse_plan.h"

enum data_encode { DATA_ENCODE_TEXT, DATA_ENCODE_INDEX, DATA_ENCODE_HASH };
int data_encode_of(const char *text); /* "text", "index", "hash"; else -1 */

struct data_categories;

/* Borrows the plan. PD_EUSAGE: the data has no category columns, or a column is a category and also
 * belongs to another field. */
int data_categories_new(struct data_categories **out, const struct data_parse_plan *plan,
                        enum data_encode encode, uint64_t buckets, struct pd_err *err);
void data_categories_free(struct data_categories *c);

/* `line` is well-formed: the caller has parsed it with the reader's parser. */
int data_categories_count(struct data_categories *c, const char *line, size_t n,
                          struct pd_err *err);
/* Ends the counting: values counted less often than `min_count` are rare. */
int data_categories_finish(struct data_categories *c, uint64_t min_count, struct pd_err *err);
/* Appends the rewritten line to *out. No value is rare before data_categories_finish. */
int data_categories_rewrite(struct data_categories *c, const char *line, size_t n,
                            struct pd_buf *out, struct pd_err *err);

uint64_t data_categories_distinct(const struct data_categories *c); /* values kept, all columns */
uint64_t data_categories_rare(const struct data_categories *c);     /* rare values rewritten */

/* Writes DIR/NAME.tsv for each dictionary, one "text TAB count" per line. The line number from 0 is
 * the index; line 0 is <rare>. */
int data_categories_save(const struct data_categories *c, const char *dir, struct pd_err *err);
