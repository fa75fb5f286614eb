/* SPDX-License-Identifier: Apache-2.0 */
/* checkgrad.h - compares gradients with finite differences over a whole graph (--job=checkgrad).
 *
 * Parameters are random, and so are samples if no batch is given. Up to `n_elements` elements of
 * each parameter are moved by +h and -h. The central difference of the cost, computed in double, is
 * compared with backward's gradient:
 *
 *     relative error = |analytic - numeric| / max(|analytic|, |numeric|, floor)
 *
 * checkgrad.c explains h and floor.
 */
#pragma once

#include "nn/graph/graph.h"

struct nn_check {
    const char *param;
    /* n_skipped: of these, elements with a value at the kink of its activation, where both sides
     * differ */
    uint64_t n_checked;
    uint64_t n_skipped;
    double max_relative; /* the worst element ... */
    /* ... and its index: row * cols + column; the row of a table is its id */
    uint64_t worst;
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

/* `report` is called once for each parameter, in their order. Returns 0 if all are ok, PD_EFAIL
 * with the worst parameter's name if one is not, PD_ENOMEM, PD_EDATA. */
int nn_checkgrad(const struct nn_graph *g, const struct nn_check_opts *opts,
                 void (*report)(void *arg, const struct nn_check *c), void *arg,
                 struct pd_err *err);
