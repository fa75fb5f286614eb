/* cmd_fetch.c - paddlectl fetch: the outputs, and with --log the logs, of a job that runs or is
 * over. */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "launcher/dispatch/package.h"
#include "launcher/cmd/cmd.h"
#include "launcher/job/find.h"
#include "launcher/job/outputs.h"

struct fetch {
    struct outputs out;
    const struct found_job *job;
    int logs, json;
    int n_with_outputs;
};

static void fetch_dir(struct ask_all_node *n, const char *dir);

static void came(struct ask_all_node *n, const char *dir, int missing, const char *skipped,
                 const struct pd_err *err) {
    struct fetch *f = n->g->arg;
    struct pd_err e = {0};
    if (*skipped)
        fprintf(stderr, "paddlectl: %s: %s: %s\n", n->host->label, dir, skipped);
    if (err) {
        e = *err;
        pd_err_prefix(&e, "fetching %s", dir);
        ask_all_fail(n, &e);
        return;
    }
    f->n_with_outputs += !missing && !strcmp(dir, "output");
    if (f->logs && !strcmp(dir, "output"))
        fetch_dir(n, "log");
    else
        ask_all_done(n);
}

static void on_outputs(void *arg, int missing, const char *skipped, const struct pd_err *err) {
    came(arg, "output", missing, skipped, err);
}

static void on_logs(void *arg, int missing, const char *skipped, const struct pd_err *err) {
    came(arg, "log", missing, skipped, err);
}

static void fetch_dir(struct ask_all_node *n, const char *dir) {
    const struct fetch *f = n->g->arg;
    int logs = !strcmp(dir, "log"), id = f->job->at[n->id].node;
    struct pd_err err = {0};
    if (id < 0)
        pd_fail(&err, PD_EHOST, "it does not know which node of %s it is", f->job->id);
    else if (package_fetch(n->link, &n->g->c->loop, dir, logs ? f->out.logs_aside : f->out.aside,
                           id, logs ? on_logs : on_outputs, n))
        pd_fail(&err, PD_EIO, "cannot write below %.600s", f->out.aside);
    if (err.code)
        ask_all_fail(n, &err);
}

static void talk(struct ask_all_node *n) { fetch_dir(n, "output"); }

static int report(const struct ask_all *g, const struct fetch *f, int n_renamed) {
    json_t *hosts = json_array(), *bad = json_array();
    int n = 0;
    for (size_t i = 0; i < g->c->hosts.n; i++) {
        if (g->nodes[i].err.code)
            json_array_append_new(bad, json_string(g->nodes[i].host->label));
        else if (!g->nodes[i].skip && ++n)
            json_array_append_new(hosts, json_string(g->nodes[i].host->label));
    }
    if (f->json)
        return cmd_print_json(json_pack("{s:s, s:s, s:s, s:b, s:i, s:o, s:o}", "job", f->job->id,
                                        "state", f->job->state, "path", f->out.dir, "logs", f->logs,
                                        "renamed", n_renamed, "fetched", hosts, "failed", bad));
    json_decref(hosts);
    json_decref(bad);
    if (n_renamed)
        printf("%d output files of different nodes have the same name; the later are called "
               "NAME.node-N\n",
               n_renamed);
    if (!f->n_with_outputs)
        printf("%s (%s) has no outputs\n", f->job->id, f->job->state);
    printf("%s (%s): fetched from %d node%s into %s\n", f->job->id, f->job->state, n,
           n == 1 ? "" : "s", f->out.dir);
    return 0;
}

static int fetch_from(struct ask_all *g, const struct pd_options *o, struct fetch *f,
                      struct pd_err *err) {
    int most = 0, renamed = 0,
        rc = outputs_init(&f->out, o->outputs, f->job->id, option_source(o, "outputs"), err);
    if (!rc)
        rc = outputs_try(&f->out, option_source(o, "outputs"), err);
    if (!rc)
        rc = outputs_begin(&f->out, err);
    if (rc)
        return rc;
    find_join(g, f->job, 0);
    ask_all_run(g, talk, f);
    for (size_t i = 0; i < g->c->hosts.n; i++)
        most = f->job->at[i].node >= most ? f->job->at[i].node + 1 : most;
    if (!g->interrupted && !(rc = outputs_place(&f->out, most, &renamed, err)))
        rc = report(g, f, renamed);
    return rc;
}

static int fetch(void *arg, const struct pd_options *o, const char *want, struct pd_err *err) {
    struct fetch *f = arg;
    struct client_env c;
    struct ask_all g;
    struct found found = {0};
    int bad = 0, status = 0, rc = client_env_init(&c, o, err);
    if (rc)
        return rc;
    rc = ask_all_init(&g, &c, err);
    if (!rc)
        rc = find_jobs(&g, &found, err);
    if (!rc)
        rc = find_choose(&found, want, FIND_NEWEST, &f->job, err);
    if (!rc)
        status = fetch_from(&g, o, f, err);
    for (size_t i = 0; g.nodes && i < c.hosts.n; i++)
        bad += g.nodes[i].err.code != 0;
    if (bad || g.interrupted)
        status = ask_all_report(&g);
    int interrupted = g.interrupted;
    if (rc == PD_ENOENT && bad) /* not found where we could look: that is no answer */
        err->code = PD_EHOST;
    ask_all_release(&g); /* and with it what still unpacks */
    if (*f->out.aside)
        outputs_drop(&f->out);
    find_release(&found);
    client_env_release(&c);
    if (interrupted)
        pd_err_clear(err);
    return status;
}

int cmd_fetch(int argc, char **argv) {
    struct fetch f = {0};
    const struct pd_extra_option extra[] = {
        {"log", &f.logs, NULL, "the logs, too, into log/node-N"},
        CMD_JSON(&f.json),
        {0},
    };
    const struct cmd_line line = {
        .usage = "paddlectl fetch [options] [JOB]\n"
                 "Brings the outputs of a job into output/<job id>, from any machine, also while "
                 "it runs and after it failed or was\n"
                 "stopped. Without JOB: of the only one that runs, else of the newest.",
        .about = "Files that an earlier fetch brought are replaced, all others stay. output/latest "
                 "then points at this job.\n",
        .examples = "paddlectl fetch\tthe outputs of the newest job\n"
                    "paddlectl fetch --log ab12\toutputs and logs of the job whose id ends so\n",
        .extra = extra,
        .sections = "cluster.hosts cluster.root_dir ssh job.outputs",
        .who = PD_LAUNCHER,
        .max_rest = 1,
        .needs_conf = 1,
    };
    return cmd_main(&line, argc, argv, fetch, &f);
}
