/* SPDX-License-Identifier: Apache-2.0 */
/* table.h - finds rows of a saved table by key in the mapped file. Nothing is loaded, so a table
 * may be larger than memory.
 *
 * Every part has its keys in ascending order. A row is found by interpolation: keys are numbers of
 * a vocabulary or hashes, both spread evenly, so a few probes suffice. Halving bounds the number of
 * probes. A part or layer without the key costs the same. */
#pragma once

#include "model/model.h"

struct model_table;

/* The model `m` must stay open. */
int model_table_open(struct model_table **out, struct model *m, const char *name,
                     struct pd_err *err);
void model_table_close(struct model_table *t);
/* The number of rows. A table with layers has to be counted. */
int model_table_rows(const struct model_table *t, uint64_t *n, struct pd_err *err);

/* The row of `key`, or NULL. Thread-safe. */
const float *model_table_find(const struct model_table *t, uint64_t key);

/* Calls `each` for all rows in ascending order of keys. A result other than 0 ends the walk.
 * PD_EDATA: a part is not sorted, or two parts have the same key. */
int model_table_walk(const struct model_table *t,
                     int (*each)(void *arg, uint64_t key, const float *row, struct pd_err *err),
                     void *arg, struct pd_err *err);
