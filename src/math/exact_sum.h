/* exact.h - a sum of doubles without rounding, so that neither the order of the terms nor who added
 * which of them shows in it.
 *
 * The sum is a fixed-point number that every finite double fits into: limb i counts in 2^(32 i -
 * 1152). Adding is three integer additions; carries are put off. The numbers of several such sums
 * may be added place by place (also as doubles, as ps_reduce does, among up to 2^20 of them), and
 * are then the numbers of the sum of all. Source: docs/sources.md#exact-sums
 */
#ifndef PD_BASE_EXACT_H
#define PD_BASE_EXACT_H

#include <stdint.h>

enum { PD_EXACT_LIMBS = 70, PD_EXACT_NUMBERS = PD_EXACT_LIMBS + 1 };

struct pd_exact { /* zeroed: 0 */
    int64_t limb[PD_EXACT_LIMBS];
    uint32_t n_adds; /* since carries were last taken */
    uint64_t n_not_finite;
};

void pd_exact_add(struct pd_exact *s, double x);
void pd_exact_merge(struct pd_exact *into, const struct pd_exact *from);
double pd_exact_value(
    const struct pd_exact *s); /* the nearest double; NAN when a term was not finite */

/* As whole numbers, each below 2^33 in magnitude, and back from the sums over many. */
void pd_exact_put(const struct pd_exact *s, double out[PD_EXACT_NUMBERS]);
void pd_exact_get(struct pd_exact *s, const double in[PD_EXACT_NUMBERS]);

#endif
