/* optim.h - the optimizers a server can apply, one row each. Formulas: docs/protocol.md, "Optimizers".
 *
 * apply() gets the SUM of gradients over n_samples samples:  g = sum / n_samples + l2 * w,  then
 *     sgd       w -= lr * g
 *     adagrad   G += g * g;  w -= lr * g / (sqrt(G) + eps)
 * Every operation is one correctly rounded float32 operation in this order, so the bits do not depend on how the compiler
 * vectorises it, nor on where a parameter is cut.
 */
#ifndef PD_PS_OPTIM_H
#define PD_PS_OPTIM_H

#include <stddef.h>
#include <stdint.h>

struct ps_optim_args {
    float lr, eps, l2;
    float n_samples; /* at least 1 */
};

struct ps_optim {
    const char *name;
    uint32_t state; /* floats of state per value: state[k * stride + i] is the k-th of value i */
    void (*apply)(const struct ps_optim_args *a, float *w, float *state, size_t stride, const float *sum, size_t n);
    const char *text;
};

const struct ps_optim *ps_optim_find(const char *name); /* NULL: there is none of that name */
const struct ps_optim *ps_optim_at(size_t i);           /* the table's rows; NULL past the end */

#endif
