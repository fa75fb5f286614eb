/* dict.h - words and their ids: counted, cut, sorted, written, read back.
 *
 * dict.txt: a word a line, its number from 0 is the id: <unk> 0, <s> 1, <e> 2, then words by
 * falling frequency, equals by bytes. A dictionary that is read may have the three markers
 * anywhere.
 */
#ifndef PD_DATA_DICT_H
#define PD_DATA_DICT_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum { DICT_MAX_WORD = 1 << 16 };

/* Texts of words: as above. Categories of a column: <rare> 0, then as above; what is unknown is
 * <rare>. */
enum data_dict_kind { DATA_DICT_WORDS, DATA_DICT_CATEGORIES };
#define DATA_RARE "<rare>"

struct data_dict;

int data_dict_new(struct data_dict **out, enum data_dict_kind kind, struct pd_err *err);
void data_dict_free(struct data_dict *d);

/* One more of this word. The markers' own spellings in a text are not words: they are not counted.
 */
int data_dict_count(struct data_dict *d, const char *word, size_t n, struct pd_err *err);
/* Keep the words counted at least `min_freq` times and give out ids; nothing can be counted
 * afterwards. */
int data_dict_finish(struct data_dict *d, uint64_t min_freq, struct pd_err *err);

int data_dict_read(struct data_dict **out, const char *path, struct pd_err *err); /* finished */
void data_dict_print(const struct data_dict *d, struct pd_buf *out);              /* as dict.txt */

/* A finished one, with "text TAB count" a line; the first's count is that of all that were left
 * out. */
void data_dict_print_counts(const struct data_dict *d, struct pd_buf *out);

/* Of a finished dictionary. */
uint64_t data_dict_size(const struct data_dict *d);
uint64_t data_dict_id(const struct data_dict *d, const char *word,
                      size_t n); /* <unk>'s for an unknown one */
uint64_t data_dict_unk(const struct data_dict *d);

#endif
