/* SPDX-License-Identifier: Apache-2.0 */
/* job_watch.c - shows the logs and states of a running job, and collects its results. */
#include "launcher/job/job_internal.h"
#include "launcher/text/fold_lines.h"
#include "launcher/text/table.h"

enum { SAID_MS = 200 };

/* --json: one object per line, through the view as all other output. */
void watch_event(struct job *j, json_t *o) {
    json_object_set_new(o, "time_us", json_integer((json_int_t)pd_wall_us()));
    char *text = json_dumps(o, JSON_COMPACT | JSON_PRESERVE_ORDER);
    size_t n = text ? strlen(text) : 0;
    if (text) {
        text[n] = '\n'; /* in place of its NUL */
        view_put(j->view, text, n + 1);
    }
    free(text);
    json_decref(o);
}

static void print_line(struct job *j, const char *text) {
    if (j->flags.json)
        watch_event(j,
                    json_pack("{s:s, s:s, s:s}", "event", "message", "job", j->id, "text", text));
    else
        view_printf(j->view, "%s", text);
}

static void print_said(void *arg, const char *before, const char *who, const char *text, size_t n) {
    char line[2000];
    (void)n;
    pd_fmt(line, sizeof line, "%s%s%s", before, who, text);
    print_line(arg, line);
}

static void print_one(struct job *j, const struct said *s) {
    char line[2000];
    pd_fmt(line, sizeof line, "%s%s%s%s", s->before, s->node->host->label, s->id, s->text);
    print_line(j, line);
}

/* Print the messages of nodes that wait. */
static void flush_said(struct job *j) {
    struct fold_line *v = j->n_said ? pd_calloc(j->n_said, sizeof *v) : NULL;
    for (size_t i = 0; i < j->n_said && v; i++)
        v[i] = (struct fold_line){.before = j->said[i].before,
                                  .name = j->said[i].node->host->label,
                                  .more = j->said[i].id,
                                  .text = j->said[i].text};
    if (v)
        fold_lines(v, j->n_said, print_said, j);
    for (size_t i = 0; i < j->n_said && !v; i++) /* no memory: each message in its own line */
        print_one(j, &j->said[i]);
    for (size_t i = 0; i < j->n_said; i++)
        free(j->said[i].text);
    j->n_said = 0;
    free(v);
}

static void on_said(uv_timer_t *t) { flush_said(t->data); }
void watch_flush(struct job *j) { flush_said(j); }

void watch_print(struct job *j, const char *fmt, ...) {
    char text[2000];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    flush_said(j); /* lines keep their order */
    print_line(j, text);
}

void watch_announce(struct job *j) {
    if (j->joined || j->announced)
        return;
    j->announced = 1;
    watch_print(j, "%s on %d node%s", j->id, j->n_nodes, j->n_nodes == 1 ? "" : "s");
    if (*j->checkpoint.text)
        watch_print(j, "%s", j->checkpoint.text);
    if (*j->checkpoint.settings)
        watch_print(j, "%s", j->checkpoint.settings);
}

void watch_node(const struct job_node *n, const char *before, int with_id, const char *fmt, ...) {
    struct job *j = n->job;
    char text[1000], id[24] = "";
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (with_id)
        pd_fmt(id, sizeof id, " (node %d)", n->id);
    struct said *s = NULL;
    char *copy = j->flags.json ? NULL : pd_strdup(text);
    if (copy && !pd_grow(j->said, j->cap_said, j->n_said + 1))
        s = &j->said[j->n_said++];
    if (!s) {
        free(copy);
        watch_print(j, "%s%s%s%s", before, n->host->label, id, text);
        return;
    }
    *s = (struct said){.node = n, .before = before, .text = copy};
    memcpy(s->id, id, sizeof id);
    if (!uv_is_active((uv_handle_t *)&j->said_timer))
        uv_timer_start(&j->said_timer, on_said, SAID_MS, 0);
}

