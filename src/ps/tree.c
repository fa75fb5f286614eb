/* tree.c - see tree.h. */
#include "ps/tree.h"

static struct ps_add *plan_node(const struct ps_range *r, uint32_t i, uint32_t j, uint32_t lo, uint32_t hi,
                                struct ps_add *out) {
    while (j - i > 1) {
        uint32_t mid = lo + (hi - lo) / 2, k = i;
        while (k < j && r[k].lo < mid)
            k++;
        if (k > i && r[k - 1].hi > mid) { /* crosses the middle */
            k = i + (j - i) / 2;
            out = plan_node(r, i, k, r[i].lo, r[k - 1].hi, out);
            out = plan_node(r, k, j, r[k].lo, r[j - 1].hi, out);
        } else if (k == i) {
            lo = mid;
            continue;
        } else if (k == j) {
            hi = mid;
            continue;
        } else {
            out = plan_node(r, i, k, lo, mid, out);
            out = plan_node(r, k, j, mid, hi, out);
        }
        *out++ = (struct ps_add){i, k};
        return out;
    }
    return out;
}

void ps_tree_plan(const struct ps_range *r, size_t n, uint32_t n_streams, struct ps_add *out) {
    (void)plan_node(r, 0, (uint32_t)n, 0, n_streams, out);
}

void ps_tree_sum_f64(const struct ps_add *plan, size_t m, double *const *v, size_t n) {
    for (size_t k = 0; k + 1 < m; k++)
        for (size_t i = 0; i < n; i++)
            v[plan[k].into][i] += v[plan[k].from][i];
}

const float *ps_tree_sum_f32(const struct ps_add *plan, size_t m, const float **val, float *tmp, size_t n) {
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
