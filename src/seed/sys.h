/* SPDX-License-Identifier: Apache-2.0 */
/* sys.h - the system calls of the seed, without a libc: with a libc the static program has 700 kB,
 * without it 8 kB. Each call returns the kernel's result: a number, or -E*. With SEED_LIBC (for
 * sanitizers) the calls go through libc's syscall(). */
/* A guard, not #pragma once: the fuzzer replaces this header (tests/fuzz/fuzz_seed.c). */
#ifndef PD_SEED_SYS_H
#define PD_SEED_SYS_H

#include <asm/unistd.h>

#ifdef SEED_LIBC
#include <errno.h>
#include <unistd.h>

static inline long sys6(long n, long a, long b, long c, long d, long e, long f) {
    long r = syscall(n, a, b, c, d, e, f);
    return r < 0 ? -errno : r;
}

#elif defined __x86_64__

static inline long sys6(long n, long a, long b, long c, long d, long e, long f) {
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
    long r;
    __asm__ volatile("syscall"
                     : "=a"(r)
                     : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return r;
}

#elif defined __aarch64__

static inline long sys6(long n, long a, long b, long c, long d, long e, long f) {
    register long x8 __asm__("x8") = n, x0 __asm__("x0") = a, x1 __asm__("x1") = b,
                     x2 __asm__("x2") = c, x3 __asm__("x3") = d, x4 __asm__("x4") = e,
                     x5 __asm__("x5") = f;
    __asm__ volatile("svc 0"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                     : "memory");
    return x0;
}

#else
#error "no system calls for this architecture: build without a seed"
#endif

#define SYS(name, ...) SYS_N(__NR_##name, __VA_ARGS__, 0L, 0L, 0L, 0L, 0L, 0L)
#define SYS_N(n, a, b, c, d, e, f, ...) \
    sys6(n, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

#endif
