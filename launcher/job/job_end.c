/* SPDX-License-Identifier: Apache-2.0 */
/* job_end.c - the final report of a job: the first failure, the hosts that could not be used, the
 * exit status. */
#include "base/json_text.h"
#include "launcher/job/job_internal.h"
#include "launcher/text/fold_lines.h"
#include "launcher/text/term.h"

static void put_indented(struct pd_buf *b, const char *text) {
    while (*text) {
        size_t n = strcspn(text, "\n");
        pd_put_fmt(b, "    | %.*s\n", (int)n, text);
        text += n + (text[n] == '\n');
    }
}

/* On a terminal two lines enclose the first failure, so that it is easy to find when scrolling
 * back. */
static void put_rule(struct pd_buf *b) {
    int width = term_is_live(STDERR_FILENO) ? term_width(STDERR_FILENO) - 1 : 0,
        colour = term_has_colour(STDERR_FILENO);
    if (!width)
        return;
    pd_put_fmt(b, "%s", colour ? "\033[1;31m" : "");
    for (int i = 0; i < width && i < 100; i++)
        pd_put_u8(b, '=');
    pd_put_fmt(b, "%s\n", colour ? "\033[m" : "");
}

struct lost_text {
    struct pd_buf *b;
    const char *before, *after; /* of the names */
};

static void put_lost_host(void *arg, const char *before, const char *who, const char *text,
                          size_t n) {
    const struct lost_text *t = arg;
    (void)before;
    (void)n;
    pd_put_fmt(t->b, "%s%s%s: %s\n", t->before, who, t->after, text);
}

/* The nodes that the head has lost. */
static void put_lost(const struct job *j, const char *before, const char *after, struct pd_buf *b) {
    struct fold_line *v = pd_calloc((size_t)j->n_hosts, sizeof *v);
    struct lost_text t = {b, before, after};
    for (int i = 0; i < j->n_hosts && v; i++)
        if (*j->nodes[i].lost)
            v[i] = (struct fold_line){.name = j->nodes[i].host->label, .text = j->nodes[i].lost};
    if (v)
        fold_lines(v, (size_t)j->n_hosts, put_lost_host, &t);
    free(v);
}

static void put_failure(const struct job *j, struct pd_buf *b) {
    const json_t *f = j->failure;
    json_int_t id = json_is_integer(json_object_get(f, "node"))
                        ? json_integer_value(json_object_get(f, "node"))
                        : -1;
    json_int_t code = json_integer_value(json_object_get(f, "exit_code")),
               sig = json_integer_value(json_object_get(f, "signal"));
    const struct job_node *n = job_node_by_id(j, id);
    const char *host = n ? n->host->label : pd_json_text(f, "host"),
               *role = pd_json_text(f, "role");
    const char *reason = pd_json_text(f, "reason");
    put_rule(b);
    pd_put_fmt(b, "paddlectl: %s failed: %s (node %lld)", j->id, host, (long long)id);
    if (*role && strcmp(role, "agent"))
        pd_put_fmt(b, ", %s %lld", role, (long long)json_integer_value(json_object_get(f, "rank")));
    if (sig > 0)
        pd_put_fmt(b, ": ended by signal %lld (%s)", (long long)sig, strsignal((int)sig));
    else if (code > 128 && code < 128 + NSIG) /* a shell reports a signal of its program this way */
        pd_put_fmt(b, ": exit status %lld (signal %lld: %s)", (long long)code,
                   (long long)code - 128, strsignal((int)code - 128));
    else if (code > 0)
        pd_put_fmt(b, ": exit status %lld", (long long)code);
    pd_put_fmt(b, "%s%s\n", *reason ? ": " : "", reason);
    put_indented(b, pd_json_text(f, "last_lines"));
    if (j->n_restarts > 0)
        pd_put_fmt(b, "  the job was restarted %lld time%s before\n", (long long)j->n_restarts,
                   j->n_restarts == 1 ? "" : "s");
    put_lost(j, "  the job had lost ", " before", b);
    if (j->n_later > 0)
        pd_put_fmt(b, "  %lld other failure%s followed\n", (long long)j->n_later,
                   j->n_later == 1 ? "" : "s");
    if (n && *n->job_dir)
        pd_put_fmt(b,
                   "  logs: %s:%s/log; 'paddlectl fetch --log %s' copies all logs and the outputs "
                   "to this machine\n",
                   host, n->job_dir, j->id);
    put_rule(b);
}

