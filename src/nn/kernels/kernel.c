/* SPDX-License-Identifier: Apache-2.0 */
/* kernel.c - see kernel.h.
 *
 * `v8` is the compiler's portable vector. It is as wide as AVX2's registers. A wider vector would
 * be slow: gcc splits comparisons of vectors that no register holds into scalar ones (16 floats
 * with AVX2: softmax takes four times as long). On CPUs with narrower registers v8 pays this price.
 * A row that ends within a vector ends in a padded vector, which goes through the same operations.
 *
 * exp: x = k ln2 + r with |r| <= ln2/2 (Cody and Waite's two-part ln2), a polynomial for e^r, and k
 * added to the exponent. Coefficients of exp and tanh: S. Moshier, Cephes Math Library, expf.c and
 * tanhf.c. */
#include "nn/kernels/kernel.h"

#include "math/cpu_clones.h"

#define INLINE static inline __attribute__((always_inline))

enum { LANES = 8 };
typedef float v8 __attribute__((vector_size(32)));
typedef int32_t i8v __attribute__((vector_size(32)));

/* A macro, since no vector may cross a call: the ABI for vectors differs between the clones. */
#define LOAD(v, p) memcpy(&(v), (p), sizeof(v8))
#define STORE(p, v) memcpy((p), &(v), sizeof(v8))
#define SPLAT(f) ((v8){} + (f))
#define SELECT(mask, a, b) ((v8)(((mask) & (i8v)(a)) | (~(mask) & (i8v)(b))))

/* --- functions of one vector --- */

/* These functions take pointers for the same reason. Inlined, the pointers cost nothing. */

INLINE void exp8(const v8 *px, v8 *py) {
    const v8 x = *px;
    const v8 lo = SPLAT(-87.33654f), hi = SPLAT(88.37626f);
    v8 c = SELECT(x < lo, lo, x);
    c = SELECT(c > hi, hi, c);
    /* Adding 1.5*2^23 rounds to an integer, which is then in the low bits. */
    v8 t = c * 1.44269504088896341f + 12582912.0f;
    v8 k = t - 12582912.0f;
    v8 r = c - k * 0.693359375f;
    r = r - k * -2.12194440e-4f;
    v8 p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    v8 y = p * (v8)(((i8v)t + (127 - 0x4b400000)) << 23);
    y = SELECT(x < lo, SPLAT(0.0f), y);
    *py = SELECT(x > hi, SPLAT(INFINITY), y);
}

INLINE void abs8(const v8 *px, v8 *py) { *py = (v8)((i8v)*px & 0x7fffffff); }

/* 1/(1+e^-|x|), for negative x times e^-|x|: no overflow, and small results keep their digits. */
INLINE void sigmoid8(const v8 *px, v8 *py) {
    v8 a, e;
    abs8(px, &a);
    a = -a;
    exp8(&a, &e);
    v8 s = 1.0f / (1.0f + e);
    *py = SELECT(*px < SPLAT(0.0f), e * s, s);
}

INLINE void tanh8(const v8 *px, v8 *py) {
    const v8 x = *px;
    v8 a, e;
    abs8(px, &a);
    v8 m = a * -2.0f;
    exp8(&m, &e);
    v8 big = (1.0f - e) / (1.0f + e);
    big = (v8)((i8v)big | ((i8v)x & (int32_t)0x80000000));
    v8 z = x * x;
    v8 p = z * -5.70498872745e-3f + 2.06390887954e-2f;
    p = p * z + -5.37397155531e-2f;
    p = p * z + 1.33314422036e-1f;
    p = p * z + -3.33332819422e-1f;
    p = p * z * x + x;
    *py = SELECT(a < SPLAT(0.625f), p, big);
}

INLINE void relu8(const v8 *px, v8 *py) { *py = SELECT(*px < SPLAT(0.0f), SPLAT(0.0f), *px); }

INLINE void sigmoid_grad8(const v8 *y, const v8 *dy, v8 *dx) { *dx = *dy * (*y * (1.0f - *y)); }
INLINE void tanh_grad8(const v8 *y, const v8 *dy, v8 *dx) { *dx = *dy * (1.0f - *y * *y); }
INLINE void relu_grad8(const v8 *y, const v8 *dy, v8 *dx) {
    *dx = SELECT(*y > SPLAT(0.0f), *dy, SPLAT(0.0f));
}

