/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_fetch.c - paddlectl fetch: copies the outputs, and with --log the logs, of a running or ended
 * job. */
#include "launcher/record/record.h"
#include "launcher/cmd/cmd.h"
#include "launcher/job/find.h"
#include "launcher/outputs/outputs.h"
#include "launcher/outputs/profile.h"
#include "launcher/outputs/saved_models.h"
#include "launcher/dispatch/bar_fetch.h"
#include "launcher/dispatch/bar_keys.h"
#include "launcher/text/fold_lines.h"

enum { FLUSH_MS = 2000, MOST_NAMED = 8, PINGS = 5, PING_MS = 10000 };

struct fetch_cmd {
    struct outputs out;
    const struct found_job *job;
    const char *pass, *to;
    const struct saved_model *model; /* NULL: all outputs */
    struct saved_models models;
    struct view *view; /* on stderr; NULL: --json */
    struct bar_fetch bar;
    struct bar_keys keys;
    int logs, json;
    int n_with_outputs;
    int placed;          /* the outputs are in their folder */
    struct fetch_clock { /* of each host, for a trace; pings under way */
        struct outputs_clock clock;
        int n_pings;
    } * clocks;
    uint64_t bytes; /* that came over the links */
};

static void fetch_dir(struct ask_all_node *n, const char *dir);
static void ask_clock(struct ask_all_node *n);

/* --- a job with profile = 1 that no paddlectl has followed to its end --- */

static void after_outputs(struct ask_all_node *n) {
    struct fetch_cmd *f = n->g->arg;
    if (f->logs)
        fetch_dir(n, "log");
    else
        ask_all_done(n);
}

/* The clock of a node whose outputs have spans. */
/* An agent that does not answer in time has no clock; its files are fetched nevertheless. */
static int on_ping(struct link *l, const struct wire_frame *frame, json_t *body,
                   const struct pd_err *err, void *arg) {
    struct ask_all_node *n = arg;
    struct fetch_cmd *f = n->g->arg;
    struct ag_ping_answer a;
    (void)l;
    (void)frame;
    if (err && (err->code == PD_ECLOSED || err->code == PD_ECANCELED)) {
        ask_all_fail(n, err);
    } else if (err) {
        after_outputs(n);
    } else {
        if (!wire_get(&wire_ag_ping_answer, &a, body, NULL))
            outputs_clock_ping(&f->clocks[n->id].clock, a.sent_ns, a.now_ns, (int64_t)pd_mono_ns(),
                               a.boot);
        ask_clock(n);
    }
    return 1;
}

static void ask_clock(struct ask_all_node *n) {
    struct fetch_cmd *f = n->g->arg;
    char dir[PATH_MAX];
    if (f->clocks[n->id].n_pings++ == PINGS || f->model ||
        pd_fmt(dir, sizeof dir, "%s/node-%d", f->out.try, f->job->host[n->id].node) ||
        !outputs_profile_has_parts(dir))
        after_outputs(n);
    else if (link_request(
                 n->link, WIRE_AG_PING,
                 wire_put(&wire_ag_ping,
                          &(struct ag_ping){.owner = "", .sent_ns = (int64_t)pd_mono_ns()}),
                 NULL, 0, PING_MS, "asking for its clock", on_ping, n))
        after_outputs(n);
}

static void write_trace(const struct ask_all *g, const struct fetch_cmd *f, int n_nodes,
                        const char *file) {
    char text[OUTPUTS_PROFILE_TEXT], lacks[OUTPUTS_PROFILE_TEXT];
    struct outputs_profile p = {.dir = f->out.dir, .file = file, .job = f->job->id};
    (void)outputs_profile_nodes(&p, n_nodes);
    for (size_t i = 0; i < g->c->hosts.n; i++)
        outputs_profile_node(&p, f->job->host[i].node, g->nodes[i].host->label,
                             &f->clocks[i].clock);
    const int rc = outputs_profile_make(&p, text, lacks);
    if (rc != PD_ENOENT) /* else the folder is one of the user's programs */
        fprintf(f->json || rc ? stderr : stdout, "%s%s\n", rc ? "paddlectl: " : "", text);
    if (*lacks)
        fprintf(stderr, "paddlectl: %s\n", lacks);
    outputs_profile_release(&p);
}

/* Keeps the names of skipped files in n->text; they are printed for all hosts at the end. */
static void note_skipped(struct ask_all_node *n, const struct package_fetched *r) {
    char text[700];
    pd_fmt(text, sizeof text, "%s%s%s: %s", n->text ? n->text : "", n->text ? "; " : "", r->dir,
           r->skipped);
    free(n->text);
    n->text = pd_strdup(text);
}

