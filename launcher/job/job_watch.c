/* job_watch.c - what a running job says: its logs, its states, its result; and how the end is told. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fault.h"
#include "base/str.h"
#include "launcher/job/job_impl.h"

static void on_event(void *arg, unsigned node, const char *json, size_t n) {
    struct job *j = arg;
    live_event(j->live, node, json, n);
}

static void on_done(void *arg, unsigned node) {
    struct job *j = arg;
    if (j->nodes[node].step == NODE_DRAIN)
        node_enter(&j->nodes[node], NODE_DRAINED);
}

static void on_fail(void *arg, unsigned node, const struct pd_err *err) {
    struct job *j = arg;
    view_say(j->view, "%s: its log is not shown: %s", j->names[node].host, err->msg);
}

int watch_open(struct job *j, struct pd_err *err) {
    j->names = pd_calloc((size_t)j->n_nodes, sizeof *j->names);
    if (!j->names)
        return pd_fail(err, PD_ENOMEM, "out of memory");
    for (int i = 0; i < j->n_nodes; i++)
        j->names[i].host = j->nodes[i].host->label;
    int rc = view_new(&j->view, STDOUT_FILENO, VIEW_COLOUR_AUTO, err);
    if (rc)
        return rc;
    const struct follow_opts o = {.loop = &j->c.loop, .view = j->view, .nodes = j->names, .n_nodes = (unsigned)j->n_nodes,
                                  .streams = FOLLOW_SERVER_LOG | FOLLOW_TRAIN_LOG, .on_event = on_event, .on_done = on_done,
                                  .on_fail = on_fail, .arg = j};
    rc = live_new(&j->live, &j->c.loop, j->view, err);
    return rc ? rc : follow_new(&j->follow, &o, err);
}

void watch_close(struct job *j) {
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
}

void watch_subscribe(struct node *n) {
    if (!n->link || n->subscribed)
        return;
    n->subscribed = 1;
    follow_begin(n->job->follow, (unsigned)n->id, n->link);
}

void watch_lost(struct node *n) { follow_lost(n->job->follow, (unsigned)n->id); }
void watch_gone(struct node *n) { follow_gone(n->job->follow, (unsigned)n->id); }
int watch_is_moving(struct job *j) { return follow_is_moving(j->follow); }
int watch_drained(const struct node *n) { return follow_is_done(n->job->follow, (unsigned)n->id); }

/* The head's states tell what the job as a whole does. Short steps are shown only once they last: they then say who is
 * waited for. */
static void take_state(struct node *n, json_t *body) {
    static const char *const at_once[] = {"pservers", "trainers", "restarting", "saving", "ending"};
    struct job *j = n->job;
    const char *state = json_string_value(json_object_get(body, "state")), *text = json_string_value(json_object_get(body, "text"));
    if (n->id != 0 || !state || n->has_result)
        return;
    snprintf(j->state, sizeof j->state, "%s%s%s", state, text && *text ? ": " : "", text ? text : "");
    for (size_t i = 0; i < sizeof at_once / sizeof at_once[0]; i++)
        if (j->ran && !strcmp(state, at_once[i]))
            watch_show_state(j);
}

void watch_show_state(struct job *j) {
    if (*j->state && strcmp(j->state, j->shown_state)) {
        strcpy(j->shown_state, j->state);
        view_say(j->view, "%s", j->state);
    }
}

/* How much a node's view of the first failure is worth: the head has seen all, an agent that only ended because of it
 * knows nothing. */
static int worth(const struct node *n, const json_t *f) {
    const char *role = json_string_value(json_object_get(f, "role")), *reason = json_string_value(json_object_get(f, "reason"));
    int knows = (role && strcmp(role, "agent")) || (reason && *reason);
    return !json_is_object(f) || !knows ? 0 : n->id == 0 ? 2 : 1;
}

static const char *text_of(const json_t *o, const char *name) {
    const char *s = json_string_value(json_object_get(o, name));
    return s ? s : "";
}

static void take_result(struct node *n, json_t *body) {
    struct job *j = n->job;
    const char *status = json_string_value(json_object_get(body, "status"));
    json_t *first = json_object_get(body, "first_failure");
    json_int_t node_restarts = json_integer_value(json_object_get(body, "restarts"));
    if (n->has_result)
        return;
    j->failed |= status && !strcmp(status, "failed");
    if (n->id == 0)
        snprintf(j->saved, sizeof j->saved, "%s", text_of(body, "saved"));
    j->n_restarts = node_restarts > j->n_restarts ? node_restarts : j->n_restarts;
    j->stopped |= status && !strcmp(status, "stopped");
    if (worth(n, first) > j->failure_worth) {
        json_decref(j->failure);
        j->failure = json_incref(first);
        j->failure_worth = worth(n, first);
        j->n_later = json_integer_value(json_object_get(body, "later_failures"));
    }
    node_has_result(n);
}

void watch_frame(struct link *l, struct wire_frame *f, json_t *body, void *arg) {
    struct node *n = arg;
    (void)l;
    if (follow_frame(n->job->follow, (unsigned)n->id, f, body))
        return;
    switch (f->type) {
    case WIRE_AG_STATE:
        take_state(n, body);
        break;
    case WIRE_AG_RESULT:
        take_result(n, body);
        break;
    default: /* a later version may say more */
        break;
    }
}

/* --- the end ----------------------------------------------------------------------------------------------- */