static void put_host(void *arg, const char *before, const char *who, const char *text, size_t n) {
    (void)n;
    pd_put_fmt(arg, "%s%s: %s\n", before, who, text);
}

/* Report every host that failed before the job ran, or whose connection was lost; hosts with equal
 * errors share a line. Returns exit status 2 if all these errors are errors of usage or
 * configuration, else 3; 0 if there are none. */
static int put_bad_hosts(const struct job *j, struct pd_buf *b) {
    struct fold_line *v = pd_calloc((size_t)j->n_hosts, sizeof *v);
    int n = 0, status = 2;
    for (int i = 0; i < j->n_hosts; i++) {
        if (!j->nodes[i].err.code || j->nodes[i].step == NODE_LEFT_OUT)
            continue;
        n++;
        if (pd_code_exit_status(j->nodes[i].err.code) != 2)
            status = 3;
        if (v)
            v[i] = (struct fold_line){.name = j->nodes[i].host->label, .text = j->nodes[i].err.msg};
    }
    for (int i = 0; i < j->n_hosts && v; i++)
        v[i].before = n > 1 ? "  " : "paddlectl: ";
    if (n && launch_has_ended(j->c.env.launch)) {
        pd_put_fmt(b, "paddlectl: %s\n", launch_end(j->c.env.launch));
        free(v);
        return status;
    }
    if (n > 1)
        pd_put_fmt(b, "paddlectl: %d of %d hosts cannot be used:\n", n, j->n_hosts);
    if (v)
        fold_lines(v, (size_t)j->n_hosts, put_host, b);
    free(v);
    return n ? status : 0;
}

static int put_not_started(const struct job *j, struct pd_buf *b) {
    int hosts = put_bad_hosts(j, b), status = hosts;
    if (j->err.code) {
        pd_put_fmt(b, "paddlectl: %s\n", j->err.msg);
        status = status > 2 ? status : pd_code_exit_status(j->err.code);
    }
    pd_put_fmt(b, "paddlectl: the job was not started%s\n",
               hosts ? "; 'paddlectl check' tests the hosts and names remedies" : "");
    return status;
}

static void put_stopped(const struct job *j, const char *how, struct pd_buf *b) {
    pd_put_fmt(b, "paddlectl: %s %s\n", j->id, how);
    if (j->fetched)
        pd_put_fmt(b, "paddlectl: its outputs are in %s\n", j->out.dir);
    job_summary_go_on(j, b);
}

/* The report of attach: the job may continue. */
static int conclude_joined(struct job *j, struct pd_buf *b) {
    int bad = put_bad_hosts(j, b);
    if (j->failed) {
        if (j->failure)
            put_failure(j, b);
        else
            pd_put_fmt(b, "paddlectl: %s failed\n", j->id);
        job_summary_go_on(j, b);
        return 1;
    }
    if (j->stopped) {
        put_stopped(j, "was stopped", b);
        return pd_code_exit_status(PD_ECANCELED);
    }
    if (j->left)
        return 0;
    if (j->stopped_by_user) {
        pd_put_fmt(b,
                   "paddlectl: %s continues; 'paddlectl attach %s' shows it again, 'paddlectl stop "
                   "%s' ends it\n",
                   j->id, j->id, j->id);
        return pd_code_exit_status(PD_ECANCELED);
    }
    return bad ? pd_code_exit_status(PD_EHOST) : 0;
}