/* A job that should have continued begins anew: this must not be one line of a log among many. */
static void warn_of_beginning(struct job *j, const char *json, size_t n) {
    json_t *o = memmem(json, n, "\"no_checkpoint\"", 15) ? json_loadb(json, n, 0, NULL) : NULL;
    const char *ev = json_string_value(json_object_get(o, "ev")),
               *path = json_string_value(json_object_get(o, "path"));
    if (ev && path && !strcmp(ev, "no_checkpoint") && !j->joined)
        watch_print(
            j,
            "warning: resume = latest, but there is no checkpoint in %s of this job: training "
            "starts from the beginning; --resume=JOB continues an earlier job, "
            "--resume=FOLDER a checkpoint on this machine",
            path);
    json_decref(o);
}

static void on_event(void *arg, unsigned node, const char *json, size_t n) {
    struct job *j = arg;
    warn_of_beginning(j, json, n);
    record_event(j->record, j->nodes[node].id, j->nodes[node].host->label, json, n);
    job_hear_pass(&j->nodes[node], json, n);
    json_t *o = j->flags.json ? json_loadb(json, n, 0, NULL) : NULL;
    if (json_is_object(o)) {
        json_object_set_new(o, "event", json_incref(json_object_get(o, "ev")));
        json_object_del(o, "ev");
        json_object_set_new(o, "node", json_integer(j->nodes[node].id));
        json_object_set_new(o, "host", json_string(j->nodes[node].host->label));
        watch_event(j, o);
        return;
    }
    json_decref(o);
    if (!j->flags.json)
        live_event(j->live, node, json, n);
}

static void on_done(void *arg, unsigned node) {
    struct job *j = arg;
    if (j->nodes[node].step == NODE_DRAIN)
        node_enter(&j->nodes[node], NODE_DRAINED);
    node_ends(&j->nodes[node]);
}

static void on_fail(void *arg, unsigned node, const struct pd_err *err) {
    struct job *j = arg;
    watch_node(&j->nodes[node], "", 0, ": the log of this node is not shown: %s", err->msg);
}

int watch_open(struct job *j, struct pd_err *err) {
    j->names = pd_calloc((size_t)j->n_hosts, sizeof *j->names);
    j->labels = pd_calloc((size_t)j->n_hosts, sizeof *j->labels);
    if (!j->names || !j->labels)
        return pd_oom(err, "the logs");
    unsigned unused = AT(NODE_LEFT_OUT) | LOST;
    for (int i = 0; i < j->n_hosts; i++) {
        j->labels[i] = j->nodes[i].host->label;
        j->names[i] = (struct follow_node){.host = j->labels[i],
                                           .skip = (AT(j->nodes[i].step) & unused) != 0};
    }
    int rc = view_new(&j->view, j->flags.detach && !j->flags.json ? STDERR_FILENO : STDOUT_FILENO,
                      VIEW_COLOUR_AUTO, err);
    if (rc)
        return rc;
    const struct follow_opts o = {
        .loop = &j->c.loop,
        .view = j->view,
        .nodes = j->names,
        .n_nodes = (unsigned)j->n_hosts,
        .streams = FOLLOW_SERVER_LOG | FOLLOW_TRAIN_LOG,
        .show = {.json = j->flags.json,
                 .tail = j->flags.tail,
                 .verbose = j->flags.verbose,
                 .fold = view_is_live(j->view) && !j->flags.json && !j->flags.no_fold},
        .on_event = on_event,
        .on_done = on_done,
        .on_fail = on_fail,
        .onlooker = j->joined,
        .arg = j};
    uv_timer_init(&j->c.loop, &j->said_timer);
    j->said_timer.data = j;
    rc = live_new(&j->live, &j->c.loop, j->view, j->labels, (unsigned)j->n_hosts, err);
    return rc ? rc : follow_new(&j->follow, &o, err);
}

void watch_close(struct job *j) {
    flush_said(j);
    uv_close((uv_handle_t *)&j->said_timer, NULL);
    follow_close(j->follow);
    live_close(j->live);
}

void watch_free(struct job *j, uint64_t wait_ms) {
    if (j->follow)
        follow_flush(j->follow);
    view_free(j->view, wait_ms);
    follow_free(j->follow);
    live_free(j->live);
    free(j->names);
    free(j->labels);
    free(j->said);
}

