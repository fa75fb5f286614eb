/* SPDX-License-Identifier: Apache-2.0 */
/* row_life.h - admission and ageing of the rows of a sparse table, as ONE table of settings.
 * [layer] of train.ini, the client's declaration, the wire format and the manual use these names.
 * Effects: ps/table/row_policy.h; formulas: docs/online.md. */
#pragma once

/* X(name, least, most, default, text) */
#define PD_ROW_LIFE_TABLE(X)                                                                      \
    X(admit_count, 0, 65535, 0,                                                                   \
      "create a row after its id was shown this many times; 0: at its first use")                 \
    X(admit_probability, 0, 1, 0,                                                                 \
      "or with this probability each time its id is shown; 0: at its first use")                  \
    X(admit_candidates, 1024, 1e9, 4194304, "most ids without a row that a server thread counts") \
    X(admit_zero, 0, 1, 0, "1: an id without a row reads as zeros, not as its initial value")     \
    X(ageing, 0, 1, 0,                                                                            \
      "1: count shows and clicks of each row, and remove rows at the end of a day")               \
    X(show_decay, 0, 1, 0.98, "at the end of a day shows and clicks are multiplied by this")      \
    X(show_weight, 0, 1e6, 0.1, "weight of a show without a click in the score of a row")         \
    X(click_weight, 0, 1e6, 1, "weight of a click in the score of a row")                         \
    X(delete_score, 0, 1e9, 0.8, "at the end of a day rows with a lower score are removed")       \
    X(delete_days, 1, 65535, 30, "at the end of a day rows unseen for more days are removed")

struct pd_row_life {
#define X(name, least, most, def, text) double name;
    PD_ROW_LIFE_TABLE(X)
#undef X
};

struct pd_row_life_setting {
    const char *name;
    size_t field; /* offsetof */
    double least, most, def;
    const char *text;
};
enum {
#define X(name, least, most, def, text) PD_ROW_LIFE_##name,
    PD_ROW_LIFE_TABLE(X)
#undef X
        PD_ROW_LIFE_N
};
extern const struct pd_row_life_setting pd_row_life_settings[PD_ROW_LIFE_N];

/* All defaults: every id gets a row at its first use and keeps it. */
void pd_row_life_init(struct pd_row_life *l);
static inline double *pd_row_life_at(struct pd_row_life *l, size_t i) {
    return (double *)(void *)((char *)l + pd_row_life_settings[i].field);
}
static inline double pd_row_life_get(const struct pd_row_life *l, size_t i) {
    return *(const double *)(const void *)((const char *)l + pd_row_life_settings[i].field);
}
/* 1: the table has admission or ageing. */
static inline int pd_row_life_active(const struct pd_row_life *l) {
    return l->admit_count > 0 || l->admit_probability > 0 || l->ageing > 0;
}
/* PD_ECONF, with the name of the setting: out of range, not a whole number where one is needed, or
 * both kinds of admission. */
int pd_row_life_check(const struct pd_row_life *l, struct pd_err *err);
