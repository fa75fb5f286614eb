/* SPDX-License-Identifier: Apache-2.0 */
/* optim.c - see optim.h. gcc vectorises plain loops over restrict pointers; its vector sqrt and
 * division are exact. */
#include "ps/plan/optim.h"

#include "math/cpu_clones.h"

#define RULE(name)                                                                               \
    CPU_CLONES static void name(const struct ps_optim_args *a, float *restrict w,                \
                                float *restrict state, size_t stride, const float *restrict sum, \
                                size_t n)

/* The test looks at the bits: gcc adds integers in vectors, but floats only one after the other. */
CPU_CLONES int ps_all_finite(const float *v, size_t n) {
    const uint32_t exponent = 0x7f800000u;
    uint32_t bad = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, v + i, sizeof bits);
        bad |= (bits & exponent) == exponent;
    }
    return !bad;
}

/* The gradient that every rule starts from. A NaN passes through. */
static inline float gradient(const struct ps_optim_args *a, float sum, float w) {
    float g = a->share > 0 ? sum * a->share : sum / a->n_samples;
    g = g > a->clip ? a->clip : g;
    g = g < -a->clip ? -a->clip : g;
    return g + a->l2 * w;
}

RULE(sgd) {
    (void)state;
    (void)stride;
    const struct ps_optim_args c = *a;
    for (size_t i = 0; i < n; i++)
        w[i] -= c.lr * gradient(&c, sum[i], w[i]);
}

RULE(momentum) {
    (void)stride;
    const struct ps_optim_args c = *a;
    for (size_t i = 0; i < n; i++) {
        float g = gradient(&c, sum[i], w[i]);
        state[i] = c.momentum * state[i] - c.lr * g;
        w[i] += state[i];
    }
}

RULE(nesterov) {
    (void)stride;
    const struct ps_optim_args c = *a;
    for (size_t i = 0; i < n; i++) {
        float g = gradient(&c, sum[i], w[i]);
        state[i] = c.momentum * state[i] - c.lr * g;
        w[i] += c.momentum * state[i] - c.lr * g;
    }
}

RULE(adagrad) {
    (void)stride;
    const struct ps_optim_args c = *a;
    for (size_t i = 0; i < n; i++) {
        float g = gradient(&c, sum[i], w[i]);
        state[i] += g * g;
        w[i] -= c.lr * g / (sqrtf(state[i]) + c.epsilon);
    }
}

/* RMSprop uses the same decayed sum of squares with other defaults. */
RULE(decayed_adagrad) {
    (void)stride;
    const struct ps_optim_args c = *a;
    const float rest = 1 - c.decay;
    for (size_t i = 0; i < n; i++) {
        float g = gradient(&c, sum[i], w[i]);
        state[i] = c.decay * state[i] + rest * (g * g);
        w[i] -= c.lr * g / (sqrtf(state[i]) + c.epsilon);
    }
}

RULE(rmsprop_centered) {
    const struct ps_optim_args c = *a;
    const float rest = 1 - c.decay;
    float *restrict mean = state + stride;
    for (size_t i = 0; i < n; i++) {
        float g = gradient(&c, sum[i], w[i]);
        state[i] = c.decay * state[i] + rest * (g * g);
        mean[i] = c.decay * mean[i] + rest * g;
        float var = state[i] - mean[i] * mean[i];
        w[i] -=
            c.lr * g / (sqrtf(var > 0 ? var : 0) + c.epsilon); /* rounding can make var negative */
    }
}

RULE(adadelta) {
    const struct ps_optim_args c = *a;
    const float rest = 1 - c.decay;
    float *restrict moved = state + stride;
    for (size_t i = 0; i < n; i++) {
        float g = gradient(&c, sum[i], w[i]);
        state[i] = c.decay * state[i] + rest * (g * g);
        float d = sqrtf(moved[i] + c.epsilon) / sqrtf(state[i] + c.epsilon) * g;
        moved[i] = c.decay * moved[i] + rest * (d * d);
        w[i] -= c.lr * d;
    }
}

/* The corrections of m and v are factors outside the loop, since a division costs as much as the
 * other operations of the loop together. */
RULE(adam) {
    const struct ps_optim_args c = *a;
    const float rest1 = 1 - c.beta1, rest2 = 1 - c.beta2, lr = c.lr / c.bias1;
    float *restrict v = state + stride;
    for (size_t i = 0; i < n; i++) {
        float g = gradient(&c, sum[i], w[i]);
        state[i] = c.beta1 * state[i] + rest1 * g;
        v[i] = c.beta2 * v[i] + rest2 * (g * g);
        w[i] -= lr * state[i] / (sqrtf(v[i]) * c.root2 + c.epsilon);
    }
}

RULE(adamax) {
    const struct ps_optim_args c = *a;
    const float rest1 = 1 - c.beta1, lr = c.lr / c.bias1;
    float *restrict u = state + stride;
    for (size_t i = 0; i < n; i++) {
        float g = gradient(&c, sum[i], w[i]), ug = c.beta2 * u[i], ag = fabsf(g);
        state[i] = c.beta1 * state[i] + rest1 * g;
        u[i] = ug > ag ? ug : ag;
        w[i] -= lr * state[i] / (u[i] + c.epsilon);
    }
}

