/* term.h - what the terminal can do, asked in one place. */
#ifndef LAUNCHER_TERM_H
#define LAUNCHER_TERM_H

/* Is `fd` a terminal on which a line can be written over? No for TERM=dumb and TERM unset. */
int term_is_live(int fd);

/* May colours be written to `fd`? A live terminal, and NO_COLOR (https://no-color.org) is unset or
 * empty. */
int term_has_colour(int fd);

int term_width(int fd);  /* columns; 80 when unknown */
int term_height(int fd); /* lines; 24 when unknown */

#endif
