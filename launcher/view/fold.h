/* fold.h - host names folded into ranges, as clush and nodeset write them:
 * "node[1-3,7],gpu-[01-04]".
 *
 * Names that differ in numbers only become one; several numbers multiply ("10.0.[0-1].[1-2]").
 * Expanding the text again gives exactly the names, each once. What hosts_parse would read
 * otherwise is left as it is: IPv6 addresses, names with brackets or commas, the port behind a
 * colon. */
#ifndef LAUNCHER_FOLD_H
#define LAUNCHER_FOLD_H

#include <stddef.h>

/* The caller's to free; NULL when out of memory. Order and repeats of the names do not matter; no
 * names: "". */
char *fold_hosts(const char *const *names, size_t n);

#endif
