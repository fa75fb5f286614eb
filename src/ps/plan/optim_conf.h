/* optim_conf.h - the settings of an optimizer, as ONE table of names: train.ini's [optimizer], the
 * client's text, the wire. And the learning rate at a point of the training.
 *
 * As text, which PS_DECLARE carries: "adam learning_rate=0.001 beta1=0.9 ..."; ps_optim_conf_text
 * writes all settings that differ from their defaults in the order of the table, so equal settings
 * are equal texts.
 */
#ifndef PD_PS_OPTIM_CONF_H
#define PD_PS_OPTIM_CONF_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum { PS_OPTIM_TEXT_MAX = 2048, PS_SCHEDULE_POINTS = 64 };

struct ps_optim_conf {
    char name[32];
    double learning_rate, epsilon, momentum, decay, beta1, beta2, beta, clip_value, clip_norm;
    char schedule[16];       /* a row of the table of schedules */
    double decay_a, decay_b; /* what they mean depends on the schedule */
    double warmup_steps; /* from 0 up to the learning rate in so many updates, linearly; 0: none */
    double total_steps;  /* cosine: where it ends */
    uint32_t n_points;   /* manual, pass_manual: up to at[i] the rate is times factor[i], after the
                            last one the last */
    double at[PS_SCHEDULE_POINTS], factor[PS_SCHEDULE_POINTS];
};

/* All defaults. PD_ECONF: there is no optimizer of that name (the message lists those there are).
 */
int ps_optim_conf_init(struct ps_optim_conf *c, const char *name, struct pd_err *err);
/* One setting by name. PD_ECONF for an unknown one (with the nearest that there is) or a value out
 * of range. */
int ps_optim_conf_set(struct ps_optim_conf *c, const char *name, const char *value,
                      struct pd_err *err);
/* What only shows when all are set: a schedule that lacks its numbers. */
int ps_optim_conf_check(const struct ps_optim_conf *c, struct pd_err *err);
void ps_optim_conf_text(const struct ps_optim_conf *c,
                        struct pd_buf *out); /* appended, with its NUL */
int ps_optim_conf_parse(struct ps_optim_conf *c, const char *text,
                        struct pd_err *err); /* checked too */

/* Where the training is when an update is applied. */
struct ps_schedule_at {
    uint64_t step;    /* updates applied before this one */
    uint64_t samples; /* samples of the updates applied before this one */
    uint64_t pass;
};
double ps_learning_rate(const struct ps_optim_conf *c, const struct ps_schedule_at *at);

#endif
