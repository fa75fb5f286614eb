/* head_fail.c - which failure is the first. The others of a job that falls apart are its echo: trainers whose
 * pserver is gone, pservers whose trainer is. They are counted, not told. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "agent/head_int.h"
#include "agent/msg.h"

const char *head_host(const struct head *h, int node) {
    const char *s = json_string_value(json_object_get(json_array_get(h->peers, (size_t)node), "name"));
    return s ? s : "";
}

static json_t *make(const struct head *h, int node, const char *role, int64_t rank, int64_t code, int64_t sig,
                    const char *reason, const char *last) {
    return json_pack("{s:i, s:s, s:s, s:I, s:I, s:I, s:o, s:s}", "node", node, "host", node < 0 ? "" : head_host(h, node),
                     "role", role, "rank", (json_int_t)rank, "exit_code", (json_int_t)code, "signal", (json_int_t)sig,
                     "reason", msg_text(reason, strlen(reason)), "last_lines", last);
}

json_t *head_process_failure(const struct head *h, int node, const json_t *exited, const char *reason) {
    return make(h, node, msg_str(exited, "role"), msg_int(exited, "rank", 0, SPEC_MAX_NODES, 0),
                msg_int(exited, "exit_code", -1, 255, -1), msg_int(exited, "signal", 0, 255, 0), reason,
                msg_str(exited, "last_lines"));
}

json_t *head_reason_failure(const struct head *h, int node, const char *reason) {
    return make(h, node, "agent", node, -1, 0, reason, "");
}

static void on_window(uv_timer_t *t) { head_close(t->data); }

/* A process that was killed (out of memory, say) or crashed is nobody's echo. One that aborts may be: many programs do so
 * when they lose a peer. What an agent says of itself (rank 1) is more than a bare exit status. */
static int rank_of(const json_t *f) {
    switch (msg_int(f, "signal", 0, 255, 0)) {
    case SIGKILL:
    case SIGSEGV:
    case SIGBUS:
    case SIGILL:
    case SIGFPE:
        return 0;
    default:
        break;
    }
    return strcmp(msg_str(f, "role"), "agent") ? 2 : 1;
}

static int replaces(const struct head *h, int node, int rank, int64_t time_us) {
    if (rank != h->failure_rank)
        return rank < h->failure_rank;
    int one_clock = node >= 0 && h->failure_node >= 0 && *h->node[node].net_id &&
                    !strcmp(h->node[node].net_id, h->node[h->failure_node].net_id);
    return one_clock && time_us && h->failure_time && time_us < h->failure_time;
}

void head_note_failure(struct head *h, int node, json_t *failure, int64_t exit_time_us) {
    if (!failure || h->stopped || h->state == HEAD_OVER) {
        json_decref(failure);
        return;
    }
    int rank = rank_of(failure);
    pd_error(h->log, "failure: node %d, %s %lld: exit code %lld, signal %lld %s", node, msg_str(failure, "role"),
             (long long)msg_int(failure, "rank", -1, SPEC_MAX_NODES, -1), (long long)msg_int(failure, "exit_code", -1, 255, -1),
             (long long)msg_int(failure, "signal", 0, 255, 0), msg_str(failure, "reason"));
    if (h->failure && (h->state == HEAD_CLOSING || !replaces(h, node, rank, exit_time_us))) {
        h->later++;
        json_decref(failure);
        return;
    }
    if (h->failure)
        h->later++;
    else
        uv_timer_start(&h->window, on_window, FAILURE_WINDOW_MS, 0);
    json_decref(h->failure);
    h->failure = failure;
    h->failure_rank = rank;
    h->failure_node = node;
    h->failure_time = exit_time_us;
}