static void print_skipped(const struct ask_all *g) {
    struct fold_line *v = pd_calloc(g->c->hosts.n, sizeof *v);
    for (size_t i = 0; i < g->c->hosts.n && v; i++)
        v[i] = (struct fold_line){
            .before = "paddlectl: ", .name = g->nodes[i].host->label, .text = g->nodes[i].text};
    if (v)
        fold_lines(v, g->c->hosts.n, fold_print, stderr);
    free(v);
}

static void on_fetched(void *arg, const struct package_fetched *r, const struct pd_err *err) {
    struct ask_all_node *n = arg;
    struct fetch_cmd *f = n->g->arg;
    int outputs = !strcmp(r->dir, "output");
    f->bytes += r->bytes;
    if (*r->skipped)
        note_skipped(n, r);
    if (err) {
        struct pd_err e = *err;
        pd_err_prefix(&e, "fetching %s", r->dir);
        ask_all_fail(n, &e);
        return;
    }
    f->n_with_outputs += outputs && !r->missing;
    if (outputs)
        ask_clock(n);
    else
        ask_all_done(n);
}

static void fetch_dir(struct ask_all_node *n, const char *dir) {
    struct fetch_cmd *f = n->g->arg;
    int id = f->job->host[n->id].node;
    struct pd_err err = {0};
    if (id < 0)
        pd_fail(&err, PD_EHOST, "the host does not know its node id in %s", f->job->id);
    else if (package_fetch(&f->out.fetches, n->link, &n->g->c->loop, dir,
                           f->model && !strcmp(dir, "output") ? f->model->name : NULL, id,
                           on_fetched, n))
        pd_fail(&err, PD_EIO, "cannot write below %.600s", f->out.aside);
    if (err.code)
        ask_all_fail(n, &err);
}

static void on_connected(struct ask_all_node *n) { fetch_dir(n, "output"); }

struct incomplete {
    const struct fetch_cmd *f;
    json_t *names;
};

static void tell_incomplete(void *arg, const char *model, const char *part, int n_missing) {
    const struct incomplete *x = arg;
    fprintf(stderr, "paddlectl: %s/%s is incomplete: %s%s missing\n", x->f->out.dir, model, part,
            n_missing > 1 ? " and other parts are" : " is");
    json_array_append_new(x->names, json_string(model));
}

/* Names the nodes whose folder of the job is on no host. 0: there is none. */
static int tell_missing(const struct ask_all *g, const struct found_job *job) {
    char text[200] = "";
    int n = 0;
    size_t at = 0;
    for (int id = 0; id < job->n_nodes; id++) {
        int found = 0;
        for (size_t i = 0; i < g->c->hosts.n && !found; i++)
            found = job->host[i].has_job && job->host[i].node == id;
        if (!found && n++ < MOST_NAMED)
            at += (size_t)snprintf(text + at, sizeof text - at, "%s%d", n > 1 ? ", " : "", id);
    }
    if (n)
        fprintf(stderr,
                "paddlectl: no host of conf.ini has the folder of %s for %s %s%s: the outputs of "
                "%s are missing\n",
                job->id, n > 1 ? "nodes" : "node", text, n > MOST_NAMED ? " and others" : "",
                n > 1 ? "these nodes" : "this node");
    return n;
}

static int report(const struct ask_all *g, const struct fetch_cmd *f, int n_renamed) {
    json_t *hosts = json_array(), *bad = json_array();
    struct incomplete x = {f, json_array()};
    int n = 0;
    for (size_t i = 0; i < g->c->hosts.n; i++) {
        if (g->nodes[i].err.code)
            json_array_append_new(bad, json_string(g->nodes[i].host->label));
        else if (!g->nodes[i].skip && ++n)
            json_array_append_new(hosts, json_string(g->nodes[i].host->label));
    }
    if (!f->model && f->placed)
        outputs_incomplete(&f->out, tell_incomplete, &x);
    if (f->json)
        return cmd_print_json(json_pack(
            "{s:s, s:s, s:s, s:b, s:i, s:s*, s:I, s:o, s:o, s:o}", "job", f->job->id, "state",
            f->job->state, "path", f->out.dir, "logs", f->logs, "renamed", n_renamed, "model",
            f->model ? f->model->name : NULL, "bytes", (json_int_t)f->bytes, "fetched", hosts,
            "failed", bad, "incomplete", x.names));
    json_decref(hosts);
    json_decref(bad);
    json_decref(x.names);
    if (!n) /* the hosts' errors follow */
        return 0;
    if (n_renamed)
        printf("%d output files of different nodes have the same name; later copies are named "
               "NAME.node-N\n",
               n_renamed);
    if (!f->n_with_outputs)
        printf("%s (%s) has no outputs\n", f->job->id, f->job->state);
    printf("%s (%s): fetched from %d node%s into %s%s%s\n", f->job->id, f->job->state, n,
           n == 1 ? "" : "s", f->out.dir, f->model ? "/" : "", f->model ? f->model->name : "");
    return 0;
}

