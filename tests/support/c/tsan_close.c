/* SPDX-License-Identifier: Apache-2.0 */
/* tsan_close.c - linked into programs under ThreadSanitizer. libuv closes descriptors with
 * syscall(SYS_close), which the sanitizer does not see. If another thread then uses a new
 * descriptor with the same number, the sanitizer reports a race on the old one. This file turns
 * such a call into close(). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>

__attribute__((no_sanitize_thread)) long syscall(long number, ...) {
    static long (*libc)(long, ...);
    long a[6];
    va_list ap;
    va_start(ap, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(ap, long);
    va_end(ap);
    if (number == SYS_close)
        return close((int)a[0]);
    if (!libc)
        *(void **)&libc = dlsym(RTLD_NEXT, "syscall");
    return libc(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
