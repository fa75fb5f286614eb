/* SPDX-License-Identifier: Apache-2.0 */
/* ps_row_policy.h - settings of tables with row policies, for tests. */
#pragma once

#include "base/row_life.h"

static inline struct pd_row_life life_conf(double count, double probability, int ageing) {
    struct pd_row_life c;
    pd_row_life_init(&c);
    c.admit_count = count;
    c.admit_probability = probability;
    c.ageing = ageing;
    c.delete_days = 2;
    c.delete_score = 1.5;
    return c;
}
