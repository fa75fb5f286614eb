/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_stop.c - paddlectl stop: ends a job on all its nodes, from any machine. */
#include "launcher/cmd/cmd.h"
#include "launcher/job/find.h"

enum { STOP_MS = 30000, GRACE_MS = 1000, SAVE_MS = 120000 };

struct stop_cmd {
    int save, force, json;
};

static int take_stopped(struct ask_all_node *n, json_t *body, struct pd_err *err) {
    (void)body;
    (void)err;
    ask_all_done(n);
    return 0;
}

static void on_connected(struct ask_all_node *n) {
    const struct stop_cmd *s = n->g->arg;
    const struct hd_stop_job stop = {.grace_ms = s->force ? 0 : GRACE_MS,
                                     .save = s->save,
                                     .save_ms = SAVE_MS,
                                     .reason = "paddlectl stop"};
    ask_all_request(n, WIRE_AG_STOP, wire_put(&wire_hd_stop_job, &stop),
                    STOP_MS + (s->save ? SAVE_MS : 0),
                    s->save ? "saving the model and ending the processes" : "ending the processes",
                    take_stopped);
}

static int report(const struct ask_all *g, const struct stop_cmd *s, const struct found_job *job) {
    json_t *hosts = json_array(), *bad = json_array();
    int n = 0, runs = 0;
    for (size_t i = 0; i < g->c->hosts.n; i++) {
        runs += !g->nodes[i].skip;
        if (g->nodes[i].err.code)
            json_array_append_new(bad, json_string(g->nodes[i].host->label));
        else if (!g->nodes[i].skip && ++n)
            json_array_append_new(hosts, json_string(g->nodes[i].host->label));
    }
    if (s->json)
        return cmd_print_json(json_pack("{s:s, s:b, s:o, s:o}", "job", job->id, "was_running",
                                        runs > 0, "stopped", hosts, "failed", bad));
    json_decref(hosts);
    json_decref(bad);
    if (n)
        printf("%s: stopped on %d node%s\n", job->id, n, n == 1 ? "" : "s");
    else if (!runs)
        printf("%s has already ended\n", job->id);
    return 0;
}

static int stop_job(void *arg, const struct pd_options *o, const char *want, struct pd_err *err) {
    struct stop_cmd *s = arg;
    struct client_env c;
    struct ask_all g;
    struct found found = {0};
    const struct found_job *job;
    int status = 0, bad = 0, rc = client_env_init(&c, o, err);
    if (rc)
        return rc;
    rc = ask_all_init(&g, &c, err);
    if (!rc)
        rc = find_jobs(&g, 0, &found, err);
    if (!rc)
        rc = find_choose(&found, want, FIND_RUNNING, &job, err);
    if (!rc) {
        find_join(&g, job, 1);
        bad = ask_all_run(&g, on_connected, s);
        status = report(&g, s, job);
    }
    /* Name the unreachable hosts in any case: the job may still run there. */
    for (size_t i = 0; g.nodes && i < c.hosts.n && !g.interrupted; i++)
        bad += rc && g.nodes[i].err.code;
    if (bad || g.interrupted)
        status = ask_all_report(&g);
    if (rc == PD_ENOENT && bad) /* the job may be on an unreachable host */
        fprintf(stderr, "paddlectl: %s\n", err->msg), pd_err_clear(err);
    find_release(&found);
    ask_all_release(&g);
    client_env_release(&c);
    return err->code ? rc : status;
}

int cmd_stop(int argc, char **argv) {
    struct stop_cmd s = {0};
    const struct pd_extra_option extra[] = {
        {"save", &s.save, NULL, "let the trainers save the model before they end"},
        {"force", &s.force, NULL, "send KILL at once, without TERM"},
        CMD_JSON(&s.json),
        {0},
    };
    const struct cmd_line line = {
        .usage =
            "paddlectl stop [options] [JOB]\n"
            "Ends the processes of a job on all hosts of conf.ini. JOB is the beginning or end "
            "of an id, the name of a job, or 'latest' for the newest job. Without JOB: the only "
            "running job.",
        .examples = "paddlectl stop\tends the only running job\n"
                    "paddlectl stop --save latest\tends the newest job after saving its model\n",
        .extra = extra,
        .who = PD_LAUNCHER,
        .max_rest = 1,
        .needs_conf = 1,
    };
    return cmd_main(&line, argc, argv, stop_job, &s);
}
