/* SPDX-License-Identifier: Apache-2.0 */
/* server_serving.c - what the threads of a server do now, as one sum: thread 0 reports it. */
#include "ps/server/server_internal.h"

static void add(struct ps_serving *sum, const struct ps_serving *one) {
    sum->sent += one->sent;
    sum->received += one->received;
    sum->waiting += one->waiting;
    sum->queued += one->queued;
    for (uint32_t i = 0; i < sum->n_tables; i++)
        sum->rows[i] += one->rows[i];
}

void server_serving(struct server_thread *t) {
    struct ps_server *s = t->server;
    struct ps_serving own = {.sent = t->sent, .received = t->received}, sum = {0};
    const char *name[PS_SERVING_TABLES];
    struct ps_shard_stats st;
    if (!s->opts.on_serving)
        return;
    ps_shard_stats(t->shard, &st);
    own.waiting = st.waiting;
    for (const struct trainer_conn *p = t->peers; p; p = p->next)
        own.queued += net_queued_bytes(p->conn);
    while (own.n_tables < PS_SERVING_TABLES &&
           (name[own.n_tables] = ps_shard_table(t->shard, own.n_tables, &own.rows[own.n_tables])))
        own.n_tables++;
    sum.n_tables = own.n_tables;
    uv_mutex_lock(&s->lock);
    t->serving = own;
    for (uint32_t i = 0; i < s->n_threads; i++)
        add(&sum, &s->threads[i].serving);
    uv_mutex_unlock(&s->lock);
    if (!t->index)
        s->opts.on_serving(s->opts.on_serving_arg, &sum, name);
}
