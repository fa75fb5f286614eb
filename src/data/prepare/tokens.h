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
