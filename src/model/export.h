/* export.h - a saved model in other people's formats.
 *
 *   npz         numpy: NAME.npy of every dense parameter, float32 in its shape; of a table
 * NAME.ids.npy, uint64, ascending, and NAME.npy, float32 [rows x dim] in that order. A zip file
 * without compression. word2vec    "ROWS DIM", then a line a row: the word and its values in
 * decimal (nine digits: they read back to the same bits) word2vec-binary   the same with a blank
 * after the word, float32 little-endian values, and a line end original    a file for each
 * parameter, named as it: int32 format 0, uint32 bytes a value 4, uint64 number of values, float32
 *               values; a table is written whole, with zeros for rows that the model lacks
 *
 * Everything is streamed; what is written is there complete or not at all.
 */
#ifndef PD_MODEL_EXPORT_H
#define PD_MODEL_EXPORT_H

#include "model/model.h"

struct model_export {
    const char *format;
    const char *out;   /* the file; of "original" the folder, which must be empty or absent */
    const char *param; /* word2vec: the embedding; NULL: the only table, or else the only one with
                          as many rows as the vocabulary */
    const char *vocabulary; /* word2vec: file with a word a line, line i from 0 names row i; NULL:
                               the number is the word */
};

struct model_export_counts {
    uint64_t params, rows, values;
    uint64_t missing; /* rows that were written as zeros */
};

/* PD_EUSAGE: an unknown format, or one that does not fit this model. */
int model_export(struct model *m, const struct model_export *x, struct model_export_counts *counts,
                 struct pd_err *err);

#endif
