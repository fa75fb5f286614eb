/* SPDX-License-Identifier: Apache-2.0 */
/* ignore.h - .paddleignore: exactly the meaning of .gitignore, under another name. Internal to
 * src/pack.
 *
 * Every folder may have one; its patterns apply below that folder. Of all patterns that match a
 * path the last pattern of the deepest file decides. '!' includes again. Contents of an ignored
 * folder can't be included again, because the folder is not read. The list begins with ".git" and
 * "/output/" (left in the workspace by a training by hand); "!.git" and "!/output" send them all
 * the same. tests/unit/pack/test_pack_ignore.c compares with `git check-ignore`. */
#pragma once

#define PACK_IGNORE_FILE ".paddleignore"

struct pack_ignore {
    struct pack_rule *rules; /* by precedence: the last rule that matches decides */
    size_t n, cap;
};

/* Initialises the list with its first rules. PD_ENOMEM. */
int pack_ignore_init(struct pack_ignore *ig, struct pd_err *err);
void pack_ignore_release(struct pack_ignore *ig);

/* Enters the folder `rel` ("" is the top, otherwise without slashes around it) and reads its
 * .paddleignore, if it has one, through `dirfd`. To leave the folder, call pack_ignore_leave with
 * the value of `n` before. Messages call the folder `label`. */
int pack_ignore_enter(struct pack_ignore *ig, int dirfd, const char *rel, const char *label,
                      struct pd_err *err);
void pack_ignore_leave(struct pack_ignore *ig, size_t n);

/* Adds one line (without newline) of the .paddleignore of folder `rel`. */
int pack_ignore_add(struct pack_ignore *ig, const char *rel, const char *line, size_t n);

/* 1 if `path` (relative to the top, without slashes around it) is ignored. The caller has checked
 * the folders above it. */
int pack_ignore_match(const struct pack_ignore *ig, const char *path, int is_dir);
