/* SPDX-License-Identifier: Apache-2.0 */
/* job_profile.c - profile = 1: the clocks of the nodes while the job runs, and the trace of the job
 * when its outputs are here (launcher/outputs/profile.h). */
#include "launcher/job/job_internal.h"

/* Pings of the lease are seconds apart; here more are sent, so that one of them is fast. */
void job_profile_tick(struct job *j) {
    for (int i = 0; i < j->n_nodes && j->opts->profile; i++)
        if (j->by_id[i] && j->by_id[i]->step == NODE_RUNNING && j->by_id[i]->link &&
            link_is_open(j->by_id[i]->link))
            link_ping(j->by_id[i]->link);
}

static void report(struct job *j, const struct outputs_profile *p, const struct pd_err *err) {
    char left[80] = "", dropped[80] = "";
    if (err->code) {
        watch_print(j, "warning: no trace of the job: %s", err->msg);
        return;
    }
    if (p->n_left_out)
        pd_fmt(left, sizeof left, "; %zu more have no known clock and stay in profile/",
               p->n_left_out);
    if (p->n_dropped)
        pd_fmt(dropped, sizeof dropped, "; %llu earlier ones were dropped",
               (unsigned long long)p->n_dropped);
    watch_print(j,
                "trace: %s/profile.json, %llu spans of %zu processes%s%s; ui.perfetto.dev shows it",
                p->dir, (unsigned long long)p->n_spans, p->n_processes, dropped, left);
    if (p->n_damaged)
        watch_print(j, "warning: the trace lacks spans of %zu processes: %s", p->n_damaged,
                    p->damage.msg);
}

void job_profile_write(struct job *j) {
    const size_t n = (size_t)j->n_nodes;
    struct pd_err err = {0};
    struct outputs_clock *clocks = pd_calloc(n, sizeof *clocks);
    const char **hosts = pd_calloc(n, sizeof *hosts);
    struct outputs_profile p = {
        .dir = j->out.dir, .job = j->id, .clocks = clocks, .hosts = hosts, .n_nodes = j->n_nodes};
    for (size_t i = 0; i < n && clocks && hosts; i++) {
        hosts[i] = j->by_id[i] ? j->by_id[i]->host->label : "?";
        if (j->by_id[i])
            clocks[i] = j->by_id[i]->clock;
    }
    if (!clocks || !hosts)
        pd_oom(&err, "the trace");
    else
        outputs_profile_merge(&p, &err);
    /* train.ini, or the paddlectl that began the job, may have asked for the spans. */
    if (j->opts->profile || p.n_processes)
        report(j, &p, &err);
    free(clocks);
    free(hosts);
}
