/* SPDX-License-Identifier: Apache-2.0 */
/* row_policy.h - decides which ids of a sparse table get a row and which rows are removed:
 * admission by count or probability, shows and clicks that decay, removal by score and by days
 * unseen. The settings are in base/row_life.h, the formulas in docs/online.md.
 *
 *     every update:  ps_row_policy_show(key, shows) for the keys without a row of each
 *                    contribution, then ps_row_policy_admit for each such key: 1: create its row
 *     a day's end:   ps_row_policy_day: shows and clicks decay, all ages grow by a day, rows and
 *                    candidates below the limits are removed
 *
 * The result depends only on the updates and the days' ends. It does not depend on which trainer
 * pushed which key, or on the number of server threads. There is one exception, under admission by
 * count: a thread that has admit_candidates candidates halves all counts and removes candidates
 * whose count becomes 0.
 *
 * Memory: a candidate costs 20 to 30 bytes (in an index of its own, ps/table/index.h), only with
 * admission by count. */
#pragma once

#include "base/row_life.h"
#include "ps/table/table.h"

struct ps_row_policy {
    struct pd_row_life conf;
    int active;                  /* 0: no other field is used */
    struct ps_index *candidates; /* key -> shows in the lower half, days unseen in the upper half;
                                    NULL: every id is admitted */
    uint64_t seed, name_hash;
    uint64_t n_forgotten; /* candidates removed since there were too many */
};

/* 0 or PD_ENOMEM. */
int ps_row_policy_init(struct ps_row_policy *l, const struct pd_row_life *conf, uint64_t seed,
                       const char *table);
void ps_row_policy_release(struct ps_row_policy *l);

/* Adds `shows` to the shows of a key without a row. Returns 0 or PD_ENOMEM. */
int ps_row_policy_show(struct ps_row_policy *l, uint64_t key, uint32_t shows);
/* Call after all shows of an update. Returns 1 if the key gets a row; it is then no longer a
 * candidate. `update`: number of the update, for admission by chance. */
int ps_row_policy_admit(struct ps_row_policy *l, uint64_t key, uint64_t update);

/* Adds the shows and clicks of one update to a row's counts. */
void ps_row_policy_seen(struct ps_row_seen *seen, uint32_t shows, uint32_t clicks);
/* Sets the counts of a row from a model without counts: twice the score that a row needs to stay.
 */
void ps_row_policy_unknown(const struct pd_row_life *conf, struct ps_row_seen *seen);

struct ps_row_policy_day {
    uint64_t removed, rows, candidates; /* removed rows; remaining rows and candidates */
};
/* Ends a day. Returns 0, or PD_ENOMEM with nothing changed. */
int ps_row_policy_day(struct ps_row_policy *l, struct ps_table *t, struct ps_row_policy_day *out);

/* Saving: ps_row_policy_list writes all candidates by ascending key to
 * out[ps_row_policy_candidates], with their state in `row`. ps_row_policy_restore adds a saved
 * candidate. */
uint64_t ps_row_policy_candidates(const struct ps_row_policy *l);
void ps_row_policy_list(const struct ps_row_policy *l, struct ps_index_entry *out);
/* 0, PD_ENOMEM, or PD_EDATA: the key is present or the state is invalid. */
int ps_row_policy_restore(struct ps_row_policy *l, uint64_t key, uint32_t state);
