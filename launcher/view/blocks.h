/* blocks.h - what many hosts said when they are done: equal texts once, below the folded names of
 * the hosts that said it.
 *
 *     node[1-3]: one line                 a text of one line
 *     ---------------
 *     node4                               a longer one, as clush -b and dshbak -c show it
 *     ---------------
 *     two
 *     lines
 */
#ifndef LAUNCHER_BLOCKS_H
#define LAUNCHER_BLOCKS_H

#include <stdio.h>

#include "launcher/view/spool.h"

struct block {
    const char *name; /* of the host */
    struct spool *text;
    uint64_t size;
    uint8_t digest[SPOOL_DIGEST];
    int shown;
};

/* In the order of the first of each; nothing for an empty text. 0, or PD_EIO when f or a text has
 * failed. */
int blocks_show(struct block *v, size_t n, FILE *f, struct pd_err *err);

/* The bytes as a JSON string, what is no UTF-8 as U+FFFD. 0 or -1. */
int blocks_json(const struct spool *s, FILE *f);

#endif