/* max(x, 0) + log(1 + e^-|x|). log u of u = 1 + e in [1, 2] is Cephes' logf. The factor e / (u - 1)
 * restores the digits of e that 1 + e lost. */
INLINE void softplus8(const v8 *px, v8 *py) {
    v8 a, e;
    abs8(px, &a);
    a = -a;
    exp8(&a, &e);
    v8 u = 1.0f + e;
    i8v big = u > SPLAT(1.41421356f);
    v8 x = SELECT(big, u * 0.5f, u) - 1.0f, z = x * x;
    v8 p = x * 7.0376836292e-2f - 1.1514610310e-1f;
    p = p * x + 1.1676998740e-1f;
    p = p * x - 1.2420140846e-1f;
    p = p * x + 1.4249322787e-1f;
    p = p * x - 1.6668057665e-1f;
    p = p * x + 2.0000714765e-1f;
    p = p * x - 2.4999993993e-1f;
    p = p * x + 3.3333331174e-1f;
    v8 l = p * x * z - z * 0.5f;
    l = SELECT(big, l - 2.12194440e-4f, l) + x;
    l = SELECT(big, l + 0.693359375f, l);
    v8 lost = u - 1.0f;
    l = SELECT(lost == SPLAT(0.0f), e, l * (e / lost));
    *py = SELECT(*px < SPLAT(0.0f), l, *px + l);
}

/* x (1 + tanh t) / 2 = x sigmoid(2 t), t = sqrt(2/pi) (x + 0.044715 x^3) */
INLINE void gelu8(const v8 *px, v8 *py) {
    const v8 x = *px;
    v8 t = (x + x * x * x * 0.044715f) * 1.5957691216f, s;
    sigmoid8(&t, &s);
    *py = x * s;
}

INLINE void leaky_relu8(const v8 *px, v8 *py) { *py = SELECT(*px < SPLAT(0.0f), *px * 0.01f, *px); }

INLINE void softplus_grad8(const v8 *x, const v8 *dy, v8 *dx) {
    v8 s;
    sigmoid8(x, &s);
    *dx = *dy * s;
}

INLINE void gelu_grad8(const v8 *px, const v8 *dy, v8 *dx) {
    const v8 x = *px;
    v8 t = (x + x * x * x * 0.044715f) * 1.5957691216f, s;
    sigmoid8(&t, &s);
    v8 dt = (x * x * 0.134145f + 1.0f) * 1.5957691216f;
    *dx = *dy * (s + x * s * (1.0f - s) * dt);
}

INLINE void leaky_relu_grad8(const v8 *y, const v8 *dy, v8 *dx) {
    *dx = SELECT(*y > SPLAT(0.0f), *dy, *dy * 0.01f);
}

/* The loops over these functions: whole vectors, then one padded with zeros. */
#define MAP1(name, f8)                                         \
    CPU_CLONES void name(size_t n, const float *x, float *y) { \
        size_t i = 0;                                          \
        v8 a, b;                                               \
        for (; i + LANES <= n; i += LANES) {                   \
            LOAD(a, x + i);                                    \
            f8(&a, &b);                                        \
            STORE(y + i, b);                                   \
        }                                                      \
        if (i < n) {                                           \
            a = SPLAT(0.0f);                                   \
            memcpy(&a, x + i, (n - i) * sizeof(float));        \
            f8(&a, &b);                                        \
            memcpy(y + i, &b, (n - i) * sizeof(float));        \
        }                                                      \
    }

#define MAP2(name, f8)                                                           \
    CPU_CLONES void name(size_t n, const float *y, const float *dy, float *dx) { \
        size_t i = 0;                                                            \
        v8 a, b, c;                                                              \
        for (; i + LANES <= n; i += LANES) {                                     \
            LOAD(a, y + i);                                                      \
            LOAD(b, dy + i);                                                     \
            f8(&a, &b, &c);                                                      \
            STORE(dx + i, c);                                                    \
        }                                                                        \
        if (i < n) {                                                             \
            a = b = SPLAT(0.0f);                                                 \
            memcpy(&a, y + i, (n - i) * sizeof(float));                          \
            memcpy(&b, dy + i, (n - i) * sizeof(float));                         \
            f8(&a, &b, &c);                                                      \
            memcpy(dx + i, &c, (n - i) * sizeof(float));                         \
        }                                                                        \
    }

