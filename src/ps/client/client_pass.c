/* SPDX-License-Identifier: Apache-2.0 */
/* client_pass.c - calls between steps: the pass barrier, files of the pass, reductions, PS_BYE. */
#include "ps/client/client_beat.h"
#include "ps/client/client_internal.h"

int client_ready_for(struct ps_client *c, const char *what) {
    if (c->err.code)
        return c->err.code;
    if (!c->started)
        return client_fail(c, PD_EUSAGE, "%s before ps_start", what);
    return client_flush(c);
}

/* --- pass --- */

static int done_pass(struct ps_client *c, struct pending_request *r, const struct answer *a,
                     struct pd_err *err) {
    struct ps_msg_pass_ended m;
    struct pd_reader rows;
    (void)r;
    if (ps_get_pass_ended(&a->body, &m, err))
        return err->code;
    if (m.pass != c->pass + 1 || m.step < c->step || (c->pass_answers && m.step != c->pass_step))
        return pd_fail(err, PD_EPROTO, "ends pass %llu at step %llu, others at %llu",
                       (unsigned long long)m.pass, (unsigned long long)m.step,
                       (unsigned long long)c->pass_step);
    c->pass_step = m.step;
    c->pass_answers++;
    if (m.n_tables && m.n_tables != c->decl.n_sparse)
        return pd_fail(err, PD_EPROTO, "a malformed answer");
    pd_reader_init(&rows, m.rows, m.n_tables * sizeof(uint64_t));
    for (uint32_t i = 0; i < m.n_tables; i++)
        c->pass_rows[i] += pd_get_u64(&rows);
    c->pass_rows_of += m.n_tables > 0;
    uint64_t *memory = &c->servers[a->link->server].pass_memory;
    *memory = m.memory > *memory ? m.memory : *memory;
    c->pass_dropped.given += m.given;
    c->pass_dropped.dropped += m.dropped;
    a->link->applied = m.step;
    c->n_calls--;
    return 0;
}

