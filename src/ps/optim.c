/* optim.c - see optim.h. Plain loops over restrict pointers: gcc vectorises them; sqrt and division are exact. */
#include "ps/optim.h"

#include <math.h>
#include <string.h>

static void sgd(const struct ps_optim_args *a, float *restrict w, float *state, size_t stride,
                const float *restrict sum, size_t n) {
    (void)state;
    (void)stride;
    const float lr = a->lr, l2 = a->l2, m = a->n_samples;
    for (size_t i = 0; i < n; i++) {
        float g = sum[i] / m + l2 * w[i];
        w[i] -= lr * g;
    }
}

static void adagrad(const struct ps_optim_args *a, float *restrict w, float *restrict G, size_t stride,
                    const float *restrict sum, size_t n) {
    (void)stride;
    const float lr = a->lr, l2 = a->l2, eps = a->eps, m = a->n_samples;
    for (size_t i = 0; i < n; i++) {
        float g = sum[i] / m + l2 * w[i];
        G[i] += g * g;
        w[i] -= lr * g / (sqrtf(G[i]) + eps);
    }
}

static const struct ps_optim table[] = {
    {"sgd", 0, sgd, "w -= lr * g"},
    {"adagrad", 1, adagrad, "G += g*g; w -= lr * g / (sqrt(G) + eps)"},
};

const struct ps_optim *ps_optim_at(size_t i) { return i < sizeof table / sizeof table[0] ? &table[i] : NULL; }

const struct ps_optim *ps_optim_find(const char *name) {
    for (size_t i = 0; ps_optim_at(i); i++)
        if (!strcmp(table[i].name, name))
            return &table[i];
    return NULL;
}
