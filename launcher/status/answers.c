/* SPDX-License-Identifier: Apache-2.0 */
/* answers.c - see answers.h. */
#include "launcher/status/answers.h"

enum { ASK_MS = 10000, RETRY_MS = 3000 };

static int64_t int_of(const json_t *o, const char *key) {
    return json_integer_value(json_object_get(o, key));
}

/* --- requests --- */

struct node_process answers_process(const json_t *processes, size_t i) {
    struct node_process p;
    if (wire_get(&wire_node_process, &p, json_array_get(processes, i), NULL))
        (void)wire_get(&wire_node_process, &p, NULL, NULL);
    return p;
}

int answers_runs(const struct node_process *p) { return !strcmp(p->state, "running"); }

static size_t n_running(const struct node_answer *a) {
    size_t n = 0;
    for (size_t i = 0; i < json_array_size(a->status.processes); i++) {
        const struct node_process p = answers_process(a->status.processes, i);
        n += answers_runs(&p) != 0;
    }
    return n;
}

static struct node_answer *answer_of(const struct ask_all_node *n) {
    return &((struct answers *)n->g->arg)->v[n->id];
}

static int take_status(struct ask_all_node *n, json_t *body, struct pd_err *err) {
    struct node_answer *a = answer_of(n);
    struct ag_status_answer m;
    const int rc = wire_get(&wire_ag_status_answer, &m, body, err);
    if (rc)
        return rc;
    json_decref(a->before);
    a->before = a->body ? json_incref(a->status.processes) : NULL;
    a->before_us = a->status.now_us;
    json_decref(a->body);
    a->body = json_incref(body);
    a->status = m;
    a->s->on_answer(a);
    return 0;
}

static void request_status(struct node_answer *a) {
    ask_all_request(a->n, WIRE_AG_STATUS, json_object(), ASK_MS, "asking for the status",
                    take_status);
}

static void on_again(uv_timer_t *t) {
    struct node_answer *a = t->data;
    if (a->result || a->n->g->interrupted)
        return;
    if (!a->n->link)
        ask_all_begin(a->n);
    else if (!a->n->over)
        request_status(a);
}

void answers_again(struct node_answer *a, uint64_t ms) {
    uv_timer_start(&a->again, on_again, ms, 0);
}

void answers_twice(struct node_answer *a) {
    if (a->before || !n_running(a))
        ask_all_done(a->n);
    else
        answers_again(a, ANSWERS_CPU_MS);
}

static void on_connected(struct ask_all_node *n) {
    struct node_answer *a = answer_of(n);
    a->n = n;
    if (!a->has_timer)
        uv_timer_init(&n->g->c->loop, &a->again);
    a->again.data = a;
    a->has_timer = 1;
    request_status(a);
}

static void on_frame(struct ask_all_node *n, const struct wire_frame *f, json_t *body) {
    struct node_answer *a = answer_of(n);
    if (f->type != WIRE_AG_RESULT || a->result)
        return;
    a->result = json_incref(body);
    if (a->s->on_result)
        a->s->on_result(a);
}

static void forget_answers(struct node_answer *a) {
    json_decref(a->body);
    json_decref(a->before);
    a->body = a->before = NULL;
    a->status = (struct ag_status_answer){0};
}

static void on_closed(struct ask_all_node *n) {
    struct node_answer *a = answer_of(n);
    if (!a->s->is_live || !a->has_timer || !n->err.code || n->g->interrupted || a->result)
        return;
    forget_answers(a); /* old figures are not those of now */
    answers_again(a, RETRY_MS);
}

int answers_run(struct answers *s, int running, struct pd_err *err) {
    s->v = pd_calloc(s->g->c->hosts.n, sizeof *s->v);
    if (!s->v)
        return pd_oom(err, "the state of a job");
    for (size_t i = 0; i < s->g->c->hosts.n; i++)
        s->v[i].s = s;
    find_join(s->g, s->job, running);
    s->g->on_frame = on_frame;
    s->g->on_closed = on_closed;
    ask_all_run(s->g, on_connected, s);
    return s->g->interrupted ? pd_fail(err, PD_ECANCELED, "interrupted") : 0;
}

