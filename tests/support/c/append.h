/* append.h - texts of tests that grow. */
#ifndef TESTS_APPEND_H
#define TESTS_APPEND_H

#include <string.h>

#include "base/str.h"

/* Writes `text` behind what is in `out`, which holds `room` bytes. It must fit. */
static inline void append(char *out, size_t room, const char *text) {
    const size_t n = strlen(out);
    assert_int_equal(pd_fmt(out + n, room - n, "%s", text), 0);
}

#endif
