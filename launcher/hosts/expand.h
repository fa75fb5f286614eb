/* expand.h - a host expression taken apart into single hosts, in the order written.
 *
 *     root@10.0.0.[1-9]:22, gpu-[01-16/2], rack[1-2]n[1-4], [fe80::1]:22, @web, @hosts.txt,
 * !gpu-05, local*3
 *
 * Items are separated by commas or blanks. Brackets hold numbers and ranges with an optional step,
 * as clustershell's; leading zeros pad; several brackets multiply. A bracket with a colon inside is
 * an IPv6 address. `!` takes hosts away from what stands before it in the same expression. `@NAME`
 * is a group of conf.ini's [groups], else a file: one expression a line, # begins a comment,
 * relative to conf.ini's folder, in a file relative to that file's, on the command line to the
 * current one.
 */
#ifndef LAUNCHER_EXPAND_H
#define LAUNCHER_EXPAND_H

#include <stddef.h>

#include "base/err.h"
#include "conf/options.h"

enum { HOSTS_MAX = 16384 };

struct expand_place {
    struct expand_place *next;
    char *item;  /* what the user wrote: "gpu-[01-16/2]" */
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

/* A single host's parts; they point into `text`. */
struct host_parts {
    const char *user, *addr;
    size_t n_user, n_addr; /* n_user 0: not given */
    int port;              /* 0: not given */
};

/* groups: those of `opts`, or none when it is NULL. `dir`: what @FILE is relative to; NULL: the
 * current folder. `globs`: hosts may hold
 * * and ?. On success the caller expanded_release()s *out; nothing is left after a failure:
 * PD_ECONF or PD_ENOMEM. */
int expand_hosts(struct expanded *out, const char *text, const char *where,
                 const struct pd_options *opts, const char *dir, int globs, struct pd_err *err);
void expanded_release(struct expanded *x);

/* "[user@]host[:port]" or "[user@][v6][:port]"; PD_ECONF with `where` in front. */
int host_split(const char *text, struct host_parts *out, int globs, const char *where,
               struct pd_err *err);

#endif
