/* SPDX-License-Identifier: Apache-2.0 */
/* arena.c - see arena.h. */
#include "net/shm/arena.h"

#include <sys/mman.h>

enum { ROOMS = 256, LINE = 64 };

/* The first page of the memory. Only the owner of the memory writes here. */
struct arena_header {
    uint8_t secret[NET_MEMORY_SECRET];
    /* given_back: by place in the peer's list of rooms, the latest turn that this process has freed
     */
    _Atomic uint32_t given_back[ROOMS];
};

enum { DATA = NET_MEMORY_DATA };
_Static_assert(sizeof(struct arena_header) <= DATA, "the head has a page");

struct room {
    uint64_t at, bytes;
    void (*release)(void *arg); /* called when the room is free, or NULL */
    void *release_arg;
};

struct net_arena {
    struct net_memory m;
    /* of the sender: rooms of turns [first, next) are in use; the first turn is 1 */
    uint32_t first, next;
    uint64_t free_at; /* end of the newest room */
    struct room rooms[ROOMS];
};

static struct arena_header *head_of(const struct net_arena *a) {
    return (struct arena_header *)(void *)a->m.map;
}

static int new_arena(struct net_arena **out, struct net_memory *m) {
    struct net_arena *a = pd_calloc(1, sizeof *a);
    if (!a) {
        net_memory_free(m);
        return PD_ENOMEM;
    }
    /* A child that writes a checkpoint does not need it. */
    (void)madvise(m->map, m->bytes, MADV_DONTFORK);
    a->m = *m;
    a->first = a->next = 1;
    a->free_at = DATA;
    *out = a;
    return 0;
}

int net_arena_new(struct net_arena **out, struct net_memory_name *name) {
    struct net_memory m;
    int rc = net_memory_new(&m, NET_ARENA_BYTES, name);
    return rc ? rc : new_arena(out, &m);
}

int net_arena_open(struct net_arena **out, const struct net_memory_name *name) {
    struct net_memory m;
    int rc = name->bytes == NET_ARENA_BYTES ? net_memory_open(&m, name, 1) : PD_ENOENT;
    return rc ? rc : new_arena(out, &m);
}

void net_arena_free(struct net_arena *a) {
    if (!a)
        return;
    net_memory_free(&a->m);
    free(a);
}

/* --- rooms --- */

/* Offset for n bytes: after the newest room, or at the beginning if that is before the oldest room.
 * 0: no space. */
static uint64_t find_room(const struct net_arena *a, uint64_t n) {
    if (a->first == a->next) /* all is free; the beginning is in the cache */
        return n <= a->m.bytes - DATA ? DATA : 0;
    const uint64_t oldest = a->rooms[a->first % ROOMS].at;
    if (a->free_at <= oldest)
        return n <= oldest - a->free_at ? a->free_at : 0;
    if (n <= a->m.bytes - a->free_at)
        return a->free_at;
    return n <= oldest - DATA ? DATA : 0;
}

/* Releases the oldest room. */
static void drop_first(struct net_arena *a) {
    const struct room *r = &a->rooms[a->first++ % ROOMS];
    if (r->release)
        r->release(r->release_arg);
}

void net_arena_reclaim(struct net_arena *ours, const struct net_arena *theirs) {
    struct net_arena *a = ours;
    while (a->first != a->next &&
           atomic_load_explicit(&head_of(theirs)->given_back[a->first % ROOMS],
                                memory_order_acquire) == a->first)
        drop_first(a);
}

void net_arena_drop_all(struct net_arena *ours) {
    while (ours->first != ours->next)
        drop_first(ours);
}

void net_arena_on_free(struct net_arena *ours, void (*release)(void *arg), void *arg) {
    struct room *r = &ours->rooms[(ours->next - 1) % ROOMS];
    r->release = release;
    r->release_arg = arg;
}

void *net_arena_take(struct net_arena *ours, const struct net_arena *theirs, size_t n,
                     uint64_t *offset, uint32_t *turn) {
    struct net_arena *a = ours;
    const uint64_t bytes = (n + LINE - 1) / LINE * LINE;
    net_arena_reclaim(ours, theirs);
    const uint64_t at = bytes < n || !n || a->next - a->first == ROOMS || pd_fault("net.arena.full")
                            ? 0
                            : find_room(a, bytes);
    if (!at || net_memory_back(&a->m, at + bytes))
        return NULL;
    a->rooms[a->next % ROOMS] = (struct room){.at = at, .bytes = bytes};
    a->free_at = at + bytes;
    *offset = at;
    *turn = a->next++;
    return a->m.map + at;
}

uint8_t *net_arena_bytes(const struct net_arena *theirs, uint64_t offset, uint64_t n) {
    return offset >= DATA && offset % LINE == 0 && offset <= theirs->m.bytes &&
                   n <= theirs->m.bytes - offset
               ? theirs->m.map + offset
               : NULL;
}

void net_arena_give_back(struct net_arena *ours, uint32_t turn) {
    atomic_store_explicit(&head_of(ours)->given_back[turn % ROOMS], turn, memory_order_release);
}
