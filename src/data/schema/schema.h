/* schema.h - what train.ini says of the data: its format, columns and fields, checked and ready for
 * readers and network.
 *
 *   [data]                                  [field age]            settings (key, value, line) in
 * any order format = csv                            type = dense             -> data_schema_make
 *   columns = age job income                transform = log          -> fields as in batch.h, and
 * how a reader fills them fields = age job:category income:label
 *
 * The keys of [data] are a table in schema.c, those of [field NAME] one in schema_field.c; formats
 * are one in format.c. docs/data.md is the manual of both.
 */
#ifndef PD_DATA_SCHEMA_H
#define PD_DATA_SCHEMA_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "data/schema/batch.h"

enum data_type {
    DATA_ID,         /* a decimal id                                        PD_ID */
    DATA_LIST,       /* decimal ids, with weights or without                PD_LIST */
    DATA_DENSE,      /* a number for each of its columns                    PD_DENSE */
    DATA_CATEGORY,   /* a string, hashed to 64 bits                         PD_ID */
    DATA_CATEGORIES, /* strings, hashed; one for each of several columns    PD_LIST */
    DATA_LABEL       /* a class: one of `values`, or a decimal id           PD_ID */
};

enum data_transform { DATA_AS_IT_IS, DATA_LOG };

struct data_value { /* a spelling of a label's class */
    char text[PD_FIELD_NAME];
    uint32_t id;
};

struct data_field {
    struct pd_field batch; /* name, kind, width, ...: what the network sees */
    enum data_type type;
    char (*column)[PD_FIELD_NAME]; /* [n_columns] where it comes from */
    uint32_t n_columns;
    char separator[8];             /* between the ids of a list */
    char weight_separator[8];      /* between an id and its weight */
    enum data_transform transform; /* DATA_LOG: ln(1 + max(x, 0)) */
    float missing_value;           /* of a number that is missing, after transform, mean and std */
    float *mean, *std;        /* [width]: (x - mean) / std, after the transform; NULL: 0 and 1 */
    struct data_value *value; /* [n_values] of a label; none: a decimal id */
    uint32_t n_values;
    char
        salt[PD_FIELD_NAME]; /* what the hash of a string begins with; "": the name of its column */
};

struct data_format;

struct data_schema {
    const struct data_format *format;
    struct data_field *field; /* [n_fields] */
    uint32_t n_fields;
    char (*column)[PD_FIELD_NAME]; /* [n_columns] of the file; none with `header`: the header names
                                      them */
    uint32_t n_columns;
    int header;                  /* the first line of each file is not data */
    char separator[8];           /* between columns */
    char missing[PD_FIELD_NAME]; /* a column that reads so is missing; an empty one always is */
    int quotes;                  /* "a ""b"", c" is one column */
    int trim;                    /* blanks around a column do not count */
    uint64_t vocabulary, start_id, end_id; /* of texts of ids */
    uint32_t window;                       /* skipgram, cbow: words to each side, at most */
    double subsample;  /* skipgram, cbow: frequent words are left out, word2vec's t; 0: none */
    char counts[1024]; /* file of the words' counts, for subsample; as given */
};

/* A key as the file says it. */
struct data_setting {
    char field[PD_FIELD_NAME]; /* of [field NAME]; "": of [data] */
    char key[PD_FIELD_NAME];
    const char *value;
    int line;
};

/* 0, or PD_ECONF with `*line` the line to blame (0: none in particular). Settings that have a place
 * of their own in the file's struct (vocabulary, start_id, end_id) come as numbers. */
int data_schema_make(struct data_schema **out, const struct data_setting *set, size_t n,
                     uint64_t vocabulary, uint64_t start_id, uint64_t end_id, int *line,
                     struct pd_err *err);
/* All fields plain ids under one vocabulary, called f0, f1, ...: for tests and tools. */
int data_schema_plain(struct data_schema **out, const char *format, uint32_t n_fields,
                      uint64_t vocabulary, uint64_t start_id, uint64_t end_id, struct pd_err *err);
void data_schema_free(struct data_schema *s);

/* Is this a key of [data] (field = 0) or [field NAME] that data_schema_make knows? `known`:
 * appended the list, for messages. */
int data_schema_key(int field, const char *key);
void data_schema_keys(int field, char *known, size_t cap);

const char *data_schema_format(const struct data_schema *s);
/* Are its samples the words of texts (rates are then words/s)? */
int data_schema_is_text(const struct data_schema *s);
/* Is it a text of ids, and nobody has said how many there are? */
int data_schema_lacks_vocabulary(const struct data_schema *s);
int data_schema_find(const struct data_schema *s, const char *name); /* field or -1 */

#endif
