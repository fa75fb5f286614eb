/* SPDX-License-Identifier: Apache-2.0 */
/* alias_sampler.h - draws an index with a given probability in constant time: one table look-up,
 * two random numbers. Source: docs/sources.md#negative-sampling (Walker 1977, in Vose's form) */
#pragma once

struct nn_alias;

/* A sampler of n >= 1 weights >= 0, not all 0: index i has the probability weight[i] / sum. Uses
 * `weight` as scratch. NULL: out of memory. */
struct nn_alias *nn_alias_new(double *weight, uint32_t n);
void nn_alias_free(struct nn_alias *a);
/* u, v: uniform over all 32-bit numbers */
uint32_t nn_alias_draw(const struct nn_alias *a, uint32_t u, uint32_t v);
