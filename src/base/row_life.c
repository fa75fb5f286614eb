/* SPDX-License-Identifier: Apache-2.0 */
/* row_life.c - see row_life.h. */
#include "base/row_life.h"

const struct pd_row_life_setting pd_row_life_settings[PD_ROW_LIFE_N] = {
#define X(name, least, most, def, text) \
    {#name, offsetof(struct pd_row_life, name), least, most, def, text},
    PD_ROW_LIFE_TABLE(X)
#undef X
};

static int is_whole(size_t i) {
    return i == PD_ROW_LIFE_admit_count || i == PD_ROW_LIFE_admit_candidates ||
           i == PD_ROW_LIFE_admit_zero || i == PD_ROW_LIFE_ageing || i == PD_ROW_LIFE_delete_days;
}

void pd_row_life_init(struct pd_row_life *l) {
    for (size_t i = 0; i < PD_ROW_LIFE_N; i++)
        *pd_row_life_at(l, i) = pd_row_life_settings[i].def;
}

int pd_row_life_check(const struct pd_row_life *l, struct pd_err *err) {
    for (size_t i = 0; i < PD_ROW_LIFE_N; i++) {
        const struct pd_row_life_setting *s = &pd_row_life_settings[i];
        double v = pd_row_life_get(l, i);
        if (!(v >= s->least && v <= s->most) || (is_whole(i) && v != floor(v)))
            return pd_fail(err, PD_ECONF, "%s is a %snumber from %g to %g, not %g", s->name,
                           is_whole(i) ? "whole " : "", s->least, s->most, v);
    }
    if (l->admit_count > 0 && l->admit_probability > 0)
        return pd_fail(err, PD_ECONF, "admit_count and admit_probability: one of them");
    return 0;
}
