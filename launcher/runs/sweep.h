/* SPDX-License-Identifier: Apache-2.0 */
/* sweep.h - the trials of `paddlectl sweep`: which settings each has. */
#pragma once

enum { CMD_SWEEP_TRIALS = 1000, CMD_SWEEP_KEYS = 16 };

/* "optimizer.learning_rate=0.1,0.03" -> the key, and its values. */
struct sweep_key {
    char *key; /* owns the memory of the values, too */
    char **value;
    size_t n;
};

struct sweep_keys {
    struct sweep_key v[CMD_SWEEP_KEYS];
    size_t n;
};

int cmd_sweep_key(struct sweep_keys *k, const char *text, struct pd_err *err);
void cmd_sweep_release(struct sweep_keys *k);
/* The number of combinations; 0: more than CMD_SWEEP_TRIALS^2. */
size_t cmd_sweep_size(const struct sweep_keys *k);
/* The combinations of the trials, in order: the whole grid with n = its size, or n of them drawn
 * without repetition. */
void cmd_sweep_draw(const struct sweep_keys *k, uint64_t seed, size_t n, size_t *combination);
/* "key=value" of key i in a combination. */
int cmd_sweep_setting(const struct sweep_keys *k, size_t combination, size_t i, char *out,
                      size_t cap);
/* Successive halving: Jamieson and Talwalkar 2016, "Non-stochastic Best Arm Identification and
 * Hyperparameter Optimization"; here as Li et al. 2018, "Hyperband", section 3.1, with eta = 2.
 * Round k of n_rounds has the better half of the trials of round k - 1, rounded down, and trains
 * each twice as far. The last round trains to `passes`. */
size_t cmd_sweep_rounds(size_t n_trials, int64_t passes);
/* The passes at the end of a round. */
int64_t cmd_sweep_round_passes(size_t round, size_t n_rounds, int64_t passes);
/* order[0..*n): the trials by their values, the best first; of equal ones the first. NAN: left out.
 */
void cmd_sweep_rank(const double *value, size_t n_values, int more_is_better, size_t *order,
                    size_t *n);
/* 1: a trial that has reached `value` is hopeless: worse than the median of the n values that the
 * others had at the same time. The rule needs three others; `other` is sorted. */
int cmd_sweep_hopeless(double value, double *other, size_t n, int more_is_better);
