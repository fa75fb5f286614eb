/* skip.h - a test, or a part of it, that cannot run here says why: tests/run-all lists every line
 * "skipped: REASON", and fails a program that skips a test without such a line. What another
 * flavour runs is not skipped: "elsewhere: REASON". */
#ifndef TESTS_SKIP_H
#define TESTS_SKIP_H

/* The rest of this test is left out; it counts as skipped. After stdarg.h, stddef.h, setjmp.h and
 * cmocka.h. */
#define SKIP(...)                   \
    do {                            \
        print_message("skipped: "); \
        print_message(__VA_ARGS__); \
        print_message("\n");        \
        skip();                     \
    } while (0)

#endif