MAP1(nn_exp, exp8)
MAP1(nn_sigmoid, sigmoid8)
MAP1(nn_tanh, tanh8)
MAP1(nn_relu, relu8)
MAP2(nn_sigmoid_grad, sigmoid_grad8)
MAP2(nn_tanh_grad, tanh_grad8)
MAP2(nn_relu_grad, relu_grad8)
MAP1(nn_softplus, softplus8)
MAP1(nn_gelu, gelu8)
MAP1(nn_leaky_relu, leaky_relu8)
MAP2(nn_softplus_grad, softplus_grad8)
MAP2(nn_gelu_grad, gelu_grad8)
MAP2(nn_leaky_relu_grad, leaky_relu_grad8)

/* --- rows --- */

/* Sums have 16 lanes, in two vectors. */
struct lane_sum {
    v8 lo, hi;
};

INLINE void sum_init(struct lane_sum *s) { s->lo = s->hi = SPLAT(0.0f); }

INLINE float sum_lanes(const struct lane_sum *s) {
    float a[2 * LANES];
    memcpy(a, &s->lo, sizeof s->lo);
    memcpy(a + LANES, &s->hi, sizeof s->hi);
    for (int half = LANES; half; half /= 2)
        for (int i = 0; i < half; i++)
            a[i] += a[i + half];
    return a[0];
}

/* The elements from i on as a vector, with `fill` behind element n - 1. */
INLINE void load_rest(size_t n, const float *x, size_t i, float fill, v8 *v) {
    *v = SPLAT(fill);
    if (i + LANES <= n)
        LOAD(*v, x + i);
    else if (i < n)
        memcpy(v, x + i, (n - i) * sizeof(float));
}

INLINE float row_max(size_t n, const float *x) {
    v8 m = SPLAT(-INFINITY), m2 = m, v;
    float a[LANES], max;
    size_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        LOAD(v, x + i);
        m = SELECT(v > m, v, m);
        LOAD(v, x + i + LANES);
        m2 = SELECT(v > m2, v, m2);
    }
    for (; i < n; i += LANES) {
        load_rest(n, x, i, -INFINITY, &v);
        m = SELECT(v > m, v, m);
    }
    m = SELECT(m2 > m, m2, m);
    memcpy(a, &m, sizeof a);
    max = a[0];
    for (int k = 1; k < LANES; k++)
        max = a[k] > max ? a[k] : max;
    return max;
}

INLINE void exp_part(size_t n, float *x, size_t i, float max, v8 *sum) {
    v8 v;
    load_rest(n, x, i, -INFINITY, &v); /* exp(-inf) is 0 */
    v = v - max;
    exp8(&v, &v);
    if (i + LANES <= n)
        STORE(x + i, v);
    else if (i < n)
        memcpy(x + i, &v, (n - i) * sizeof(float));
    *sum = *sum + v;
}

/* x = exp(x - max). Returns the sum. */
INLINE float row_exp_sum(size_t n, float *x, float max) {
    struct lane_sum s;
    v8 v;
    size_t i = 0;
    sum_init(&s);
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        LOAD(v, x + i);
        v = v - max;
        exp8(&v, &v);
        STORE(x + i, v);
        s.lo = s.lo + v;
        LOAD(v, x + i + LANES);
        v = v - max;
        exp8(&v, &v);
        STORE(x + i + LANES, v);
        s.hi = s.hi + v;
    }
    if (i < n) {
        exp_part(n, x, i, max, &s.lo);
        exp_part(n, x, i + LANES, max, &s.hi);
    }
    return sum_lanes(&s);
}

INLINE float row_dot(size_t n, const float *x, const float *y) {
    struct lane_sum s;
    v8 a, b;
    size_t i = 0;
    sum_init(&s);
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        LOAD(a, x + i);
        LOAD(b, y + i);
        s.lo = s.lo + a * b;
        LOAD(a, x + i + LANES);
        LOAD(b, y + i + LANES);
        s.hi = s.hi + a * b;
    }
    if (i < n) {
        load_rest(n, x, i, 0, &a);
        load_rest(n, y, i, 0, &b);
        s.lo = s.lo + a * b;
        load_rest(n, x, i + LANES, 0, &a);
        load_rest(n, y, i + LANES, 0, &b);
        s.hi = s.hi + a * b;
    }
    return sum_lanes(&s);
}

