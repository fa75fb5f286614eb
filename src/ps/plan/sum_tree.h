/* SPDX-License-Identifier: Apache-2.0 */
/* sum_tree.h - the fixed order in which contributions are added, independent of their arrival.
 *
 * The tree stands over stream ids: a node [lo, hi) has the children [lo, mid) and [mid, hi). mid is
 * the first of these that lies within the node:
 *
 * - the boundary between the streams of 2 trainers
 * - the first boundary between the streams of 3 trainers, then of 4
 * - otherwise the middle
 *
 * Of S streams, trainer t of n owns [t S / n, (t + 1) S / n). So a trainer's streams are few nodes
 * for the usual numbers of trainers: at most two for 12 streams and 2, 3 or 4 trainers.
 *
 * A contribution that covers a node is that node's value. An absent stream adds nothing. Where a
 * contribution crosses mid, the sorted list is halved by index instead.
 *
 * A trainer that adds its own streams in this tree thus gives the same bits as one trainer per
 * stream, as long as its streams are a node. */
#pragma once

struct ps_range {
    uint32_t lo, hi;
};
struct ps_add {
    uint32_t into, from; /* value[into] += value[from]; indices into the sorted list */
};

/* Writes the largest nodes of the tree that make up [lo, hi), in order; out has room for
 * PS_NODES_MAX. Returns their number. */
enum { PS_NODES_MAX = 64 };
uint32_t ps_sum_tree_nodes(uint32_t n_streams, uint32_t lo, uint32_t hi, struct ps_range *out);

uint32_t ps_sum_tree_mid(uint32_t n_streams, uint32_t lo, uint32_t hi); /* lo + 2 <= hi */

/* Writes the n-1 additions for n >= 1 disjoint ranges sorted by lo. The sum ends in value[0]. */
void ps_sum_tree_plan(const struct ps_range *r, size_t n, uint32_t n_streams, struct ps_add *out);

/* Adds n numbers of each of m contributions, v[j][0..n). The sums are left in v[0]; the other
 * arrays are overwritten. */
void ps_sum_tree_sum_f64(const struct ps_add *plan, size_t m, double *const *v, size_t n);

/* Adds a chunk of n floats of each of m contributions. val[j] points to contribution j in received
 * memory, which is only read. The pointers are overwritten; tmp holds m * n floats. Returns the
 * sum: the chunk itself if m is 1, else a part of tmp. */
const float *ps_sum_tree_sum_f32(const struct ps_add *plan, size_t m, const float **val, float *tmp,
                                 size_t n);