int ps_pass_end(struct ps_client *c) {
    if (client_ready_for(c, "ps_pass_end") || (c->geo && geo_pass_end(c)))
        return c->err.code;
    if (!c->pass_rows && c->decl.n_sparse &&
        !(c->pass_rows = pd_calloc(c->decl.n_sparse, sizeof *c->pass_rows)))
        return client_fail(c, PD_ENOMEM, "out of memory for the end of a pass");
    for (uint32_t i = 0; i < c->decl.n_sparse; i++)
        c->pass_rows[i] = 0;
    for (uint32_t i = 0; i < c->n_servers; i++)
        c->servers[i].pass_memory = 0;
    c->pass_answers = c->pass_rows_of = 0;
    c->pass_dropped = (struct ps_dropped){0};
    for (uint32_t i = 0; i < c->n_links && !c->err.code; i++) {
        if (c->pass < c->links[i]->from_pass) { /* the pass is over on that thread, and its step is
                                                   the first of the next pass */
            c->pass_step = c->links[i]->from_step;
            c->pass_answers++;
            continue;
        }
        const struct ps_msg_pass_end m = {
            .epoch = c->links[i]->epoch, .step = c->step, .pass = c->pass};
        struct ps_body b = client_body(c);
        ps_put_pass_end(&b, &m);
        client_call(c, c->links[i], WIRE_PS_PASS_END, &b, done_pass, NULL, 0);
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

const char *ps_pass_rows(const struct ps_client *c, uint32_t table, uint64_t *rows) {
    if (table >= c->decl.n_sparse || !c->n_links || c->pass_rows_of != c->n_links)
        return NULL;
    *rows = c->pass_rows[table];
    return c->decl.sparse[table].name;
}

int ps_pass_memory(const struct ps_client *c, uint32_t server, uint64_t *bytes) {
    if (server >= c->n_servers || c->shard) /* a local server is this process */
        return -1;
    *bytes = c->servers[server].pass_memory;
    return 0;
}

/* --- files of the pass --- */

static int done_task(struct ps_client *c, struct pending_request *r, const struct answer *a,
                     struct pd_err *err) {
    (void)r;
    c->n_calls--;
    return ps_get_task_given(&a->body, &c->task_given, err);
}

int ps_next_task(struct ps_client *c, uint64_t n, int done, int own_first, uint64_t *file,
                 uint64_t *next) {
    const struct ps_msg_task_given *given = &c->task_given;
    if (c->rule->barrier)
        return client_fail(c, PD_EUSAGE, "ps_next_task under update = %s", c->rule->name);
    for (uint64_t before = done ? c->task : 0;; before = 0) {
        if (client_ready_for(c, "ps_next_task"))
            return c->err.code;
        const struct ps_msg_task m = {.epoch = c->dense[0]->epoch,
                                      .pass = c->pass,
                                      .n_files = n,
                                      .done = before,
                                      .own_first = own_first != 0};
        struct ps_body b = client_body(c);
        ps_put_task(&b, &m);
        c->task = 0;
        if (client_call(c, c->dense[0], WIRE_PS_TASK, &b, done_task, NULL, 0) ||
            client_wait(c, client_calls_done, "a file to read"))
            return c->err.code;
        if (given->what == PS_TASK_FILE && given->file >= n)
            return client_fail(c, PD_EPROTO, "the server hands out file %llu of %llu",
                               (unsigned long long)given->file, (unsigned long long)n);
        if (given->what != PS_TASK_LATER)
            break;
        while (!c->err.code && c->step < given->furthest)
            ps_step_end(c, 0, NULL, 0);
    }
    *file = given->file;
    *next = given->next && given->next <= n ? given->next - 1 : n;
    c->task = given->what == PS_TASK_FILE ? given->file + 1 : 0;
    return given->what == PS_TASK_FILE;
}

/* --- reduction --- */

static int done_reduce(struct ps_client *c, struct pending_request *r, const struct answer *a,
                       struct pd_err *err) {
    struct ps_msg_reduced m;
    (void)r;
    if (ps_get_reduced(&a->body, &m, err))
        return err->code;
    if (m.n_sums != c->reduction.n)
        return pd_fail(err, PD_EPROTO, "%u sums of %zu numbers", m.n_sums, c->reduction.n);
    if (m.n_sums)
        memcpy(c->reduction.v, m.sums, m.n_sums * sizeof *c->reduction.v);
    c->reduction.done = 1;
    return 0;
}

static int is_reduced(const struct ps_client *c) { return c->reduction.done; }

int ps_reduce(struct ps_client *c, double *v, size_t n) {
    if (client_ready_for(c, "ps_reduce"))
        return c->err.code;
    if (n > PS_REDUCE_MAX)
        return client_fail(c, PD_EUSAGE, "ps_reduce of %zu numbers, at most %d", n, PS_REDUCE_MAX);
    c->reduction.v = v;
    c->reduction.n = n;
    c->reduction.done = 0;
    c->n_repeated -= c->n_repeated > 0;
    const struct ps_msg_reduce m = {.n = (uint32_t)n, .values = v};
    struct ps_body b = client_body(c);
    ps_put_reduce(&b, &m);
    if (!client_ask(c, c->dense[0], WIRE_PS_REDUCE, &b, done_reduce, NULL, 0))
        (void)client_wait(c, is_reduced, "a reduction");
    c->reduction.n = 0; /* an answer after a failure does not fit: v is the caller's */
    return c->err.code;
}

int ps_barrier(struct ps_client *c) { return ps_reduce(c, NULL, 0); }

/* --- PS_BYE --- */

/* Confirms to the server that its answer has arrived: the server may then forget this trainer and
 * end. */
static int done_bye(struct ps_client *c, struct pending_request *r, const struct answer *a,
                    struct pd_err *err) {
    struct server_link *l = a->link;
    l->left = 1;
    if (l->conn)
        net_send(l->conn, WIRE_PS_BYE, 0, r->id + 1, NULL, 0, NULL, NULL);
    return client_done_nothing(c, r, a, err);
}

int ps_bye(struct ps_client *c) {
    if (client_ready_for(c, "ps_bye"))
        return c->err.code;
    for (uint32_t i = 0; i < c->n_links && !c->err.code; i++) {
        struct ps_body b = client_body(c);
        ps_put_empty(&b, &(struct ps_msg_empty){});
        client_call(c, c->links[i], WIRE_PS_BYE, &b, done_bye, NULL, 0);
    }
    int rc = client_wait(c, client_calls_done, "the answers to PS_BYE");
    if (!rc) {
        c->leaving = 1;
        ps_beat_stop(c->beat);
        c->beat = NULL;
    }
    return rc;
}

void ps_abandon(struct ps_client *c, const struct pd_err *why) { client_fail_with(c, why); }
