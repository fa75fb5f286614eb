/* table.h - the rows of a saved table by key, where they lie: nothing is loaded, so a table may be
 * larger than memory.
 *
 * Every part has its keys in ascending order, so a row is found by interpolation (keys are numbers
 * of a vocabulary or hashes, both spread evenly: a few probes) with halving where that does not go
 * on; a part that does not have the key costs the same, and so does a layer.
 */
#ifndef PD_MODEL_TABLE_H
#define PD_MODEL_TABLE_H

#include "model/model.h"

struct model_table;

/* `m` must stay open. */
int model_table_open(struct model_table **out, struct model *m, const char *name,
                     struct pd_err *err);
void model_table_close(struct model_table *t);
int model_table_rows(const struct model_table *t, uint64_t *n,
                     struct pd_err *err); /* with layers they have to be counted */

/* The row of that key; NULL: there is none. Safe from several threads. */
const float *model_table_find(const struct model_table *t, uint64_t key);

/* All rows, keys ascending over all parts. `each` returns 0 or PD_E*, which ends the walk;
 * PD_EDATA: a part is not in order, or two have the same key. */
int model_table_walk(const struct model_table *t,
                     int (*each)(void *arg, uint64_t key, const float *row, struct pd_err *err),
                     void *arg, struct pd_err *err);

#endif
