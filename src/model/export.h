/* SPDX-License-Identifier: Apache-2.0 */
/* export.h - writes a saved model in other formats.
 *
 *   npz               numpy. For every dense parameter NAME.npy, float32 in its shape. For a table
 *                     NAME.ids.npy, uint64 ascending, and NAME.npy, float32 [rows x dim] in that
 *                     order. A zip file without compression.
 *   word2vec          "ROWS DIM", then a line for each row: the word and its values in decimal
 *                     (nine digits, which read back to the same bits)
 *   word2vec-binary   the same with a blank after the word, float32 little-endian values, newline
 *   original          a file for each parameter, with its name: int32 format 0, uint32 bytes of a
 *                     value 4, uint64 number of values, float32 values. A table is written whole,
 *                     with zeros for rows that the model lacks.
 *
 * The export streams. The output file is complete or absent. */
#pragma once

#include "model/model.h"

struct model_export {
    const char *format;
    /* out: the file; for "original" the folder, which must be empty or absent. */
    const char *out;
    /* param, for word2vec: the embedding. NULL: the only table, or the only one with as many rows
     * as the vocabulary. */
    const char *param;
    /* vocabulary, for word2vec: a file with one word per line; line i, counted from 0, names row i.
     * NULL: the row number is the word. */
    const char *vocabulary;
};

struct model_export_counts {
    uint64_t params, rows, values;
    uint64_t missing; /* rows written as zeros */
};

/* PD_EUSAGE: the format is unknown or does not fit this model. */
int model_export(struct model *m, const struct model_export *x, struct model_export_counts *counts,
                 struct pd_err *err);
