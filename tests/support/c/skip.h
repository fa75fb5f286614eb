/* SPDX-License-Identifier: Apache-2.0 */
/* skip.h - a test, or a part of one, that can't run here must print the reason. tests/run-all lists
 * every line "skipped: REASON", and fails a program that skips a test without such a line. A part
 * that another build flavour runs prints "elsewhere: REASON" and does not count as skipped. */
#pragma once

/* Ends the test, which counts as skipped. Needs stdarg.h, stddef.h, setjmp.h and cmocka.h before
 * this header. */
#define SKIP(...)                   \
    do {                            \
        print_message("skipped: "); \
        print_message(__VA_ARGS__); \
        print_message("\n");        \
        skip();                     \
    } while (0)
