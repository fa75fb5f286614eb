/* SPDX-License-Identifier: Apache-2.0 */
/* glob.h - matches one pattern of a .gitignore against one path. Internal to src/pack. */
#pragma once

/* Understands * ? [...] and \ as in gitignore(5), and "**" between slashes or at an end. With
 * `is_path`, * ? [...] never match a slash; otherwise (names) "**" means "*". The time is bounded
 * by the length of the pattern times that of the path, for any pattern. */
int pack_glob(const char *pattern, const char *path, int is_path);
