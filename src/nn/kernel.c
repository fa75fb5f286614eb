/* kernel.c - see kernel.h.
 *
 * `v16` is the compiler's portable vector: in each clone it becomes as many registers as that CPU needs, with the
 * same operations per element. Rows whose length is no multiple of 16 end in a padded vector that goes through the
 * very same operations.
 *
 * exp: x = k ln2 + r with |r| <= ln2/2 (Cody and Waite's two-part ln2), a polynomial for e^r, and k added to the
 * exponent. Coefficients of exp and tanh: S. Moshier, Cephes Math Library, expf.c and tanhf.c.
 */
#include "nn/kernel.h"

#include <math.h>
#include <string.h>

#ifdef CLONES /* a test compiles this file once more, for the plainest CPU, and compares bits */
#elif defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define CLONES /* sanitizers start after the resolvers that clones need */
#endif
#define INLINE static inline __attribute__((always_inline))

enum { LANES = 16 };
typedef float v16 __attribute__((vector_size(64)));
typedef int32_t i16v __attribute__((vector_size(64)));

/* A macro, so that no vector travels through a call: the ABI of that differs between the clones. */
#define LOAD(v, p) memcpy(&(v), (p), sizeof(v16))
#define STORE(p, v) memcpy((p), &(v), sizeof(v16))
#define SPLAT(f) ((v16){} + (f))
#define SELECT(mask, a, b) ((v16)(((mask) & (i16v)(a)) | (~(mask) & (i16v)(b))))

/* --- functions of one vector --------------------------------------------------------------------- */

/* These take and give pointers for the reason above; inlined, they cost nothing. */

INLINE void exp16(const v16 *px, v16 *py) {
    const v16 x = *px;
    const v16 lo = SPLAT(-87.33654f), hi = SPLAT(88.37626f);
    v16 c = SELECT(x < lo, lo, x);
    c = SELECT(c > hi, hi, c);
    /* Adding 1.5*2^23 rounds to an integer, which then stands in the low bits. */
    v16 t = c * 1.44269504088896341f + 12582912.0f;
    v16 k = t - 12582912.0f;
    v16 r = c - k * 0.693359375f;
    r = r - k * -2.12194440e-4f;
    v16 p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    v16 y = p * (v16)(((i16v)t + (127 - 0x4b400000)) << 23);
    y = SELECT(x < lo, SPLAT(0.0f), y);
    *py = SELECT(x > hi, SPLAT(INFINITY), y);
}

INLINE void abs16(const v16 *px, v16 *py) { *py = (v16)((i16v)*px & 0x7fffffff); }

/* 1/(1+e^-|x|), or that times e^-|x| for negative x: no overflow, and small values keep their digits. */
INLINE void sigmoid16(const v16 *px, v16 *py) {
    v16 a, e;
    abs16(px, &a);
    a = -a;
    exp16(&a, &e);
    v16 s = 1.0f / (1.0f + e);
    *py = SELECT(*px < SPLAT(0.0f), e * s, s);
}

INLINE void tanh16(const v16 *px, v16 *py) {
    const v16 x = *px;
    v16 a, e;
    abs16(px, &a);
    v16 m = a * -2.0f;
    exp16(&m, &e);
    v16 big = (1.0f - e) / (1.0f + e);
    big = (v16)((i16v)big | ((i16v)x & (int32_t)0x80000000));
    v16 z = x * x;
    v16 p = z * -5.70498872745e-3f + 2.06390887954e-2f;
    p = p * z + -5.37397155531e-2f;
    p = p * z + 1.33314422036e-1f;
    p = p * z + -3.33332819422e-1f;
    p = p * z * x + x;
    *py = SELECT(a < SPLAT(0.625f), p, big);
}

INLINE void relu16(const v16 *px, v16 *py) { *py = SELECT(*px < SPLAT(0.0f), SPLAT(0.0f), *px); }

INLINE void sigmoid_grad16(const v16 *y, const v16 *dy, v16 *dx) { *dx = *dy * (*y * (1.0f - *y)); }
INLINE void tanh_grad16(const v16 *y, const v16 *dy, v16 *dx) { *dx = *dy * (1.0f - *y * *y); }
INLINE void relu_grad16(const v16 *y, const v16 *dy, v16 *dx) { *dx = SELECT(*y > SPLAT(0.0f), *dy, SPLAT(0.0f)); }

