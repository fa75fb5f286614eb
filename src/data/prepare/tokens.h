/* SPDX-License-Identifier: Apache-2.0 */
/* tokens.h - two tables of named functions: how to find the text in a line, and how to split a text
 * into words. */
#pragma once

struct data_text_format {
    const char *name;
    /* Narrows *text, *n to the text of a line. 1; 0: the line has no text. */
    int (*find)(const char **text, size_t *n);
};
extern const struct data_text_format data_text_formats[]; /* ended by name NULL */

struct data_tokenizer {
    const char *name;
    int lower_case;
    /* Returns the start of the next word in [s, end), *n its length; NULL: no more words. */
    const char *(*next)(const char *s, const char *end, size_t *n);
};
extern const struct data_tokenizer data_tokenizers[]; /* ended by name NULL */

/* Makes n bytes of words lower-case, if the tokenizer wants that: A to Z only, in every locale. */
void data_token_lower(const struct data_tokenizer *t, char *s, size_t n);
