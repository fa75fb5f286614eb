/* SPDX-License-Identifier: Apache-2.0 */
/* region.c - see region.h. */
#include "net/shm/region.h"

enum { LINE = 64, FREE_MOST = 16 };

struct net_region {
    struct net_memory m;
    struct net_memory_name name;
    enum net_lent lent;
    uint64_t used; /* bytes in use from the beginning, holes included */
    struct hole {
        void *p;
        size_t n;
    } holes[FREE_MOST]; /* returned by net_region_put */
    uint32_t n_holes;
};

int net_region_new(struct net_region **out, uint64_t bytes, enum net_lent lent) {
    struct net_region *r = pd_calloc(1, sizeof *r);
    int rc =
        !r || bytes > UINT64_MAX / 2
            ? PD_ENOMEM
            : net_memory_new(&r->m, NET_MEMORY_DATA + (bytes + LINE - 1) / LINE * LINE, &r->name);
    if (rc) {
        free(r);
        return rc;
    }
    r->lent = lent;
    r->used = NET_MEMORY_DATA;
    *out = r;
    return 0;
}

void net_region_free(struct net_region *r) {
    if (!r)
        return;
    net_memory_free(&r->m);
    free(r);
}

void *net_region_take(struct net_region *r, size_t n) {
    for (uint32_t i = 0; r && i < r->n_holes; i++)
        if (r->holes[i].n == n) {
            void *p = r->holes[i].p;
            r->holes[i] = r->holes[--r->n_holes];
            return p;
        }
    if (!r || !n || n > r->m.bytes - r->used)
        return NULL;
    const uint64_t left = r->m.bytes - r->used, lines = (n + LINE - 1) / LINE * LINE,
                   bytes = lines < left ? lines : left;
    if (net_memory_back(&r->m, r->used + bytes))
        return NULL;
    void *p = r->m.map + r->used;
    r->used += bytes;
    return p;
}

void net_region_put(struct net_region *r, void *p, size_t n) {
    if (r->n_holes < FREE_MOST)
        r->holes[r->n_holes++] = (struct hole){p, n};
}

int net_region_has(const struct net_region *r, const void *p, size_t n, uint64_t *offset) {
    const uintptr_t at = (uintptr_t)p, lo = r ? (uintptr_t)r->m.map : 0;
    if (!r || at < lo + NET_MEMORY_DATA || at - lo > r->used || n > r->used - (at - lo) ||
        (at - lo) % LINE)
        return 0;
    *offset = at - lo;
    return 1;
}

const struct net_memory_name *net_region_name(const struct net_region *r) { return &r->name; }
enum net_lent net_region_lent(const struct net_region *r) { return r->lent; }
