/* row_policy.h - which ids of a sparse table get a row, and which rows go: admission by count or
 * probability, shows and clicks that fade, removal by score and by days unseen. The settings:
 * base/row_life.h; the formulas: docs/online.md.
 *
 *     every update:  ps_row_policy_show(key, shows) of each contribution's keys without a row, then
 *                    ps_row_policy_admit of each such key: does it get a row now?
 *     a day's end:   ps_row_policy_day: shows and clicks fade, everything is a day older, rows and
 *                    candidates below the limits are removed
 *
 * What happens depends on the updates and the days' ends alone, not on who pushed what or how many
 * server threads there are; except when ids wait to be admitted by count in such numbers that a
 * thread reaches admit_candidates: it then halves all counts and forgets those that come to 0.
 *
 * Memory: a candidate costs 20 to 30 bytes (an index of its own, ps/table/index.h), and only with
 * admission by count.
 */
#ifndef PD_PS_ROW_POLICY_H
#define PD_PS_ROW_POLICY_H

#include "base/row_life.h"
#include "ps/table/table.h"

struct ps_row_policy {
    struct pd_row_life conf;
    int active;                  /* else nothing of this is used */
    struct ps_index *candidates; /* key -> shows in the lower, days unseen in the upper half; NULL:
                                    every id is admitted */
    uint64_t seed, name_hash;
    uint64_t n_forgotten; /* candidates, since there were too many */
};

int ps_row_policy_init(struct ps_row_policy *l, const struct pd_row_life *conf, uint64_t seed,
                       const char *table); /* 0 or PD_ENOMEM */
void ps_row_policy_release(struct ps_row_policy *l);

/* A key without a row was shown so often in this update. 0 or PD_ENOMEM. */
int ps_row_policy_show(struct ps_row_policy *l, uint64_t key, uint32_t shows);
/* After all of them: 1: it gets a row, and is a candidate no more. `update`: the number of this
 * one, for admission by chance. */
int ps_row_policy_admit(struct ps_row_policy *l, uint64_t key, uint64_t update);

/* The row was shown and clicked so often in this update. */
void ps_row_policy_seen(struct ps_row_seen *seen, uint32_t shows, uint32_t clicks);
/* A row of a model that did not count: it begins with twice the score that it needs to stay. */
void ps_row_policy_unknown(const struct pd_row_life *conf, struct ps_row_seen *seen);

struct ps_row_policy_day {
    uint64_t removed, rows, candidates; /* rows that went; rows and candidates that are left */
};
/* PD_ENOMEM: nothing has happened. */
int ps_row_policy_day(struct ps_row_policy *l, struct ps_table *t, struct ps_row_policy_day *out);

/* For saving: all candidates by ascending key in out[ps_row_policy_candidates], `row` being their
 * state; and one back. */
uint64_t ps_row_policy_candidates(const struct ps_row_policy *l);
void ps_row_policy_list(const struct ps_row_policy *l, struct ps_index_entry *out);
int ps_row_policy_restore(
    struct ps_row_policy *l, uint64_t key,
    uint32_t state); /* 0, PD_ENOMEM, or PD_EDATA: it is there already, or no state */

#endif
