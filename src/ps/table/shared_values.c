/* SPDX-License-Identifier: Apache-2.0 */
/* shared_values.c - see shared_values.h. */
#include "ps/table/shared_values.h"

struct ps_shared_values *ps_shared_values_new(struct pd_pool *pool, struct net_region *region,
                                              size_t n) {
    struct ps_shared_values *v = pd_calloc(1, sizeof *v);
    if (!v)
        return NULL;
    *v = (struct ps_shared_values){.pool = pool,
                                   .region = region,
                                   .n = n,
                                   .refs = 1,
                                   .w = net_region_take(region, n * sizeof *v->w)};
    v->in_region = v->w != NULL;
    if (!v->w)
        v->w = pd_pool_get(pool, n * sizeof *v->w);
    if (v->w)
        return v;
    free(v);
    return NULL;
}

void ps_shared_values_drop(void *arg) {
    struct ps_shared_values *v = arg;
    if (!v || --v->refs)
        return;
    if (v->in_region)
        net_region_put(v->region, v->w, v->n * sizeof *v->w);
    else
        pd_pool_put(v->pool, v->w);
    free(v);
}

int ps_shared_values_own(struct ps_shared_values **v) {
    if ((*v)->refs == 1)
        return 0;
    struct ps_shared_values *mine = ps_shared_values_new((*v)->pool, (*v)->region, (*v)->n);
    if (!mine)
        return PD_ENOMEM;
    memcpy(mine->w, (*v)->w, mine->n * sizeof *mine->w);
    ps_shared_values_drop(*v);
    *v = mine;
    return 0;
}
