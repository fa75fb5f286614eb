/* SPDX-License-Identifier: Apache-2.0 */
/* listing.h - the contents of a package as text: the largest files of a large package, and the
 * output of --dry-run. */
#pragma once

#include <jansson.h>

#include "pack/scan/scan.h"

/* File names may hold any byte: what a terminal must not get becomes "?" (pd_printable). */
void listing_put_name(struct pd_buf *b, const char *name);

/* The ten largest files of a package of more than 100 MB, one a line, without a final newline.
 * NULL: the package is smaller. The caller frees it. */
char *listing_of_large(const struct scan *s);

/* Record what was sent of a workspace: a file in $XDG_CACHE_HOME/paddlectl (~/.cache), written
 * after a dispatch. If the cache cannot be read or written, everything counts as new. */
void listing_remember(const struct scan *s, const char *workspace);

/* --dry-run: the files that would travel to hosts that have the last dispatch, the largest first,
 * with the reason (new, changed); then the ignored files. */
void listing_print(const struct scan *s, const char *workspace, FILE *out);
json_t *listing_json(const struct scan *s, const char *workspace);
