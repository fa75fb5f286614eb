/* act.c - the table of activations. Kernels are in kernel.c; here they only get one shape. */
#include "nn/internal.h"
#include "nn/kernel.h"

#define ELEMENTWISE(f)                                                                          \
    static void f##_forward(size_t m, size_t n, float *y, double *log_sum) {                    \
        (void)log_sum;                                                                          \
        nn_##f(m * n, y, y);                                                                    \
    }                                                                                           \
    static void f##_backward(size_t m, size_t n, const float *y, float *dy) { nn_##f##_grad(m * n, y, dy, dy); }

ELEMENTWISE(sigmoid)
ELEMENTWISE(tanh)
ELEMENTWISE(relu)

static void softmax_backward(size_t m, size_t n, const float *y, float *dy) { nn_softmax_grad(m, n, y, dy, dy); }

const struct nn_act nn_acts[] = {
    {"linear", NULL, NULL, 0, "y = x"},
    {"sigmoid", sigmoid_forward, sigmoid_backward, 0, "y = 1 / (1 + exp(-x))"},
    {"tanh", tanh_forward, tanh_backward, 0, "y = tanh(x)"},
    {"relu", relu_forward, relu_backward, 0, "y = max(x, 0)"},
    {"softmax", nn_softmax, softmax_backward, 1, "y = exp(x) / sum of exp(x) over the layer"},
    {NULL, NULL, NULL, 0, NULL},
};
