/* sampler.h - the ids that a layer draws for the samples of a feed, beside those that its fields
 * hold.
 *
 *   distribution   over the ids of a field: proportional to count^power, from a file (a line an id,
 * its last word is the count), or without one count = 1 / (id + 1): Zipf's law, for a dictionary by
 * falling frequency groups         neighbours in the feed whose (stream, index / share) are equal
 * are given the same n ids counter-based  they depend on (seed, pass, stream, index / share, layer)
 * only, not on how batches are cut
 */
#ifndef PD_NN_SAMPLER_H
#define PD_NN_SAMPLER_H

#include "nn/graph/graph_internal.h"

struct nn_alias;

struct nn_sampler {  /* of the graph */
    uint32_t number; /* the layer's */
    uint32_t n, share;
    struct nn_alias *alias;
    float *log_q; /* [vocabulary] log of the probability to be drawn; NULL: not wanted. Where it is
                     0, that of the rarest other */
};

struct nn_draw {     /* of a feed */
    uint64_t *ids;   /* [n_groups][n] */
    uint32_t *group; /* [samples] */
    uint32_t n_groups;
    size_t ids_cap, group_cap;
};

/* A sampler for `self`, drawing self->dim ids below `vocabulary`; share (default 1), counts
 * (relative to train.ini's folder) and power (default `power`) are its keys. Its number, or PD_E*.
 */
int nn_sampler_add(struct nn_build *b, const struct nn_node *self, uint64_t vocabulary,
                   double power, int log_q, struct pd_err *err);
void nn_samplers_free(struct nn_graph *g);
int nn_draw_fill(struct nn_draw *d, const struct nn_sampler *s,
                 const struct nn_feed *f); /* 0 or PD_ENOMEM */

#endif
