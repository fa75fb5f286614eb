/* SPDX-License-Identifier: Apache-2.0 */
/* schema_internal.h - shared by schema.c ([data], and the schema as a whole), schema_field.c
 * ([field NAME]) and schema_value.c (values of keys). */
#pragma once

#include "data/schema/format.h"

struct schema_build { /* a schema under construction */
    struct data_schema *s;
    const struct data_setting *set;
    size_t n;
    int *line;                          /* line to blame */
    uint8_t *has_size, *has_vocabulary; /* [n_fields] 1 if the key is given or preset */
};

/* A key and its setter; `f` is NULL for keys of [data]. */
struct schema_key {
    const char *name;
    int (*set)(struct schema_build *m, struct data_field *f, const char *value, struct pd_err *err);
};

/* schema.c */
const struct data_setting *data_setting_find(const struct schema_build *m, const char *field,
                                             const char *key); /* NULL: not given */
int data_setting_apply(struct schema_build *m, const struct schema_key *k, struct data_field *f,
                       const char *value, int line, struct pd_err *err);

/* schema_field.c: adds the fields that [data] or the format names, sets their keys, completes them.
 */
extern const struct schema_key data_field_keys[]; /* ended by name NULL */
int data_fields_add(struct schema_build *m, struct pd_err *err);
int data_field_set(struct schema_build *m, struct data_field *f, struct pd_err *err);
int data_field_complete(struct schema_build *m, struct data_field *f, struct pd_err *err);

/* schema_value.c: error messages begin with "it ...", after the name of the key. PD_ECONF,
 * PD_ENOMEM. */
int data_value_truth(const char *v, int *out, struct pd_err *err);
int data_value_whole(const char *v, uint64_t lo, uint64_t hi, uint64_t *out, struct pd_err *err);
int data_value_text(const char *v, char *out, size_t cap, struct pd_err *err);
int data_value_separator(const char *v, char out[8], struct pd_err *err);
int data_value_names(const char *v, char (**out)[PD_FIELD_NAME], uint32_t *n,
                     struct pd_err *err); /* *out is freed first */
int data_value_number(const char *v, float *out, struct pd_err *err);
int data_value_numbers(const char *v, float **out, uint32_t *n, struct pd_err *err); /* likewise */
