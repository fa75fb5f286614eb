/* SPDX-License-Identifier: Apache-2.0 */
/* fold_lines.h - equal lines about several hosts, each once with the folded names of its hosts:
 *
 *     gpu-07: cannot connect to port 22: No route to host
 *     gpu-08: cannot connect to port 22: No route to host    ─▶    gpu-[07-08]: cannot connect ...
 */
#pragma once

struct fold_line {
    const char *before; /* in front of the name; NULL: nothing */
    const char *name;   /* of the host */
    const char *more;   /* behind the name of a single host only, " (node 7)"; NULL: nothing */
    const char *text;   /* the rest; NULL: the host has no line */
};

/* A folded line: `before`, `who` and `text` follow each other. */
typedef void fold_on_line(void *arg, const char *before, const char *who, const char *text,
                          size_t n_hosts);

/* Call `fn` once for each different line, in the order of its first host. Texts that differ only in
 * the name of their host are equal. Without memory each host has its own line. */
void fold_lines(const struct fold_line *v, size_t n, fold_on_line *fn, void *arg);

/* A callback that prints "before who: text" to a FILE, which is `arg`. */
void fold_print(void *file, const char *before, const char *who, const char *text, size_t n_hosts);