static int conclude(struct job *j, struct pd_buf *b) {
    if (j->joined || (j->demoted && j->stopped_by_user))
        return conclude_joined(j, b);
    if (j->stopped_by_user) {
        if (j->failure) /* possibly the reason for the stop */
            put_failure(j, b);
        put_bad_hosts(j, b);
        put_stopped(j, "was stopped", b);
        return pd_code_exit_status(PD_ECANCELED);
    }
    if (!j->ran)
        return put_not_started(j, b);
    if (j->left)
        return 0;
    if (j->failure || j->failed) {
        if (j->failure)
            put_failure(j, b);
        put_bad_hosts(j, b);
        if (!j->failure)
            pd_put_fmt(b, "paddlectl: %s failed\n", j->id);
        job_summary_go_on(j, b);
        return 1;
    }
    if (put_bad_hosts(j, b)) {
        pd_put_fmt(b, "paddlectl: %s failed\n", j->id);
        job_summary_go_on(j, b);
        return 1;
    }
    if (j->stopped) {
        put_stopped(j, "was stopped from elsewhere", b);
        return pd_code_exit_status(PD_ECANCELED);
    }
    if (!j->fetched) {
        pd_put_fmt(b,
                   "paddlectl: %s: the outputs were not fetched: %s; they remain in %s/output on "
                   "each node\n",
                   j->id, j->err.code ? j->err.msg : "see above", j->by_id[0]->job_dir);
        return 1;
    }
    return 0;
}

static const char *status_word(const struct job *j, int status) {
    return j->left                            ? "running"
           : j->failed                        ? "failed"
           : !status                          ? "done"
           : j->stopped || j->stopped_by_user ? "stopped"
           : j->ran || j->joined              ? "failed"
                                              : "not started";
}

static void print_json_result(const struct job *j, int status, const struct pd_buf *text) {
    json_t *hosts = json_object(), *lost = json_object();
    for (int i = 0; i < j->n_hosts; i++) {
        if (j->nodes[i].err.code)
            json_object_set_new(hosts, j->nodes[i].host->label, json_string(j->nodes[i].err.msg));
        if (*j->nodes[i].lost)
            json_object_set_new(lost, j->nodes[i].host->label, json_string(j->nodes[i].lost));
    }
    json_t *o = json_pack(
        "{s:s, s:s, s:s, s:i, s:O?, s:o, s:o, s:o, s:o, s:s, s:O?, s:O?, s:f}", "event", "result",
        "job", j->id, "status",
        j->joined && j->stopped_by_user && !j->failed && !j->stopped ? "running"
                                                                     : status_word(j, status),
        "exit_status", status, "first_failure", j->failure, "bad_hosts", hosts, "lost", lost,
        "outputs", j->fetched ? json_string(j->out.dir) : json_null(), "text",
        text->len ? json_stringn((const char *)text->data, text->len) : json_string(""), "saved",
        j->saved, "test", j->test, "best", j->best, "seconds", (double)j->took_ms / 1000);
    if (o && !json_dumpf(o, stdout, JSON_COMPACT | JSON_PRESERVE_ORDER))
        putchar('\n');
    fflush(stdout);
    json_decref(o);
}

static void print_good_end(const struct job *j) {
    int fd = j->flags.detach ? STDERR_FILENO : STDOUT_FILENO;
    struct pd_buf b = {0};
    if (!j->left)
        put_lost(j, "paddlectl | the job lost ", " on the way", &b);
    if (j->left)
        pd_put_fmt(&b, "paddlectl | the job runs; 'paddlectl attach' shows it, 'paddlectl stop' "
                       "ends it, 'paddlectl fetch' copies its outputs\n");
    else
        job_summary_done(j, &b);
    if (!b.failed)
        (void)pd_write_all(fd, b.data, b.len);
    pd_buf_release(&b);
    if (j->flags.detach)
        dprintf(STDOUT_FILENO, "%s\n", j->id); /* the only text on stdout, for scripts */
}

int job_conclude(struct job *j) {
    struct pd_buf b = {0};
    int status = conclude(j, &b);
    for (size_t at = 0; at < b.len && !j->flags.json;) {
        ssize_t n = write(STDERR_FILENO, b.data + at, b.len - at);
        if (n <= 0)
            break;
        at += (size_t)n;
    }
    if (j->flags.json)
        print_json_result(j, status, &b);
    else if (!status)
        print_good_end(j);
    pd_buf_release(&b);
    if (j->record)
        job_record_end(j, status, status_word(j, status));
    if ((j->ran || j->joined) && !job_goes_on(j, status_word(j, status)))
        job_on_end(j, status, status_word(j, status));
    return status;
}
