/* SPDX-License-Identifier: Apache-2.0 */
/* bar.h - the progress of a dispatch, or of a fetch. On a terminal it is a line below the output:
 *
 *     dispatch [========>------------]  41 %  6.6 MB of 16.0 MB  3 of 8 nodes  11.2 MB/s  ETA 2 s
 *     fetch  41 %  11.2 MB/s  ETA 2 s                               a narrow terminal
 *
 * A note may stand below it (the answer to a key). In a pipe it is a line every few seconds; with
 * --json it is an object now and then. Bytes and rate of a dispatch are those of the slowest node,
 * those of a fetch the sums over all nodes.
 */
#pragma once

#include "launcher/dispatch/dispatch.h"
#include "launcher/view/view.h"

struct bar {
    struct view *view;                    /* NULL: nothing is shown */
    void (*object)(void *arg, json_t *o); /* --json: takes the object; otherwise NULL */
    void *arg;
    uint64_t began_ms, shown_ms;
    int is_shown, n_lines;
    char note[100];
    uint64_t note_until_ms;
};

void bar_init(struct bar *b, struct view *view, void (*object)(void *arg, json_t *o), void *arg,
              uint64_t now_ms);
void bar_update(struct bar *b, const struct dispatch *d, uint64_t now_ms);
/* Remove the line. Print a summary if the dispatch took long enough or if a line was shown. */
void bar_end(struct bar *b, const struct dispatch *d, uint64_t now_ms);

/* Shows p, as bar_update does for a dispatch. */
void bar_show(struct bar *b, const char *what, const struct dispatch_progress *p, uint64_t now_ms);
void bar_wipe(struct bar *b); /* removes the line */
void bar_note(struct bar *b, const char *text, uint64_t until_ms);

/* "16.0 MB", "312 kB": decimal units */
const char *bar_bytes(uint64_t n, char out[24]);
