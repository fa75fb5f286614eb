/* term.c - see term.h. */
#include "launcher/text/term.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

int term_is_live(int fd) {
    const char *term = getenv("TERM");
    return isatty(fd) && term && *term && strcmp(term, "dumb");
}

int term_has_colour(int fd) {
    const char *no = getenv("NO_COLOR");
    return term_is_live(fd) && !(no && *no);
}

int term_width(int fd) {
    struct winsize w;
    return !ioctl(fd, TIOCGWINSZ, &w) && w.ws_col >= 20 ? w.ws_col : 80;
}

int term_height(int fd) {
    struct winsize w;
    return !ioctl(fd, TIOCGWINSZ, &w) && w.ws_row >= 4 ? w.ws_row : 24;
}
