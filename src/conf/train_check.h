/* check.h - options of a training job that do not go together. A trainer asks before it opens
 * anything, paddlectl run before it connects to a host: nothing is done then, and the exit status
 * is 2. What is wrong with one value by itself src/conf says. */
#ifndef PD_CONF_TRAIN_CHECK_H
#define PD_CONF_TRAIN_CHECK_H

#include "conf/options.h"

/* What the options do not say of a job. */
struct pd_train_place {
    uint32_t n_pservers;
    uint32_t
        first_trainers; /* that it began with, before nodes were lost; 0: as many as there are */
    int restarted;      /* after a failure: what it lacks now it had */
};

/* As the trainer number o->trainer_id of o->num_gradient_servers sees them. PD_ECONF, PD_EUSAGE;
 * the message begins with where the option was given: "conf.ini:12: ...". */
int pd_train_check(const struct pd_options *o, const struct pd_train_place *place,
                   struct pd_err *err);

/* Streams of the job: what a stream is stays when trainers are lost. */
uint32_t pd_train_streams(const struct pd_options *o, const struct pd_train_place *place);

#endif