/* 1: parts of the chosen model have not come. */
static int is_incomplete(const struct fetch_cmd *f) {
    char folder[PATH_MAX], first[MODEL_FILE_MAX + 1];
    struct model_manifest m;
    int n_missing = 0;
    if (!f->model || pd_fmt(folder, sizeof folder, "%s/%s", f->out.dir, f->model->name))
        return 0;
    const int bad = outputs_read_model(folder, &m, &n_missing, first);
    if (bad)
        fprintf(stderr, "paddlectl: %s is no complete model: it has no manifest\n", folder);
    else if (n_missing)
        fprintf(stderr, "paddlectl: %s is incomplete: %s%s missing\n", folder, first,
                n_missing > 1 ? " and other parts are" : " is");
    model_manifest_release(&m);
    return bad || n_missing;
}

/* The record of a run that paddlectl did not follow to its end gets what the nodes' logs say. */
static int complete_record(const struct fetch_cmd *f, struct pd_err *err) {
    const struct found_job *j = f->job;
    json_t *more = json_pack("{s:s, s:s, s:s}", "job", j->id, "name", j->name, "state",
                             j->n_running ? "detached" : j->state);
    if (j->started_us)
        json_object_set_new(more, "started_ms", json_integer(j->started_us / 1000));
    if (!j->n_running && j->ended_us > j->started_us) {
        json_object_set_new(more, "ended_ms", json_integer(j->ended_us / 1000));
        json_object_set_new(more, "seconds",
                            json_real((double)(j->ended_us - j->started_us) * 1e-6));
    }
    const int rc = record_complete(f->out.dir, more, err);
    if (rc != PD_EEXIST) /* the paddlectl that follows the job writes the record */
        return rc;
    pd_err_clear(err);
    return 0;
}

/* --pass: asks what was saved, and says which model it is. */
static int choose_pass(struct ask_all *g, struct fetch_cmd *f, struct pd_err *err) {
    char text[SAVED_CHOICE_TEXT];
    int rc = saved_models_ask(g, &f->models, err);
    if (!rc)
        rc = saved_models_choose(&f->models, f->job->id, f->pass, 0, &f->model, text, err);
    if (!rc && !f->json)
        printf("%s: %s\n", f->job->id, text);
    fflush(stdout);
    return rc;
}

static int run_fetch(struct ask_all *g, struct fetch_cmd *f, struct pd_err *err) {
    int n = 0;
    for (size_t i = 0; i < g->c->hosts.n; i++)
        n += !g->nodes[i].skip;
    bar_fetch_begin(&f->bar, &g->c->loop, f->view, NULL, NULL, &f->out.fetches,
                    f->logs ? 2 * n : n);
    int rc = bar_keys_open(&f->keys, &f->bar.bar, g, "fetch", err);
    if (!rc)
        ask_all_run(g, on_connected, f);
    bar_keys_close(&f->keys);
    bar_fetch_end(&f->bar);
    view_free(f->view, FLUSH_MS); /* its thread is done before the report is printed */
    f->view = NULL;
    print_skipped(g);
    return rc;
}

static int fetch_from(struct ask_all *g, const struct pd_options *o, struct fetch_cmd *f,
                      struct pd_err *err) {
    int most = 0, renamed = 0, n_good = 0,
        rc = outputs_init(&f->out, o->outputs, f->to, f->job->id,
                          f->to ? "--to" : option_source(o, "outputs"), err);
    if (!rc)
        rc = outputs_try(&f->out, f->to ? "--to" : option_source(o, "outputs"), err);
    if (rc)
        return rc;
    find_join(g, f->job, 0);
    f->clocks = pd_calloc(g->c->hosts.n, sizeof *f->clocks);
    if (!f->clocks)
        return pd_oom(err, "the clocks of the nodes");
    if (f->pass)
        rc = choose_pass(g, f, err);
    if (!rc)
        rc = outputs_begin(&f->out, err);
    if (!rc && !f->json)
        rc = view_new(&f->view, STDERR_FILENO, VIEW_COLOUR_AUTO, err);
    if (!rc)
        rc = run_fetch(g, f, err);
    if (rc)
        return rc;
    for (size_t i = 0; i < g->c->hosts.n; i++) {
        most = f->job->host[i].node >= most ? f->job->host[i].node + 1 : most;
        n_good += !g->nodes[i].skip && !g->nodes[i].err.code;
    }
    if (g->interrupted || (n_good && (rc = outputs_place(&f->out, most, &renamed, err))))
        return rc;
    f->placed = n_good > 0;
    if (f->placed && !f->model && outputs_profile_has_parts(f->out.dir))
        write_trace(g, f, most, o->profile_file);
    if (f->placed && f->logs && !f->to && complete_record(f, err)) {
        fprintf(stderr, "paddlectl: warning: the record of this run is not complete: %s\n",
                err->msg);
        pd_err_clear(err);
    }
    return report(g, f, renamed) || is_incomplete(f);
}

