/* optim.h - the optimizers a server can apply, one row of a table each. Formulas and sources:
 * docs/sources.md#optimizers.
 *
 * apply() gets the SUM of gradients over n_samples samples and makes of it
 *     g = clip(sum / n_samples) + l2 * w
 * which the optimizer's rule turns into the new w and state; last, with l1 > 0, w is moved towards
 * 0 by lr * l1, not beyond. Every operation is one correctly rounded float32 operation in this
 * order, so the bits do not depend on how the compiler vectorises it, nor on where a parameter is
 * cut. Only what is the same for all values of a step (bias corrections, the learning rate) is
 * computed in double beforehand.
 */
#ifndef PD_PS_OPTIM_H
#define PD_PS_OPTIM_H

#include <stddef.h>
#include <stdint.h>

#include "ps/plan/optim_conf.h"

struct ps_optim_args {
    float lr, l1, l2; /* lr: after schedule and factor */
    float n_samples;  /* at least 1 */
    float share; /* 1 / n_samples where that is exact and above 0, so that multiplying gives the
                    same bits; else 0. See ps_optim_args_samples */
    float epsilon, momentum, decay, beta1, beta2, beta;
    float clip;         /* INFINITY: none */
    float bias1, root2; /* 1 - beta1^t, 1 / sqrt(1 - beta2^t) at update t = 1, 2, ... */
};

enum { PS_OPTIM_STATES = 2 };

struct ps_optim {
    const char *name;
    uint32_t state; /* at most PS_OPTIM_STATES floats of state per value: state[k * stride + i] is
                       the k-th of value i; zeros at first */
    void (*apply)(const struct ps_optim_args *a, float *w, float *state, size_t stride,
                  const float *sum, size_t n);
    int sums;   /* its state is a sum over updates, so that what several trainers add to it can be
                   added up (geo) */
    int own_l1; /* l1 is part of the rule; there is no move towards 0 after it, nor for rows that no
                   step touches */
    double epsilon, decay; /* defaults */
    const char *text;
};

const struct ps_optim *ps_optim_find(const char *name); /* NULL: there is none of that name */
const struct ps_optim *ps_optim_at(size_t i);           /* the table's rows; NULL past the end */

int ps_all_finite(const float *v, size_t n); /* no NaN, no infinity */

/* The arguments of update t = 1, 2, ... with this learning rate; l1, l2 and n_samples are the
 * caller's to set. */
void ps_optim_args_init(struct ps_optim_args *a, const struct ps_optim_conf *c, double lr,
                        uint64_t t);

/* n at least 1. */
void ps_optim_args_samples(struct ps_optim_args *a, float n);

/* A running mean over updates, of what is no gradient: w += share * (sum / n_samples - w). */
void ps_optim_average(float share, float n_samples, float *w, const float *sum, size_t n);

/* apply() and the l1 step. */
void ps_optim_apply(const struct ps_optim *o, const struct ps_optim_args *a, float *w, float *state,
                    size_t stride, const float *sum, size_t n);

#endif