static void put_indented(struct pd_buf *b, const char *text) {
    while (*text) {
        size_t n = strcspn(text, "\n");
        pd_put(b, "    | ", 6);
        for (size_t i = 0; i < n; i++)
            pd_put_u8(b, (unsigned char)text[i] < 32 && text[i] != '\t' ? ' ' : (uint8_t)text[i]);
        pd_put_u8(b, '\n');
        text += n + (text[n] == '\n');
    }
}

static void put_failure(const struct job *j, struct pd_buf *b) {
    const json_t *f = j->failure;
    json_int_t id = json_is_integer(json_object_get(f, "node")) ? json_integer_value(json_object_get(f, "node")) : -1;
    json_int_t code = json_integer_value(json_object_get(f, "exit_code")), sig = json_integer_value(json_object_get(f, "signal"));
    const char *host = id >= 0 && id < j->n_nodes ? j->nodes[id].host->label : text_of(f, "host"), *role = text_of(f, "role");
    const char *reason = text_of(f, "reason");
    pd_put_fmt(b, "paddlectl: %s failed: %s (node %lld)", j->id, host, (long long)id);
    if (*role && strcmp(role, "agent"))
        pd_put_fmt(b, ", %s %lld", role, (long long)json_integer_value(json_object_get(f, "rank")));
    if (sig > 0)
        pd_put_fmt(b, ": ended by signal %lld (%s)", (long long)sig, strsignal((int)sig));
    else if (code > 128 && code < 128 + NSIG) /* a shell between us and the program says it so */
        pd_put_fmt(b, ": exit status %lld (signal %lld: %s)", (long long)code, (long long)code - 128, strsignal((int)code - 128));
    else if (code > 0)
        pd_put_fmt(b, ": exit status %lld", (long long)code);
    pd_put_fmt(b, "%s%s\n", *reason ? ": " : "", reason);
    put_indented(b, text_of(f, "last_lines"));
    if (j->n_restarts > 0)
        pd_put_fmt(b, "  it was restarted %lld time%s before\n", (long long)j->n_restarts, j->n_restarts == 1 ? "" : "s");
    if (j->n_later > 0)
        pd_put_fmt(b, "  %lld more failed after it\n", (long long)j->n_later);
    if (id >= 0 && id < j->n_nodes && *j->nodes[id].job_dir)
        pd_put_fmt(b, "  its logs: %s:%s/log\n", host, j->nodes[id].job_dir);
}

/* Every host that failed before the job ran, or whose connection broke. Status 2 when all of them are about what the user
 * wrote, else 3. */
static int put_bad_hosts(const struct job *j, struct pd_buf *b) {
    int n = 0, status = 2;
    for (int i = 0; i < j->n_nodes; i++) {
        if (!j->nodes[i].err.code)
            continue;
        n++;
        if (pd_code_exit_status(j->nodes[i].err.code) != 2)
            status = 3;
    }
    if (n > 1)
        pd_put_fmt(b, "paddlectl: %d of %d hosts cannot be used:\n", n, j->n_nodes);
    for (int i = 0; i < j->n_nodes; i++)
        if (j->nodes[i].err.code)
            pd_put_fmt(b, "%s%s: %s\n", n > 1 ? "  " : "paddlectl: ", j->nodes[i].host->label, j->nodes[i].err.msg);
    return n ? status : 0;
}

static int conclude(struct job *j, struct pd_buf *b) {
    if (j->stopped_by_user) {
        if (j->failure) /* it may be why the user stopped it */
            put_failure(j, b);
        put_bad_hosts(j, b);
        pd_put_fmt(b, "paddlectl: %s was stopped%s%s\n", j->id, *j->saved ? "; saved: " : "", j->saved);
        return pd_code_exit_status(PD_ECANCELED);
    }
    if (!j->ran) {
        int status = put_bad_hosts(j, b);
        pd_put_fmt(b, "paddlectl: the job was not started\n");
        return status;
    }
    if (j->failure || j->failed) {
        if (j->failure)
            put_failure(j, b);
        put_bad_hosts(j, b);
        if (!j->failure)
            pd_put_fmt(b, "paddlectl: %s failed\n", j->id);
        return 1;
    }
    if (put_bad_hosts(j, b)) {
        pd_put_fmt(b, "paddlectl: %s failed\n", j->id);
        return 1;
    }
    if (j->stopped) {
        pd_put_fmt(b, "paddlectl: %s was stopped from elsewhere%s%s\n", j->id, *j->saved ? "; saved: " : "", j->saved);
        return pd_code_exit_status(PD_ECANCELED);
    }
    if (!j->fetched) {
        pd_put_fmt(b, "paddlectl: %s: the outputs were not fetched: %s; they are in %s/output of each node\n", j->id,
                   j->err.code ? j->err.msg : "see above", j->nodes[0].job_dir);
        return 1;
    }
    return 0;
}

int watch_conclude(struct job *j) {
    struct pd_buf b;
    pd_buf_init(&b);
    int status = conclude(j, &b);
    for (size_t at = 0; at < b.len;) {
        ssize_t n = write(STDERR_FILENO, b.data + at, b.len - at);
        if (n <= 0)
            break;
        at += (size_t)n;
    }
    if (!status)
        dprintf(STDOUT_FILENO, "paddlectl | done; the outputs are in %s\n", j->output_dir);
    pd_buf_release(&b);
    return status;
}
