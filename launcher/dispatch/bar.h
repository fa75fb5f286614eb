/* bar.h - how far a dispatch is, for people: on a terminal a line below the output,
 *
 *     dispatch [===========>----------------]  41 %  6.6 of 16.0 MB  3 of 8 nodes  11.2 MB/s  ETA 2
 * s
 *
 * in a pipe a line every few seconds, with --json an object now and then. Bytes and rate are the
 * slowest node's. */
#ifndef LAUNCHER_BAR_H
#define LAUNCHER_BAR_H

#include "launcher/dispatch/dispatch.h"
#include "launcher/view/view.h"

struct bar {
    struct view *view;                    /* may be NULL: nothing is shown */
    void (*object)(void *arg, json_t *o); /* --json: takes the object; else NULL */
    void *arg;
    uint64_t began_ms, shown_ms;
    int is_shown, n_lines;
};

void bar_init(struct bar *b, struct view *view, void (*object)(void *arg, json_t *o), void *arg,
              uint64_t now_ms);
void bar_update(struct bar *b, const struct dispatch *d, uint64_t now_ms);
/* Takes the line away; says what was done if it took long enough for that to be of interest, or if
 * a line was shown. */
void bar_end(struct bar *b, const struct dispatch *d, uint64_t now_ms);

/* "16.0 MB", "312 kB" (of 1000) */
const char *bar_bytes(uint64_t n, char out[24]);

#endif
