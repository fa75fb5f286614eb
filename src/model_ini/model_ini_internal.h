/* SPDX-License-Identifier: Apache-2.0 */
/* model_ini_internal.h - shared by model_ini.c (the sections) and model_ini_data.c (what [data]
 * stands for). */
#pragma once

#include "model_ini/model_ini.h"

/* Counts the lines of vocabulary_file. The ids of <s> and <e> are their line numbers, counted from
 * 0. */
int model_ini_scan_vocabulary(struct model_ini *m, struct pd_err *err);
/* Makes the schema, and its format and fields as names of the file. */
int model_ini_make_schema(struct model_ini *m, struct pd_err *err);
