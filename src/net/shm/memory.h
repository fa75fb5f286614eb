/* memory.h - memory of this process that another one of the same machine may map: a sealed memfd,
 * which has no name that could be left behind. Its first NET_MEMORY_DATA bytes begin with 16 secret
 * ones, by which whoever opens it knows that it is the right one.
 */
#ifndef PD_NET_MEMORY_H
#define PD_NET_MEMORY_H

#include <stdint.h>

enum { NET_MEMORY_SECRET = 16, NET_MEMORY_DATA = 4096, NET_MEMORY_NAME = 32 };

/* What the other process needs to find it; as a message u32 pid, u32 fd, u64 bytes, the secret. */
struct net_memory_name {
    uint32_t pid, fd;
    uint64_t bytes;
    uint8_t secret[NET_MEMORY_SECRET];
};

struct net_memory {
    int fd; /* ours; -1 of another process's */
    uint8_t *map;
    uint64_t bytes;
    uint64_t backed; /* ours: so many from the beginning have memory */
};

/* Ours, zeroed, with memory for the first NET_MEMORY_DATA bytes. 0, or PD_EIO/PD_ENOMEM where the
 * kernel gives none. */
int net_memory_new(struct net_memory *m, uint64_t bytes, struct net_memory_name *name);
/* Another process's: 0, or PD_ENOENT if it is not on this machine or not what it should be: sealed,
 * and of that many bytes. */
int net_memory_open(struct net_memory *m, const struct net_memory_name *name, int writable);
/* Memory for the first n bytes of ours, which may be touched then. A page that is only touched may
 * get none, where the kernel counts strictly what it has promised (vm.overcommit_memory = 2), or is
 * an old one that is short of memory: whoever touches it dies of SIGBUS. 0, or PD_ENOMEM. */
int net_memory_back(struct net_memory *m, uint64_t n);
void net_memory_free(struct net_memory *m); /* unmapped, for this process; of one that is not there
                                               (map NULL) nothing */

#endif
