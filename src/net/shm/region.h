/* SPDX-License-Identifier: Apache-2.0 */
/* region.h - memory of this process that peers on the same machine read in place: sections from
 * here are sent without a copy. A peer maps the whole region when both agree to share memory
 * (net_share). A frame then says where in the region a section is. */
#pragma once

#include "net/shm/memory.h"

/* When net_send calls `release` for a frame with a section in the region. */
enum net_lent {
    NET_LENT_UNTIL_READ, /* after the peer has freed the frame, or when the connection is gone */
    /* at once: the sender knows by other means when nobody reads the section any more */
    NET_LENT_AT_ONCE,
};

struct net_region;

/* Create a region of `bytes` bytes of address space; pages cost memory only when they are taken.
 * Children of fork share it. 0, or PD_EIO or PD_ENOMEM when the kernel refuses. */
int net_region_new(struct net_region **out, uint64_t bytes, enum net_lent lent);
void net_region_free(struct net_region *r); /* after its connections are closed; NULL is fine */

/* n bytes, 64-byte aligned, uninitialized. NULL: no room, no memory, or r is NULL. One thread. */
void *net_region_take(struct net_region *r, size_t n);
/* Returns n bytes for another net_region_take of the same size. */
void net_region_put(struct net_region *r, void *p, size_t n);

/* 1: all n bytes at p are in the region, at *offset. */
int net_region_has(const struct net_region *r, const void *p, size_t n, uint64_t *offset);
const struct net_memory_name *net_region_name(const struct net_region *r);
enum net_lent net_region_lent(const struct net_region *r);
