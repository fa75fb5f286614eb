/* plan.h - a schema made ready for parsing: which column goes where, salts, tables of numbers.
 * Immutable; shared by threads. */
#ifndef PD_DATA_PARSE_PLAN_H
#define PD_DATA_PARSE_PLAN_H

#include "data/schema/schema.h"

struct data_action { /* column `column` of a line gives number `slot` of field `field` */
    uint32_t column, field, slot;
    uint64_t salt;
};

enum { PLAN_LOGS = 4096 };

struct data_parse_plan {
    const struct data_schema *schema;
    uint32_t n_columns;         /* of the file */
    struct data_action *action; /* [n_actions], by column */
    uint32_t n_actions;
    char *header; /* the header that named the columns; all files must have it; NULL: none did */
    size_t n_header;
    float log[PLAN_LOGS]; /* ln(1 + i) */
    float *keep;          /* [n_keep] with subsample: the probability that a word stays */
    uint64_t n_keep;
};

/* `first` names, relative to first_dir, the file whose header names the columns, opened only then;
 * NULL if there is none. It is read apart from its samples, so it can't be a pipe (PD_EUSAGE).
 * `dir` is where counts_file is. */
int data_parse_plan_new(struct data_parse_plan **out, const struct data_schema *s, const char *dir,
                        const char *first_dir, const char *first, struct pd_err *err);
void data_parse_plan_free(struct data_parse_plan *p);

/* The next column of a line: *s narrowed to it and the rest moved on. 1; 0: there is none left; -1:
 * a quote is not closed or is followed by more. Quotes are taken out in place. */
struct data_cursor {
    char *at, *end;
    int more; /* another column begins at `at` */
};
int data_next_column(const struct data_schema *s, struct data_cursor *c, char **from, char **to);

/* The 64-bit id of a string: XXH3 with a seed made of the salt (a column's name). */
uint64_t data_hash_salt(const char *salt);
uint64_t data_hash(uint64_t salt, const char *s, size_t n);

#endif
