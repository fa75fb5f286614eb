/* SPDX-License-Identifier: Apache-2.0 */
/* place.h - the place of a benchmark's servers and trainers: 127.0.0.1, where they share memory; or
 * with BENCH_LINK="NETNS ADDRESS NETNS ADDRESS" (bench/lib/ps.sh) the servers in the first network
 * namespace and the trainers in the second, so that all bytes go through TCP. */
#pragma once

#include <sched.h>

#include "wire/noise.h"

enum { BENCH_SERVERS, BENCH_TRAINERS };

/* Connections are plain, as those of the peers, unless BENCH_SEALED is set (bench/secure.sh). */
static inline int bench_plain(void) { return !getenv("BENCH_SEALED"); }
/* As paddle_worker: long messages are sealed by OpenSSL. */
static inline void bench_init(void) { wire_use_aes(&wire_openssl); }

/* Enters the network namespace; children and later sockets inherit it. Returns its address
 * (static). */
static inline const char *bench_place(int which) {
    static char name[2][256], address[2][64];
    const char *link = getenv("BENCH_LINK");
    if (!link)
        return "127.0.0.1";
    if (sscanf(link, "%255s %63s %255s %63s", name[0], address[0], name[1], address[1]) != 4) {
        fputs("bench: BENCH_LINK is not \"NETNS ADDRESS NETNS ADDRESS\"\n", stderr);
        exit(1);
    }
    int fd = open(name[which], O_RDONLY | O_CLOEXEC);
    if (fd < 0 || setns(fd, CLONE_NEWNET)) {
        perror(name[which]);
        exit(1);
    }
    close(fd);
    return address[which];
}
