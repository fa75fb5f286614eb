/* schema_int.h - what schema.c ([data], and the schema as a whole), schema_field.c ([field NAME])
 * and schema_value.c (values of keys) share. */
#ifndef PD_DATA_SCHEMA_INTERNAL_H
#define PD_DATA_SCHEMA_INTERNAL_H

#include "data/schema/format.h"

struct make { /* a schema being made of settings */
    struct data_schema *s;
    const struct data_setting *set;
    size_t n;
    int *line;                          /* to blame */
    uint8_t *has_size, *has_vocabulary; /* [n_fields] was the key given (or preset)? */
};

/* A key; `f` is NULL for one of [data]. */
struct key {
    const char *name;
    int (*set)(struct make *m, struct data_field *f, const char *value, struct pd_err *err);
};

/* schema.c */
const struct data_setting *data_setting_find(const struct make *m, const char *field,
                                             const char *key); /* NULL: not given */
int data_setting_apply(struct make *m, const struct key *k, struct data_field *f, const char *value,
                       int line, struct pd_err *err);

/* schema_field.c: the fields that [data] (or the format) names, then their keys, then what follows
 * from all. */
extern const struct key data_field_keys[]; /* ended by name NULL */
int data_fields_add(struct make *m, struct pd_err *err);
int data_field_set(struct make *m, struct data_field *f, struct pd_err *err);
int data_field_complete(struct make *m, struct data_field *f, struct pd_err *err);

/* schema_value.c: what is wrong begins with "it ..."; PD_ECONF, PD_ENOMEM. */
int data_value_truth(const char *v, int *out, struct pd_err *err);
int data_value_whole(const char *v, uint64_t lo, uint64_t hi, uint64_t *out, struct pd_err *err);
int data_value_text(const char *v, char *out, size_t cap, struct pd_err *err);
int data_value_separator(const char *v, char out[8], struct pd_err *err);
int data_value_names(const char *v, char (**out)[PD_FIELD_NAME], uint32_t *n,
                     struct pd_err *err); /* *out is freed first */
int data_value_number(const char *v, float *out, struct pd_err *err);
int data_value_numbers(const char *v, float **out, uint32_t *n, struct pd_err *err); /* likewise */

#endif
