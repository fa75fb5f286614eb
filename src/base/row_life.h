/* row_life.h - how a sparse table's rows come and go: admission and ageing, as ONE table of
 * settings. train.ini's [layer], the client's declaration, the wire and the manual use its names.
 * What they do: ps/table/row_policy.h; the formulas: docs/online.md.
 */
#ifndef PD_BASE_ROW_LIFE_H
#define PD_BASE_ROW_LIFE_H

#include <stddef.h>

#include "base/err.h"

/* X(name, least, most, default, text) */
#define PD_ROW_LIFE_TABLE(X)                                                                  \
    X(admit_count, 0, 65535, 0,                                                               \
      "a row is made once its id was shown so often; 0: at its first use")                    \
    X(admit_probability, 0, 1, 0,                                                             \
      "or with this probability at each time that its id is shown; 0: at its first use")      \
    X(admit_candidates, 1024, 1e9, 4194304,                                                   \
      "ids that a server thread counts before they have a row, at most")                      \
    X(admit_zero, 0, 1, 0, "1: an id without a row reads as zeros, not as its initial value") \
    X(ageing, 0, 1, 0,                                                                        \
      "1: shows and clicks of each row are counted, and rows are removed at a day's end")     \
    X(show_decay, 0, 1, 0.98, "shows and clicks are multiplied with it at a day's end")       \
    X(show_weight, 0, 1e6, 0.1, "in the score of a row: weight of a show without a click")    \
    X(click_weight, 0, 1e6, 1, "in the score of a row: weight of a click")                    \
    X(delete_score, 0, 1e9, 0.8, "a row with a lower score is removed at a day's end")        \
    X(delete_days, 1, 65535, 30, "a row that was not seen for more days is removed at a day's end")

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

void pd_row_life_init(
    struct pd_row_life *l); /* all defaults: a row for every id that is used, for ever */
static inline double *pd_row_life_at(struct pd_row_life *l, size_t i) {
    return (double *)(void *)((char *)l + pd_row_life_settings[i].field);
}
static inline double pd_row_life_get(const struct pd_row_life *l, size_t i) {
    return *(const double *)(const void *)((const char *)l + pd_row_life_settings[i].field);
}
/* Are rows admitted or aged at all? */
static inline int pd_row_life_active(const struct pd_row_life *l) {
    return l->admit_count > 0 || l->admit_probability > 0 || l->ageing > 0;
}
/* PD_ECONF, with the setting's name: out of range, no whole number where it is one, or both kinds
 * of admission. */
int pd_row_life_check(const struct pd_row_life *l, struct pd_err *err);

#endif
