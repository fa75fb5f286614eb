/* ini_file.h - reading an INI file with what inih as packaged lacks: line numbers, long lines,
 * file:line errors.
 *
 * `name = value` and `name: value`; ` ;` begins a comment, as does a line that starts with ; or #.
 * An indented line continues the value above, unless it looks like `name = ...`. A section's name
 * may hold brackets: [host node[1-3]]. Lines up to 64 KiB, names up to 49 bytes, sections' names up
 * to 1000.
 */
#ifndef PD_CONF_INI_FILE_H
#define PD_CONF_INI_FILE_H

#include <stddef.h>

#include "base/err.h"

/* Called for each pair in file order. A non-zero return ends the reading with that code; the
 * message should begin with the place, "conf.ini:12: ...", which pd_ini_where prints. */
typedef int (*pd_ini_pair)(void *arg, const char *section, const char *name, const char *value,
                           int line, struct pd_err *err);

/* 0; PD_ENOENT or PD_EIO (the file), PD_ECONF (its syntax, or a section name that is cut), or
 * on_pair's code. */
int pd_ini_read(const char *path, pd_ini_pair on_pair, void *arg, struct pd_err *err);

/* The same of a text of n bytes that is here already; `name` is for messages. */
int pd_ini_read_text(const char *name, const char *text, size_t n, pd_ini_pair on_pair, void *arg,
                     struct pd_err *err);

/* The same, which also tells of each section, an empty one too, before its first pair. Either may
 * be NULL. */
typedef int (*pd_ini_section)(void *arg, const char *section, int line, struct pd_err *err);
int pd_ini_read_sections(const char *path, pd_ini_section on_section, pd_ini_pair on_pair,
                         void *arg, struct pd_err *err);

#endif
