/* SPDX-License-Identifier: Apache-2.0 */
/* term.h - what the terminal can do. */
#pragma once

/* 1 if `fd` is a terminal on which lines can be overwritten. 0 if TERM is dumb or unset. */
int term_is_live(int fd);

/* 1 if colours may be written to `fd`: a live terminal, and NO_COLOR (https://no-color.org) is
 * unset or empty. */
int term_has_colour(int fd);

/* 1: the user's locale is UTF-8 (LC_ALL, LC_CTYPE, LANG). */
int term_is_utf8(void);

/* 1 if this process may write to the terminal `fd` as it likes; 0 if it is in the background. */
int term_is_foreground(int fd);

int term_width(int fd);  /* columns; 80 when unknown */
int term_limit(int fd);  /* columns of a terminal; 0: no terminal, so lines have no limit */
int term_height(int fd); /* lines; 24 when unknown */

/* The columns that UTF-8 text takes, by wcwidth; "\033[..m" takes none, an invalid byte takes one.
 * main has set LC_CTYPE to a UTF-8 locale. */
size_t term_columns(const char *p, size_t n);
/* The number of bytes at the beginning of the text that fit into `columns`. */
size_t term_fit(const char *p, size_t n, size_t columns);
