/* term.h - what the terminal can do. */
#ifndef LAUNCHER_TERM_H
#define LAUNCHER_TERM_H

/* 1 if `fd` is a terminal on which lines can be overwritten. 0 if TERM is dumb or unset. */
int term_is_live(int fd);

/* 1 if colours may be written to `fd`: a live terminal, and NO_COLOR (https://no-color.org) is
 * unset or empty. */
int term_has_colour(int fd);

int term_width(int fd);  /* columns; 80 when unknown */
int term_height(int fd); /* lines; 24 when unknown */

#endif
