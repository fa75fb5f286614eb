/* SPDX-License-Identifier: Apache-2.0 */
/* alloc_fails.c - linked into each unit test, for tests/faults/unit_allocs, which sets
 *
 *     ALLOC_FAILS="FILE N TEST"    only TEST runs, and its N-th allocation fails (0: none)
 *
 * FILE is mapped, so it counts the allocations of all processes of the test, also if they are
 * killed. The first assertion that fails ends the test: its other code does not expect the failure.
 * Leaks are looked for there, while the variables of the test still refer to what it has. Without
 * such an assertion they are looked for at the end. */
#include <dlfcn.h>
#include <setjmp.h>
#include <cmocka.h>
#include <sys/mman.h>

enum { ASSERTION_FAILED = 3 }; /* exit status */

static struct shared {
    atomic_long n;      /* allocations so far */
    atomic_int failed;  /* 1: the N-th one was reached */
    atomic_int leaks;   /* 1: the sanitizer has reported leaks */
    atomic_int asserts; /* number of assertions that failed */
} * shared;
static long fail_at;
static pid_t test_pid;
static int traced;

int __real_pd_fault(const char *name);
int __wrap_pd_fault(const char *name);
void *__real_pd_secret_new(size_t n);
void *__wrap_pd_secret_new(size_t n);
void __real_pd_secret_free(void *p, size_t n);
void __wrap_pd_secret_free(void *p, size_t n);
void __lsan_register_root_region(const void *p, size_t n) __attribute__((weak));
void __lsan_unregister_root_region(const void *p, size_t n) __attribute__((weak));
int __lsan_do_recoverable_leak_check(void) __attribute__((weak));
void __sanitizer_print_stack_trace(void) __attribute__((weak));

__attribute__((constructor)) static void begin(void) {
    static char file[300], test[200];
    const char *spec = getenv("ALLOC_FAILS");
    if (!spec || sscanf(spec, "%299s %ld %199s", file, &fail_at, test) < 2)
        return;
    const int fd = open(file, O_RDWR | O_CLOEXEC);
    void *p = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (p == MAP_FAILED)
        abort();
    if (*test)
        cmocka_set_test_filter(test);
    traced = getenv("ALLOC_FAILS_TRACE") != NULL;
    unsetenv("ALLOC_FAILS"); /* not for programs that the test starts */
    test_pid = getpid();
    shared = p;
}

int __wrap_pd_fault(const char *name) {
    if (shared && !strcmp(name, "alloc") && atomic_fetch_add(&shared->n, 1) + 1 == fail_at) {
        atomic_store(&shared->failed, 1);
        if (traced && __sanitizer_print_stack_trace)
            __sanitizer_print_stack_trace();
        return 1;
    }
    return __real_pd_fault(name);
}

/* Such pages also refer to memory, and the search for leaks does not know mapped pages. */
void *__wrap_pd_secret_new(size_t n) {
    void *p = __real_pd_secret_new(n);
    if (p && __lsan_register_root_region)
        __lsan_register_root_region(p, n);
    return p;
}

void __wrap_pd_secret_free(void *p, size_t n) {
    if (p && __lsan_unregister_root_region)
        __lsan_unregister_root_region(p, n);
    __real_pd_secret_free(p, n);
}

static void find_leaks(void) {
    if (atomic_load(&shared->failed) && __lsan_do_recoverable_leak_check &&
        __lsan_do_recoverable_leak_check())
        atomic_store(&shared->leaks, 1);
}

/* Each assertion of cmocka calls this function, in its library, too. */
void _fail(const char *const file, const int line) {
    void (*next)(const char *, int);
    *(void **)&next = dlsym(RTLD_NEXT, "_fail");
    if (!shared || !atomic_load(&shared->failed))
        next(file, line);
    fprintf(stderr, "%s:%d: an assertion failed\n", file, line);
    if (!atomic_fetch_add(&shared->asserts, 1) && getpid() == test_pid)
        find_leaks();
    fflush(stdout);
    _exit(ASSERTION_FAILED);
}

__attribute__((destructor)) static void end(void) {
    if (shared && getpid() == test_pid && !atomic_load(&shared->asserts))
        find_leaks();
}
