/* SPDX-License-Identifier: Apache-2.0 */
/* dict.h - dictionaries of words: count words, drop rare ones, give out ids, write and read back.
 *
 * dict.txt has one word per line; the line number from 0 is the word's id. Ids 0, 1 and 2 are
 * <unk>, <s> and <e>. The other words follow by falling frequency, equal ones by bytes. In a
 * dictionary that is read the three markers may be anywhere. */
#pragma once

enum { DICT_MAX_WORD = 1 << 16 };

/* DATA_DICT_WORDS: as above. DATA_DICT_CATEGORIES: values of a column; id 0 is <rare> and stands
 * for unknown values, the others follow by frequency. */
enum data_dict_kind { DATA_DICT_WORDS, DATA_DICT_CATEGORIES };
#define DATA_RARE "<rare>"

struct data_dict;

int data_dict_new(struct data_dict **out, enum data_dict_kind kind, struct pd_err *err);
void data_dict_free(struct data_dict *d);

/* Counts one occurrence of `word`. Words that are spelled like a marker are not counted. */
int data_dict_count(struct data_dict *d, const char *word, size_t n, struct pd_err *err);
/* Keeps words counted at least `min_freq` times and gives out ids. Ends the counting. */
int data_dict_finish(struct data_dict *d, uint64_t min_freq, struct pd_err *err);

int data_dict_read(struct data_dict **out, const char *path, struct pd_err *err); /* finished */
void data_dict_print(const struct data_dict *d, struct pd_buf *out);              /* as dict.txt */

/* Prints a finished dictionary with "text TAB count" per line. The first count is that of all
 * dropped words together. */
void data_dict_print_counts(const struct data_dict *d, struct pd_buf *out);

/* For a finished dictionary. data_dict_id returns the id of <unk> for an unknown word. */
uint64_t data_dict_size(const struct data_dict *d);
uint64_t data_dict_id(const struct data_dict *d, const char *word, size_t n);
uint64_t data_dict_unk(const struct data_dict *d);
