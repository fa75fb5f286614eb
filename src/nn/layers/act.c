/* SPDX-License-Identifier: Apache-2.0 */
/* act.c - the table of activations. The arithmetic is in kernel.c. */
#include "nn/graph/graph_internal.h"
#include "nn/kernels/kernel.h"

#define ELEMENTWISE(f)                                                         \
    static void f##_forward(size_t m, size_t n, float *y, double *log_sum) {   \
        (void)log_sum;                                                         \
        nn_##f(m *n, y, y);                                                    \
    }                                                                          \
    static void f##_backward(size_t m, size_t n, const float *at, float *dy) { \
        nn_##f##_grad(m *n, at, dy, dy);                                       \
    }

ELEMENTWISE(sigmoid)
ELEMENTWISE(tanh)
ELEMENTWISE(relu)
ELEMENTWISE(leaky_relu)
ELEMENTWISE(softplus)
ELEMENTWISE(gelu)

static void softmax_backward(size_t m, size_t n, const float *y, float *dy) {
    nn_softmax_grad(m, n, y, dy, dy);
}

const struct nn_act nn_acts[] = {
    {"linear", NULL, NULL, 0, 0, 0, "y = x", "dx = dy"},
    {"sigmoid", sigmoid_forward, sigmoid_backward, 0, 0, 0, "y = 1 / (1 + exp(-x))",
     "dx = y (1 - y) dy"},
    {"tanh", tanh_forward, tanh_backward, 0, 0, 0, "y = tanh(x)", "dx = (1 - y^2) dy"},
    {"relu", relu_forward, relu_backward, 0, 1, 0, "y = max(x, 0)", "dx = dy, 0 where y = 0"},
    {"leaky_relu", leaky_relu_forward, leaky_relu_backward, 0, 1, 0, "y = x, below 0: 0.01 x",
     "dx = dy, below 0: 0.01 dy"},
    {"softplus", softplus_forward, softplus_backward, 0, 0, 1, "y = log(1 + exp(x))",
     "dx = dy / (1 + exp(-x))"},
    {"gelu", gelu_forward, gelu_backward, 0, 0, 1,
     "y = x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2", "the derivative of this formula"},
    {"softmax", nn_softmax, softmax_backward, 1, 0, 0, "y = exp(x) / sum of exp(x) over the layer",
     "dx = y (dy - sum of y dy over the layer)"},
    {NULL, NULL, NULL, 0, 0, 0, NULL, NULL},
};
