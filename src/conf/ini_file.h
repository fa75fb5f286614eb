/* SPDX-License-Identifier: Apache-2.0 */
/* ini_file.h - reads an INI file, with features that inih as packaged lacks: line numbers, long
 * lines, errors with file:line.
 *
 * Pairs are `name = value` or `name: value`. A comment begins with ` ;`, or is a line that starts
 * with ; or #. An indented line continues the value above, unless it looks like `name = ...`. The
 * name of a section may have brackets: [host node[1-3]]. Limits: lines 64 KiB, names 49 bytes,
 * names of sections 1000 bytes. */
#pragma once

/* Called for each pair in file order. A non-zero return stops the reading and is returned. The
 * message of such an error should begin with the place: "conf.ini:12: ...". */
typedef int (*pd_ini_pair)(void *arg, const char *section, const char *name, const char *value,
                           int line, struct pd_err *err);

/* Called for each section before its first pair, also for an empty section. */
typedef int (*pd_ini_section)(void *arg, const char *section, int line, struct pd_err *err);

/* Either callback may be NULL. 0; PD_ENOENT or PD_EIO for the file; PD_ECONF for its syntax or a
 * section name that is too long; or the code of a callback. */
int pd_ini_read(const char *path, pd_ini_section on_section, pd_ini_pair on_pair, void *arg,
                struct pd_err *err);
/* The same for a text of n bytes in memory; `name` is for messages. */
int pd_ini_read_text(const char *name, const char *text, size_t n, pd_ini_section on_section,
                     pd_ini_pair on_pair, void *arg, struct pd_err *err);

/* Calls `on_span` for each pair with its first line and the last line of its value. */
typedef void (*pd_ini_span)(void *arg, const char *section, const char *name, const char *value,
                            int first, int last);
int pd_ini_read_spans(const char *name, const char *text, size_t n, pd_ini_span on_span, void *arg,
                      struct pd_err *err);
