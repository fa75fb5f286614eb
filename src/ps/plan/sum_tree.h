/* sum_tree.h - the fixed order in which contributions are added, whatever order they arrived in.
 *
 * The tree stands over stream ids: a node [lo, hi) has the children [lo, mid) and [mid, hi). mid is
 * where the streams of two trainers part, when that is within the node, else where those of three
 * or of four first do (trainer t of n owns streams [t S / n, (t + 1) S / n) of S), else the middle.
 * So the streams of a trainer are few nodes for the usual numbers of trainers: of 12 streams and 2,
 * 3 or 4 trainers at most two. A contribution that covers a node is that node's value, an absent
 * stream adds nothing. Where a contribution crosses mid, the sorted list is halved by index
 * instead. A trainer that adds its own streams in this tree thus gives the same bits as one trainer
 * per stream, as long as its streams are a node.
 */
#ifndef PD_PS_SUM_TREE_H
#define PD_PS_SUM_TREE_H

#include <stddef.h>
#include <stdint.h>

struct ps_range {
    uint32_t lo, hi;
};
struct ps_add {
    uint32_t into, from; /* value[into] += value[from]; indices into the sorted list */
};

/* The largest nodes of the tree that [lo, hi) is made of, in order; out has room for PS_NODES_MAX.
 * Their number. */
enum { PS_NODES_MAX = 64 };
uint32_t ps_sum_tree_nodes(uint32_t n_streams, uint32_t lo, uint32_t hi, struct ps_range *out);

uint32_t ps_sum_tree_mid(uint32_t n_streams, uint32_t lo, uint32_t hi); /* lo + 2 <= hi */

/* The n-1 additions for n >= 1 disjoint ranges sorted by lo; the sum ends in value[0]. */
void ps_sum_tree_plan(const struct ps_range *r, size_t n, uint32_t n_streams, struct ps_add *out);

/* n numbers from each of m contributions, v[j][0..n). The sums are left in v[0], the others are
 * overwritten. */
void ps_sum_tree_sum_f64(const struct ps_add *plan, size_t m, double *const *v, size_t n);

/* A chunk of n floats of each of m contributions: val[j] points to them, in received memory that is
 * only read. The pointers are overwritten; tmp holds m * n floats. Returns where the sum is: the
 * chunk itself when m is 1, else in tmp. */
const float *ps_sum_tree_sum_f32(const struct ps_add *plan, size_t m, const float **val, float *tmp,
                                 size_t n);

#endif
