/* job_watch.c - what a running job says: its logs, its states, its result; and how the end is told. */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/str.h"
#include "launcher/job/job_impl.h"

static const char *const stream_names[JOB_STREAMS] = {"server.log", "train.log", "events"};
static const char *const stream_roles[JOB_STREAMS] = {"pserver", "trainer", NULL};

void watch_subscribe(struct node *n) {
    if (!n->link || n->subscribed)
        return;
    json_t *streams = json_object();
    for (int i = 0; i < JOB_STREAMS; i++)
        json_object_set_new(streams, stream_names[i], json_integer((json_int_t)n->streams[i].next));
    n->subscribed = 1;
    link_send(n->link, WIRE_AG_LOG_SUBSCRIBE, 0, json_pack("{s:o}", "streams", streams), NULL, 0);
}

struct line_to {
    struct node *node;
    int stream;
};

static void show_line(void *arg, const char *text, size_t n) {
    const struct line_to *to = arg;
    struct job *j = to->node->job;
    if (!stream_roles[to->stream]) {
        view_event(j->view, text, n, uv_now(&j->c.loop));
        return;
    }
    char prefix[400];
    pd_fmt(prefix, sizeof prefix, "%.300s/%s", to->node->host->label, stream_roles[to->stream]);
    view_line(j->view, prefix, text, n);
}

static void take_log(struct node *n, const struct wire_frame *f) {
    struct pd_rd r;
    pd_rd_init(&r, f->sec[0], f->len[0]);
    pd_get_u32(&r); /* the node: known by the connection */
    uint32_t stream = pd_get_u32(&r);
    uint64_t offset = pd_get_u64(&r);
    if (r.failed || stream >= JOB_STREAMS || f->n_sec < 2)
        return; /* a stream of a later version */
    struct line_to to = {n, (int)stream};
    view_stream_feed(&n->streams[stream], offset, f->sec[1], f->len[1], show_line, &to);
}

int watch_drained(const struct node *n) {
    for (int i = 0; i < JOB_STREAMS; i++)
        if (!n->stream_ended[i])
            return 0;
    return 1;
}

static void take_log_end(struct node *n, json_t *body) {
    const char *name = json_string_value(json_object_get(body, "stream"));
    json_t *number = json_object_get(body, "stream");
    for (int i = 0; i < JOB_STREAMS; i++)
        if ((name && !strcmp(name, stream_names[i])) || (json_is_integer(number) && json_integer_value(number) == i))
            n->stream_ended[i] = 1;
    if (n->step == NODE_DRAIN && watch_drained(n))
        node_enter(n, NODE_DRAINED);
}

void watch_flush(struct node *n) {
    for (int i = 0; i < JOB_STREAMS; i++) {
        struct line_to to = {n, i};
        view_stream_end(&n->streams[i], show_line, &to);
    }
}

/* The head's states tell what the job as a whole does. Short steps are shown only once they last: they then say who is
 * waited for. */
static void take_state(struct node *n, json_t *body) {
    static const char *const at_once[] = {"pservers", "trainers", "ending"};
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

static void take_result(struct node *n, json_t *body) {
    struct job *j = n->job;
    const char *status = json_string_value(json_object_get(body, "status"));
    json_t *first = json_object_get(body, "first_failure");
    if (n->has_result)
        return;
    j->failed |= status && !strcmp(status, "failed");
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
    switch (f->type) {
    case WIRE_AG_LOG:
        take_log(n, f);
        break;
    case WIRE_AG_LOG_END:
        take_log_end(n, body);
        break;
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

static const char *text_of(const json_t *o, const char *name) {
    const char *s = json_string_value(json_object_get(o, name));
    return s ? s : "";
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
        if (j->failed && j->failure) /* it may be why the user stopped it */
            put_failure(j, b);
        put_bad_hosts(j, b);
        pd_put_fmt(b, "paddlectl: %s was stopped\n", j->id);
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
        pd_put_fmt(b, "paddlectl: %s was stopped from elsewhere\n", j->id);
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
