/* SPDX-License-Identifier: Apache-2.0 */
/* alias_sampler.c - see alias_sampler.h. Place i gives its own index if the second number is at
 * most `keep`, otherwise `other`. */
#include "nn/graph/alias_sampler.h"

struct nn_alias {
    uint32_t n;
    struct {
        uint32_t keep, other;
    } at[];
};

struct nn_alias *nn_alias_new(double *weight, uint32_t n) {
    struct nn_alias *a = pd_calloc(1, sizeof *a + n * sizeof a->at[0]);
    /* indices of places below 1 and from 1 on, from both ends */
    uint32_t *todo = pd_calloc(n, sizeof *todo), small = 0, large = n;
    double sum = 0;
    if (!a || !todo) {
        free(a);
        free(todo);
        return NULL;
    }
    a->n = n;
    for (uint32_t i = 0; i < n; i++)
        sum += weight[i];
    for (uint32_t i = 0; i < n; i++) {
        weight[i] *= n / sum;
        if (weight[i] < 1)
            todo[small++] = i;
        else
            todo[--large] = i;
        a->at[i].keep = UINT32_MAX;
        a->at[i].other = i;
    }
    while (small && large < n) {
        uint32_t s = todo[--small], l = todo[large];
        a->at[s].keep = (uint32_t)(weight[s] * 4294967295.0);
        a->at[s].other = l;
        weight[l] -= 1 - weight[s];
        if (weight[l] < 1) {
            large++;
            todo[small++] = l;
        }
    }
    free(todo);
    return a;
}

void nn_alias_free(struct nn_alias *a) { free(a); }

uint32_t nn_alias_draw(const struct nn_alias *a, uint32_t u, uint32_t v) {
    uint32_t i = (uint32_t)((uint64_t)u * a->n >> 32);
    return v <= a->at[i].keep ? i : a->at[i].other;
}
