/* SPDX-License-Identifier: Apache-2.0 */
/* axis.h - the numbers at an axis: multiples of 1, 2 or 5 times a power of ten. */
#pragma once

enum { AXIS_TICKS = 64, AXIS_TEXT = 24 };

struct axis {
    double low, high; /* the ends; low < high */
    size_t n;
    double at[AXIS_TICKS];
    char text[AXIS_TICKS][AXIS_TEXT];
};

/* The axis for values between `low` and `high`, both finite, with about `most` ticks, and at
 * least two. Equal ends are moved apart. */
void axis_init(struct axis *a, double low, double high, size_t most);
/* The dot of `n` dots for a value; a value outside gets a dot outside, but no further than n. */
int axis_dot(const struct axis *a, double value, int n);
