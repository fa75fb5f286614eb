/* SPDX-License-Identifier: Apache-2.0 */
/* test_nn_kernel.c - elementwise functions compared with libm in double, and products with a plain
 * loop. The code compiled for the baseline CPU gives the same bits as the code that this CPU
 * selects. */
#include <setjmp.h>

#include <pthread.h>

#include <cmocka.h>

#include "math/rng.h"
#include "nn/kernels/kernel.h"
#include "tests/support/c/near.h"

/* The kernels without clones, under the names plain_*. */
#define CPU_CLONES
#define nn_exp plain_exp
#define nn_sigmoid plain_sigmoid
#define nn_tanh plain_tanh
#define nn_relu plain_relu
#define nn_sigmoid_grad plain_sigmoid_grad
#define nn_tanh_grad plain_tanh_grad
#define nn_relu_grad plain_relu_grad
#define nn_leaky_relu plain_leaky_relu
#define nn_softplus plain_softplus
#define nn_gelu plain_gelu
#define nn_leaky_relu_grad plain_leaky_relu_grad
#define nn_softplus_grad plain_softplus_grad
#define nn_gelu_grad plain_gelu_grad
#define nn_times plain_times
#define nn_mul_add plain_mul_add
#define nn_dot plain_dot
#define nn_gather_rows plain_gather_rows
#define nn_scatter_rows plain_scatter_rows
#define nn_sum plain_sum
#define nn_softmax plain_softmax
#define nn_softmax_grad plain_softmax_grad
#define nn_fill_rows plain_fill_rows
#define nn_add plain_add
#define nn_add_clear plain_add_clear
#define nn_axpy plain_axpy
#define nn_scale plain_scale
#define nn_mul plain_mul
#define nn_sum_rows plain_sum_rows
#define nn_argmax plain_argmax
#undef PD_NN_KERNEL_H
#include "nn/kernels/kernel.c"
#undef nn_exp
#undef nn_sigmoid
#undef nn_tanh
#undef nn_relu
#undef nn_sigmoid_grad
#undef nn_tanh_grad
#undef nn_relu_grad
#undef nn_leaky_relu
#undef nn_softplus
#undef nn_gelu
#undef nn_leaky_relu_grad
#undef nn_softplus_grad
#undef nn_gelu_grad
#undef nn_times
#undef nn_mul_add
#undef nn_dot
#undef nn_gather_rows
#undef nn_scatter_rows
#undef nn_sum
#undef nn_softmax
#undef nn_softmax_grad
#undef nn_fill_rows
#undef nn_add
#undef nn_add_clear
#undef nn_axpy
#undef nn_scale
#undef nn_mul
#undef nn_sum_rows
#undef nn_argmax

static double d_exp(double x) { return exp(x); }
static double d_sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double d_tanh(double x) { return tanh(x); }
static double d_relu(double x) { return x > 0 ? x : 0; }

static double d_softplus(double x) { return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)); }
static double d_leaky_relu(double x) { return x > 0 ? x : (double)0.01f * x; }
static double d_gelu(double x) {
    return x / (1 + exp(-1.5957691216057308 * (x + 0.044715 * x * x * x)));
}

static const struct function {
    const char *name;
    void (*fast)(size_t n, const float *x, float *y);
    void (*plain)(size_t n, const float *x, float *y);
    double (*exact)(double x);
    double lo, hi, ulp;
} functions[] = {
    {"exp", nn_exp, plain_exp, d_exp, -87.3, 88.3, 2},
    {"sigmoid", nn_sigmoid, plain_sigmoid, d_sigmoid, -87, 87, 4},
    {"sigmoid near 0", nn_sigmoid, plain_sigmoid, d_sigmoid, -2, 2, 4},
    {"tanh", nn_tanh, plain_tanh, d_tanh, -20, 20, 4},
    {"tanh near 0", nn_tanh, plain_tanh, d_tanh, -1, 1, 4},
    {"tanh at 0", nn_tanh, plain_tanh, d_tanh, -1e-6, 1e-6, 4},
    {"relu", nn_relu, plain_relu, d_relu, -3, 3, 0},
    {"leaky_relu", nn_leaky_relu, plain_leaky_relu, d_leaky_relu, -3, 3, 0.5},
    {"softplus", nn_softplus, plain_softplus, d_softplus, -80, 80, 5},
    {"softplus near 0", nn_softplus, plain_softplus, d_softplus, -2, 2, 5},
    {"gelu", nn_gelu, plain_gelu, d_gelu, -2, 20, 12},
};
enum { N_FUNCTIONS = sizeof functions / sizeof functions[0], SWEEP = 400003 };

