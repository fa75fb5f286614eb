/* internal.h - what options.c and parse.c share. */
#ifndef PD_CONF_INTERNAL_H
#define PD_CONF_INTERNAL_H

#include "conf/options.h"

struct pd_refused {
    const char *name, *why;
};
extern const struct pd_refused pd_refused_options[]; /* ends with NULL */

void *pd_option_field(const struct pd_options *o, size_t i);
/* Parse `value` into row i's field. PD_PATH values are put below base_dir (NULL: left as they are).
 */
int pd_option_assign(struct pd_options *o, size_t i, const char *value, const char *where,
                     const char *base_dir, struct pd_err *err);

/* The value of a PD_PATH option: below base_dir, ~ replaced. NULL: too long, or no memory. */
char *pd_option_path(const char *value, const char *base_dir);

/* --- sections.c: the sections whose keys are not in the table --- */

int pd_env_set(struct pd_env_var **env, size_t *n, const char *name, const char *value,
               const char *where, struct pd_err *err);
int pd_group_set(struct pd_options *o, const char *name, const char *hosts, const char *where,
                 struct pd_err *err);
/* Is `section` "host PATTERN"? Returns PATTERN or NULL. */
const char *pd_host_pattern(const char *section);
int pd_host_section_begin(struct pd_options *o, const char *pattern, const char *where,
                          struct pd_err *err);
/* Into the section that was begun last. */
int pd_host_section_set(struct pd_options *o, const char *name, const char *value,
                        const char *where, const char *base_dir, struct pd_err *err);
void pd_sections_release(struct pd_options *o);

#endif
