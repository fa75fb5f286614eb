/* update_rule.h - the update rules, one row of a table each: when a contribution is applied, and
 * whom a pull waits for. What each is for, and its source: docs/sources.md#update-rules.
 */
#ifndef PD_PS_UPDATE_RULE_H
#define PD_PS_UPDATE_RULE_H

#include <stddef.h>

struct ps_update_rule {
    const char *name;
    int barrier;  /* a step is applied once all members have ended it, as one update; else each
                     contribution as it is complete */
    int bounded;  /* a pull waits while the slowest member is more than `staleness` steps behind the
                     one that pulls */
    int discards; /* a contribution whose values are older than the lag bound is dropped */
    int adds; /* contributions are differences: added, not given to the optimizer, which works in
                 the trainers */
    const char *text;
};

const struct ps_update_rule *ps_update_rule_find(
    const char *name);                                    /* NULL: there is none of that name */
const struct ps_update_rule *ps_update_rule_at(size_t i); /* the table's rows; NULL past the end */

#endif
