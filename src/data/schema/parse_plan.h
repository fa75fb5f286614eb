/* SPDX-License-Identifier: Apache-2.0 */
/* parse_plan.h - a schema prepared for parsing: which column goes to which field, salts, tables of
 * numbers. Immutable; shared by threads. */
#pragma once

#include "data/schema/schema.h"

struct data_action { /* column `column` of a line becomes number `slot` of field `field` */
    uint32_t column, field, slot;
    uint64_t salt;
};

enum { PLAN_LOGS = 4096 };

struct data_parse_plan {
    const struct data_schema *schema;
    uint32_t n_columns;         /* of the file */
    struct data_action *action; /* [n_actions], sorted by column */
    uint32_t n_actions;
    /* Columns without those of data_schema.may_lack only, and the actions for them; 0: none. */
    uint32_t n_columns_without;
    struct data_action *action_without; /* [n_actions] */
    char *header; /* the header that named the columns, equal in all files; NULL: none */
    size_t n_header;
    float log[PLAN_LOGS]; /* ln(1 + i) */
    float *keep;          /* [n_keep] with subsample: probability that a word stays */
    uint64_t n_keep;
};

/* `first` (relative to first_dir; NULL: no file) is the file whose header names the columns; it is
 * opened only if the header is needed. The header is read separately from the samples, so a pipe is
 * PD_EUSAGE. counts_file is relative to `dir`. */
int data_parse_plan_new(struct data_parse_plan **out, const struct data_schema *s, const char *dir,
                        const char *first_dir, const char *first, struct pd_err *err);
void data_parse_plan_free(struct data_parse_plan *p);

/* Sets [*from, *to) to the next column of a line and moves the cursor. 1; 0: no more columns; -1: a
 * quote is not closed or is followed by other bytes. Quotes are removed in place. */
struct data_cursor {
    char *at, *end;
    int more; /* another column begins at `at` */
};
int data_next_column(const struct data_schema *s, struct data_cursor *c, char **from, char **to);

/* The 64-bit id of a string: XXH3 with a seed made of the salt (a column's name). */
uint64_t data_hash_salt(const char *salt);
uint64_t data_hash(uint64_t salt, const char *s, size_t n);
