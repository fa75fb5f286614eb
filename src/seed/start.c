/* SPDX-License-Identifier: Apache-2.0 */
/* start.c - the entry point of the seed: without a libc it reads the kernel's stack itself. */
#include "seed/start.h"

#include "seed/mem.h"
#include "seed/seed.h"
#include "seed/sys.h"

static int begin(int argc, char **argv) {
    return argc == 3 ? seed_main(argv[1], argv[2]) : SEED_EXIT_NOT_BEGUN;
}

#ifdef SEED_LIBC

int main(int argc, char **argv);
int main(int argc, char **argv) { return begin(argc, argv); }

#else

/* The compiler makes calls of these functions for copies of structs and zeroed structs. */
void *memcpy(void *to, const void *from, size_t n);
void *memset(void *to, int c, size_t n);

void *memcpy(void *to, const void *from, size_t n) {
    mem_copy(to, from, n);
    return to;
}

void *memset(void *to, int c, size_t n) {
    for (uint8_t *t = to; n; n--)
        *t++ = (uint8_t)c;
    return to;
}

void seed_begin(long *stack);
void seed_begin(long *stack) {
    int status = begin((int)stack[0], (char **)(stack + 1));
    for (;;)
        SYS(exit_group, status);
}

#ifdef __x86_64__
__asm__(".globl _start\n_start:\n xor %ebp, %ebp\n mov %rsp, %rdi\n and $-16, %rsp\n call "
        "seed_begin\n");
#else
__asm__(".globl _start\n_start:\n mov x29, #0\n mov x30, #0\n mov x0, sp\n bl seed_begin\n");
#endif

#endif
