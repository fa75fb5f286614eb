/* arena.h - memory that two processes of one machine share, from one to the other, so that large
 * sections of a frame need not go through sockets: two copies by the kernel become one of ours, and
 * the receiver uses the bytes where they lie.
 *
 *     sender   net_arena_new   a sealed memfd; its pid, fd and 16 secret bytes go to the peer as a
 * message receiver net_arena_open  /proc/PID/fd/FD; whoever is on another machine, or in another
 * namespace, does not find it sender   net_arena_take  room for one frame, if there is any; else it
 * goes through the socket as ever receiver net_arena_give_back   marks the room free, in the arena
 * that it sends with itself
 *
 * Rooms lie in a ring and become free again in order. Nobody ever waits for one, and a process that
 * ends, in whatever way, leaves nothing behind: the memory goes with the last of the two. It is
 * sealed against shrinking, and a room has memory before it is written to, so touching it can't
 * fail. Whoever can open it may read and write all that its peer can (the kernel asks for the same
 * rights as for tracing it), so the two trust each other with each other's frames; what a receiver
 * believes of offsets, lengths and turns it checks.
 */
#ifndef PD_NET_ARENA_H
#define PD_NET_ARENA_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "net/shm/memory.h"

enum { NET_ARENA_BYTES = 16 << 20 };

struct net_arena;

/* Ours. 0, or PD_EIO/PD_ENOMEM where the kernel gives none. */
int net_arena_new(struct net_arena **out, struct net_memory_name *name);
/* The peer's: 0, or PD_ENOENT if it is not on this machine or not what it should be. */
int net_arena_open(struct net_arena **out, const struct net_memory_name *name);
void net_arena_free(struct net_arena *a); /* unmapped, for this process; NULL is fine */

/* Room for n bytes in our arena, 64-byte aligned, or NULL. `theirs`, the arena that its receiver
 * sends with, tells what is free again. *offset and *turn name it. One thread. */
void *net_arena_take(struct net_arena *ours, const struct net_arena *theirs, size_t n,
                     uint64_t *offset, uint32_t *turn);
/* Free rooms are free now: as when one is taken. */
void net_arena_look(struct net_arena *ours, const struct net_arena *theirs);
/* What is to happen when the room that was taken last is free, as the two above find out, or all
 * are dropped. */
void net_arena_then(struct net_arena *ours, void (*release)(void *arg), void *arg);
void net_arena_drop_all(struct net_arena *ours); /* nobody tells any more: all count as free */
/* n bytes at that offset of the peer's arena, or NULL: it has none such. */
uint8_t *net_arena_at(const struct net_arena *theirs, uint64_t offset, uint64_t n);
/* The room of that turn in the peer's arena is free. Any thread. */
void net_arena_give_back(struct net_arena *ours, uint32_t turn);

#endif