/* FTRL has l1 and l2 in its closed form, so its gradient has no l2 term. */
RULE(ftrl) {
    const struct ps_optim_args c = *a;
    struct ps_optim_args plain = *a;
    plain.l2 = 0;
    float *restrict z = state + stride;
    for (size_t i = 0; i < n; i++) {
        float g = gradient(&plain, sum[i], 0), before = sqrtf(state[i]);
        state[i] += g * g;
        float root = sqrtf(state[i]);
        z[i] += g - (root - before) / c.lr * w[i];
        float over = z[i] > 0 ? z[i] - c.l1 : z[i] + c.l1,
              outside = fabsf(z[i]) > c.l1 ? 1.0f : 0.0f;
        w[i] = -outside * over / ((c.beta + root) / c.lr + c.l2);
    }
}

static const struct ps_optim table[] = {
    {"sgd", 0, sgd, 0, 0, 0, 0, "w -= lr * g"},
    {"momentum", 1, momentum, 0, 0, 0, 0, "v = momentum * v - lr * g; w += v"},
    {"nesterov", 1, nesterov, 0, 0, 0, 0, "v = momentum * v - lr * g; w += momentum * v - lr * g"},
    {"adagrad", 1, adagrad, 1, 0, 1e-6, 0, "G += g*g; w -= lr * g / (sqrt(G) + epsilon)"},
    {"decayed_adagrad", 1, decayed_adagrad, 0, 0, 1e-6, 0.95,
     "G = decay * G + (1-decay) * g*g; w -= lr * g / (sqrt(G) + epsilon)"},
    {"adadelta", 2, adadelta, 0, 0, 1e-6, 0.95,
     "G as above; d = sqrt(D + epsilon) / sqrt(G + epsilon) * g; D = decay * D + (1-decay) * d*d; "
     "w -= lr * d"},
    {"rmsprop", 1, decayed_adagrad, 0, 0, 1e-8, 0.99,
     "G = decay * G + (1-decay) * g*g; w -= lr * g / (sqrt(G) + epsilon)"},
    {"rmsprop_centered", 2, rmsprop_centered, 0, 0, 1e-8, 0.99,
     "G as above; M = decay * M + (1-decay) * g; w -= lr * g / (sqrt(G - M*M) + epsilon)"},
    {"adam", 2, adam, 0, 0, 1e-8, 0,
     "m = beta1 * m + (1-beta1) * g; v = beta2 * v + (1-beta2) * g*g; w -= lr * m/(1-beta1^t) / "
     "(sqrt(v/(1-beta2^t)) + epsilon)"},
    {"adamax", 2, adamax, 0, 0, 1e-8, 0,
     "m as above; u = max(beta2 * u, |g|); w -= lr/(1-beta1^t) * m / (u + epsilon)"},
    {"ftrl", 2, ftrl, 0, 1, 0, 0,
     "z += g - (sqrt(n + g*g) - sqrt(n))/lr * w; n += g*g; w = |z| <= l1 ? 0 : -(z - sign(z) l1) / "
     "((beta + sqrt(n))/lr + l2)"},
};

const struct ps_optim *ps_optim_at(size_t i) {
    return i < sizeof table / sizeof table[0] ? &table[i] : NULL;
}

const struct ps_optim *ps_optim_find(const char *name) {
    for (size_t i = 0; ps_optim_at(i); i++)
        if (!strcmp(table[i].name, name))
            return &table[i];
    return NULL;
}

void ps_optim_args_init(struct ps_optim_args *a, const struct ps_optim_conf *c, double lr,
                        uint64_t t) {
    *a = (struct ps_optim_args){
        .lr = (float)lr,
        .n_samples = 1,
        .epsilon = (float)c->epsilon,
        .momentum = (float)c->momentum,
        .decay = (float)c->decay,
        .beta1 = (float)c->beta1,
        .beta2 = (float)c->beta2,
        .beta = (float)c->beta,
        .clip = c->clip_value > 0 ? (float)c->clip_value : INFINITY,
        .bias1 = (float)(1 - pow(c->beta1, (double)t)),
        .root2 = (float)(1 / sqrt(1 - pow(c->beta2, (double)t))),
    };
}

void ps_optim_args_samples(struct ps_optim_args *a, float n) {
    int exponent;
    a->n_samples = n;
    a->share = frexpf(n, &exponent) == 0.5f ? 1 / n : 0;
}

void ps_optim_average(float share, float n_samples, float *restrict w, const float *restrict sum,
                      size_t n) {
    for (size_t i = 0; i < n; i++)
        w[i] += share * (sum[i] / n_samples - w[i]);
}

void ps_optim_apply(const struct ps_optim *o, const struct ps_optim_args *a, float *w, float *state,
                    size_t stride, const float *sum, size_t n) {
    if (o->own_l1 && a->lr == 0) /* ftrl divides by lr, which is 0 at the start of a warm-up */
        return;
    o->apply(a, w, state, stride, sum, n);
    if (a->l1 <= 0 || o->own_l1)
        return;
    const float step = a->lr * a->l1;
    for (size_t i = 0; i < n; i++) {
        float v = fabsf(w[i]) - step;
        w[i] = copysignf(v > 0 ? v : 0, w[i]);
    }
}
