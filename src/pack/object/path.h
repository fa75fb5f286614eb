/* path.h - the rules about names that both ends of a package hold to. Internal to src/pack. */
#ifndef PD_PACK_PATH_H
#define PD_PACK_PATH_H

#include <limits.h>
#include <stddef.h>

#include "base/err.h"

/* `name` without "./", doubled and trailing slashes; "" is the tree itself. PD_EDATA when it is
 * absolute, has
 * "..", or is too long. */
int pack_clean_path(const char *name, char out[PATH_MAX], struct pd_err *err);

/* May the entry `path` (clean) be a symbolic link to `target`? Only leading ".." are allowed, and
 * no more of them than folders above the link: the folder that holds the link is a real one
 * (nothing is written through links), so such a link, and any chain of them, stays in the tree.
 * ".." behind a name could climb out through another link, so it is refused though it is sometimes
 * harmless. */
int pack_check_link(const char *path, const char *target, struct pd_err *err);

#endif
