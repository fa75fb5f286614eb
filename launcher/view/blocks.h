/* SPDX-License-Identifier: Apache-2.0 */
/* blocks.h - the outputs of many hosts after all have finished: equal texts once, under the folded
 * names of their hosts.
 *
 *     node[1-3]: one line                 a text of one line
 *     ---------------
 *     node4                               a longer text, as clush -b and dshbak -c show it
 *     ---------------
 *     two
 *     lines
 */
#pragma once

#include "launcher/view/spool.h"

struct block {
    const char *name; /* of the host */
    struct spool *text;
    uint64_t size;
    uint8_t digest[SPOOL_DIGEST];
    int shown;
};

/* Print the blocks in the order of the first host of each; print nothing for an empty text. 0, or
 * PD_EIO if `f` or a text has failed. */
int blocks_show(struct block *v, size_t n, FILE *f, struct pd_err *err);

/* Print the bytes as a JSON string; bytes that are no UTF-8 become U+FFFD. 0 or -1. */
int blocks_json(const struct spool *s, FILE *f);