CPU_CLONES void nn_softmax(size_t m, size_t n, float *x, double *log_sum) {
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

CPU_CLONES void nn_softmax_grad(size_t m, size_t n, const float *y, const float *dy, float *dx) {
    for (size_t r = 0; r < m; r++, y += n, dy += n, dx += n) {
        float dot = row_dot(n, y, dy);
        for (size_t j = 0; j < n; j++)
            dx[j] = y[j] * (dy[j] - dot);
    }
}

void nn_fill_rows(size_t m, size_t n, const float *row, float *y) {
    for (size_t i = 0; i < m; i++)
        memcpy(y + i * n, row, n * sizeof(float));
}

CPU_CLONES void nn_add(size_t n, const float *x, float *y) {
    for (size_t i = 0; i < n; i++)
        y[i] += x[i];
}

CPU_CLONES void nn_add_clear(size_t n, float *restrict x, float *restrict y) {
    for (size_t i = 0; i < n; i++) {
        y[i] += x[i];
        x[i] = 0;
    }
}

CPU_CLONES void nn_axpy(size_t n, float a, const float *x, float *y) {
    for (size_t i = 0; i < n; i++)
        y[i] += a * x[i];
}

CPU_CLONES void nn_times(size_t n, float a, const float *x, float *y) {
    for (size_t i = 0; i < n; i++)
        y[i] = a * x[i];
}

CPU_CLONES void nn_mul_add(size_t n, const float *a, const float *b, float *y) {
    for (size_t i = 0; i < n; i++)
        y[i] += a[i] * b[i];
}

CPU_CLONES float nn_dot(size_t n, const float *x, const float *y) { return row_dot(n, x, y); }

CPU_CLONES float nn_sum(size_t n, const float *x) {
    struct lane_sum s;
    v8 a;
    size_t i = 0;
    sum_init(&s);
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        LOAD(a, x + i);
        s.lo = s.lo + a;
        LOAD(a, x + i + LANES);
        s.hi = s.hi + a;
    }
    if (i < n) {
        load_rest(n, x, i, 0, &a);
        s.lo = s.lo + a;
        load_rest(n, x, i + LANES, 0, &a);
        s.hi = s.hi + a;
    }
    return sum_lanes(&s);
}

CPU_CLONES void nn_scale(size_t n, float a, float *y) {
    for (size_t i = 0; i < n; i++)
        y[i] *= a;
}

CPU_CLONES void nn_mul(size_t n, const float *a, const float *b, float *y) {
    for (size_t i = 0; i < n; i++)
        y[i] = a[i] * b[i];
}

CPU_CLONES void nn_sum_rows(size_t m, size_t n, const float *x, float *y) {
    for (size_t i = 0; i < m; i++, x += n)
        for (size_t j = 0; j < n; j++)
            y[j] += x[j];
}

/* Inlined: rows are short, so a call for each would cost more than its arithmetic. */
INLINE void add_row(size_t n, const float *x, float *y) {
    size_t j = 0;
    for (v8 a, b; j + LANES <= n; j += LANES) {
        LOAD(a, x + j);
        LOAD(b, y + j);
        b = b + a;
        STORE(y + j, b);
    }
    for (; j < n; j++)
        y[j] += x[j];
}

INLINE void copy_row(size_t n, const float *x, float *y) {
    size_t j = 0;
    for (v8 a; j + LANES <= n; j += LANES) {
        LOAD(a, x + j);
        STORE(y + j, a);
    }
    for (; j < n; j++)
        y[j] = x[j];
}

CPU_CLONES void nn_gather_rows(size_t m, size_t n, const uint32_t *row, const float *w,
                               size_t stride, int add, float *y) {
    for (size_t i = 0; i < m; i++, y += stride) {
        const float *from = w + (size_t)row[i] * n;
        if (add)
            add_row(n, from, y);
        else
            copy_row(n, from, y);
    }
}

CPU_CLONES void nn_scatter_rows(size_t m, size_t n, const uint32_t *row, const float *dy,
                                size_t stride, float *g) {
    for (size_t i = 0; i < m; i++, dy += stride)
        add_row(n, dy, g + (size_t)row[i] * n);
}

size_t nn_argmax(size_t n, const float *x) {
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        if (x[i] > x[best] || (isnan(x[best]) && !isnan(x[i])))
            best = i;
    return best;
}
