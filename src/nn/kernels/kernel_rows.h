/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_rows.h - arithmetic between one row and several picked rows, e.g. a word and the words
 * near it. The bits are the same for every vector width, as in kernel.h.
 *
 * Layout: row-major float32; a row has `dim` values, a multiple of NN_ROW (padded with zeros). */
#pragma once

enum { NN_ROW = 16 };

static inline size_t nn_row_padded(size_t dim) { return (dim + NN_ROW - 1) / NN_ROW * NN_ROW; }

/* z[i] = x[row[i]] . y for n picked rows of x[., dim]. Sums have the shape of nn_dot's. */
void nn_rows_dot(size_t n, const uint32_t *row, size_t dim, const float *x, const float *y,
                 float *z);

/* The gradient of these products: dx[row[i]] += g[i] y and dy += g[i] x[row[i]], in the order of i.
 * Each product is rounded before it is added. */
void nn_rows_dot_grad(size_t n, const uint32_t *row, size_t dim, const float *g, const float *x,
                      const float *y, float *dx, float *dy);

/* For each of m rows of n values (not padded): cost[i] = sum_j softplus(x_ij), and in place x_ij =
 * sigmoid(x_ij). One exponential of each value serves both, since a sum of logarithms is the
 * logarithm of a product. Relative error of a sigmoid <= 4 ulp, absolute error of a cost about n *
 * 1e-7. A NaN makes both NaN. */
void nn_sigmoid_costs(size_t m, size_t n, float *x, float *cost);