static double ulps(float got, double want) {
    if ((double)got == want)
        return 0;
    int e;
    frexp(want, &e);
    return fabs((double)got - want) / ldexp(1, e - 24);
}

static void functions_are_as_near_as_promised(void **state) {
    (void)state;
    float *x = malloc(SWEEP * sizeof *x), *y = malloc(SWEEP * sizeof *y);
    for (int f = 0; f < N_FUNCTIONS; f++) {
        double worst = 0, at = 0;
        for (int i = 0; i < SWEEP; i++)
            x[i] = (float)(functions[f].lo + (functions[f].hi - functions[f].lo) * i / (SWEEP - 1));
        functions[f].fast(SWEEP, x, y);
        for (int i = 0; i < SWEEP; i++) {
            double u = ulps(y[i], functions[f].exact((double)x[i]));
            if (!(u <= worst)) {
                worst = u;
                at = (double)x[i];
            }
        }
        if (!(worst <= functions[f].ulp))
            fail_msg("%s: %.2f ulp at %.9g, promised %g", functions[f].name, worst, at,
                     functions[f].ulp);
    }
    free(x);
    free(y);
}

static void functions_have_the_right_ends(void **state) {
    (void)state;
    const float in[] = {-INFINITY, -1000, -88, 89, 1000, INFINITY, 0};
    const float want_exp[] = {0, 0, 0, INFINITY, INFINITY, INFINITY, 1};
    const float want_sigmoid[] = {0, 0, 0, 1, 1, 1, 0.5f};
    const float want_tanh[] = {-1, -1, -1, 1, 1, 1, 0};
    float y[7];
    nn_exp(7, in, y);
    for (int i = 0; i < 7; i++)
        assert_true(y[i] == want_exp[i]);
    nn_sigmoid(7, in, y);
    for (int i = 0; i < 7; i++)
        assert_true(y[i] == want_sigmoid[i]);
    nn_tanh(7, in, y);
    for (int i = 0; i < 7; i++)
        assert_true(y[i] == want_tanh[i]);
    for (int f = 0; f < N_FUNCTIONS; f++) {
        float nan = NAN;
        functions[f].fast(1, &nan, &nan);
        if (!isnan(nan))
            fail_msg("%s(NaN) is %g", functions[f].name, (double)nan);
    }
}

static void every_length_is_the_same_and_nothing_behind_it_is_touched(void **state) {
    (void)state;
    float x[80], whole[80], y[80];
    for (int i = 0; i < 80; i++)
        x[i] = (float)(i - 40) * 0.37f;
    for (int f = 0; f < N_FUNCTIONS; f++) {
        functions[f].fast(80, x, whole);
        for (size_t n = 0; n < 70; n++) {
            for (int i = 0; i < 80; i++)
                y[i] = 12345;
            functions[f].fast(n, x, y);
            assert_memory_equal(y, whole, n * sizeof *y);
            for (size_t i = n; i < 80; i++)
                assert_true(y[i] == 12345);
        }
    }
}

static void fill(float *x, size_t n, uint64_t which, float scale) {
    pd_rng_normal(pd_rng_key(7, PD_RNG_CHECK, which, 0), 0, x, n);
    for (size_t i = 0; i < n; i++)
        x[i] *= scale;
}

