/* SPDX-License-Identifier: Apache-2.0 */
/* exact_sum.h - a sum of doubles without rounding: the result depends neither on the order of the
 * terms nor on how they are divided among threads or processes.
 *
 * The sum is a fixed-point number that holds every finite double: limb i counts units of 2^(32 i -
 * 1152). Adding a double is three integer additions; carries are delayed. Two sums are added limb
 * by limb. That also works on the doubles of pd_exact_sum_put, as ps_reduce adds them, for up to
 * 2^20 sums. Source: docs/sources.md#exact-sums */
#pragma once

enum { PD_EXACT_SUM_LIMBS = 70, PD_EXACT_SUM_NUMBERS = PD_EXACT_SUM_LIMBS + 1 };

struct pd_exact_sum { /* all zero: the sum 0 */
    int64_t limb[PD_EXACT_SUM_LIMBS];
    uint32_t n_adds; /* since the last carry */
    uint64_t n_not_finite;
};

void pd_exact_sum_add(struct pd_exact_sum *s, double x);
void pd_exact_sum_merge(struct pd_exact_sum *into, const struct pd_exact_sum *from);
/* The nearest double; NAN if a term was not finite. */
double pd_exact_sum_value(const struct pd_exact_sum *s);

/* Convert to whole numbers below 2^33 in magnitude, and back from sums of such numbers. */
void pd_exact_sum_put(const struct pd_exact_sum *s, double out[PD_EXACT_SUM_NUMBERS]);
void pd_exact_sum_get(struct pd_exact_sum *s, const double in[PD_EXACT_SUM_NUMBERS]);
