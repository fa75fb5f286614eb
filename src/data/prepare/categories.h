/* categories.h - the category columns of a file's lines: counted, then rewritten by what the
 * counting found.
 *
 *     training lines ──count──▶ a dictionary for each column (or salt) ──finish: rare ones go──▶ all lines ──rewrite──▶
 *
 * What a column holds afterwards:  text   as it stands, <rare> for what was seen too seldom
 *                                  index  its number in the dictionary, 0 for what was seen too
 * seldom or never hash   the id that a reader gives to the text (plan.h), modulo `buckets` unless
 * that is 0 A missing one counts as a text without letters; as text it stays what it is. Memory:
 * linear in the different texts, when counted.
 */
#ifndef PD_DATA_CATEGORIES_H
#define PD_DATA_CATEGORIES_H

#include "base/buf.h"
#include "data/schema/parse_plan.h"

enum data_encode { DATA_ENCODE_TEXT, DATA_ENCODE_INDEX, DATA_ENCODE_HASH };
int data_encode_of(const char *text); /* "text", "index", "hash": the enum; -1 */

struct data_categories;

/* PD_EUSAGE: there is no such column, or one that is a category and something else. The plan is
 * borrowed. */
int data_categories_new(struct data_categories **out, const struct data_parse_plan *plan,
                        enum data_encode encode, uint64_t buckets, struct pd_err *err);
void data_categories_free(struct data_categories *c);

/* Lines are well-formed: a reader has parsed them. */
int data_categories_count(struct data_categories *c, const char *line, size_t n,
                          struct pd_err *err);
int data_categories_finish(struct data_categories *c, uint64_t min_count,
                           struct pd_err *err); /* nothing is counted afterwards */
/* The line behind what is in *out. Without _finish nothing is rare. */
int data_categories_rewrite(struct data_categories *c, const char *line, size_t n,
                            struct pd_buf *out, struct pd_err *err);

uint64_t data_categories_distinct(const struct data_categories *c); /* kept, of all columns */
uint64_t data_categories_rare(const struct data_categories *c);     /* rewritten as rare so far */

/* DIR/NAME.tsv for each dictionary: "text TAB count" a line, the line's number from 0 is the index;
 * the first is <rare>. */
int data_categories_save(const struct data_categories *c, const char *dir, struct pd_err *err);

#endif
