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
    const size_t n = (size_t)j->n_nodes;
    struct pd_err err = {0};
    char text[OUTPUTS_PROFILE_TEXT];
    struct outputs_clock *clocks = pd_calloc(n, sizeof *clocks);
    const char **hosts = pd_calloc(n, sizeof *hosts);
    struct outputs_profile p = {.dir = j->out.dir,
                                .file = j->opts->profile_file,
                                .job = j->id,
                                .clocks = clocks,
                                .hosts = hosts,
                                .n_nodes = j->n_nodes};
    for (size_t i = 0; i < n && clocks && hosts; i++) {
        hosts[i] = j->by_id[i] ? j->by_id[i]->host->label : "?";
        if (j->by_id[i])
            clocks[i] = j->by_id[i]->clock;
    }
    if (!clocks || !hosts)
        pd_oom(&err, "the trace");
    else
        (void)outputs_profile_merge(&p, &err);
    /* train.ini, or the paddlectl that began the job, may have asked for the spans. */
    outputs_profile_text(&p, &err, text);
    if (j->opts->profile || p.n_processes)
        watch_print(j, "%s", text);
    if (p.n_damaged && !err.code)
        watch_print(j, OUTPUTS_PROFILE_LACKS, p.n_damaged, p.damage.msg);
    free(clocks);
    free(hosts);
}
