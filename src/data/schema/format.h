/* format.h - the table of formats: what their fields are, and how lines become samples. Only
 * src/data includes it.
 *
 *   chunk of a file (whole lines, or whole records)  ── parse ──▶  block: samples, and the lines that are none
 *
 * A format is one entry in format.c and one function that parses a line (format_*.c).
 */
#ifndef PD_DATA_FORMAT_H
#define PD_DATA_FORMAT_H

#include "data/schema/schema.h"

struct data_parser;

struct data_preset { /* a key of a field that counts as given when train.ini does not give it */
    const char *field, *key, *value;
};

struct data_format {
    const char *name;
    const char *fields;  /* those it has when train.ini names none: "label:label dense:dense"; NULL:
                            they must be named */
    const char *columns; /* likewise */
    const char *separator;            /* of columns; NULL: it has none */
    const struct data_preset *preset; /* ended by field NULL; or NULL */
    int vocabulary;                   /* ids of one vocabulary: [data] vocabulary is needed */
    int markers;                      /* <s> and <e> are needed */
    int text;                         /* samples are the words of texts */
    int any_fields;                   /* the user chooses fields and their types */
    int records;                      /* not lines: see source.c */
    /* What fits: called when all keys are set. NULL: nothing to add. */
    int (*check)(struct data_schema *s, struct pd_err *err);
    int only_ids; /* it can be read when all its fields are ids */
    /* A line into samples of p->block: 0; PD_EDATA with p->why; PD_ENOMEM. On failure whatever was
     * appended is taken back by the caller. */
    int (*line)(struct data_parser *p, const char *s, size_t n);
    const char *text_line; /* one line for people */
};

const struct data_format *data_format_find(const char *name);
void data_format_names(char *out, size_t cap); /* "ids, ngram, ..." */

int data_line_ids(struct data_parser *p, const char *s, size_t n);
int data_line_ngram(struct data_parser *p, const char *s, size_t n);
int data_line_skipgram(struct data_parser *p, const char *s, size_t n);
int data_line_cbow(struct data_parser *p, const char *s, size_t n);
int data_line_columns(struct data_parser *p, const char *s, size_t n);
int data_line_libsvm(struct data_parser *p, const char *s, size_t n);
int data_record_idx(struct data_parser *p, const char *s, size_t n);

#endif
