/* SPDX-License-Identifier: Apache-2.0 */
/* memory.h - memory of this process that another process on the same machine may map: a sealed
 * memfd, which has no name and therefore leaves nothing behind. The first NET_MEMORY_DATA bytes are
 * a header. It begins with a 16-byte secret, by which the other process recognizes the right
 * memory. */
#pragma once

enum { NET_MEMORY_SECRET = 16, NET_MEMORY_DATA = 4096, NET_MEMORY_NAME = 32 };

/* Identifies the memory for the other process. On the wire: u32 pid, u32 fd, u64 bytes, the secret.
 */
struct net_memory_name {
    uint32_t pid, fd;
    uint64_t bytes;
    uint8_t secret[NET_MEMORY_SECRET];
};

struct net_memory {
    int fd; /* -1: another process owns the memory */
    uint8_t *map;
    uint64_t bytes;
    uint64_t backed; /* of the owner: this many bytes from the beginning have pages */
};

/* Create zeroed memory. The first NET_MEMORY_DATA bytes have pages. 0, or PD_EIO or PD_ENOMEM when
 * the kernel refuses. */
int net_memory_new(struct net_memory *m, uint64_t bytes, struct net_memory_name *name);
/* Map another process's memory. PD_ENOENT: it is not on this machine, or not sealed, or not of that
 * size. */
int net_memory_open(struct net_memory *m, const struct net_memory_name *name, int writable);
/* Reserve pages for the first n bytes of own memory; only these bytes may be touched. Touching a
 * page without this can kill the process by SIGBUS, where the kernel limits overcommit
 * (vm.overcommit_memory = 2) or memory is short. 0, or PD_ENOMEM. */
int net_memory_back(struct net_memory *m, uint64_t n);
/* Unmaps the memory in this process. No effect if map is NULL. */
void net_memory_free(struct net_memory *m);