enum { ROWS = 5, COLS = 3192 };

static void softmax_is_a_distribution_and_knows_its_log_sum(void **state) {
    (void)state;
    static const struct {
        const char *name;
        size_t n;
        float scale, shift;
    } rows[] = {{"one", 1, 1, 0},        {"seventeen", 17, 3, 0},     {"vocabulary", COLS, 2, 0},
                {"huge", COLS, 3, 1e4f}, {"very low", 100, 3, -1e4f}, {"far apart", 50, 300, 0}};
    static float x[ROWS * COLS], y[ROWS * COLS];
    double log_sum[ROWS];
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        size_t n = rows[r].n;
        fill(x, ROWS * n, r, rows[r].scale);
        for (size_t i = 0; i < ROWS * n; i++)
            x[i] += rows[r].shift;
        memcpy(y, x, ROWS * n * sizeof *x);
        nn_softmax(ROWS, n, y, log_sum);
        for (size_t i = 0; i < ROWS; i++) {
            double max = -INFINITY, sum = 0, total = 0;
            for (size_t j = 0; j < n; j++)
                max = fmax(max, (double)x[i * n + j]);
            for (size_t j = 0; j < n; j++)
                sum += exp((double)x[i * n + j] - max);
            for (size_t j = 0; j < n; j++) {
                double want = exp((double)x[i * n + j] - max) / sum;
                total += (double)y[i * n + j];
                if (fabs((double)y[i * n + j] - want) > 2e-6 * want + 1e-37)
                    fail_msg("%s: [%zu,%zu] is %g, not %g", rows[r].name, i, j,
                             (double)y[i * n + j], want);
            }
            if (fabs(total - 1) > 1e-5 || fabs(log_sum[i] - (max + log(sum))) > 2e-6)
                fail_msg("%s: row %zu sums to %.9g, log sum %.9g, not %.9g", rows[r].name, i, total,
                         log_sum[i], max + log(sum));
        }
    }
    float bad[20] = {0};
    bad[3] = NAN;
    nn_softmax(1, 20, bad, log_sum);
    assert_true(isnan(bad[0]) && isnan(log_sum[0]));
}

static void gradients_from_outputs(void **state) {
    (void)state;
    enum { N = 1003 };
    static float x[N], y[N], dy[N], dx[N];
    fill(dy, N, 50, 1);
    fill(x, N, 51, 2);
    nn_sigmoid(N, x, y);
    nn_sigmoid_grad(N, y, dy, dx);
    for (int i = 0; i < N; i++) {
        double s = d_sigmoid((double)x[i]), want = (double)dy[i] * s * (1 - s);
        assert_true(fabs((double)dx[i] - want) <= 1e-6 * fabs(want) + 1e-7);
    }
    nn_tanh(N, x, y);
    nn_tanh_grad(N, y, dy, dx);
    for (int i = 0; i < N; i++) {
        double t = tanh((double)x[i]), want = (double)dy[i] * (1 - t * t);
        assert_true(fabs((double)dx[i] - want) <= 1e-6 * fabs(want) + 5e-7);
    }
    nn_relu(N, x, y);
    nn_relu_grad(N, y, dy, dx);
    for (int i = 0; i < N; i++)
        assert_true(dx[i] == (x[i] > 0 ? dy[i] : 0));
    memcpy(y, x, sizeof y);
    nn_softmax(1, N, y, NULL);
    nn_softmax_grad(1, N, y, dy, dx);
    double dot = 0;
    for (int i = 0; i < N; i++)
        dot += (double)y[i] * (double)dy[i];
    for (int i = 0; i < N; i++) {
        double want = (double)y[i] * ((double)dy[i] - dot);
        assert_true(fabs((double)dx[i] - want) <= 1e-5 * fabs(want) + 1e-8);
    }
}

static void without_signs(float *x, size_t n) {
    for (size_t i = 0; i < n; i++)
        x[i] = fabsf(x[i]);
}

