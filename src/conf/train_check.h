/* SPDX-License-Identifier: Apache-2.0 */
/* train_check.h - checks for options of a training job that exclude each other. A trainer checks
 * before it opens anything; `paddlectl run` checks before it connects to a host, so nothing was
 * done and the exit status is 2. options.c checks each value by itself. */
#pragma once

#include "conf/options.h"

/* Facts of a job that are not options. */
struct pd_train_place {
    uint32_t n_pservers;
    /* first_trainers: trainers at the start of the job, before nodes were lost; 0: as many as now.
     */
    uint32_t first_trainers;
    /* 1: the job was restarted after a failure, so it had at first what it lacks now */
    int restarted;
};

/* Check the options for trainer o->trainer_id of o->num_gradient_servers. PD_ECONF or PD_EUSAGE;
 * the message begins with the place of the option: "conf.ini:12: ...". */
int pd_train_check(const struct pd_options *o, const struct pd_train_place *place,
                   struct pd_err *err);

/* Number of streams of the job. The streams stay the same when trainers are lost. */
uint32_t pd_train_streams(const struct pd_options *o, const struct pd_train_place *place);
