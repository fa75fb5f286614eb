/* model_ini_key.h - a question that only src/nn asks about what train.ini says. */
#ifndef PD_MODEL_INI_KEY_H
#define PD_MODEL_INI_KEY_H

#include "model_ini/model_ini.h"

/* The line of a key that the section gives but that is not among `takes` (ended by NULL; "type"
 * always is), and that key's name; 0 if there is none. */
int model_ini_foreign_key(const struct layer_ini *l, const char *const *takes, const char **name);

#endif
