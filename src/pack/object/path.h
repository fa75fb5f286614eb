/* SPDX-License-Identifier: Apache-2.0 */
/* path.h - rules for names that both ends of a package check. */
#pragma once

/* Cleans `name`: removes "./", doubled and trailing slashes; "" is the tree itself. PD_EDATA if it
 * is absolute, contains "..", or is too long. */
int pack_clean_path(const char *name, char out[PATH_MAX], struct pd_err *err);

/* Checks that the entry `path` (clean) may be a symbolic link to `target`. Only leading ".." are
 * allowed, and no more than there are folders above the link. The folder that holds the link is a
 * real one (nothing is written through links), so such a link, and any chain of them, stays in the
 * tree. ".." behind a name could climb out through another link; it is refused, even though it may
 * be harmless. */
int pack_check_link(const char *path, const char *target, struct pd_err *err);
