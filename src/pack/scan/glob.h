/* glob.h - how one pattern of a .gitignore matches one path. Internal to src/pack. */
#ifndef PD_PACK_GLOB_H
#define PD_PACK_GLOB_H

/* * ? [...] and \ as in gitignore(5), and "**" between slashes or at an end. `is_path`: * ? [...]
 * never match a slash; else, for names, "**" is "*". Time is bounded by pattern times path,
 * whatever the pattern. */
int pack_glob(const char *pattern, const char *path, int is_path);

#endif
