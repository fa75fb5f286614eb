/* client_ctl.c - what happens between steps: the pass barrier, reductions, farewell. */
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "ps/client/client_beat.h"
#include "ps/client/client_int.h"

int client_ready_for(struct ps_client *c, const char *what) {
    if (c->err.code)
        return c->err.code;
    if (!c->started)
        return client_fail(c, PD_EUSAGE, "%s before ps_start", what);
    return client_flush(c);
}

/* --- pass --- */

static int done_pass(struct ps_client *c, struct request *r, const struct answer *a, struct pd_err *err) {
    struct pd_rd rd;
    (void)r;
    pd_rd_init(&rd, a->sec[0], a->len[0]);
    uint64_t step = pd_get_u64(&rd), pass = pd_get_u64(&rd), given = pd_get_u64(&rd),
             lagged = pd_get_u64(&rd);
    if (!pd_rd_done(&rd) || pass != c->pass + 1 || step < c->step || (c->pass_answers && step != c->pass_step))
        return pd_fail(err, PD_EPROTO, "ends pass %llu at step %llu, others at %llu", (unsigned long long)pass,
                       (unsigned long long)step, (unsigned long long)c->pass_step);
    c->pass_step = step;
    c->pass_answers++;
    c->pass_dropped.given += given;
    c->pass_dropped.dropped += lagged;
    a->link->applied = step;
    c->n_calls--;
    return 0;
}

int ps_pass_end(struct ps_client *c) {
    if (client_ready_for(c, "ps_pass_end") || (c->geo && geo_pass_end(c)))
        return c->err.code;
    c->pass_answers = 0;
    c->pass_dropped = (struct ps_dropped){0};
    for (uint32_t i = 0; i < c->n_links && !c->err.code; i++) {
        if (c->pass < c->links[i]->from_pass) { /* it is over there; that thread's step is the first of the next */
            c->pass_step = c->links[i]->from_step;
            c->pass_answers++;
            continue;
        }
        pd_buf_clear(&c->head);
        pd_put_u64(&c->head, c->links[i]->epoch);
        pd_put_u64(&c->head, c->step);
        pd_put_u64(&c->head, c->pass);
        client_call(c, c->links[i], WIRE_PS_PASS_END, done_pass, NULL, 0);
    }
    if (client_wait(c, client_calls_done, "the end of the pass"))
        return c->err.code;
    c->step = c->first_step = c->pass_step;
    c->pass++;
    if (c->geo)
        geo_forget(c);
    return 0;
}

const struct ps_dropped *ps_pass_dropped(const struct ps_client *c) { return &c->pass_dropped; }

/* --- files of the pass --- */

static int done_task(struct ps_client *c, struct request *r, const struct answer *a, struct pd_err *err) {
    struct pd_rd rd;
    (void)r;
    pd_rd_init(&rd, a->sec[0], a->len[0]);
    for (int i = 0; i < 5; i++)
        c->task_answer[i] = pd_get_u64(&rd);
    if (!pd_rd_done(&rd) || c->task_answer[0] > PS_TASK_LATER)
        return pd_fail(err, PD_EPROTO, "a malformed answer");
    c->n_calls--;
    return 0;
}

int ps_next_task(struct ps_client *c, uint64_t n, int done, int own_first, uint64_t *file, uint64_t *next) {
    const uint64_t *what = &c->task_answer[0], *which = &c->task_answer[1], *furthest = &c->task_answer[3];
    if (c->rule->barrier)
        return client_fail(c, PD_EUSAGE, "ps_next_task under update = %s", c->rule->name);
    for (uint64_t before = done ? c->task : 0;; before = 0) {
        if (client_ready_for(c, "ps_next_task"))
            return c->err.code;
        pd_buf_clear(&c->head);
        pd_put_u64(&c->head, c->dense[0]->epoch);
        pd_put_u64(&c->head, c->pass);
        pd_put_u64(&c->head, n);
        pd_put_u64(&c->head, before);
        pd_put_u64(&c->head, own_first != 0);
        c->task = 0;
        if (client_call(c, c->dense[0], WIRE_PS_TASK, done_task, NULL, 0) || client_wait(c, client_calls_done, "a file to read"))
            return c->err.code;
        if (*what == PS_TASK_FILE && *which >= n)
            return client_fail(c, PD_EPROTO, "the server hands out file %llu of %llu", (unsigned long long)*which, (unsigned long long)n);
        if (*what != PS_TASK_LATER)
            break;
        while (!c->err.code && c->step < *furthest)
            ps_step_end(c, 0, NULL, 0);
    }
    *file = *which;
    *next = c->task_answer[4] && c->task_answer[4] <= n ? c->task_answer[4] - 1 : n;
    c->task = *what == PS_TASK_FILE ? *which + 1 : 0;
    return *what == PS_TASK_FILE;
}

