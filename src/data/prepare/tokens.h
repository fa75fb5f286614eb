/* tokens.h - what is a text in a file, and what is a word in a text: two tables of named functions.
 */
#ifndef PD_DATA_TOKENS_H
#define PD_DATA_TOKENS_H

#include <stddef.h>

struct data_text_format {
    const char *name;
    /* The text in a line: 1 and *text, *n narrowed; 0: the line holds none. */
    int (*find)(const char **text, size_t *n);
};
extern const struct data_text_format data_text_formats[]; /* ended by name NULL */

struct data_tokenizer {
    const char *name;
    int lower_case;
    /* The next word in [s, end): its start, *n its length; NULL: there is none. */
    const char *(*next)(const char *s, const char *end, size_t *n);
};
extern const struct data_tokenizer data_tokenizers[]; /* ended by name NULL */

#endif
