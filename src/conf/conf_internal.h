/* SPDX-License-Identifier: Apache-2.0 */
/* conf_internal.h - shared by the files of src/conf. */
#pragma once

#include "conf/options.h"

struct pd_refused_option {
    const char *name, *why;
};
extern const struct pd_refused_option pd_refused_options[]; /* ends with NULL */

void *pd_option_field(const struct pd_options *o, size_t i);
/* Parse `value` into the field of row i. PD_PATH values become relative to base_dir (NULL:
 * unchanged). */
int pd_option_assign(struct pd_options *o, size_t i, const char *value, const char *where,
                     const char *base_dir, struct pd_err *err);

/* *out is a copy of the value, a path relative to base_dir and with ~ replaced. The caller frees
 * it. */
int pd_option_text(char **out, int is_path, const char *value, const char *base_dir,
                   const char *where, const char *name, struct pd_err *err);

/* --- sections.c: the sections whose keys are not in the table --- */

int pd_env_set(struct pd_env_var **env, size_t *n, const char *name, const char *value,
               const char *where, struct pd_err *err);
int pd_group_set(struct pd_options *o, const char *name, const char *hosts, const char *where,
                 struct pd_err *err);
/* PATTERN if `section` is "host PATTERN"; else NULL. */
const char *pd_host_pattern(const char *section);
int pd_host_section_begin(struct pd_options *o, const char *pattern, const char *where,
                          struct pd_err *err);
/* Set a key of the section that was begun last. */
int pd_host_section_set(struct pd_options *o, const char *name, const char *value,
                        const char *where, const char *base_dir, struct pd_err *err);
/* The same as pd_env_set and pd_group_set, over any earlier value. A variable then also has this
 * value on hosts whose section sets it. */
int pd_env_override(struct pd_options *o, const char *name, const char *value, const char *where,
                    struct pd_err *err);
int pd_group_override(struct pd_options *o, const char *name, const char *hosts, const char *where,
                      struct pd_err *err);
void pd_sections_release(struct pd_options *o);

void pd_settings_release(struct pd_options *o); /* settings.c */