/* max(x, 0) + log(1 + e^-|x|). log u of u = 1 + e in [1, 2] by Cephes' logf, times e / (u - 1), which makes up for what 1 + e lost. */
INLINE void softplus16(const v16 *px, v16 *py) {
    v16 a, e;
    abs16(px, &a);
    a = -a;
    exp16(&a, &e);
    v16 u = 1.0f + e;
    i16v big = u > SPLAT(1.41421356f);
    v16 x = SELECT(big, u * 0.5f, u) - 1.0f, z = x * x;
    v16 p = x * 7.0376836292e-2f - 1.1514610310e-1f;
    p = p * x + 1.1676998740e-1f;
    p = p * x - 1.2420140846e-1f;
    p = p * x + 1.4249322787e-1f;
    p = p * x - 1.6668057665e-1f;
    p = p * x + 2.0000714765e-1f;
    p = p * x - 2.4999993993e-1f;
    p = p * x + 3.3333331174e-1f;
    v16 l = p * x * z - z * 0.5f;
    l = SELECT(big, l - 2.12194440e-4f, l) + x;
    l = SELECT(big, l + 0.693359375f, l);
    v16 lost = u - 1.0f;
    l = SELECT(lost == SPLAT(0.0f), e, l * (e / lost));
    *py = SELECT(*px < SPLAT(0.0f), l, *px + l);
}

/* x (1 + tanh t) / 2 = x sigmoid(2 t), t = sqrt(2/pi) (x + 0.044715 x^3) */
INLINE void gelu16(const v16 *px, v16 *py) {
    const v16 x = *px;
    v16 t = (x + x * x * x * 0.044715f) * 1.5957691216f, s;
    sigmoid16(&t, &s);
    *py = x * s;
}

INLINE void leaky_relu16(const v16 *px, v16 *py) { *py = SELECT(*px < SPLAT(0.0f), *px * 0.01f, *px); }

INLINE void softplus_grad16(const v16 *x, const v16 *dy, v16 *dx) {
    v16 s;
    sigmoid16(x, &s);
    *dx = *dy * s;
}

INLINE void gelu_grad16(const v16 *px, const v16 *dy, v16 *dx) {
    const v16 x = *px;
    v16 t = (x + x * x * x * 0.044715f) * 1.5957691216f, s;
    sigmoid16(&t, &s);
    v16 dt = (x * x * 0.134145f + 1.0f) * 1.5957691216f;
    *dx = *dy * (s + x * s * (1.0f - s) * dt);
}

INLINE void leaky_relu_grad16(const v16 *y, const v16 *dy, v16 *dx) { *dx = SELECT(*y > SPLAT(0.0f), *dy, *dy * 0.01f); }

/* The loops around them: whole vectors, then one padded with zeros. */
#define MAP1(name, f16)                                                                                      \
    CLONES void name(size_t n, const float *x, float *y) {                                                   \
        size_t i = 0;                                                                                        \
        v16 a, b;                                                                                            \
        for (; i + LANES <= n; i += LANES) {                                                                 \
            LOAD(a, x + i);                                                                                  \
            f16(&a, &b);                                                                                     \
            STORE(y + i, b);                                                                                 \
        }                                                                                                    \
        if (i < n) {                                                                                         \
            a = SPLAT(0.0f);                                                                                 \
            memcpy(&a, x + i, (n - i) * sizeof(float));                                                      \
            f16(&a, &b);                                                                                     \
            memcpy(y + i, &b, (n - i) * sizeof(float));                                                      \
        }                                                                                                    \
    }

#define MAP2(name, f16)                                                                                      \
    CLONES void name(size_t n, const float *y, const float *dy, float *dx) {                                 \
        size_t i = 0;                                                                                        \
        v16 a, b, c;                                                                                         \
        for (; i + LANES <= n; i += LANES) {                                                                 \
            LOAD(a, y + i);                                                                                  \
            LOAD(b, dy + i);                                                                                 \
            f16(&a, &b, &c);                                                                                 \
            STORE(dx + i, c);                                                                                \
        }                                                                                                    \
        if (i < n) {                                                                                         \
            a = b = SPLAT(0.0f);                                                                             \
            memcpy(&a, y + i, (n - i) * sizeof(float));                                                      \
            memcpy(&b, dy + i, (n - i) * sizeof(float));                                                     \
            f16(&a, &b, &c);                                                                                 \
            memcpy(dx + i, &c, (n - i) * sizeof(float));                                                     \
        }                                                                                                    \
    }

MAP1(nn_exp, exp16)
MAP1(nn_sigmoid, sigmoid16)
MAP1(nn_tanh, tanh16)
MAP1(nn_relu, relu16)
MAP2(nn_sigmoid_grad, sigmoid_grad16)
MAP2(nn_tanh_grad, tanh_grad16)
MAP2(nn_relu_grad, relu_grad16)
MAP1(nn_softplus, softplus16)
MAP1(nn_gelu, gelu16)
MAP1(nn_leaky_relu, leaky_relu16)
MAP2(nn_softplus_grad, softplus_grad16)
MAP2(nn_gelu_grad, gelu_grad16)
MAP2(nn_leaky_relu_grad, leaky_relu_grad16)

/* --- rows ---------------------------------------------------------------------------------------- */

INLINE float sum_lanes(const v16 *v) {
    float a[LANES];
    memcpy(a, v, sizeof a);
    for (int half = LANES / 2; half; half /= 2)
        for (int i = 0; i < half; i++)
            a[i] += a[i + half];
    return a[0];
}

INLINE float max_lanes(const v16 *v) {
    float a[LANES], m;
    memcpy(a, v, sizeof a);
    m = a[0];
    for (int i = 1; i < LANES; i++)
        m = a[i] > m ? a[i] : m;
    return m;
}

