/* arena.c - see arena.h. */
#include "net/arena.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/str.h"

enum { ROOMS = 256, LINE = 64, STEP = 256 << 10 };

/* The first page of the memory; only its owner writes here. */
struct head {
    uint8_t secret[NET_ARENA_SECRET];
    _Atomic uint32_t given_back[ROOMS]; /* of the peer's arena: the latest turn of each place in its list of rooms */
};

enum { DATA = 4096 };
_Static_assert(sizeof(struct head) <= DATA, "the head has a page");

struct room {
    uint64_t at, bytes;
};

struct net_arena {
    int fd; /* the sender's; else -1 */
    uint8_t *map;
    uint64_t bytes;
    uint64_t backed; /* the sender's: so many from the beginning have memory */
    /* the sender's: rooms of turns [first, next) are in use; turns begin with 1 */
    uint32_t first, next;
    uint64_t free_at; /* behind the newest room */
    struct room rooms[ROOMS];
};

static struct head *head_of(const struct net_arena *a) { return (struct head *)(void *)a->map; }

/* Memory for the first n bytes. A page that is only touched may get none, where the kernel counts strictly what it has promised
 * (vm.overcommit_memory = 2), or is an old one that is short of memory: the process that touches it then dies of SIGBUS. */
static int back(struct net_arena *a, uint64_t n) {
    const uint64_t end = n + STEP < a->bytes ? (n + STEP - 1) / STEP * STEP : a->bytes;
    int rc = 0;
    if (n <= a->backed)
        return 0;
    do
        rc = pd_fault("net.arena") ? -1 : fallocate(a->fd, 0, (off_t)a->backed, (off_t)(end - a->backed));
    while (rc && errno == EINTR);
    if (rc)
        return PD_ENOMEM;
    a->backed = end;
    return 0;
}

/* Takes the descriptor, also on failure. */
static int map(struct net_arena **out, int fd, uint64_t bytes) {
    struct net_arena *a = pd_calloc(1, sizeof *a);
    void *p = a && !pd_fault("net.arena") ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (p == MAP_FAILED) {
        free(a);
        close(fd);
        return PD_ENOMEM;
    }
    (void)madvise(p, bytes, MADV_DONTFORK); /* a child that writes a checkpoint has no business with it */
    a->map = p;
    a->bytes = bytes;
    a->fd = fd;
    a->first = a->next = 1;
    a->free_at = DATA;
    *out = a;
    return 0;
}

int net_arena_new(struct net_arena **out, struct net_arena_name *name) {
    const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    struct net_arena_name n = {.pid = (uint32_t)getpid(), .bytes = NET_ARENA_BYTES};
    const int fd = pd_fault("net.arena") ? -1 : memfd_create("paddlectl-frames", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return PD_EIO;
    if (ftruncate(fd, NET_ARENA_BYTES) || fcntl(fd, F_ADD_SEALS, seals) || getrandom(n.secret, sizeof n.secret, 0) != sizeof n.secret) {
        close(fd);
        return PD_EIO;
    }
    n.fd = (uint32_t)fd;
    struct net_arena *a;
    int rc = map(&a, fd, NET_ARENA_BYTES);
    if (rc)
        return rc;
    if ((rc = back(a, DATA))) {
        net_arena_free(a);
        return rc;
    }
    memcpy(head_of(a)->secret, n.secret, sizeof n.secret);
    *name = n;
    *out = a;
    return 0;
}

/* What the peer names may be anything that a process of ours has open: only a sealed memory file of the right size is looked into. */
int net_arena_open(struct net_arena **out, const struct net_arena_name *name) {
    const int seals = F_SEAL_SHRINK | F_SEAL_GROW;
    char path[64];
    struct stat st;
    struct net_arena *a;
    if (name->bytes != NET_ARENA_BYTES || name->pid > INT_MAX || name->fd > INT_MAX ||
        pd_fmt(path, sizeof path, "/proc/%u/fd/%u", name->pid, name->fd))
        return PD_ENOENT;
    if (lstat(path, &st) || !S_ISLNK(st.st_mode) || stat(path, &st) || !S_ISREG(st.st_mode) || (uint64_t)st.st_size != name->bytes)
        return PD_ENOENT;
    const int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return PD_ENOENT;
    const int has = fcntl(fd, F_GET_SEALS);
    if (has < 0 || (has & seals) != seals || fstat(fd, &st) || (uint64_t)st.st_size != name->bytes) {
        close(fd);
        return PD_ENOENT;
    }
    int rc = map(&a, fd, name->bytes);
    if (rc)
        return rc;
    close(a->fd);
    a->fd = -1;
    if (memcmp(head_of(a)->secret, name->secret, sizeof name->secret)) {
        net_arena_free(a);
        return PD_ENOENT;
    }
    *out = a;
    return 0;
}

void net_arena_free(struct net_arena *a) {
    if (!a)
        return;
    if (a->fd >= 0)
        close(a->fd);
    munmap(a->map, a->bytes);
    free(a);
}

/* --- rooms --- */

/* Where n bytes can lie: behind the newest room, or, if that is behind the oldest one, at the beginning. 0: nowhere. */
static uint64_t place(const struct net_arena *a, uint64_t n) {
    if (a->first == a->next) /* all is free; the beginning is in the cache */
        return n <= a->bytes - DATA ? DATA : 0;
    const uint64_t oldest = a->rooms[a->first % ROOMS].at;
    if (a->free_at <= oldest)
        return n <= oldest - a->free_at ? a->free_at : 0;
    if (n <= a->bytes - a->free_at)
        return a->free_at;
    return n <= oldest - DATA ? DATA : 0;
}

void *net_arena_take(struct net_arena *ours, const struct net_arena *theirs, size_t n, uint64_t *offset, uint32_t *turn) {
    struct net_arena *a = ours;
    const uint64_t bytes = (n + LINE - 1) / LINE * LINE;
    while (a->first != a->next && atomic_load_explicit(&head_of(theirs)->given_back[a->first % ROOMS], memory_order_acquire) == a->first)
        a->first++;
    const uint64_t at = bytes < n || !n || a->next - a->first == ROOMS || pd_fault("net.arena.full") ? 0 : place(a, bytes);
    if (!at || back(a, at + bytes))
        return NULL;
    a->rooms[a->next % ROOMS] = (struct room){at, bytes};
    a->free_at = at + bytes;
    *offset = at;
    *turn = a->next++;
    return a->map + at;
}

uint8_t *net_arena_at(const struct net_arena *theirs, uint64_t offset, uint64_t n) {
    return offset >= DATA && offset % LINE == 0 && offset <= theirs->bytes && n <= theirs->bytes - offset ? theirs->map + offset : NULL;
}

void net_arena_give_back(struct net_arena *ours, uint32_t turn) {
    atomic_store_explicit(&head_of(ours)->given_back[turn % ROOMS], turn, memory_order_release);
}
