/* listing.h - what a package is made of, as text: its largest files when it is large, and what
 * --dry-run says. */
#ifndef LAUNCHER_LISTING_H
#define LAUNCHER_LISTING_H

#include <jansson.h>
#include <stdio.h>

#include "pack/scan/scan.h"

/* The ten largest files of a package of more than 100 MB, a line each, without a newline at the
 * end; NULL: it is small. To be freed. */
char *listing_of_large(const struct scan *s);

/* What was sent from this machine before, for a workspace: a file in $XDG_CACHE_HOME/paddlectl
 * (~/.cache). Written after a dispatch; a cache that can't be read or written only means that
 * everything counts as new. */
void listing_remember(const struct scan *s, const char *workspace);

/* --dry-run: what would travel to hosts that have what was sent before, the largest first, and why
 * (new, changed), then what is ignored. */
void listing_print(const struct scan *s, const char *workspace, FILE *out);
json_t *listing_json(const struct scan *s, const char *workspace);

#endif