/* nn_gemm by three loops that add in double. */
static void gemm_ref(int ta, int tb, size_t m, size_t n, size_t k, float alpha, const float *a,
                     const float *b, float beta, float *c) {
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            double s = 0;
            for (size_t l = 0; l < k; l++)
                s += (double)(ta ? a[l * m + i] : a[i * k + l]) *
                     (double)(tb ? b[j * k + l] : b[l * n + j]);
            double old = beta == 0 ? 0 : (double)beta * (double)c[i * n + j];
            c[i * n + j] = (float)((double)alpha * s + old);
        }
}

static void products_agree_with_the_plain_loop(void **state) {
    (void)state;
    static const struct {
        const char *name;
        size_t m, n, k;
    } rows[] = {{"one", 1, 1, 1},
                {"row", 1, 33, 7},
                {"column", 31, 1, 9},
                {"odd", 13, 29, 17},
                {"hidden", 37, 256, 128}};
    static float a[64 * 256], b[256 * 256], c[64 * 256], want[64 * 256], magnitudes[64 * 256];
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++)
        for (int v = 0; v < 8; v++) {
            size_t m = rows[r].m, n = rows[r].n, k = rows[r].k;
            float beta = v & 4 ? 1 : 0;
            fill(a, m * k, 60, 1);
            fill(b, k * n, 61, 1);
            fill(c, m * n, 62, 1);
            if (beta == 0)
                c[0] = NAN; /* must be overwritten, not multiplied */
            memcpy(want, c, m * n * sizeof *c);
            nn_gemm(v & 1, v & 2, m, n, k, 0.5f, a, b, beta, c);
            memcpy(magnitudes, want, m * n * sizeof *c);
            gemm_ref(v & 1, v & 2, m, n, k, 0.5f, a, b, beta, want);
            without_signs(a, m * k);
            without_signs(b, k * n);
            without_signs(magnitudes, m * n);
            gemm_ref(v & 1, v & 2, m, n, k, 0.5f, a, b, beta, magnitudes);
            for (size_t i = 0; i < m * n; i++)
                if (!(fabs((double)c[i] - (double)want[i]) <=
                      sum_error((double)k + 1, (double)magnitudes[i])))
                    fail_msg("%s, transposed %d: [%zu] is %.9g, not %.9g", rows[r].name, v, i,
                             (double)c[i], (double)want[i]);
        }
}

/* See gemm.c. OpenBLAS itself checks a slot and takes it in two steps without a lock. Only a few
 * instructions lie between the steps, so this test finds a missing lock only sometimes. It never
 * reports an error if there is a lock. */
void *blas_memory_alloc(int procpos);
void blas_memory_free(void *buffer);
enum { BUFFER_ROUNDS = 50000 };

static void *hold_buffers(void *arg) {
    int *shared = arg;
    for (int r = 0; r < BUFFER_ROUNDS; r++) {
        int *b = blas_memory_alloc(0);
        *shared += __atomic_fetch_add(b, 1, __ATOMIC_SEQ_CST) != 0;
        __atomic_fetch_sub(b, 1, __ATOMIC_SEQ_CST);
        blas_memory_free(b);
    }
    return NULL;
}

static void no_two_threads_hold_the_same_work_buffer(void **state) {
    (void)state;
    pthread_t thread[3];
    int shared[3] = {0};
    int *b[3];
    for (int t = 0; t < 3; t++) /* their contents do not matter to OpenBLAS */
        *(b[t] = blas_memory_alloc(0)) = 0;
    for (int t = 0; t < 3; t++)
        blas_memory_free(b[t]);
    for (int t = 0; t < 3; t++)
        assert_int_equal(pthread_create(&thread[t], NULL, hold_buffers, &shared[t]), 0);
    for (int t = 0; t < 3; t++)
        pthread_join(thread[t], NULL);
    assert_int_equal(shared[0] + shared[1] + shared[2], 0);
}

