/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_rows.c - see kernel_rows.h. Vectors have 8 floats: gcc makes slow code for vectors wider
 * than a register. */
#include "nn/kernels/kernel_rows.h"

#include "math/cpu_clones.h"

typedef float v8 __attribute__((vector_size(32)));
#define LOAD(v, p) memcpy(&(v), (p), sizeof(v8))
#define STORE(p, v) memcpy((p), &(v), sizeof(v8))

CPU_CLONES void nn_rows_dot(size_t n, const uint32_t *row, size_t dim, const float *x,
                            const float *y, float *z) {
    for (size_t i = 0; i < n; i++) {
        const float *r = x + row[i] * dim;
        v8 lo = {0}, hi = {0}, a, b;
        for (size_t d = 0; d < dim; d += NN_ROW) {
            LOAD(a, r + d);
            LOAD(b, y + d);
            lo = lo + a * b;
            LOAD(a, r + d + 8);
            LOAD(b, y + d + 8);
            hi = hi + a * b;
        }
        lo = lo + hi;
        typedef float v4 __attribute__((vector_size(16)));
        v4 l, h;
        memcpy(&l, &lo, sizeof l);
        memcpy(&h, (const char *)&lo + sizeof l, sizeof h);
        l = l + h;
        z[i] = (l[0] + l[2]) + (l[1] + l[3]);
    }
}

CPU_CLONES void nn_rows_dot_grad(size_t n, const uint32_t *row, size_t dim, const float *g,
                                 const float *x, const float *y, float *dx, float *dy) {
    for (size_t i = 0; i < n; i++) {
        const float *r = x + row[i] * dim, f = g[i];
        float *to = dx + row[i] * dim;
        v8 a, b;
        for (size_t d = 0; d < dim; d += 8) {
            LOAD(a, to + d);
            LOAD(b, y + d);
            a = a + b * f;
            STORE(to + d, a);
            LOAD(a, dy + d);
            LOAD(b, r + d);
            a = a + b * f;
            STORE(dy + d, a);
        }
    }
}

/* e^-|x| as in nn_exp, in plain C: the compiler vectorizes loops over it for each clone. */
static inline __attribute__((always_inline)) float exp_minus_abs(float x) {
    float a = -fabsf(x);
    a = a < -87.33654f ? -87.33654f : a;
    float t = a * 1.44269504088896341f + 12582912.0f, k = t - 12582912.0f, scale;
    float r = a - k * 0.693359375f;
    r = r - k * -2.12194440e-4f;
    float p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    int32_t bits;
    memcpy(&bits, &t, sizeof bits);
    bits = (int32_t)((uint32_t)(bits + (127 - 0x4b400000)) << 23);
    memcpy(&scale, &bits, sizeof scale);
    return p * scale;
}

CPU_CLONES void nn_sigmoid_costs(size_t m, size_t n, float *x, float *cost) {
    enum {
        LANES = 16,
        MOST = 96
    }; /* a factor is at most 2, so the product of MOST factors is finite */
    for (size_t i = 0; i < m; i++, x += n) {
        double sum = 0;
        for (size_t from = 0; from < n; from += MOST) {
            const size_t some = n - from < MOST ? n - from : MOST;
            float *y = x + from, u[MOST], above[MOST], product[LANES], linear[LANES];
            for (size_t j = 0; j < some; j++) {
                float e = exp_minus_abs(y[j]), s = 1 / (1 + e);
                u[j] = 1 + e;
                above[j] = y[j] > 0 ? y[j] : 0;
                y[j] = y[j] < 0 ? e * s : s;
            }
            for (size_t j = some; j < MOST; j++) {
                u[j] = 1;
                above[j] = 0;
            }
            for (size_t l = 0; l < LANES; l++) {
                product[l] = u[l];
                linear[l] = above[l];
            }
            for (size_t j = LANES; j < some; j += LANES)
                for (size_t l = 0; l < LANES; l++) {
                    product[l] *= u[j + l];
                    linear[l] += above[j + l];
                }
            for (size_t half = LANES / 2; half; half /= 2)
                for (size_t l = 0; l < half; l++) {
                    product[l] *= product[l + half];
                    linear[l] += linear[l + half];
                }
            sum += (double)linear[0] + log((double)product[0]);
        }
        cost[i] = (float)sum;
    }
}
