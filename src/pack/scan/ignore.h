/* ignore.h - .paddleignore: what .gitignore means, to the letter, under another name. Internal to
 * src/pack.
 *
 * Every folder may have one; its patterns count below that folder. Of all patterns that match a
 * path the last one of the deepest file decides; '!' takes back; what lies in an ignored folder
 * can't be taken back, since nobody looks there. The list begins with ".git" and "/output/" (what a
 * training by hand leaves in the workspace), so that "!.git" and "!/output" send them all the same.
 * tests/unit/pack/test_pack_ignore.c compares with `git check-ignore`.
 */
#ifndef PD_PACK_IGNORE_H
#define PD_PACK_IGNORE_H

#include <stddef.h>

#include "base/err.h"

#define PACK_IGNORE_FILE ".paddleignore"

struct pack_ignore {
    struct pack_rule *rules; /* in the order of their weight: the last one that matches decides */
    size_t n, cap;
};

/* With the rules that the list begins with. PD_ENOMEM. */
int pack_ignore_init(struct pack_ignore *ig, struct pd_err *err);
void pack_ignore_release(struct pack_ignore *ig);

/* Entering the folder `rel` ("" is the top, else without slashes around it), whose .paddleignore,
 * should there be one, is read through `dirfd`. Leaving it: pack_ignore_leave with the number that
 * `n` was before. `label` names the folder in messages. */
int pack_ignore_enter(struct pack_ignore *ig, int dirfd, const char *rel, const char *label,
                      struct pd_err *err);
void pack_ignore_leave(struct pack_ignore *ig, size_t n);

/* One line, without its newline, of the .paddleignore of folder `rel`. */
int pack_ignore_add(struct pack_ignore *ig, const char *rel, const char *line, size_t n);

/* 1: `path` (relative to the top, without slashes around it) is left out. Its folders are not. */
int pack_ignore_match(const struct pack_ignore *ig, const char *path, int is_dir);

#endif
