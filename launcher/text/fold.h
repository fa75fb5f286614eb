/* SPDX-License-Identifier: Apache-2.0 */
/* fold.h - folds host names to ranges, as clush and nodeset write them: "node[1-3,7],gpu-[01-04]".
 *
 * Names that differ only in numbers are folded into one; several numbers multiply
 * ("10.0.[0-1].[1-2]"). Expanding the result gives exactly the names, each once. Text that
 * hosts_parse would read differently is not folded: IPv6 addresses, names with brackets or commas,
 * the port behind a colon. */
#pragma once

/* The caller frees the result; NULL: out of memory. The order of the names and repeated names do
 * not matter. No names: "". */
char *fold_hosts(const char *const *names, size_t n);
