/* region.h - memory of this process that the peers of its connections on the same machine read in
 * place: what is sent from here is not copied. They map all of it when they agree to share memory
 * (net_share); a frame then says where in it a section lies.
 */
#ifndef PD_NET_REGION_H
#define PD_NET_REGION_H

#include <stddef.h>
#include <stdint.h>

#include "net/shm/memory.h"

/* When net_send's `release` comes of a frame with a section in the region. */
enum net_lent {
    NET_LENT_UNTIL_READ, /* when the peer has freed the frame, or its connection has gone */
    NET_LENT_AT_ONCE,    /* who sends knows by other means when nobody reads it any more */
};

struct net_region;

/* For `bytes` in all, which cost nothing until they are taken. Children of fork have it too. 0, or
 * PD_EIO/PD_ENOMEM where the kernel gives none. */
int net_region_new(struct net_region **out, uint64_t bytes, enum net_lent lent);
void net_region_free(struct net_region *r); /* after the connections; NULL is fine */

/* n bytes, 64-byte aligned, of any content; NULL: there is no room, no memory, or no region (r
 * NULL). One thread. */
void *net_region_take(struct net_region *r, size_t n);
void net_region_put(struct net_region *r, void *p,
                    size_t n); /* for another net_region_take of as many */

int net_region_has(const struct net_region *r, const void *p, size_t n,
                   uint64_t *offset); /* 1: these bytes lie in it, at *offset */
const struct net_memory_name *net_region_name(const struct net_region *r);
enum net_lent net_region_lent(const struct net_region *r);

#endif
