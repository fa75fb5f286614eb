/* checkgrad.h - are the gradients those of the cost? Finite differences over a whole graph
 * (--job=checkgrad).
 *
 * Parameters and, without a batch, samples are random. Per parameter up to `n_elements` elements
 * are moved by
 * +-h and the cost's central difference, computed in double, is compared with what backward says.
 * relative error = |analytic - numeric| / max(|analytic|, |numeric|, floor); see checkgrad.c for h
 * and floor.
 */
#ifndef PD_NN_CHECKGRAD_H
#define PD_NN_CHECKGRAD_H

#include "nn/graph/graph.h"

struct nn_check {
    const char *param;
    uint64_t n_checked; /* and of these skipped, because a value is at the kink of its activation:
                           both sides differ */
    uint64_t n_skipped;
    double max_relative; /* the worst element ... */
    uint64_t worst;      /* ... its index (row * cols + column; row of a table = its id) */
    double analytic, numeric;
    int ok; /* max_relative <= threshold */
};

struct nn_check_opts {
    uint64_t seed;
    uint32_t n_elements;          /* per parameter; 0: 40 */
    uint32_t batch_size;          /* of the random batch; 0: 8 */
    double threshold;             /* 0: NN_CHECK_THRESHOLD */
    const struct pd_batch *batch; /* NULL: random samples */
};

#define NN_CHECK_THRESHOLD 5e-3

/* `report` is called once per parameter, in their order. Returns 0 when all are ok, PD_EFAIL naming
 * the worst parameter when one is not, PD_ENOMEM, PD_EDATA. */
int nn_checkgrad(const struct nn_graph *g, const struct nn_check_opts *opts,
                 void (*report)(void *arg, const struct nn_check *c), void *arg,
                 struct pd_err *err);

#endif
