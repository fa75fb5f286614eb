/* SPDX-License-Identifier: Apache-2.0 */
/* format.h - the table of formats: their fields, and how lines become samples. Only src/data
 * includes this header.
 *
 *   text of a block (whole lines or records)  ── parse ──▶  samples and bad lines of the block
 *
 * A format is one entry in format.c and one function that parses a line (format_*.c).
 */
#pragma once

#include "data/schema/schema.h"

struct data_parser;

struct data_preset { /* the value of a field's key if train.ini does not give it */
    const char *field, *key, *value;
};

struct data_format {
    const char *name;
    /* The default of [data] fields: "label:label dense:dense"; NULL: train.ini must name them. */
    const char *fields;
    const char *columns;              /* the default of [data] columns, likewise */
    const char *separator;            /* between columns; NULL: none */
    const struct data_preset *preset; /* ended by field NULL; or NULL */
    int vocabulary; /* all ids belong to one vocabulary: needs [data] vocabulary */
    int markers;    /* needs the ids of <s> and <e> */
    int text;       /* samples are the words of texts */
    int any_fields; /* the user chooses fields and their types */
    int records;    /* fixed-size records instead of lines: see source.c */
    /* Checks the schema when all keys are set. NULL: no further checks. */
    int (*check)(struct data_schema *s, struct pd_err *err);
    int only_ids; /* all fields must be ids */
    /* Parses a line into samples of p->block. 0; PD_EDATA with p->why; PD_ENOMEM. On failure the
     * caller removes the samples of the line. */
    int (*line)(struct data_parser *p, const char *s, size_t n);
    const char *text_line; /* description for users */
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
