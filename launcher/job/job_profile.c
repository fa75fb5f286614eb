/* SPDX-License-Identifier: Apache-2.0 */
/* job_profile.c - profile = 1: the clocks of the nodes while the job runs, and the trace of the job
 * when its outputs are here (launcher/outputs/profile.h). Of a job that has failed or was stopped
 * only the spans come. */
#include "launcher/job/job_internal.h"

/* Pings of the lease are seconds apart; here more are sent, so that one of them is fast. */
void job_profile_tick(struct job *j) {
    for (int i = 0; i < j->n_nodes && j->opts->profile; i++)
        if (j->by_id[i] && j->by_id[i]->step == NODE_RUNNING && j->by_id[i]->link &&
            link_is_open(j->by_id[i]->link))
            link_ping(j->by_id[i]->link);
}

void job_profile_write(struct job *j) {
    char text[OUTPUTS_PROFILE_TEXT], lacks[OUTPUTS_PROFILE_TEXT];
    struct outputs_profile p = {.dir = j->out.dir, .file = j->opts->profile_file, .job = j->id};
    (void)outputs_profile_nodes(&p, j->n_nodes);
    for (int i = 0; i < j->n_nodes; i++)
        if (j->by_id[i])
            outputs_profile_node(&p, i, j->by_id[i]->host->label, &j->by_id[i]->clock);
    (void)outputs_profile_make(&p, text, lacks);
    /* train.ini, or the paddlectl that began the job, may have asked for the spans. */
    if (j->opts->profile || p.n_processes)
        watch_print(j, "%s", text);
    if (*lacks)
        watch_print(j, "%s", lacks);
    outputs_profile_release(&p);
}