INLINE float row_max(size_t n, const float *x) {
    v16 m = SPLAT(-INFINITY), v;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        LOAD(v, x + i);
        m = SELECT(v > m, v, m);
    }
    if (i < n) {
        v = SPLAT(-INFINITY);
        memcpy(&v, x + i, (n - i) * sizeof(float));
        m = SELECT(v > m, v, m);
    }
    return max_lanes(&m);
}

/* x = exp(x - max) and their sum. The padding's exp(-inf) is 0. */
INLINE float row_exp_sum(size_t n, float *x, float max) {
    v16 s = SPLAT(0.0f), v;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        LOAD(v, x + i);
        v = v - max;
        exp16(&v, &v);
        STORE(x + i, v);
        s = s + v;
    }
    if (i < n) {
        v = SPLAT(-INFINITY);
        memcpy(&v, x + i, (n - i) * sizeof(float));
        v = v - max;
        exp16(&v, &v);
        memcpy(x + i, &v, (n - i) * sizeof(float));
        s = s + v;
    }
    return sum_lanes(&s);
}

CLONES void nn_softmax(size_t m, size_t n, float *x, double *log_sum) {
    for (size_t r = 0; r < m; r++, x += n) {
        float max = row_max(n, x);
        float sum = row_exp_sum(n, x, max);
        float scale = 1.0f / sum;
        for (size_t j = 0; j < n; j++)
            x[j] *= scale;
        if (log_sum)
            log_sum[r] = (double)max + log((double)sum);
    }
}

CLONES void nn_softmax_grad(size_t m, size_t n, const float *y, const float *dy, float *dx) {
    for (size_t r = 0; r < m; r++, y += n, dy += n, dx += n) {
        v16 s = SPLAT(0.0f), a, b;
        size_t i = 0;
        for (; i + LANES <= n; i += LANES) {
            LOAD(a, y + i);
            LOAD(b, dy + i);
            s = s + a * b;
        }
        if (i < n) {
            a = b = SPLAT(0.0f);
            memcpy(&a, y + i, (n - i) * sizeof(float));
            memcpy(&b, dy + i, (n - i) * sizeof(float));
            s = s + a * b;
        }
        float dot = sum_lanes(&s);
        for (size_t j = 0; j < n; j++)
            dx[j] = y[j] * (dy[j] - dot);
    }
}

void nn_fill_rows(size_t m, size_t n, const float *row, float *y) {
    for (size_t i = 0; i < m; i++)
        memcpy(y + i * n, row, n * sizeof(float));
}

CLONES void nn_add(size_t n, const float *x, float *y) {
    for (size_t i = 0; i < n; i++)
        y[i] += x[i];
}

CLONES void nn_add_clear(size_t n, float *restrict x, float *restrict y) {
    for (size_t i = 0; i < n; i++) {
        y[i] += x[i];
        x[i] = 0;
    }
}

CLONES void nn_axpy(size_t n, float a, const float *x, float *y) {
    for (size_t i = 0; i < n; i++)
        y[i] += a * x[i];
}

CLONES void nn_times(size_t n, float a, const float *x, float *y) {
    for (size_t i = 0; i < n; i++)
        y[i] = a * x[i];
}

CLONES void nn_mul_add(size_t n, const float *a, const float *b, float *y) {
    for (size_t i = 0; i < n; i++)
        y[i] += a[i] * b[i];
}

CLONES float nn_dot(size_t n, const float *x, const float *y) {
    v16 s = SPLAT(0.0f), a, b;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        LOAD(a, x + i);
        LOAD(b, y + i);
        s = s + a * b;
    }
    if (i < n) {
        a = b = SPLAT(0.0f);
        memcpy(&a, x + i, (n - i) * sizeof(float));
        memcpy(&b, y + i, (n - i) * sizeof(float));
        s = s + a * b;
    }
    return sum_lanes(&s);
}

CLONES float nn_sum(size_t n, const float *x) {
    v16 s = SPLAT(0.0f), a;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        LOAD(a, x + i);
        s = s + a;
    }
    if (i < n) {
        a = SPLAT(0.0f);
        memcpy(&a, x + i, (n - i) * sizeof(float));
        s = s + a;
    }
    return sum_lanes(&s);
}

CLONES void nn_scale(size_t n, float a, float *y) {
    for (size_t i = 0; i < n; i++)
        y[i] *= a;
}

CLONES void nn_mul(size_t n, const float *a, const float *b, float *y) {
    for (size_t i = 0; i < n; i++)
        y[i] = a[i] * b[i];
}

CLONES void nn_sum_rows(size_t m, size_t n, const float *x, float *y) {
    for (size_t i = 0; i < m; i++, x += n)
        for (size_t j = 0; j < n; j++)
            y[j] += x[j];
}

size_t nn_argmax(size_t n, const float *x) {
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        if (x[i] > x[best] || (isnan(x[best]) && !isnan(x[i])))
            best = i;
    return best;
}
