/* ignore.h - .paddleignore: the part of .gitignore's rules that we hold exactly; any other line is refused with
 * its file and line, so that a file is never sent or left out by a misunderstanding. Internal to src/pack.
 *
 * Accepted: comments, blank lines, names and globs of * ? [...]; a slash inside or in front ties the pattern to
 * the top, otherwise it matches at any depth; a slash at the end means folders only. Refused: "!" and "**".
 */
#ifndef PD_PACK_IGNORE_H
#define PD_PACK_IGNORE_H

#include <stddef.h>

#include "base/err.h"

struct pack_ignore {
    struct pack_rule *rules;
    size_t n;
};

/* Read DIR/.paddleignore; without one the list is empty. */
int pack_ignore_load(struct pack_ignore *ig, const char *dir, struct pd_err *err);
void pack_ignore_release(struct pack_ignore *ig);
/* `path` is relative to the top, without slashes around it. */
int pack_ignore_match(const struct pack_ignore *ig, const char *path, int is_dir);

#endif
