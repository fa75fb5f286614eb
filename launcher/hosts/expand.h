/* SPDX-License-Identifier: Apache-2.0 */
/* expand.h - expands a host expression to single hosts, in the order written.
 *
 *     root@10.0.0.[1-9]:22, gpu-[01-16/2], rack[1-2]n[1-4], [fe80::1]:22, @web, @hosts.txt,
 *     !gpu-05, local*3
 *
 * - Commas or blanks separate items.
 * - Brackets hold numbers and ranges with an optional step, as in clustershell. Leading zeros pad.
 *   Several brackets multiply. A bracket with a colon inside is an IPv6 address.
 * - `!` removes hosts from the list before it in the same expression.
 * - `@NAME` is a group of conf.ini's [groups], otherwise a file: one expression a line, # begins a
 *   comment. A relative path starts at conf.ini's folder; in a file at that file's folder; on the
 *   command line at the current folder.
 */
#pragma once

#include "conf/options.h"

enum { HOSTS_MAX = 16384 };

struct expand_place {
    struct expand_place *next;
    char *item;  /* as the user wrote it: "gpu-[01-16/2]" */
    char *where; /* "conf.ini:12" */
};

struct expanded {
    struct expanded_host {
        char *text; /* "root@10.0.0.7:22"; "local" */
        const struct expand_place *from;
    } * v;
    size_t n, cap;
    struct expand_place *places;
};

/* The parts of a single host; they point into its text. */
struct host_parts {
    const char *user, *addr;
    size_t n_user, n_addr; /* n_user 0: not given */
    int port;              /* 0: not given */
};

/* Expand `text`. `opts` has the groups; NULL: none. `dir`: folder that @FILE is relative to; NULL:
 * the current folder. `globs`: hosts may hold * and ?. On success the caller calls
 * expanded_release(out). On failure (PD_ECONF, PD_ENOMEM) there is nothing to release. */
int expand_hosts(struct expanded *out, const char *text, const char *where,
                 const struct pd_options *opts, const char *dir, int globs, struct pd_err *err);
void expanded_release(struct expanded *x);

/* Split "[user@]host[:port]" or "[user@][v6][:port]". PD_ECONF: the message begins with `where`. */
int host_split(const char *text, struct host_parts *out, int globs, const char *where,
               struct pd_err *err);
