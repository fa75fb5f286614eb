/* SPDX-License-Identifier: Apache-2.0 */
/* kernel.h - the arithmetic of the layers: matrix products through OpenBLAS; elementwise functions
 * and row reductions in plain C over vectors of 8 floats.
 *
 * Except for OpenBLAS, every kernel gives the same bits for every vector width of the CPU. It is
 * compiled for several widths (target_clones) and uses only IEEE additions, multiplications and
 * divisions, no fused operations. Every sum has a fixed shape: lane l of 16 adds elements l, l+16,
 * ...; then the lanes are added pairwise, halves first. OpenBLAS's products differ between its core
 * types; the worker fixes the type.
 *
 * Layout: row-major float32, contiguous. Outputs alias inputs only where a comment allows it. */
#ifndef PD_NN_KERNEL_H /* test_nn_kernel.c includes it twice */
#define PD_NN_KERNEL_H

/* c[m,n] = alpha * op(a)[m,k] op(b)[k,n] + beta * c. op(x) is x or, with ta/tb, its transpose. beta
 * = 0 overwrites. Rows are contiguous as stored: a is [m,k] or, with ta, [k,m]. _ref is the plain
 * loop, for tests. */
void nn_gemm(int ta, int tb, size_t m, size_t n, size_t k, float alpha, const float *a,
             const float *b, float beta, float *c);
/* The same for parts of larger matrices: rows of a are lda values apart, rows of b ldb, rows of c
 * ldc. */
void nn_gemm_part(int ta, int tb, size_t m, size_t n, size_t k, float alpha, const float *a,
                  size_t lda, const float *b, size_t ldb, float beta, float *c, size_t ldc);

/* Check that there is memory for the work buffers of n_threads threads. OpenBLAS maps one in a
 * thread's first product, and retries for ever if the mapping fails (ulimit -v). 0 or PD_ENOMEM. */
int nn_gemm_room(uint32_t n_threads, struct pd_err *err);

/* y = f(x) for n elements; y may be x.
 * - exp: relative error <= 2 ulp for x in [-87.3, 88.3]; 0 below (no subnormals), infinity above
 * - sigmoid, tanh: <= 4 ulp
 * - NaN stays NaN in all three */
void nn_exp(size_t n, const float *x, float *y);
void nn_sigmoid(size_t n, const float *x, float *y);
void nn_tanh(size_t n, const float *x, float *y);
void nn_relu(size_t n, const float *x, float *y);       /* NaN stays NaN */
void nn_leaky_relu(size_t n, const float *x, float *y); /* 0.01 x below 0 */
void nn_softplus(size_t n, const float *x, float *y);   /* log(1 + e^x), <= 4 ulp */
void nn_gelu(size_t n, const float *x,
             float *y); /* x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2 */

/* Gradients of these functions from their output: dx = dy * f'(y); dx may be dy. */
void nn_sigmoid_grad(size_t n, const float *y, const float *dy, float *dx);
void nn_tanh_grad(size_t n, const float *y, const float *dy, float *dx);
void nn_relu_grad(size_t n, const float *y, const float *dy, float *dx);
void nn_leaky_relu_grad(size_t n, const float *y, const float *dy, float *dx);
/* Gradients of these functions from their input. */
void nn_softplus_grad(size_t n, const float *x, const float *dy, float *dx);
void nn_gelu_grad(size_t n, const float *x, const float *dy, float *dx);

/* Softmax of each of m rows of n values, in place. log_sum[i] = log(sum_j exp(x_ij)), from x before
 * the call: -log(y_ij) = log_sum[i] - x_ij has no cancellation. log_sum may be NULL. */
void nn_softmax(size_t m, size_t n, float *x, double *log_sum);
/* dx_ij = y_ij (dy_ij - sum_j dy_ij y_ij); dx may be dy. */
void nn_softmax_grad(size_t m, size_t n, const float *y, const float *dy, float *dx);

void nn_fill_rows(size_t m, size_t n, const float *row, float *y); /* each of m rows of y = row */
void nn_add(size_t n, const float *x, float *y);                   /* y += x */
void nn_add_clear(size_t n, float *x, float *y);                   /* y += x, then x = 0 */
void nn_axpy(size_t n, float a, const float *x, float *y);  /* y += a x, product rounded first */
void nn_times(size_t n, float a, const float *x, float *y); /* y = a x */
void nn_mul_add(size_t n, const float *a, const float *b,
                float *y); /* y += a * b, product rounded first */
/* sum of x * y, with the fixed shape above */
float nn_dot(size_t n, const float *x, const float *y);
float nn_sum(size_t n, const float *x);
void nn_scale(size_t n, float a, float *y);                      /* y *= a */
void nn_mul(size_t n, const float *a, const float *b, float *y); /* y = a * b; y may be a or b */
/* y[j] += sum_i x_ij, rows in order */
void nn_sum_rows(size_t m, size_t n, const float *x, float *y);
/* Rows of a table: y[i * stride + j] = w[row[i], j] for m rows of n values (add: +=). The gradient:
 * g[row[i], j] += dy[i * stride + j], rows in their order. */
void nn_gather_rows(size_t m, size_t n, const uint32_t *row, const float *w, size_t stride, int add,
                    float *y);
void nn_scatter_rows(size_t m, size_t n, const uint32_t *row, const float *dy, size_t stride,
                     float *g);
size_t nn_argmax(size_t n, const float *x); /* the first of the largest; a NaN is never chosen */

#endif
