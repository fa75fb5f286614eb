/* SPDX-License-Identifier: Apache-2.0 */
/* sampler.h - draws ids for the samples of a feed, for layers that need ids beyond their fields'.
 *
 * - Distribution over the ids of a field: proportional to count^power. The counts come from a file
 *   (a line for each id; its last word is the count). Without a file, count = 1 / (id + 1): Zipf's
 *   law, for a dictionary sorted by falling frequency.
 * - Groups: neighbours in the feed with equal (stream, index / share) share the same n ids.
 * - Counter-based: the ids depend on (seed, pass, stream, index / share, layer) only, not on how
 *   batches are cut.
 */
#pragma once

#include "nn/graph/graph_internal.h"

struct nn_alias;

struct nn_sampler {  /* of the graph */
    uint32_t number; /* of the layer */
    uint32_t n, share;
    struct nn_alias *alias;
    /* [vocabulary] log of the probability to be drawn; an id that is never drawn has that of the
     * rarest other id. NULL: not needed */
    float *log_q;
};

struct nn_draw {     /* of a feed */
    uint64_t *ids;   /* [n_groups][n] */
    uint32_t *group; /* [samples] */
    uint32_t n_groups;
    size_t ids_cap, group_cap;
};

/* Add a sampler for `self` that draws self->dim ids below `vocabulary`. Its keys: share (default
 * 1), counts (relative to train.ini's folder), power (default `power`). Returns its number, or
 * PD_E*. */
int nn_sampler_add(struct nn_build *b, const struct nn_node *self, uint64_t vocabulary,
                   double power, int log_q, struct pd_err *err);
void nn_samplers_free(struct nn_graph *g);
/* 0 or PD_ENOMEM */
int nn_draw_fill(struct nn_draw *d, const struct nn_sampler *s, const struct nn_feed *f);
