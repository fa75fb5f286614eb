/* SPDX-License-Identifier: Apache-2.0 */
/* update_rule.c - see update_rule.h. */
#include "ps/plan/update_rule.h"

static const struct ps_update_rule table[] = {
    {"sync", 1, 0, 0, 0,
     "all trainers' gradients of a step are one update; the bits do not depend on timing"},
    {"async", 0, 0, 1, 0,
     "each trainer's gradient is applied on arrival; a gradient that lags too much is dropped"},
    {"ssp", 0, 1, 0, 0,
     "as async, but no trainer is more than `staleness` steps ahead of the slowest"},
    {"geo", 0, 0, 0, 1,
     "trainers step locally and exchange their changes every geo_sgd_need_push_nums steps"},
};

const struct ps_update_rule *ps_update_rule_at(size_t i) {
    return i < sizeof table / sizeof table[0] ? &table[i] : NULL;
}

const struct ps_update_rule *ps_update_rule_find(const char *name) {
    for (size_t i = 0; ps_update_rule_at(i); i++)
        if (!strcmp(table[i].name, name))
            return &table[i];
    return NULL;
}
