/* SPDX-License-Identifier: Apache-2.0 */
/* row_policy.c - see row_policy.h. */
#include "ps/table/row_policy.h"

#include "math/rng.h"

enum {
    COUNT_MAX = 0xffff,
    DAYS_MAX = 0xfffe
}; /* with DAYS_MAX 0xffff a state could equal PS_ROW_NONE */

static uint32_t state_count(uint32_t state) { return state & COUNT_MAX; }
static uint32_t state_days(uint32_t state) { return state >> 16; }
static uint32_t make_state(uint64_t count, uint32_t days) {
    return (count < COUNT_MAX ? (uint32_t)count : COUNT_MAX) | (days < DAYS_MAX ? days : DAYS_MAX)
                                                                   << 16;
}

int ps_row_policy_init(struct ps_row_policy *l, const struct pd_row_life *conf, uint64_t seed,
                       const char *table) {
    *l = (struct ps_row_policy){.conf = *conf,
                                .active = pd_row_life_active(conf),
                                .seed = seed,
                                .name_hash = ps_name_hash(table)};
    if (!(conf->admit_count > 1 || (conf->admit_probability > 0 && conf->admit_probability < 1)))
        return 0;
    return ps_index_new(&l->candidates);
}

void ps_row_policy_release(struct ps_row_policy *l) {
    ps_index_free(l->candidates);
    memset(l, 0, sizeof *l);
}

/* --- admission --- */

static int list(const struct ps_row_policy *l, struct ps_index_entry **out, uint64_t *n) {
    *n = ps_index_count(l->candidates);
    *out = pd_malloc(*n * sizeof **out);
    if (!*out)
        return PD_ENOMEM;
    ps_index_list(l->candidates, *out);
    return 0;
}

/* Makes room for new candidates: halves all counts and removes candidates whose count becomes 0. */
static int forget_some(struct ps_row_policy *l) {
    struct ps_index_entry *all;
    uint64_t n;
    if (list(l, &all, &n))
        return PD_ENOMEM;
    for (uint64_t i = 0; i < n; i++) {
        uint32_t *at = ps_index_at(l->candidates, all[i].key), half = state_count(*at) / 2;
        if (half) {
            *at = make_state(half, state_days(*at));
        } else {
            ps_index_remove(l->candidates, all[i].key);
            l->n_forgotten++;
        }
    }
    free(all);
    return 0;
}

int ps_row_policy_show(struct ps_row_policy *l, uint64_t key, uint32_t shows) {
    if (!l->candidates || !shows)
        return 0;
    uint32_t *at = ps_index_at(l->candidates, key);
    if (at) {
        *at = make_state((uint64_t)state_count(*at) + shows, 0);
        return 0;
    }
    while (l->conf.admit_count > 0 &&
           (double)ps_index_count(l->candidates) >= l->conf.admit_candidates)
        if (forget_some(l))
            return PD_ENOMEM;
    return ps_index_put(l->candidates, key, make_state(shows, 0));
}

/* Whether at least one of `shows` independent trials succeeds. */
static int by_chance(const struct ps_row_policy *l, uint64_t key, uint64_t update, uint32_t shows) {
    uint32_t u[4];
    pd_rng_u32x4(pd_rng_key(l->seed, PD_RNG_ADMIT, l->name_hash, key), 0, update, u);
    return (double)u[0] < -expm1(shows * log1p(-l->conf.admit_probability)) * 4294967296.0;
}

int ps_row_policy_admit(struct ps_row_policy *l, uint64_t key, uint64_t update) {
    if (!l->candidates)
        return 1;
    const uint32_t *at = ps_index_at(l->candidates, key);
    if (!at)
        return 0;
    uint32_t shows = state_count(*at);
    int counted = l->conf.admit_count > 0,
        yes = counted ? shows >= l->conf.admit_count : by_chance(l, key, update, shows);
    if (yes || !counted)
        ps_index_remove(l->candidates, key);
    return yes;
}

/* --- ageing --- */

static uint32_t add(uint32_t a, uint32_t b) { return b > UINT32_MAX - a ? UINT32_MAX : a + b; }

void ps_row_policy_seen(struct ps_row_seen *seen, uint32_t shows, uint32_t clicks) {
    seen->shows = add(seen->shows, shows);
    seen->clicks = add(seen->clicks, clicks);
    if (shows)
        seen->unseen = 0;
}

static double score(const struct pd_row_life *conf, double show, double click) {
    return conf->show_weight * (show - click) + conf->click_weight * click;
}

void ps_row_policy_unknown(const struct pd_row_life *conf, struct ps_row_seen *seen) {
    const double score = 2 * conf->delete_score;
    memset(seen, 0, sizeof *seen);
    if (conf->show_weight > 0)
        seen->show = (float)(score / conf->show_weight);
    else if (conf->click_weight > 0)
        seen->show = seen->click = (float)(score / conf->click_weight);
}

/* Ends a row's day. Returns 1 if the row stays. */
static int row_day(const struct pd_row_life *conf, struct ps_row_seen *seen) {
    seen->show = (float)(((double)seen->show + seen->shows) * conf->show_decay);
    seen->click = (float)(((double)seen->click + seen->clicks) * conf->show_decay);
    seen->shows = seen->clicks = 0;
    seen->unseen = add(seen->unseen, 1);
    return score(conf, (double)seen->show, (double)seen->click) >= conf->delete_score &&
           seen->unseen <= conf->delete_days;
}

int ps_row_policy_day(struct ps_row_policy *l, struct ps_table *t, struct ps_row_policy_day *out) {
    struct ps_index_entry *rows = NULL, *waiting = NULL;
    uint64_t n = 0, n_rows = l->conf.ageing > 0 ? ps_table_rows(t) : 0;
    if ((l->candidates && list(l, &waiting, &n)) || (n_rows && ps_table_sorted(t, &rows))) {
        free(waiting);
        return PD_ENOMEM;
    }
    out->removed = 0;
    for (uint64_t i = 0; i < n_rows; i++) {
        (void)ps_table_change(t, rows[i].row);
        if (!row_day(&l->conf, ps_table_seen(t, rows[i].row))) {
            ps_table_remove(t, rows[i].key);
            out->removed++;
        }
    }
    for (uint64_t i = 0; i < n; i++) {
        uint32_t *at = ps_index_at(l->candidates, waiting[i].key), days = state_days(*at) + 1;
        if (days > l->conf.delete_days)
            ps_index_remove(l->candidates, waiting[i].key);
        else
            *at = make_state(state_count(*at), days);
    }
    free(rows);
    free(waiting);
    out->rows = ps_table_rows(t);
    out->candidates = ps_row_policy_candidates(l);
    return 0;
}

/* --- saving --- */

uint64_t ps_row_policy_candidates(const struct ps_row_policy *l) {
    return l->candidates ? ps_index_count(l->candidates) : 0;
}

void ps_row_policy_list(const struct ps_row_policy *l, struct ps_index_entry *out) {
    const uint64_t n = ps_row_policy_candidates(l);
    if (n)
        ps_index_list(l->candidates, out);
    ps_index_sort_entries(out, n);
}

int ps_row_policy_restore(struct ps_row_policy *l, uint64_t key, uint32_t state) {
    if (!l->candidates ||
        l->conf.admit_count <= 0) /* another kind of admission has no candidates to restore */
        return 0;
    return state == PS_ROW_NONE || ps_index_at(l->candidates, key)
               ? PD_EDATA
               : ps_index_put(l->candidates, key, state);
}
