/* cache.h - what this machine remembers of a workspace, in $XDG_CACHE_HOME/paddlectl (~/.cache):
 * files that may go at any time. */
#ifndef LAUNCHER_CACHE_H
#define LAUNCHER_CACHE_H

#include <limits.h>

/* The file of this kind ("sent", "hashed") for a workspace; its folder is made. -1: there is no
 * place for it. */
int cache_file(const char *kind, const char *workspace, char out[PATH_MAX]);

#endif
