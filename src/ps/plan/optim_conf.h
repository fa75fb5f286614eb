/* SPDX-License-Identifier: Apache-2.0 */
/* optim_conf.h - the settings of an optimizer and the learning rate at a point of the training.
 * train.ini's [optimizer], the client's text and the wire use ONE table of names.
 *
 * PS_DECLARE carries the settings as text: "adam learning_rate=0.001 beta1=0.9 ...".
 * ps_optim_conf_text writes all settings that differ from their defaults, in the order of the
 * table, so equal settings are equal texts. */
#pragma once

enum { PS_OPTIM_TEXT_MAX = 2048, PS_SCHEDULE_POINTS = 64 };

struct ps_optim_conf {
    char name[32];
    double learning_rate, epsilon, momentum, decay, beta1, beta2, beta, clip_value, clip_norm;
    char schedule[16];       /* name of a row of the table of schedules */
    double decay_a, decay_b; /* their meaning depends on the schedule */
    double warmup_steps;     /* updates in which the learning rate rises linearly from 0; 0: none */
    double total_steps;      /* cosine: updates until the schedule ends */
    uint32_t n_points; /* manual, pass_manual: up to at[i] the rate is multiplied by factor[i],
                          after the last point by the last factor */
    double at[PS_SCHEDULE_POINTS], factor[PS_SCHEDULE_POINTS];
};

/* Sets all defaults of the optimizer `name`. PD_ECONF: unknown name; the message lists the known
 * names. */
int ps_optim_conf_init(struct ps_optim_conf *c, const char *name, struct pd_err *err);
/* Sets one setting by name. PD_ECONF: unknown name (the message lists the known names) or value out
 * of range. */
int ps_optim_conf_set(struct ps_optim_conf *c, const char *name, const char *value,
                      struct pd_err *err);
/* Checks rules that involve several settings, such as a schedule that lacks its numbers. Returns 0
 * or PD_ECONF. */
int ps_optim_conf_check(const struct ps_optim_conf *c, struct pd_err *err);
/* Appends the text with its NUL. */
void ps_optim_conf_text(const struct ps_optim_conf *c, struct pd_buf *out);
/* Parses and checks a text. Returns 0 or PD_ECONF. */
int ps_optim_conf_parse(struct ps_optim_conf *c, const char *text, struct pd_err *err);

/* Rows of the tables of settings and of learning-rate schedules, for the reference. def NAN: the
 * optimizer's own epsilon or decay. 0, or PD_ENOENT past the end. */
struct ps_optim_setting {
    const char *name, *text;
    double min, max, def;
};
int ps_optim_setting(size_t i, struct ps_optim_setting *out);
struct ps_schedule {
    const char *name, *text;
};
int ps_schedule(size_t i, struct ps_schedule *out);

/* The point of the training at which an update is applied. */
struct ps_schedule_at {
    uint64_t step;    /* updates applied before this one */
    uint64_t samples; /* samples of these updates */
    uint64_t pass;
};
double ps_learning_rate(const struct ps_optim_conf *c, const struct ps_schedule_at *at);
