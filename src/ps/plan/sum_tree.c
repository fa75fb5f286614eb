/* SPDX-License-Identifier: Apache-2.0 */
/* sum_tree.c - see sum_tree.h. */
#include "ps/plan/sum_tree.h"

#include "math/cpu_clones.h"

uint32_t ps_sum_tree_mid(uint32_t n_streams, uint32_t lo, uint32_t hi) {
    for (uint64_t n = 2; n <= 4; n++)
        for (uint64_t t = 1; t < n; t++) {
            uint32_t cut = (uint32_t)(t * n_streams / n);
            if (cut > lo && cut < hi)
                return cut;
        }
    return lo + (hi - lo) / 2;
}

static struct ps_add *plan_node(uint32_t n_streams, const struct ps_range *r, uint32_t i,
                                uint32_t j, uint32_t lo, uint32_t hi, struct ps_add *out) {
    while (j - i > 1) {
        uint32_t mid = ps_sum_tree_mid(n_streams, lo, hi), k = i;
        while (k < j && r[k].lo < mid)
            k++;
        if (k > i && r[k - 1].hi > mid) { /* r[k - 1] crosses the middle */
            k = i + (j - i) / 2;
            out = plan_node(n_streams, r, i, k, r[i].lo, r[k - 1].hi, out);
            out = plan_node(n_streams, r, k, j, r[k].lo, r[j - 1].hi, out);
        } else if (k == i) {
            lo = mid;
            continue;
        } else if (k == j) {
            hi = mid;
            continue;
        } else {
            out = plan_node(n_streams, r, i, k, lo, mid, out);
            out = plan_node(n_streams, r, k, j, mid, hi, out);
        }
        *out++ = (struct ps_add){i, k};
        return out;
    }
    return out;
}

static uint32_t nodes_below(uint32_t n_streams, struct ps_range node, uint32_t lo, uint32_t hi,
                            struct ps_range *out, uint32_t n) {
    if (node.hi <= lo || hi <= node.lo)
        return n;
    if (lo <= node.lo && node.hi <= hi) {
        out[n] = node;
        return n + 1;
    }
    uint32_t mid = ps_sum_tree_mid(n_streams, node.lo, node.hi);
    n = nodes_below(n_streams, (struct ps_range){node.lo, mid}, lo, hi, out, n);
    return nodes_below(n_streams, (struct ps_range){mid, node.hi}, lo, hi, out, n);
}

/* Bound on the result: below the node where lo and hi part, each side adds at most one node a
 * level. */
uint32_t ps_sum_tree_nodes(uint32_t n_streams, uint32_t lo, uint32_t hi, struct ps_range *out) {
    return nodes_below(n_streams, (struct ps_range){0, n_streams}, lo, hi, out, 0);
}

void ps_sum_tree_plan(const struct ps_range *r, size_t n, uint32_t n_streams, struct ps_add *out) {
    (void)plan_node(n_streams, r, 0, (uint32_t)n, 0, n_streams, out);
}

void ps_sum_tree_sum_f64(const struct ps_add *plan, size_t m, double *const *v, size_t n) {
    for (size_t k = 0; k + 1 < m; k++)
        for (size_t i = 0; i < n; i++)
            v[plan[k].into][i] += v[plan[k].from][i];
}

CPU_CLONES const float *ps_sum_tree_sum_f32(const struct ps_add *plan, size_t m, const float **val,
                                            float *tmp, size_t n) {
    for (size_t k = 0; k + 1 < m; k++) {
        uint32_t into = plan[k].into;
        const float *a = val[into], *b = val[plan[k].from];
        float *sum = tmp + into * n;
        if (a == sum)
            for (size_t i = 0; i < n; i++)
                sum[i] += b[i];
        else
            for (size_t i = 0; i < n; i++)
                sum[i] = a[i] + b[i];
        val[into] = sum;
    }
    return val[0];
}
