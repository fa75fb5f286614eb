/* SPDX-License-Identifier: Apache-2.0 */
/* near.h - bounds of float results that hold on every CPU, because they follow from the arithmetic.
 *
 * The order of BLAS's additions and its use of fused operations differ between core types. A sum of
 * n float products differs from the exact sum by at most n u S in any order. S is the sum of the
 * products' magnitudes, u is FLT_EPSILON / 2, and n u must be much smaller than 1.
 *   Source: Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., section 3.1.
 * For results that go into further sums, `struct num` carries the bound: a value in double, and the
 * largest difference of a float result from this value, to first order. Kernels of src/nn that do
 * not call BLAS give the same bits on all CPUs. */
#pragma once

#include <float.h>

/* The largest difference between two float sums of the same terms. */
static inline double sum_error(double n_additions, double magnitudes) {
    return n_additions * (double)FLT_EPSILON * magnitudes;
}

/* Every got[i] is within error[i] of want[i]; a failure names the worst element. */
static inline void assert_within(const char *what, const float *got, const double *want,
                                 const double *error, size_t n) {
    double most = 1;
    size_t worst = n;
    for (size_t i = 0; i < n; i++) {
        double off = fabs((double)got[i] - want[i]);
        if (off <= error[i])
            continue;
        double times = error[i] > 0 && isfinite(off) ? off / error[i] : INFINITY;
        worst = worst == n || times > most ? i : worst;
        most = fmax(most, times);
    }
    if (worst < n)
        fail_msg("%s: [%zu] is %.9g, not %.9g: may differ by %.2g", what, worst, (double)got[worst],
                 want[worst], error[worst]);
}

/* The same for float sums. magnitudes[i] is the sum of the absolute terms of got[i]. */
static inline void assert_near_sums(const char *what, const float *got, const double *want,
                                    const double *magnitudes, size_t n, double n_additions) {
    double *error = malloc(n * sizeof *error);
    assert_non_null(error);
    for (size_t i = 0; i < n; i++)
        error[i] = sum_error(n_additions, magnitudes[i]);
    assert_within(what, got, want, error, n);
    free(error);
}

/* Compares one number, for example a cost. */
static inline void assert_near(const char *what, double got, double want, double error) {
    if (!(fabs(got - want) <= error))
        fail_msg("%s is %.9g, not %.9g: may differ by %.2g", what, got, want, error);
}

struct num {
    double v, e; /* value, largest error */
};

static inline struct num num_of(float x) { return (struct num){(double)x, 0}; }

/* f(a), where `slope` is f'(a), and `ulps` is the error of the function itself. */
static inline struct num num_f(struct num a, double v, double slope, double ulps) {
    return (struct num){v, fabs(slope) * a.e + ulps * (double)FLT_EPSILON * fabs(v)};
}

static inline struct num num_mul(struct num a, struct num b) {
    double v = a.v * b.v;
    return (struct num){v, fabs(a.v) * b.e + fabs(b.v) * a.e + (double)FLT_EPSILON * fabs(v)};
}

/* A sum under construction: terms come in any order. */
struct num_sum {
    double v, e, magnitudes, n;
};

static inline void num_add(struct num_sum *s, struct num a) {
    s->v += a.v;
    s->e += a.e;
    s->magnitudes += fabs(a.v);
    s->n++;
}

static inline void num_add_product(struct num_sum *s, struct num a, struct num b) {
    num_add(s, num_mul(a, b));
}

static inline struct num num_total(const struct num_sum *s) {
    return (struct num){s->v, s->e + sum_error(s->n, s->magnitudes)};
}
