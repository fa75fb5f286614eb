/* SPDX-License-Identifier: Apache-2.0 */
/* append.h - appends to a text in a buffer, for tests. */
#pragma once

/* Appends `text` to the string in `out`, a buffer of `room` bytes. The text must fit. */
static inline void append(char *out, size_t room, const char *text) {
    const size_t n = strlen(out);
    assert_int_equal(pd_fmt(out + n, room - n, "%s", text), 0);
}