static void release(struct answers *s, struct ask_all *g) {
    for (size_t i = 0; s->v && i < g->c->hosts.n; i++) {
        if (s->v[i].has_timer)
            uv_close((uv_handle_t *)&s->v[i].again, NULL);
        json_decref(s->v[i].result);
        forget_answers(&s->v[i]);
    }
    ask_all_release(g); /* runs the loop once more, which closes the timers */
    free(s->v);
    s->v = NULL;
}

double answers_cpu_percent(const struct node_answer *a, size_t i) {
    int64_t us = a->status.now_us - a->before_us;
    struct node_process p = answers_process(a->status.processes, i),
                        old = answers_process(a->before, i);
    if (!a->before || us <= 0 || old.pid != p.pid || !answers_runs(&p))
        return -1;
    return (double)(p.cpu_ms - old.cpu_ms) * 1e5 / (double)us;
}

/* --- the job as a whole --- */

/* The node of the head: the highest one that an answer names. Heads before it are lost. */
static int64_t head_node(const struct answers *s) {
    int64_t node = 0;
    for (size_t i = 0; i < s->g->c->hosts.n; i++)
        if (s->v[i].body && s->v[i].status.head > node)
            node = s->v[i].status.head;
    return node;
}

const struct node_answer *answers_head(const struct answers *s) {
    const struct node_answer *best = NULL;
    const int64_t head = head_node(s);
    for (size_t i = 0; i < s->g->c->hosts.n; i++) {
        const struct node_answer *a = &s->v[i];
        if (a->body && (!best || a->status.node == head ||
                        (best->status.node != head && a->status.node < best->status.node)))
            best = a;
    }
    return best;
}

/* An unreachable host has no known node id and is compared by name. */
const char *answers_lost_why(const struct answers *s, size_t host, int64_t *id) {
    const struct node_answer *head = answers_head(s);
    const json_t *v;
    struct lost_node lost;
    size_t i;
    json_array_foreach (head ? head->status.lost : NULL, i, v)
        if (!wire_get(&wire_lost_node, &lost, v, NULL) &&
            (s->job->host[host].node >= 0 ? s->job->host[host].node == lost.node
                                          : !strcmp(lost.host, s->g->nodes[host].host->label))) {
            *id = lost.node;
            return lost.reason;
        }
    return NULL;
}

static int is_lost(const struct answers *s, size_t host) {
    int64_t id;
    return answers_lost_why(s, host, &id) != NULL;
}

json_t *answers_progress(const struct answers *s) {
    json_t *best = NULL;
    for (size_t i = 0; i < s->g->c->hosts.n; i++) {
        json_t *p = s->v[i].status.progress;
        if (p && (!best || int_of(p, "rank") < int_of(best, "rank")) && !is_lost(s, i))
            best = p;
    }
    return best;
}

json_t *answers_failure(const struct answers *s, int64_t *later) {
    json_t *best = NULL;
    const int64_t head = head_node(s);
    *later = 0;
    for (size_t i = 0; i < s->g->c->hosts.n; i++) {
        json_t *f = json_object_get(s->v[i].result, "first_failure");
        if (!json_is_object(f) || (best && int_of(s->v[i].result, "node") != head) || is_lost(s, i))
            continue;
        best = f;
        *later = int_of(s->v[i].result, "later_failures");
    }
    return best;
}

/* --- the command --- */

int answers_main(const struct pd_options *o, const char *want,
                 int (*run)(struct answers *s, struct pd_err *err), void *arg, struct pd_err *err) {
    struct client_env c;
    struct ask_all g;
    struct found found = {0};
    struct answers s = {.g = &g, .arg = arg};
    int rc = client_env_init(&c, o, err), status = 0;
    if (rc)
        return rc;
    rc = ask_all_init(&g, &c, err);
    if (!rc)
        rc = find_jobs(&g, 0, &found, err);
    if (!rc && (rc = find_choose(&found, want, FIND_RUNNING, &s.job, err)) == PD_ENOENT && !want) {
        pd_err_clear(err);
        rc = find_choose(&found, NULL, FIND_NEWEST, &s.job, err);
    }
    if (rc == PD_ENOENT && ask_all_n_failed(&g)) {
        ask_all_report(&g); /* the job may be on an unreachable host */
        err->code = rc = PD_EHOST;
    }
    if (!rc)
        status = run(&s, err);
    find_release(&found);
    release(&s, &g);
    client_env_release(&c);
    return rc ? rc : status;
}
