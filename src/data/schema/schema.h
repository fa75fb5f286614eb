/* SPDX-License-Identifier: Apache-2.0 */
/* schema.h - what train.ini says about the data: its format, columns and fields, checked and ready
 * for readers and the network.
 *
 *   [data]                                  [field age]
 *   format = csv                            type = dense
 *   columns = age job income                transform = log
 *   fields = age job:category income:label
 *
 *     settings (key, value, line) in any order
 *         -> data_schema_make
 *         -> fields as in batch.h, and how a reader fills them
 *
 * The keys of [data] are a table in schema.c, those of [field NAME] one in schema_field.c; formats
 * are a table in format.c. docs/data.md is the manual.
 */
#pragma once

#include "data/schema/batch.h"

enum data_type {
    DATA_ID,         /* a decimal id                                        PD_ID */
    DATA_LIST,       /* decimal ids, with weights or without                PD_LIST */
    DATA_DENSE,      /* one number per column of the field                  PD_DENSE */
    DATA_CATEGORY,   /* a string, hashed to 64 bits                         PD_ID */
    DATA_CATEGORIES, /* hashed strings, one per column of the field         PD_LIST */
    DATA_LABEL       /* a class: one of `values`, or a decimal id           PD_ID */
};

enum data_transform { DATA_AS_IT_IS, DATA_LOG };

struct data_value { /* one spelling of a class of a label */
    char text[PD_FIELD_NAME];
    uint32_t id;
};

struct data_field {
    struct pd_field batch; /* name, kind, width, ... as the network sees them */
    enum data_type type;
    char (*column)[PD_FIELD_NAME]; /* [n_columns] columns of the file */
    uint32_t n_columns;
    char separator[8];             /* between the ids of a list */
    char weight_separator[8];      /* between an id and its weight */
    enum data_transform transform; /* DATA_LOG: ln(1 + max(x, 0)) */
    float missing_value;           /* replaces a missing number after transform, mean and std */
    float *mean, *std;        /* [width]: (x - mean) / std after the transform; NULL: 0 and 1 */
    struct data_value *value; /* [n_values] for a label; none: decimal ids */
    uint32_t n_values;
    char salt[PD_FIELD_NAME]; /* salt of the hash of strings; "": the name of the column */
};

struct data_format;

struct data_schema {
    const struct data_format *format;
    struct data_field *field; /* [n_fields] */
    uint32_t n_fields;
    char (*column)[PD_FIELD_NAME]; /* [n_columns] of the file; none: the header names them */
    uint32_t n_columns;
    int header;                  /* the first line of each file is not data */
    char separator[8];           /* between columns */
    char missing[PD_FIELD_NAME]; /* text of a missing column; an empty column is missing, too */
    int quotes;                  /* "a ""b"", c" is one column */
    int trim;                    /* strip blanks around a column */
    uint64_t vocabulary, start_id, end_id; /* for formats of texts of ids */
    uint32_t window;                       /* skipgram, cbow: maximum words on each side */
    double subsample;  /* skipgram, cbow: drop frequent words, word2vec's t; 0: none */
    char counts[1024]; /* counts_file, for subsample; as given */
    /* Formats of ids whose lines hold words (infer): the end of the next word in [s, end), and its
     * id; NULL: no more words. NULL: lines hold ids. Several threads may call it. */
    const char *(*next_word)(const void *words, const char *s, const char *end, uint64_t *id);
    const void *words;
    /* infer: 1 for a field, a label, that lines may lack. Its values are not used: mostly zeros. */
    uint8_t may_lack[PD_MAX_FIELDS];
    const char *complete_for; /* infer: no line may lack a field, for this layer; NULL: no layer */
    int tells_empty; /* infer: a sentence without a sample is named, as a note of the reader */
};

/* A key with its value as in train.ini. */
struct data_setting {
    char field[PD_FIELD_NAME]; /* NAME of [field NAME]; "": [data] */
    char key[PD_FIELD_NAME];
    const char *value;
    int line;
};

/* Makes a schema of `n` settings. Keys that have members of their own in the file's struct
 * (vocabulary, start_id, end_id) come as numbers. 0, or PD_ECONF with `*line` set to the line to
 * blame (0: none in particular). */
int data_schema_make(struct data_schema **out, const struct data_setting *set, size_t n,
                     uint64_t vocabulary, uint64_t start_id, uint64_t end_id, int *line,
                     struct pd_err *err);
/* A schema whose fields are plain ids of one vocabulary, called f0, f1, ...: for tests and tools.
 */
int data_schema_plain(struct data_schema **out, const char *format, uint32_t n_fields,
                      uint64_t vocabulary, uint64_t start_id, uint64_t end_id, struct pd_err *err);
void data_schema_free(struct data_schema *s);

/* data_schema_key: 1 if `key` is a key of [data] (field = 0) or [field NAME] (field = 1).
 * data_schema_keys: appends the list of keys to `known`, for messages. */
int data_schema_key(int field, const char *key);
void data_schema_keys(int field, char *known, size_t cap);

const char *data_schema_format(const struct data_schema *s);
/* 1 if samples are words of texts (rates are then words/s). */
int data_schema_is_text(const struct data_schema *s);
/* 1 if lines are ids of one vocabulary. */
int data_schema_is_ids(const struct data_schema *s);
/* 1 if the format is a text of ids and the size of the vocabulary is not given. */
int data_schema_lacks_vocabulary(const struct data_schema *s);
int data_schema_find(const struct data_schema *s, const char *name); /* field or -1 */
uint32_t data_schema_n_lacking(const struct data_schema *s); /* number of fields in may_lack */