/* --- reduction --- */

static int done_reduce(struct ps_client *c, struct request *r, const struct answer *a, struct pd_err *err) {
    struct reducing *q = r->arg;
    (void)c;
    if (a->len[0] != q->n * sizeof q->v[0])
        return pd_fail(err, PD_EPROTO, "a malformed answer");
    if (q->n)
        memcpy(q->v, a->sec[0], a->len[0]);
    q->done = 1;
    return 0;
}

int ps_reduce_start(struct ps_client *c, const double *v, size_t n) {
    if (client_ready_for(c, "ps_reduce"))
        return c->err.code;
    if (n > PS_REDUCE_MAX)
        return client_fail(c, PD_EUSAGE, "ps_reduce of %zu numbers, at most %d", n, PS_REDUCE_MAX);
    struct reducing *q = pd_malloc(sizeof *q + n * sizeof q->v[0]);
    pd_buf_clear(&c->head);
    pd_put_u32(&c->head, (uint32_t)n);
    pd_put_u32(&c->head, 0);
    pd_put(&c->head, v, n * sizeof *v);
    if (!q || c->head.failed) {
        free(q);
        return client_fail(c, PD_ENOMEM, "no memory for a reduction");
    }
    *q = (struct reducing){.n = n};
    *c->last_reduction = q;
    c->last_reduction = &q->next;
    c->n_repeated -= c->n_repeated > 0;
    struct net_sec sec = {c->head.data, c->head.len};
    return client_request(c, c->dense[0], WIRE_PS_REDUCE, &sec, 1, done_reduce, q, 0, NULL, NULL);
}

/* The oldest one leaves the list. */
static int collect(struct ps_client *c, double *v, size_t n) {
    struct reducing *q = c->reductions;
    if (q->n != n)
        return client_fail(c, PD_EUSAGE, "ps_reduce_done of %zu numbers; %zu were started", n, q->n);
    if (n)
        memcpy(v, q->v, n * sizeof *v);
    c->reductions = q->next;
    if (!c->reductions)
        c->last_reduction = &c->reductions;
    free(q);
    return 1;
}

int ps_reduce_done(struct ps_client *c, double *v, size_t n) {
    if (c->err.code)
        return c->err.code;
    if (!c->reductions)
        return client_fail(c, PD_EUSAGE, "ps_reduce_done without ps_reduce_start");
    if (!c->reductions->done && client_poll(c))
        return c->err.code;
    return c->reductions->done ? collect(c, v, n) : 0;
}

static int all_reduced(const struct ps_client *c) {
    for (const struct reducing *q = c->reductions; q; q = q->next)
        if (!q->done)
            return 0;
    return 1;
}

int ps_reduce(struct ps_client *c, double *v, size_t n) {
    if (c->reductions)
        return client_fail(c, PD_EUSAGE, "ps_reduce while one that was started is not collected");
    if (ps_reduce_start(c, v, n) || client_wait(c, all_reduced, "a reduction"))
        return c->err.code;
    int rc = collect(c, v, n);
    return rc < 0 ? rc : 0;
}

int ps_barrier(struct ps_client *c) { return ps_reduce(c, NULL, 0); }

/* --- farewell --- */

/* The server is told that its answer has come: it may forget this trainer, and end. */
static int done_bye(struct ps_client *c, struct request *r, const struct answer *a, struct pd_err *err) {
    struct link *l = a->link;
    l->left = 1;
    if (l->conn)
        net_send(l->conn, WIRE_PS_BYE, 0, r->id + 1, NULL, 0, NULL, NULL);
    return client_done_nothing(c, r, a, err);
}

int ps_bye(struct ps_client *c) {
    if (client_ready_for(c, "ps_bye"))
        return c->err.code;
    for (uint32_t i = 0; i < c->n_links && !c->err.code; i++) {
        pd_buf_clear(&c->head);
        client_call(c, c->links[i], WIRE_PS_BYE, done_bye, NULL, 0);
    }
    int rc = client_wait(c, client_calls_done, "the farewell");
    if (!rc) {
        c->leaving = 1;
        ps_beat_stop(c->beat);
        c->beat = NULL;
    }
    return rc;
}

void ps_abandon(struct ps_client *c, const struct pd_err *why) { client_fail(c, why->code, "%s", why->msg); }
