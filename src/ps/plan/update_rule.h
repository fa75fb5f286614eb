/* SPDX-License-Identifier: Apache-2.0 */
/* update_rule.h - the update rules, one row of a table each. A rule says when a contribution is
 * applied and for which members a pull waits. Purpose and source of each:
 * docs/sources.md#update-rules. */
#pragma once

struct ps_update_rule {
    const char *name;
    int barrier;  /* a step is applied as one update once all members have ended it; 0: each
                     contribution is applied as soon as it is complete */
    int bounded;  /* a pull waits while the slowest member is more than `staleness` steps behind the
                     pulling member */
    int discards; /* a contribution whose values are older than the lag bound is dropped */
    int adds; /* contributions are differences, which are added; the optimizer runs in the trainers
               */
    const char *text;
};

const struct ps_update_rule *ps_update_rule_find(const char *name); /* NULL: unknown name */
/* Row i of the table; NULL past the end. */
const struct ps_update_rule *ps_update_rule_at(size_t i);
