/* SPDX-License-Identifier: Apache-2.0 */
/* test_nn_kernel_rows.c - products of selected rows, their gradients, and sigmoids with their
 * costs, compared with plain loops in double. The same source compiled for the baseline CPU must
 * give the same bits. */
#include <setjmp.h>

#include <cmocka.h>

#include "math/rng.h"
#include "nn/kernels/kernel_rows.h"

/* The plain clone, under other names. */
#define CPU_CLONES
#define nn_rows_dot plain_rows_dot
#define nn_rows_dot_grad plain_rows_dot_grad
#define nn_sigmoid_costs plain_sigmoid_costs
__attribute__((noinline)) void nn_rows_dot(size_t n, const uint32_t *row, size_t dim,
                                           const float *x, const float *y, float *z);
__attribute__((noinline)) void nn_rows_dot_grad(size_t n, const uint32_t *row, size_t dim,
                                                const float *g, const float *x, const float *y,
                                                float *dx, float *dy);
__attribute__((noinline)) void nn_sigmoid_costs(size_t m, size_t n, float *x, float *cost);
#include "nn/kernels/kernel_rows.c"
#undef nn_rows_dot
#undef nn_rows_dot_grad
#undef nn_sigmoid_costs

enum { ROWS = 7, N = 11, MOST_DIM = 112 };

static void normal(uint64_t which, float *x, size_t n) {
    pd_rng_normal(pd_rng_key(5, PD_RNG_CHECK, which, 0), 0, x, n);
}

static void products_of_rows_and_their_gradient(void **state) {
    (void)state;
    static const uint32_t row[N] = {3, 0, 6, 3, 3, 1, 5, 2, 6, 6, 4};
    static const size_t dims[] = {16, 48, 112};
    float x[ROWS * MOST_DIM], y[MOST_DIM], g[N], z[2][N], dx[2][ROWS * MOST_DIM], dy[2][MOST_DIM];
    for (size_t k = 0; k < sizeof dims / sizeof dims[0]; k++) {
        size_t dim = dims[k];
        assert_int_equal(nn_row_padded(dim - 15), dim);
        normal(1, x, ROWS * dim);
        normal(2, y, dim);
        normal(3, g, N);
        for (int i = 0; i < 2; i++) {
            normal(4, dx[i], ROWS * dim);
            normal(5, dy[i], dim);
        }
        double want_x[ROWS * MOST_DIM], want_y[MOST_DIM];
        for (size_t j = 0; j < ROWS * dim; j++)
            want_x[j] = (double)dx[0][j];
        for (size_t j = 0; j < dim; j++)
            want_y[j] = (double)dy[0][j];
        nn_rows_dot(N, row, dim, x, y, z[0]);
        plain_rows_dot(N, row, dim, x, y, z[1]);
        nn_rows_dot_grad(N, row, dim, g, x, y, dx[0], dy[0]);
        plain_rows_dot_grad(N, row, dim, g, x, y, dx[1], dy[1]);
        assert_memory_equal(z[0], z[1], sizeof z[0]);
        assert_memory_equal(dx[0], dx[1], ROWS * dim * sizeof(float));
        assert_memory_equal(dy[0], dy[1], dim * sizeof(float));
        for (size_t i = 0; i < N; i++) {
            double sum = 0;
            for (size_t d = 0; d < dim; d++) {
                sum += (double)x[row[i] * dim + d] * (double)y[d];
                want_x[row[i] * dim + d] += (double)g[i] * (double)y[d];
                want_y[d] += (double)g[i] * (double)x[row[i] * dim + d];
            }
            if (!(fabs((double)z[0][i] - sum) < 1e-5))
                fail_msg("product %zu of %zu: %g, not %g", i, dim, (double)z[0][i], sum);
        }
        for (size_t j = 0; j < ROWS * dim; j++)
            if (!(fabs((double)dx[0][j] - want_x[j]) < 1e-5))
                fail_msg("dx %zu of %zu: %g, not %g", j, dim, (double)dx[0][j], want_x[j]);
        for (size_t j = 0; j < dim; j++)
            if (!(fabs((double)dy[0][j] - want_y[j]) < 1e-5))
                fail_msg("dy %zu of %zu: %g, not %g", j, dim, (double)dy[0][j], want_y[j]);
    }
}

static void sigmoids_and_costs(void **state) {
    (void)state;
    static const size_t widths[] = {1, 5, 16, 64, 96, 97, 250};
    float x[3 * 250], y[2][3 * 250], cost[2][3];
    for (size_t k = 0; k < sizeof widths / sizeof widths[0]; k++) {
        size_t n = widths[k];
        normal(6 + k, x, 3 * n);
        for (size_t j = 0; j < 3 * n; j++) /* the last row: from -120 to 120 */
            x[j] *= j < n ? 1 : j < 2 * n ? 10 : 30;
        memcpy(y[0], x, sizeof x);
        memcpy(y[1], x, sizeof x);
        nn_sigmoid_costs(3, n, y[0], cost[0]);
        plain_sigmoid_costs(3, n, y[1], cost[1]);
        assert_memory_equal(y[0], y[1], 3 * n * sizeof(float));
        assert_memory_equal(cost[0], cost[1], sizeof cost[0]);
        for (size_t i = 0; i < 3; i++) {
            double sum = 0;
            for (size_t j = 0; j < n; j++) {
                double v = (double)x[i * n + j], s = 1 / (1 + exp(-v));
                sum += v > 0 ? v + log1p(exp(-v)) : log1p(exp(v));
                if (!(fabs((double)y[0][i * n + j] - s) <= 5e-7 * s + 1e-37))
                    fail_msg("sigmoid(%g) is %g, not %g", v, (double)y[0][i * n + j], s);
            }
            if (!(fabs((double)cost[0][i] - sum) <= 2e-7 * ((double)n + sum)))
                fail_msg("%zu costs: %.9g, not %.9g", n, (double)cost[0][i], sum);
        }
    }
    float bad[20] = {[7] = NAN}, c;
    nn_sigmoid_costs(1, 20, bad, &c);
    assert_true(isnan(bad[7]) && isnan(c) && bad[6] == 0.5f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_of_rows_and_their_gradient),
        cmocka_unit_test(sigmoids_and_costs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
