/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c - see memory.h. */
#include "net/shm/memory.h"

#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>

#include "base/memory_use.h"

enum { STEP = 256 << 10 };

/* Closes the descriptor on failure. */
static int map(struct net_memory *m, int fd, uint64_t bytes, int writable) {
    const int prot = writable ? PROT_READ | PROT_WRITE : PROT_READ;
    void *p = pd_fault("net.arena") ? MAP_FAILED : mmap(NULL, bytes, prot, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) {
        close(fd);
        return PD_ENOMEM;
    }
    *m = (struct net_memory){.fd = fd, .map = p, .bytes = bytes};
    return 0;
}

int net_memory_new(struct net_memory *m, uint64_t bytes, struct net_memory_name *name) {
    const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    struct net_memory_name n = {.pid = (uint32_t)getpid(), .bytes = bytes};
    struct rlimit most;
    if (getrlimit(RLIMIT_FSIZE, &most) || bytes > most.rlim_cur ||
        bytes > INT64_MAX) /* pid 0 or less means a group of processes, not one */
        return PD_EIO;
    const int fd = pd_fault("net.arena")
                       ? -1
                       : memfd_create("paddlectl-frames", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return PD_EIO;
    if (ftruncate(fd, (off_t)bytes) || fcntl(fd, F_ADD_SEALS, seals) ||
        getrandom(n.secret, sizeof n.secret, 0) != sizeof n.secret) {
        close(fd);
        return PD_EIO;
    }
    n.fd = (uint32_t)fd;
    int rc = map(m, fd, bytes, 1);
    if (rc)
        return rc;
    if ((rc = net_memory_back(m, NET_MEMORY_DATA))) {
        net_memory_free(m);
        return rc;
    }
    memcpy(m->map, n.secret, sizeof n.secret);
    *name = n;
    return 0;
}

/* The peer may name any file that a process of this user has open. Only a sealed memfd of the right
 * size is mapped. */
int net_memory_open(struct net_memory *m, const struct net_memory_name *name, int writable) {
    const int seals = F_SEAL_SHRINK | F_SEAL_GROW;
    char path[64];
    struct stat st;
    if (name->bytes < NET_MEMORY_DATA || name->pid > INT_MAX || name->fd > INT_MAX ||
        pd_fmt(path, sizeof path, "/proc/%u/fd/%u", name->pid, name->fd))
        return PD_ENOENT;
    if (lstat(path, &st) || !S_ISLNK(st.st_mode) || stat(path, &st) || !S_ISREG(st.st_mode) ||
        (uint64_t)st.st_size != name->bytes)
        return PD_ENOENT;
    const int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return PD_ENOENT;
    const int has = fcntl(fd, F_GET_SEALS);
    if (has < 0 || (has & seals) != seals || fstat(fd, &st) ||
        (uint64_t)st.st_size != name->bytes) {
        close(fd);
        return PD_ENOENT;
    }
    int rc = map(m, fd, name->bytes, writable);
    if (rc)
        return rc;
    close(m->fd);
    m->fd = -1;
    if (!memcmp(m->map, name->secret, sizeof name->secret))
        return 0;
    net_memory_free(m);
    return PD_ENOENT;
}

int net_memory_back(struct net_memory *m, uint64_t n) {
    const uint64_t end = n + STEP < m->bytes ? (n + STEP - 1) / STEP * STEP : m->bytes;
    int rc = 0;
    if (n <= m->backed)
        return 0;
    if (!pd_memory_fits((double)(end - m->backed)))
        return PD_ENOMEM;
    do
        rc = pd_fault("net.arena")
                 ? -1
                 : fallocate(m->fd, 0, (off_t)m->backed, (off_t)(end - m->backed));
    while (rc && errno == EINTR);
    if (rc)
        return PD_ENOMEM;
    m->backed = end;
    return 0;
}

void net_memory_free(struct net_memory *m) {
    if (!m->map)
        return;
    pd_close(m->fd);
    munmap(m->map, m->bytes);
    m->map = NULL;
}
