/* SPDX-License-Identifier: Apache-2.0 */
/* exact_sum.c - see exact_sum.h. */
#include "math/exact_sum.h"

enum { LOWEST = -1152, MAX_ADDS = 1 << 29 };

/* Brings every limb except the last into [0, 2^32). The last limb has the sign. */
static void carry(struct pd_exact_sum *s) {
    for (int i = 0; i + 1 < PD_EXACT_SUM_LIMBS; i++) {
        int64_t c = s->limb[i] >> 32;
        s->limb[i] -= c * ((int64_t)1 << 32);
        s->limb[i + 1] += c;
    }
    s->n_adds = 0;
}

void pd_exact_sum_add(struct pd_exact_sum *s, double x) {
    if (!isfinite(x)) {
        s->n_not_finite++;
        return;
    }
    int e;
    double m = frexp(fabs(x), &e); /* 0, or 0.5 <= m < 1 */
    unsigned at = (unsigned)(e - 53 - LOWEST);
    unsigned __int128 v = (unsigned __int128)(uint64_t)ldexp(m, 53) << at % 32;
    int64_t sign = x < 0 ? -1 : 1, *limb = &s->limb[at / 32];
    limb[0] += sign * (int64_t)(uint32_t)v;
    limb[1] += sign * (int64_t)(uint32_t)(v >> 32);
    limb[2] += sign * (int64_t)(uint32_t)(v >> 64);
    if (++s->n_adds >= MAX_ADDS)
        carry(s);
}

void pd_exact_sum_merge(struct pd_exact_sum *into, const struct pd_exact_sum *from) {
    struct pd_exact_sum f = *from;
    carry(&f);
    carry(into);
    for (int i = 0; i < PD_EXACT_SUM_LIMBS; i++)
        into->limb[i] += f.limb[i];
    carry(into);
    into->n_not_finite += from->n_not_finite;
}

double pd_exact_sum_value(const struct pd_exact_sum *s) {
    struct pd_exact_sum t = *s;
    if (t.n_not_finite)
        return NAN;
    carry(&t);
    int negative = t.limb[PD_EXACT_SUM_LIMBS - 1] < 0;
    for (int i = 0; negative && i < PD_EXACT_SUM_LIMBS; i++)
        t.limb[i] = -t.limb[i];
    carry(&t);
    int h = PD_EXACT_SUM_LIMBS - 1;
    while (h > 2 && !t.limb[h])
        h--;
    unsigned __int128 v = 0;
    for (int i = h; i > h - 3; i--)
        v = v << 32 | (uint64_t)t.limb[i];
    for (int i = 0; i < h - 2; i++) /* lower limbs matter only for a tie between two halves */
        v |= t.limb[i] != 0;
    double r = ldexp((double)v, 32 * (h - 2) + LOWEST);
    return negative ? -r : r;
}

void pd_exact_sum_put(const struct pd_exact_sum *s, double out[PD_EXACT_SUM_NUMBERS]) {
    struct pd_exact_sum t = *s;
    carry(&t);
    for (int i = 0; i < PD_EXACT_SUM_LIMBS; i++)
        out[i] = (double)t.limb[i];
    out[PD_EXACT_SUM_LIMBS] = (double)t.n_not_finite;
}

void pd_exact_sum_get(struct pd_exact_sum *s, const double in[PD_EXACT_SUM_NUMBERS]) {
    for (int i = 0; i < PD_EXACT_SUM_LIMBS; i++)
        s->limb[i] = (int64_t)in[i];
    s->n_not_finite = (uint64_t)in[PD_EXACT_SUM_LIMBS];
    carry(s);
}
