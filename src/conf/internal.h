/* internal.h - what options.c and parse.c share. */
#ifndef PD_CONF_INTERNAL_H
#define PD_CONF_INTERNAL_H

#include "conf/options.h"

struct pd_refused {
    const char *name, *why;
};
extern const struct pd_refused pd_refused_options[]; /* ends with NULL */

void *pd_option_field(const struct pd_options *o, size_t i);
/* Parse `value` into row i's field. PD_PATH values are put below base_dir (NULL: left as they are). */
int pd_option_assign(struct pd_options *o, size_t i, const char *value, const char *where, const char *base_dir,
                     struct pd_err *err);

#endif