/* Threads that multiply at the same time. Each must give the same result as alone. */
struct multiply {
    pthread_t thread;
    const float *a, *b;
    float *want, *got;
    int wrong;
};
enum { M_THREADS = 4, M_ROUNDS = 300, M_M = 37, M_N = 256, M_K = 128 };

static void *multiply(void *arg) {
    struct multiply *m = arg;
    for (int r = 0; r < M_ROUNDS; r++) {
        nn_gemm(0, 0, M_M, M_N, M_K, 1, m->a, m->b, 0, m->got);
        m->wrong += memcmp(m->got, m->want, M_M * M_N * sizeof(float)) != 0;
    }
    return NULL;
}

static void threads_that_multiply_at_once_do_not_share_a_buffer(void **state) {
    (void)state;
    static float a[M_THREADS][M_M * M_K], b[M_THREADS][M_K * M_N], want[M_THREADS][M_M * M_N],
        got[M_THREADS][M_M * M_N];
    struct multiply m[M_THREADS];
    for (int t = 0; t < M_THREADS; t++) {
        fill(a[t], M_M * M_K, 80 + 2 * (uint64_t)t, 1);
        fill(b[t], M_K * M_N, 81 + 2 * (uint64_t)t, 1);
        m[t] = (struct multiply){.a = a[t], .b = b[t], .want = want[t], .got = got[t]};
        nn_gemm(0, 0, M_M, M_N, M_K, 1, a[t], b[t], 0, want[t]);
    }
    for (int t = 0; t < M_THREADS; t++)
        assert_int_equal(pthread_create(&m[t].thread, NULL, multiply, &m[t]), 0);
    for (int t = 0; t < M_THREADS; t++)
        pthread_join(m[t].thread, NULL);
    for (int t = 0; t < M_THREADS; t++)
        if (m[t].wrong)
            fail_msg("thread %d: %d of %d products differ from the same one alone", t, m[t].wrong,
                     M_ROUNDS);
}

static void the_plainest_cpu_gives_the_same_bits(void **state) {
    (void)state;
    enum { N = ROWS * COLS - 3 };
    static float x[N + 3], y[N + 3], a[N + 3], b[N + 3];
    double la[ROWS], lb[ROWS];
    fill(x, N + 3, 70, 4);
    fill(y, N + 3, 71, 1);
    for (int f = 0; f < N_FUNCTIONS; f++) {
        functions[f].fast(N, x, a);
        functions[f].plain(N, x, b);
        if (memcmp(a, b, N * sizeof *a))
            fail_msg("%s differs", functions[f].name);
    }
#define SAME(fast, plain, ...)               \
    do {                                     \
        memcpy(a, y, sizeof a);              \
        memcpy(b, y, sizeof b);              \
        fast;                                \
        plain;                               \
        assert_memory_equal(a, b, sizeof a); \
    } while (0)
    SAME(nn_sigmoid_grad(N, x, a, a), plain_sigmoid_grad(N, x, b, b));
    SAME(nn_tanh_grad(N, x, a, a), plain_tanh_grad(N, x, b, b));
    SAME(nn_relu_grad(N, x, a, a), plain_relu_grad(N, x, b, b));
    SAME(nn_leaky_relu_grad(N, x, a, a), plain_leaky_relu_grad(N, x, b, b));
    SAME(nn_softplus_grad(N, x, a, a), plain_softplus_grad(N, x, b, b));
    SAME(nn_gelu_grad(N, x, a, a), plain_gelu_grad(N, x, b, b));
    SAME(nn_softmax(ROWS, COLS - 1, a, la), plain_softmax(ROWS, COLS - 1, b, lb));
    assert_memory_equal(la, lb, sizeof la);
    SAME(nn_softmax_grad(ROWS, COLS - 1, x, a, a), plain_softmax_grad(ROWS, COLS - 1, x, b, b));
    SAME(nn_add(N, x, a), plain_add(N, x, b));
    static float xa[N], xb[N];
    memcpy(xa, x, sizeof xa);
    memcpy(xb, x, sizeof xb);
    SAME(nn_add_clear(N, xa, a), plain_add_clear(N, xb, b));
    assert_memory_equal(xa, xb, sizeof xa);
    memset(xb, 0, sizeof xb);
    assert_memory_equal(xa, xb, sizeof xa);
    SAME(nn_axpy(N, 0.3f, x, a), plain_axpy(N, 0.3f, x, b));
    SAME(nn_scale(N, 0.3f, a), plain_scale(N, 0.3f, b));
    SAME(nn_times(N, 0.3f, x, a), plain_times(N, 0.3f, x, b));
    SAME(nn_mul_add(N, x, y, a), plain_mul_add(N, x, y, b));
    assert_true(nn_dot(N, x, y) == plain_dot(N, x, y) && nn_sum(N, x) == plain_sum(N, x));
    SAME(nn_mul(N, x, a, a), plain_mul(N, x, b, b));
    SAME(nn_sum_rows(ROWS - 1, COLS, x, a), plain_sum_rows(ROWS - 1, COLS, x, b));
    static const uint32_t row[4] = {2, 0, 2, 1};
    for (int add = 0; add < 2; add++)
        SAME(nn_gather_rows(4, 13, row, x, 20, add, a),
             plain_gather_rows(4, 13, row, x, 20, add, b));
    SAME(nn_scatter_rows(4, 13, row, x, 20, a), plain_scatter_rows(4, 13, row, x, 20, b));
}

