/* SPDX-License-Identifier: Apache-2.0 */
/* sweep.c - see sweep.h. */
#include "launcher/runs/sweep.h"

#include "math/rng.h"

enum { LEAST_OTHERS = 3 };

int cmd_sweep_key(struct sweep_keys *k, const char *text, struct pd_err *err) {
    struct sweep_key *key = &k->v[k->n];
    if (k->n == CMD_SWEEP_KEYS)
        return pd_fail(err, PD_EUSAGE, "more than %d --set with several values", CMD_SWEEP_KEYS);
    if (!(key->key = pd_strdup(text)))
        return pd_oom(err, "a sweep");
    k->n++;
    char *save = NULL, *value = strchr(key->key, '=');
    if (!value)
        return pd_fail(err, PD_EUSAGE, "--set needs a value: SECTION.KEY=VALUE");
    *value++ = 0;
    size_t most = 1;
    for (const char *s = value; *s; s++)
        most += *s == ',';
    if (!(key->value = pd_calloc(most, sizeof *key->value)))
        return pd_oom(err, "a sweep");
    for (char *s = strtok_r(value, ",", &save); s; s = strtok_r(NULL, ",", &save))
        key->value[key->n++] = s;
    return key->n ? 0 : pd_fail(err, PD_EUSAGE, "--set %s: give values, as in 0.1,0.03", text);
}

void cmd_sweep_release(struct sweep_keys *k) {
    for (size_t i = 0; i < k->n; i++) {
        free(k->v[i].key);
        free(k->v[i].value);
    }
}

size_t cmd_sweep_size(const struct sweep_keys *k) {
    size_t n = 1;
    for (size_t i = 0; i < k->n && n; i++)
        n = n * k->v[i].n > (size_t)CMD_SWEEP_TRIALS * CMD_SWEEP_TRIALS ? 0 : n * k->v[i].n;
    return n;
}

void cmd_sweep_draw(const struct sweep_keys *k, uint64_t seed, size_t n, size_t *combination) {
    const size_t size = cmd_sweep_size(k);
    const struct pd_rng_key key = pd_rng_key(seed, PD_RNG_SAMPLE, 0, 0);
    for (size_t i = 0, at = 0; i < n; at++) {
        combination[i] = n == size ? i : (size_t)pd_rng_below(key, 0, at, size);
        size_t before = 0;
        while (before < i && combination[before] != combination[i])
            before++;
        i += before == i; /* otherwise drawn already */
    }
}

int cmd_sweep_setting(const struct sweep_keys *k, size_t combination, size_t i, char *out,
                      size_t cap) {
    for (size_t later = k->n - 1; later > i; later--) /* the last key changes first */
        combination /= k->v[later].n;
    return pd_fmt(out, cap, "%s=%s", k->v[i].key, k->v[i].value[combination % k->v[i].n]);
}

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int cmd_sweep_hopeless(double value, double *other, size_t n, int more_is_better) {
    if (n < LEAST_OTHERS)
        return 0;
    qsort(other, n, sizeof *other, ascending);
    const double median = (other[(n - 1) / 2] + other[n / 2]) / 2;
    return more_is_better ? value < median : value > median;
}

/* --- successive halving --- */

size_t cmd_sweep_rounds(size_t n_trials, int64_t passes) {
    size_t n = 1;
    for (; n_trials >= 2 && passes >= 2; n_trials /= 2, passes /= 2)
        n++;
    return n;
}

int64_t cmd_sweep_round_passes(size_t round, size_t n_rounds, int64_t passes) {
    const int64_t part = INT64_C(1) << (n_rounds - 1 - round);
    return (passes + part - 1) / part;
}

void cmd_sweep_rank(const double *value, size_t n_values, int more_is_better, size_t *order,
                    size_t *n) {
    *n = 0;
    for (size_t i = 0; i < n_values; i++) {
        size_t at = *n;
        if (isnan(value[i]))
            continue;
        for (; at &&
               (more_is_better ? value[i] > value[order[at - 1]] : value[i] < value[order[at - 1]]);
             at--)
            order[at] = order[at - 1];
        order[at] = i;
        ++*n;
    }
}
