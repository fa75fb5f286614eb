/* SPDX-License-Identifier: Apache-2.0 */
/* model_ini_key.h - a query about train.ini that only src/nn needs. */
#pragma once

#include "model_ini/model_ini.h"

/* Find a key that the layer's section gives but that is not in `takes` (ended by NULL; "type" is
 * always allowed). Returns its line and sets *name; 0: there is none. */
int model_ini_foreign_key(const struct layer_ini *l, const char *const *takes, const char **name);