void watch_subscribe(struct job_node *n) {
    if (!n->link || n->subscribed)
        return;
    n->subscribed = 1;
    follow_begin(n->job->follow, (unsigned)n->place, n->link);
}

void watch_starting(struct job *j) { follow_starting(j->follow, 1); }
void watch_lost(struct job_node *n) { follow_lost(n->job->follow, (unsigned)n->place); }
void watch_gone(struct job_node *n) { follow_gone(n->job->follow, (unsigned)n->place); }
int watch_is_moving(struct job *j) { return follow_is_moving(j->follow); }
int watch_drained(const struct job_node *n) {
    return follow_is_done(n->job->follow, (unsigned)n->place);
}

/* The node that an entry of the head's list "lost" means. After attach, an unreachable host is
 * known by its name only. */
static struct job_node *find_lost(const struct job *j, const struct lost_node *v) {
    struct job_node *n = job_node_by_id(j, v->node);
    for (int i = 0; i < j->n_hosts && !n; i++)
        if (j->nodes[i].id < 0 && !strcmp(j->nodes[i].host->label, v->host))
            n = &j->nodes[i];
    return n;
}

/* Process the head's list of nodes that it has lost and continues without. */
static void take_lost(struct job_node *n, const json_t *list) {
    const json_t *v;
    struct lost_node e;
    size_t i;
    if (n->id != n->job->head)
        return;
    if (json_array_size(list) > json_array_size(n->job->lost)) { /* a relay knows none */
        json_decref(n->job->lost);
        n->job->lost = json_deep_copy(list);
    }
    json_array_foreach (list, i, v) {
        struct job_node *lost =
            wire_get(&wire_lost_node, &e, v, NULL) ? NULL : find_lost(n->job, &e);
        if (lost)
            node_leave_lost(lost, e.reason);
    }
}

/* Files of lost nodes have one copy, and new ones are made. */
static void take_few(struct job *j, const struct ag_state *m) {
    char bytes[16];
    if (m->few_copies < 0 || !m->few_copies == !j->few_copies)
        return; /* a new head does not know it yet */
    j->few_copies = m->few_copies;
    table_bytes(bytes, sizeof bytes, (double)m->few_bytes);
    record_note(j->record, json_pack("{s:s, s:I, s:I}", "ev", "copies", "few",
                                     (json_int_t)m->few_copies, "bytes", (json_int_t)m->few_bytes));
    if (j->few_copies)
        watch_print(j, "%lld data files (%s) have fewer copies than data_copies: new ones are made",
                    (long long)m->few_copies, bytes);
    else
        watch_print(j, "each data file has data_copies copies again");
}

/* The states of the head describe the job as a whole. Short states are shown only after they have
 * lasted; their text then names the nodes that the job waits for. */
static void take_state(struct job_node *n, json_t *body) {
    static const char *const at_once[] = {"pservers", "trainers", "restarting", "saving", "ending"};
    struct job *j = n->job;
    struct ag_state m;
    if (wire_get(&wire_ag_state, &m, body, NULL))
        return;
    const char *state = m.state;
    job_head_is(j, (int)m.head);
    take_lost(n, m.lost);
    if (!strcmp(state, "lost")) { /* no agent is left that could report more */
        struct pd_err err = {0};
        pd_fail(&err, PD_EHOST, "%s",
                *m.text ? m.text : "the agent of the job has ended without a result");
        node_fail(n, &err);
        return;
    }
    if (n->id != j->head || !*state || n->has_result)
        return;
    take_few(j, &m);
    j->began |= !strcmp(state, "pservers");
    if (!strcmp(state, "ending"))
        node_ends(n);
    else
        node_goes_on(j);
    live_state(j->live, state);
    if (strncmp(j->state, state, strlen(state)))
        record_note(j->record,
                    json_pack("{s:s, s:s, s:s}", "ev", "state", "state", state, "text", m.text));
    if (!strcmp(state, "trainers") || !strcmp(state, "ending") || !strcmp(state, "restarting"))
        follow_starting(j->follow, 0);
    snprintf(j->state, sizeof j->state, "%s%s%s", state, *m.text ? ": " : "", m.text);
    int said = !*m.text &&
               !strncmp(j->shown_state, state, strlen(state)); /* shown already, then with a text */
    for (size_t i = 0; i < sizeof at_once / sizeof at_once[0] && !said; i++)
        if (j->ran && !strcmp(state, at_once[i]))
            watch_show_state(j);
    job_state_changed(j, state);
}

