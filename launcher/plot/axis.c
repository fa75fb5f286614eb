/* SPDX-License-Identifier: Apache-2.0 */
/* axis.c - see axis.h. */
#include "launcher/plot/axis.h"

static double multiples(double low, double high, double step) {
    return floor(high / step + 1e-9) - ceil(low / step - 1e-9) + 1;
}

/* The smallest step of 1, 2 or 5 times a power of ten with at most `most` multiples between; the
 * one before if that has less than two. */
static double step_of(double low, double high, size_t most) {
    static const double steps[] = {.5, 1, 2, 5, 10, 20};
    const double base = pow(10, floor(log10((high - low) / (double)most)));
    size_t i = 1;
    while (i < sizeof steps / sizeof steps[0] - 1 &&
           multiples(low, high, steps[i] * base) > (double)most)
        i++;
    return (multiples(low, high, steps[i] * base) < 2 ? steps[i - 1] : steps[i]) * base;
}

void axis_init(struct axis *a, double low, double high, size_t most) {
    const double least = fmax(fabs(low), fabs(high)) * 1e-9; /* less is rounding */
    *a = (struct axis){0};
    if (!(high - low > least)) {
        const double more = low != 0 ? fabs(low) * .1 : 1;
        low -= more;
        high += more;
    }
    a->low = low;
    a->high = high;
    const double step = step_of(low, high, most);
    int digits = step >= 1 ? 0 : (int)ceil(-log10(step) - 1e-9);
    const int large = fmax(fabs(low), fabs(high)) >= 1e7 || digits > 6;
    for (double k = ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) {
        const double v = k * step + 0.0; /* not -0 */
        if (a->n == AXIS_TICKS)
            break;
        a->at[a->n] = v;
        if (large)
            snprintf(a->text[a->n], AXIS_TEXT, "%.6g", v);
        else
            snprintf(a->text[a->n], AXIS_TEXT, "%.*f", digits, v);
        a->n++;
    }
}

int axis_dot(const struct axis *a, double value, int n) {
    const double at = (value - a->low) / (a->high - a->low) * (n - 1);
    return at < -n ? -n : at > 2 * n ? 2 * n : (int)lround(at);
}