/* Every width up to slightly more than two vectors. The memory between the rows of y must not
 * change. */
static void rows_are_looked_up_and_added_to(void **state) {
    (void)state;
    enum { M = 7, STRIDE = 25, W = 5 };
    static const uint32_t row[M] = {4, 0, 4, 1, 3, 3, 4};
    static float w[W * 21], y[M * STRIDE], want[M * STRIDE], g[W * 21], sum[W * 21];
    for (size_t n = 1; n <= 21; n++)
        for (int add = 0; add < 2; add++) {
            fill(w, W * 21, 80 + (uint32_t)n, 1);
            fill(y, M * STRIDE, 90, 1);
            fill(g, W * 21, 91, 1);
            memcpy(want, y, sizeof y);
            memcpy(sum, g, sizeof g);
            for (size_t i = 0; i < M; i++)
                for (size_t j = 0; j < n; j++) {
                    want[i * STRIDE + j] =
                        add ? want[i * STRIDE + j] + w[row[i] * n + j] : w[row[i] * n + j];
                    sum[row[i] * n + j] += y[i * STRIDE + j];
                }
            nn_scatter_rows(M, n, row, y, STRIDE, g);
            nn_gather_rows(M, n, row, w, STRIDE, add, y);
            assert_memory_equal(y, want, sizeof y);
            assert_memory_equal(g, sum, sizeof g);
        }
}

static void the_first_largest_wins(void **state) {
    (void)state;
    assert_int_equal(nn_argmax(4, (const float[]){1, 3, 3, 2}), 1);
    assert_int_equal(nn_argmax(4, (const float[]){NAN, -3, -1, NAN}), 2);
    assert_int_equal(nn_argmax(1, (const float[]){NAN}), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_are_as_near_as_promised),
        cmocka_unit_test(functions_have_the_right_ends),
        cmocka_unit_test(every_length_is_the_same_and_nothing_behind_it_is_touched),
        cmocka_unit_test(softmax_is_a_distribution_and_knows_its_log_sum),
        cmocka_unit_test(gradients_from_outputs),
        cmocka_unit_test(products_agree_with_the_plain_loop),
        cmocka_unit_test(no_two_threads_hold_the_same_work_buffer),
        cmocka_unit_test(threads_that_multiply_at_once_do_not_share_a_buffer),
        cmocka_unit_test(the_plainest_cpu_gives_the_same_bits),
        cmocka_unit_test(rows_are_looked_up_and_added_to),
        cmocka_unit_test(the_first_largest_wins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