void watch_show_state(struct job *j) {
    if (*j->state && strcmp(j->state, j->shown_state)) {
        pd_fmt(j->shown_state, sizeof j->shown_state, "%s", j->state);
        if (j->flags.json) {
            size_t n = strcspn(j->state, ":");
            const char *text = j->state[n] ? j->state + n + 2 : "";
            watch_event(j, json_pack("{s:s, s:s, s:s%, s:s}", "event", "state", "job", j->id,
                                     "state", j->state, n, "text", text));
        } else {
            watch_print(j, "%s", j->state);
        }
    }
}

/* Rank the report of a node on the first failure. 2: the head, which sees all failures; 0: an agent
 * that only ended because of the failure. */
static int report_rank(const struct job_node *n, const json_t *f) {
    const char *role = json_string_value(json_object_get(f, "role")),
               *reason = json_string_value(json_object_get(f, "reason"));
    int names_cause = (role && strcmp(role, "agent")) || (reason && *reason);
    return !json_is_object(f) || !names_cause ? 0 : n->id == n->job->head ? 2 : 1;
}

static void add_result(struct job *j, const struct job_node *n) {
    const json_t *body = n->result;
    const char *status = json_string_value(json_object_get(body, "status")),
               *saved = json_string_value(json_object_get(body, "saved"));
    json_t *first = json_object_get(body, "first_failure");
    json_int_t node_restarts = json_integer_value(json_object_get(body, "restarts"));
    j->failed |= status && !strcmp(status, "failed");
    if (n->id == j->head) {
        snprintf(j->saved, sizeof j->saved, "%s", saved ? saved : "");
        j->knows_saved = 1;
        j->no_state = json_is_false(json_object_get(body, "saved_state"));
        j->test = json_object_get(body, "test");
        j->best = json_object_get(body, "best");
        j->took_ms = json_integer_value(json_object_get(body, "took_ms"));
    }
    j->n_restarts = node_restarts > j->n_restarts ? node_restarts : j->n_restarts;
    j->stopped |= status && !strcmp(status, "stopped");
    const int worth = report_rank(n, first);
    if (worth > j->failure_worth ||
        (worth && worth == j->failure_worth && n->place < j->failure_place)) {
        j->failure_place = n->place;
        json_decref(j->failure);
        j->failure = json_incref(first);
        j->failure_worth = worth;
        j->n_later = json_integer_value(json_object_get(body, "later_failures"));
    }
}

/* Computed again from all results: that of a node that is found lost later must not count. */
void watch_sum_up(struct job *j) {
    json_decref(j->failure);
    j->failure = NULL;
    j->test = j->best = NULL;
    j->failed = j->stopped = j->failure_worth = 0;
    j->n_later = j->n_restarts = 0;
    for (int i = 0; i < j->n_hosts; i++)
        if (j->nodes[i].result)
            add_result(j, &j->nodes[i]);
}

static void take_result(struct job_node *n, json_t *body) {
    if (n->has_result || *n->lost)
        return;
    n->result = json_incref(body);
    take_lost(n, json_object_get(body, "lost"));
    add_result(n->job, n);
    node_has_result(n);
    job_ask_fate(n->job);
}

void watch_frame(struct link *l, struct wire_frame *f, json_t *body, void *arg) {
    struct job_node *n = arg;
    (void)l;
    if (follow_frame(n->job->follow, (unsigned)n->place, f, body))
        return;
    switch (f->type) {
    case WIRE_AG_STATE:
        take_state(n, body);
        break;
    case WIRE_AG_PING:
        job_pinged(n, body);
        break;
    case WIRE_AG_RESULT:
        take_result(n, body);
        break;
    case WIRE_DF_FILE:
    case WIRE_DF_NEED:
        job_feed_frame(n, f, body);
        break;
    default: /* a message of a later version */
        break;
    }
}