/* Several folders may share their hosts. Without JOB the newest job that was started in this one is
 * meant: its record is here. NULL: there is none. */
static const char *newest_here(const struct found *f, const struct pd_options *o) {
    char path[PATH_MAX];
    for (size_t i = 0; i < f->n; i++)
        if (!pd_fmt(path, sizeof path, "%s/%s/run.json", o->outputs, f->v[i].id) &&
            !access(path, F_OK))
            return f->v[i].id;
    return NULL;
}

static int fetch(void *arg, const struct pd_options *o, const char *want, struct pd_err *err) {
    struct fetch_cmd *f = arg;
    struct client_env c;
    struct ask_all g;
    struct found found = {0};
    int bad = 0, status = 0, rc = client_env_init(&c, o, err);
    if (rc)
        return rc;
    rc = ask_all_init(&g, &c, err);
    if (!rc)
        rc = find_jobs(&g, 0, &found, err);
    if (!rc)
        rc = find_choose(&found, want ? want : newest_here(&found, o), FIND_NEWEST, &f->job, err);
    if (!rc)
        status = fetch_from(&g, o, f, err);
    for (size_t i = 0; g.nodes && i < c.hosts.n; i++)
        bad += g.nodes[i].err.code != 0;
    if (bad || g.interrupted)
        status = ask_all_report(&g);
    else if (!rc && tell_missing(&g, f->job) && !f->model && !status)
        status = pd_code_exit_status(PD_EHOST);
    int interrupted = g.interrupted;
    if (rc == PD_ENOENT && bad) /* the job may be on an unreachable host */
        err->code = PD_EHOST;
    ask_all_release(
        &g); /* before the outputs are dropped: ends turns of work that are still under way */
    bar_keys_release(&f->keys);
    if (*f->out.aside)
        outputs_drop(&f->out, bad || !f->placed);
    if (interrupted && f->job)
        fprintf(stderr, "paddlectl: 'paddlectl fetch %s' goes on where this one stopped\n",
                f->job->id);
    free(f->clocks);
    saved_models_release(&f->models);
    find_release(&found);
    client_env_release(&c);
    if (interrupted)
        pd_err_clear(err);
    return status;
}

int cmd_fetch(int argc, char **argv) {
    struct fetch_cmd f = {0};
    const struct pd_extra_option extra[] = {
        {"pass=WHICH", NULL, &f.pass,
         "copy only this model: latest, best (by the tests), a number of a pass from 1, or a name "
         "like pass-00005"},
        {"to=FOLDER", NULL, &f.to, "copy into this folder, not into output/<job id>"},
        {"log", &f.logs, NULL, "also copy the logs, to log/node-N"},
        CMD_JSON(&f.json),
        {0},
    };
    const struct cmd_line line = {
        .usage = "paddlectl fetch [options] [JOB]\n"
                 "Copies the outputs of a job to output/<job id>, from any machine, also while the "
                 "job runs and after it failed or was stopped. Without JOB: the newest job with a "
                 "record in output, else the only running job, else the newest job.",
        .about = "Only what an earlier fetch has not copied yet travels, also after an interrupted "
                 "one. Its files are replaced, all "
                 "other files stay. output/latest then points at this job. Of a job with "
                 "--profile the trace is made, output/<job id>/profile.json.\n",
        .examples =
            "paddlectl fetch\tthe outputs of the newest job\n"
            "paddlectl fetch --pass=best --to=model\tonly the model of the best pass\n"
            "paddlectl fetch --log ab12\toutputs and logs of the job whose id ends with ab12\n",
        .extra = extra,
        .sections = "cluster.hosts cluster.root_dir ssh job.outputs job.profile_file",
        .who = PD_LAUNCHER,
        .max_rest = 1,
        .needs_conf = 1,
    };
    return cmd_main(&line, argc, argv, fetch, &f);
}
