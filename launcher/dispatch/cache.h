/* SPDX-License-Identifier: Apache-2.0 */
/* cache.h - what this machine remembers of a workspace, in $XDG_CACHE_HOME/paddlectl (~/.cache).
 * The user may delete these files at any time. */
#pragma once

/* The path of the cache file of this kind ("sent", "hashed") for a workspace; makes its folder. -1:
 * no place for a cache. */
int cache_file(const char *kind, const char *workspace, char out[PATH_MAX]);
