/* SPDX-License-Identifier: Apache-2.0 */
/* arena.h - memory that two processes of one machine share, in one direction, for large sections of
 * frames. Instead of two copies by the kernel (a socket) there is one copy by the sender. The
 * receiver uses plain values in place, and copies what it checks (share.h).
 *
 *     sender    net_arena_new        a sealed memfd; pid, fd and a 16-byte secret go to the peer
 *     receiver  net_arena_open       /proc/PID/fd/FD; fails on another machine or namespace
 *     sender    net_arena_take       room for a frame, or NULL: the frame goes through the socket
 *     receiver  net_arena_give_back  frees the room, by a mark in the receiver's own arena
 *
 * Rooms are a ring and are reused in order. No process ever waits for a room. A process that ends
 * in any way leaves nothing behind: the memory ends with the last process that maps it. The memory
 * is sealed against shrinking, and a room has pages before it is written, so access cannot fail.
 *
 * Trust: a process that can open the arena may read and write all of its peer's memory anyway (the
 * kernel asks for the same rights as for tracing). The receiver still checks offsets, lengths and
 * turns. */
#pragma once

#include "net/shm/memory.h"

enum { NET_ARENA_BYTES = 16 << 20 };

struct net_arena;

/* Create an own arena. 0, or PD_EIO or PD_ENOMEM when the kernel refuses. */
int net_arena_new(struct net_arena **out, struct net_memory_name *name);
/* Map the peer's arena. PD_ENOENT: it is not on this machine, or not an arena. */
int net_arena_open(struct net_arena **out, const struct net_memory_name *name);
void net_arena_free(struct net_arena *a); /* unmaps it in this process; NULL is fine */

/* Take room for n bytes in the own arena, 64-byte aligned; NULL: none is free. `theirs`, the arena
 * of the opposite direction, says which rooms the receiver has freed. *offset and *turn identify
 * the room for the receiver. One thread. */
void *net_arena_take(struct net_arena *ours, const struct net_arena *theirs, size_t n,
                     uint64_t *offset, uint32_t *turn);
/* Reclaim the rooms that the receiver has freed, as net_arena_take does. */
void net_arena_reclaim(struct net_arena *ours, const struct net_arena *theirs);
/* Set a callback for the room that was taken last. It runs when the room is reclaimed or dropped.
 */
void net_arena_on_free(struct net_arena *ours, void (*release)(void *arg), void *arg);
void net_arena_drop_all(struct net_arena *ours); /* the peer is gone: all rooms count as free */
/* The n bytes at `offset` of the peer's arena; NULL: outside the arena or unaligned. */
uint8_t *net_arena_bytes(const struct net_arena *theirs, uint64_t offset, uint64_t n);
/* Tell the peer that the room of this turn is free. Any thread. */
void net_arena_give_back(struct net_arena *ours, uint32_t turn);
