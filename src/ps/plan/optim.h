/* SPDX-License-Identifier: Apache-2.0 */
/* optim.h - the optimizers that a server can apply, one row of a table each. Formulas and sources:
 * docs/sources.md#optimizers.
 *
 * apply() gets the SUM of gradients over n_samples samples and computes
 *     g = clip(sum / n_samples) + l2 * w
 * The optimizer's rule turns g into the new w and state. Last, if l1 > 0, w is moved towards 0 by
 * lr * l1, but not past 0.
 *
 * Each step of the formula is one correctly rounded float32 operation, in this order. The bits
 * therefore depend neither on the compiler's vectorisation nor on where a parameter is cut. Only
 * numbers that are the same for all values of a step (bias corrections, the learning rate) are
 * computed in double beforehand. */
#pragma once

#include "ps/plan/optim_conf.h"

struct ps_optim_args {
    float lr, l1, l2; /* lr: after schedule and the parameter's factor */
    float n_samples;  /* at least 1 */
    float share;      /* 1 / n_samples if that is exact, so that multiplying gives the same bits as
                         dividing; else 0. Set by ps_optim_args_samples */
    float epsilon, momentum, decay, beta1, beta2, beta;
    float clip;         /* INFINITY: none */
    float bias1, root2; /* 1 - beta1^t, 1 / sqrt(1 - beta2^t) at update t = 1, 2, ... */
};

enum { PS_OPTIM_STATES = 2 };

struct ps_optim {
    const char *name;
    uint32_t state; /* floats of state per value, at most PS_OPTIM_STATES; state[k * stride + i] is
                       the k-th of value i; initially 0 */
    void (*apply)(const struct ps_optim_args *a, float *w, float *state, size_t stride,
                  const float *sum, size_t n);
    int sums;   /* 1: the state is a sum over updates, so the additions of several trainers can be
                   added up (geo) */
    int own_l1; /* 1: l1 is part of the rule, so the separate move towards 0 is left out, also for
                   rows that no step touches */
    double epsilon, decay; /* defaults */
    const char *text;
};

const struct ps_optim *ps_optim_find(const char *name); /* NULL: unknown name */
const struct ps_optim *ps_optim_at(size_t i);           /* row i of the table; NULL past the end */

int ps_all_finite(const float *v, size_t n); /* no NaN, no infinity */

/* Sets the arguments of update t = 1, 2, ... at learning rate lr. The caller sets l1, l2 and the
 * number of samples. */
void ps_optim_args_init(struct ps_optim_args *a, const struct ps_optim_conf *c, double lr,
                        uint64_t t);

/* Sets n_samples and share. n is at least 1. */
void ps_optim_args_samples(struct ps_optim_args *a, float n);

/* Updates a running mean of values that are not gradients: w += share * (sum / n_samples - w). */
void ps_optim_average(float share, float n_samples, float *w, const float *sum, size_t n);

/* Calls apply() and does the l1 step. w, state and sum have n values; state has o->state planes of
 * `stride` floats. */
void ps_optim_apply(const struct ps_optim *o, const struct ps_optim_args *a, float *w, float *state,
                    size_t stride, const float *sum, size_t n);
