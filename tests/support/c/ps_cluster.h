/* SPDX-License-Identifier: Apache-2.0 */
/* ps_cluster.h - pservers on 127.0.0.1 and trainers as threads of one test program, with a small
 * training job. Its gradients are a pure function of (stream, step, index), so every division of
 * the job must give the same result. */
#pragma once

#include <pthread.h>

#include "math/hash.h"
#include "net/conn.h"
#include "ps/client/client.h"
#include "ps/plan/layout.h"
#include "ps/plan/sum_tree.h"
#include "ps/server/server.h"

static const uint8_t cluster_key[32] = "a key for tests only, 32 bytes.";

/* --- servers --- */

struct one_server {
    struct ps_server *server;
    pthread_t thread;
    int port, rc, ports[8];
    struct pd_err err;
};

struct cluster {
    struct one_server s[4];
    int n;
    char list[300];
    struct pd_log log;
};

static void *server_main(void *arg) {
    struct one_server *s = arg;
    s->rc = ps_server_run(s->server, &s->err);
    return NULL;
}

static uint64_t cluster_reconnect_ms; /* of servers and trainers; 0: their default */
static uint64_t cluster_start_ms;     /* of servers */
static uint64_t cluster_heartbeat_ms; /* of servers and trainers */
static enum ps_lost cluster_on_lost;
static int cluster_plain; /* for tests that read or write frames on the path */

static void cluster_start(struct cluster *c, int n_servers, int n_dense, int n_sparse,
                          int n_trainers, uint64_t wait_log_ms, int log_fd) {
    memset(c, 0, sizeof *c);
    signal(SIGPIPE,
           SIG_IGN); /* as in every program of ours: a write to a dead peer must be an error */
    pd_log_init(&c->log, log_fd, -1, PD_INFO);
    for (int i = 0; i < n_servers; i++) {
        struct pd_err err = {0};
        int fds[8], port;
        for (int k = 0; k < n_dense + n_sparse; k++) {
            fds[k] = net_bind_first_free("127.0.0.1", 0, 1, &port, &err);
            c->s[i].ports[k] = port;
            c->s[i].port = c->s[i].ports[0];
        }
        struct ps_server_opts o = {.fds = fds,
                                   .n_dense = (uint32_t)n_dense,
                                   .n_sparse = (uint32_t)n_sparse,
                                   .n_trainers = (uint32_t)n_trainers,
                                   .job = "J",
                                   .key = cluster_key,
                                   .plain = cluster_plain,
                                   .wait_log_ms = wait_log_ms,
                                   .reconnect_ms = cluster_reconnect_ms,
                                   .start_ms = cluster_start_ms,
                                   .heartbeat_ms = cluster_heartbeat_ms,
                                   .on_lost = cluster_on_lost,
                                   .log = &c->log};
        if (ps_server_new(&c->s[i].server, &o, &err)) {
            fprintf(stderr, "ps_server_new: %s\n", err.msg);
            exit(1);
        }
        pthread_create(&c->s[i].thread, NULL, server_main, &c->s[i]);
        snprintf(c->list + strlen(c->list), sizeof c->list - strlen(c->list), "%s127.0.0.1:%d",
                 i ? "," : "", c->s[i].port);
        c->n++;
    }
}

/* Waits until all servers have ended by themselves. 0, or the first failure. */
static int cluster_join(struct cluster *c, struct pd_err *err) {
    int rc = 0;
    for (int i = 0; i < c->n; i++) {
        pthread_join(c->s[i].thread, NULL);
        if (c->s[i].rc && !rc) {
            rc = c->s[i].rc;
            if (err)
                *err = c->s[i].err;
        }
        ps_server_free(c->s[i].server);
    }
    return rc;
}

/* --- the job --- */

#ifdef TOY_SMALL /* for tests that run the job hundreds of times */
enum {
    TOY_ROWS = 60,
    TOY_DIM = 8,
    TOY_MIDDLE = 300,
    TOY_LARGE = 9000
}; /* half of the last one is large enough to be lent */
#else
enum { TOY_ROWS = 600, TOY_DIM = 8, TOY_MIDDLE = 3000, TOY_LARGE = 40000 };
#endif
static const uint64_t toy_sizes[] = {5, TOY_MIDDLE, TOY_LARGE};
enum { TOY_DENSE = 3, TOY_VALUES = 5 + TOY_MIDDLE + TOY_LARGE };
/* The gradients of a contribution: each dense parameter at a multiple of 64 bytes, then the rows.
 */
enum {
    TOY_LINE = 16,
    TOY_GRADS = TOY_LINE + (TOY_MIDDLE + TOY_LINE - 1) / TOY_LINE * TOY_LINE +
                (TOY_LARGE + TOY_LINE - 1) / TOY_LINE * TOY_LINE
};
enum { TOY_PART = TOY_GRADS + TOY_ROWS * TOY_DIM };

struct toy {
    int n_trainers, n_servers, n_dense, n_sparse, n_streams, n_passes,
        steps; /* steps of stream 0; stream s has s % 3 more */
    int local, jitter;
    int ahead; /* 1: a step's rows are pulled before the previous step is computed */
    int parts; /* 1: a contribution for each tree node that the trainer owns, instead of one for all
                  its streams */
    const char *optimizer, *update;
    double lr;
    float l2;
    const struct pd_log *log;
    int n_lost; /* number of trainers that are missing at the end */
    int reject_nan;
    int short_steps; /* > 0: the steps per pass of stream short_stream */
    int short_stream;
};

struct toy_result {
    float dense[TOY_VALUES];
    float rows[TOY_ROWS * TOY_DIM];
    double cost_sum, noise; /* sums over the stats of all steps; noise: inexact numbers, whose sum
                               depends on their order */
    uint64_t steps, samples;
};

static uint64_t toy_hash(uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
    return pd_mix64(a * 0x9e3779b97f4a7c15u + pd_mix64(b + pd_mix64(c * 31 + pd_mix64(d))));
}
static float toy_grad(uint64_t stream, uint64_t step, uint64_t what, uint64_t i) {
    return (float)((double)(toy_hash(stream, step, what, i) >> 40) / 8388608.0 - 1.0);
}
static int toy_has_row(uint64_t stream, uint64_t step, uint64_t key) {
    return toy_hash(stream, step, 77, key) % 5 == 0;
}
static uint64_t toy_key(int i) { return (uint64_t)i * 1000003u + 7; }
static double toy_noise(uint64_t stream, uint64_t step) {
    return (double)toy_grad(stream, step, 99, 0) * (1 + 100.0 * (double)stream / 3);
}
static uint64_t toy_samples(uint64_t stream, uint64_t step) {
    return 4 + toy_hash(stream, step, 5, 5) % 9;
}
static int toy_steps_of(const struct toy *t, int stream) {
    return t->short_steps && stream == t->short_stream ? t->short_steps : t->steps + stream % 3;
}

/* The ranges of the streams in [lo, hi) that have step k of the pass. Returns their number. */
static int toy_streams(const struct toy *t, int lo, int hi, int k, struct ps_range *r) {
    int n = 0;
    for (int s = lo; s < hi; s++)
        if (k < toy_steps_of(t, s))
            r[n++] = (struct ps_range){(uint32_t)s, (uint32_t)s + 1};
    return n;
}
/* Gradient i of parameter `what` in this step, summed over the ranges in the order of `plan`. */
static float toy_sum(const struct ps_range *r, int n, const struct ps_add *plan, uint64_t step,
                     uint64_t what, uint64_t i) {
    float v[16] = {0};
    for (int j = 0; j < n; j++)
        v[j] = toy_grad(r[j].lo, step, what, i);
    for (int j = 0; j + 1 < n; j++)
        v[plan[j].into] += v[plan[j].from];
    return v[0];
}
/* The same sum for a row, over the streams that have the row. 0: no stream has it. */
static int toy_row_sum(const struct toy *t, const struct ps_range *r, int n, uint64_t step,
                       uint64_t key, float *out) {
    struct ps_range sub[16];
    struct ps_add plan[16];
    int m = 0;
    for (int j = 0; j < n; j++)
        if (toy_has_row(r[j].lo, step, key))
            sub[m++] = r[j];
    if (!m)
        return 0;
    ps_sum_tree_plan(sub, (size_t)m, (uint32_t)t->n_streams, plan);
    for (int d = 0; d < TOY_DIM; d++)
        out[d] = toy_sum(sub, m, plan, step, 1000 + key, (uint64_t)d);
    return 1;
}

struct toy_trainer {
    const struct toy *t;
    int id;
    const char *servers;
    struct toy_result *result; /* this trainer's */
    struct pd_err err;
    int rc;
    int (*before_step)(struct toy_trainer *me, struct ps_client *c,
                       uint64_t step); /* != 0: the trainer leaves with this result */
    uint64_t incidents;
    double seen; /* the sum of the values of all pulled rows */
    struct ps_client_stats stats;
    pthread_t thread;
};

/* A before_step that delays a step beyond a limit of 2 or 3 s. */
static inline int toy_takes_long_at_1(struct toy_trainer *me, struct ps_client *c, uint64_t step) {
    (void)me;
    (void)c;
    if (step == 1)
        usleep(5500000);
    return 0;
}

static int toy_declare(struct ps_client *c, const struct toy *t, int *dense, int *table) {
    for (int i = 0; i < TOY_DENSE; i++) {
        char name[16];
        snprintf(name, sizeof name, "w%d", i);
        struct ps_dense_spec s = {.name = name,
                                  .n_dims = 1,
                                  .shape = {toy_sizes[i]},
                                  .init_std = 0.1f * (float)i,
                                  .init_mean = 0.25f,
                                  .lr_factor = 1,
                                  .l2 = t->l2};
        if ((dense[i] = ps_declare_dense(c, &s)) < 0)
            return dense[i];
    }
    struct ps_table_spec s = {
        .name = "emb", .dim = TOY_DIM, .init_std = 0.5f, .lr_factor = 2, .l2 = t->l2};
    *table = ps_declare_table(c, &s);
    return *table < 0 ? *table : 0;
}

/* Pushes one contribution: step k's gradients of the streams [lo, hi). mem has room for TOY_PART.
 */
static int toy_push(struct toy_trainer *me, struct ps_client *c, int lo, int hi, int k,
                    const int *dense, int table, float *mem, uint64_t *samples, double *stats) {
    const struct toy *t = me->t;
    struct ps_range r[16];
    struct ps_add plan[16];
    uint64_t step = ps_step(c), keys[TOY_ROWS];
    float *g = mem, *rows = mem + TOY_GRADS;
    int n = toy_streams(t, lo, hi, k, r), n_rows = 0, rc = 0;
    uint64_t mine = 0;
    double noise[16], *each[16];
    for (int j = 0; j < n; j++) {
        mine += toy_samples(r[j].lo, step);
        noise[j] = toy_noise(r[j].lo, step);
        each[j] = &noise[j];
    }
    if (!n)
        return 0;
    ps_sum_tree_plan(r, (size_t)n, (uint32_t)t->n_streams, plan);
    ps_sum_tree_sum_f64(plan, (size_t)n, each, 1);
    stats[0] = (double)mine * 0.5;
    stats[1] = noise[0];
    *samples += mine;
    if (t->parts && (rc = ps_part(c, (uint32_t)lo, (uint32_t)hi, stats, 2)))
        return rc;
    for (int i = 0; i < TOY_ROWS; i++)
        if (toy_row_sum(t, r, n, step, toy_key(i), rows + n_rows * TOY_DIM))
            keys[n_rows++] = toy_key(i);
    for (int i = 0; i < TOY_DENSE && !rc;
         g += (toy_sizes[i++] + TOY_LINE - 1) / TOY_LINE * TOY_LINE) {
        for (uint64_t j = 0; j < toy_sizes[i]; j++)
            g[j] = toy_sum(r, n, plan, step, (uint64_t)i, j);
        rc = ps_push_dense(c, dense[i], g, toy_sizes[i]);
    }
    if (t->jitter)
        usleep((useconds_t)(toy_hash((uint64_t)me->id, step, (uint64_t)t->jitter, 1) % 3000));
    return rc ? rc : ps_push_rows(c, table, (size_t)n_rows, keys, rows);
}

/* The keys of the rows that step k of these streams looks up. Returns their number. */
static int toy_keys(const struct ps_range *r, int n, uint64_t step, uint64_t *keys) {
    int n_rows = 0;
    for (int i = 0, any = 0; i < TOY_ROWS; i++, any = 0) {
        for (int j = 0; j < n; j++)
            any |= toy_has_row(r[j].lo, step, toy_key(i));
        if (any)
            keys[n_rows++] = toy_key(i);
    }
    return n_rows;
}

/* Runs one step of the streams [lo, hi). */
static int toy_step(struct toy_trainer *me, struct ps_client *c, int lo, int hi, int k,
                    const int *dense, int table, float *mem, uint64_t *keys, float *values,
                    float *pulled) {
    const struct toy *t = me->t;
    struct ps_range r[16], node[PS_NODES_MAX] = {{(uint32_t)lo, (uint32_t)hi}};
    int n = toy_streams(t, lo, hi, k, r), n_rows = 0, rc = 0;
    uint64_t step = ps_step(c), samples = 0;
    n_rows = toy_keys(r, n, step, keys);
    float *v = values;
    for (int i = 0; i < TOY_DENSE; v += toy_sizes[i++])
        rc |= ps_pull_dense(c, dense[i], v, toy_sizes[i]);
    if (!t->ahead || !k)
        rc |= ps_pull_rows(c, table, (size_t)n_rows, keys, pulled,
                           step % 2 || (t->update && !strcmp(t->update, "geo")) ? PS_CREATE
                                                                                : PS_NO_CREATE);
    rc |= ps_wait(c);
    if (rc)
        return ps_client_err(c)->code;
    uint64_t after[TOY_ROWS];
    for (int i = 0; i < n_rows * TOY_DIM; i++)
        me->seen += pulled[i];
    if (t->ahead) {
        n = toy_streams(t, lo, hi, k + 1, r);
        if (n &&
            ps_pull_rows_next(c, table, (size_t)toy_keys(r, n, step + 1, after), after, pulled))
            return ps_client_err(c)->code;
    }
    double stats[2] = {0};
    uint32_t n_nodes =
        t->parts ? ps_sum_tree_nodes((uint32_t)t->n_streams, (uint32_t)lo, (uint32_t)hi, node) : 1;
    for (uint32_t i = 0; i < n_nodes && !rc; i++, mem += TOY_PART)
        rc = toy_push(me, c, (int)node[i].lo, (int)node[i].hi, k, dense, table, mem, &samples,
                      stats);
    return rc ? rc : ps_step_end(c, samples, t->parts ? NULL : stats, t->parts ? 0 : 2);
}

static int toy_collect(struct toy_trainer *me, struct ps_client *c) {
    uint64_t step, samples;
    double v[PS_STATS_MAX];
    int rc;
    while ((rc = ps_step_stats(c, &step, &samples, v)) == 1) {
        me->result->cost_sum += v[0];
        me->result->noise += v[1];
        me->result->samples += samples;
        if (v[0] != (double)samples * 0.5)
            me->incidents++;
    }
    return rc;
}

static int toy_train(struct toy_trainer *me, struct ps_client *c) {
    const struct toy *t = me->t;
    int lo = t->n_streams * me->id / t->n_trainers,
        hi = t->n_streams * (me->id + 1) / t->n_trainers;
    int dense[TOY_DENSE], table = -1, rc = toy_declare(c, t, dense, &table);
    enum { MAX_NODES = 8 };
    float *own = calloc((MAX_NODES + 1) * TOY_PART, sizeof *own),
          *values = own + MAX_NODES * TOY_PART, *pulled = values + TOY_VALUES;
    uint64_t keys[TOY_ROWS];
    if (!rc)
        rc = ps_start(c);
    float *lent = rc ? NULL : ps_lend(c, MAX_NODES * TOY_PART), *mem = lent ? lent : own;
    uint64_t from_pass = 0, from_k = 0;
    if (!rc)
        ps_resumed(c, &from_pass, &from_k);
    for (int pass = (int)from_pass; pass < t->n_passes && !rc; pass++, from_k = 0) {
        for (int k = (int)from_k; !rc; k++) {
            struct ps_range r[16];
            if (!toy_streams(t, lo, hi, k, r))
                break;
            if (me->before_step && (rc = me->before_step(me, c, ps_step(c))))
                break;
            rc = toy_step(me, c, lo, hi, k, dense, table, mem, keys, values, pulled);
            if (!rc)
                rc = toy_collect(me, c);
        }
        if (!rc)
            rc = ps_pass_end(c);
    }
    while (!rc && ps_stats_pending(c))
        rc = toy_collect(me, c);
    double one[3] = {1, me->id, 0.5};
    if (!rc)
        rc = ps_reduce(c, one, 3);
    if (!rc && !t->n_lost &&
        (one[0] != t->n_trainers || one[1] != t->n_trainers * (t->n_trainers - 1) / 2 ||
         one[2] != 0.5 * t->n_trainers))
        me->incidents++;
    float *v = me->result->dense;
    for (int i = 0; i < TOY_DENSE && !rc; v += toy_sizes[i++])
        rc = ps_pull_dense(c, dense[i], v, toy_sizes[i]);
    for (int i = 0; i < TOY_ROWS; i++)
        keys[i] = toy_key(i);
    if (!rc)
        rc = ps_pull_rows(c, table, TOY_ROWS, keys, me->result->rows, PS_NO_CREATE);
    if (!rc)
        rc = ps_wait(c);
    me->result->steps = ps_step(c);
    free(own);
    return rc ? rc : ps_bye(c);
}

static void *toy_main(void *arg) {
    struct toy_trainer *me = arg;
    const struct toy *t = me->t;
    struct ps_client *c = NULL;
    struct ps_client_opts o = {.local = t->local,
                               .pservers = me->servers,
                               .trainer_id = (uint32_t)me->id,
                               .n_trainers = (uint32_t)t->n_trainers,
                               .n_streams = (uint32_t)t->n_streams,
                               .stream_lo = (uint32_t)(t->n_streams * me->id / t->n_trainers),
                               .stream_hi = (uint32_t)(t->n_streams * (me->id + 1) / t->n_trainers),
                               .seed = 42,
                               .optimizer = {t->optimizer, t->lr, 1e-6},
                               .job = "J",
                               .key = cluster_key,
                               .plain = cluster_plain,
                               .connect_timeout_ms = 20000,
                               .heartbeat_ms = cluster_heartbeat_ms,
                               .reconnect_ms = cluster_reconnect_ms,
                               .update = t->update,
                               .staleness = 2,
                               .geo_sgd_need_push_nums = 2,
                               .reject_nan = t->reject_nan,
                               .log = t->log};
    me->rc = ps_client_new(&c, &o, &me->err);
    if (me->rc)
        return NULL;
    me->rc = toy_train(me, c);
    if (me->rc)
        me->err = *ps_client_err(c);
    ps_client_stats(c, &me->stats);
    ps_client_free(c);
    return NULL;
}

/* Runs the whole job. Fails unless the results of all trainers are equal. */
static inline int toy_run(const struct toy *t, struct toy_result *result, struct pd_err *err) {
    struct cluster c;
    struct toy_trainer me[8];
    struct toy_result *all = calloc((size_t)t->n_trainers, sizeof *all);
    int rc = 0;
    if (!t->local)
        cluster_start(&c, t->n_servers, t->n_dense, t->n_sparse, t->n_trainers, 0, -1);
    for (int i = 0; i < t->n_trainers; i++) {
        me[i] = (struct toy_trainer){
            .t = t, .id = i, .servers = t->local ? NULL : c.list, .result = &all[i]};
        pthread_create(&me[i].thread, NULL, toy_main, &me[i]);
    }
    for (int i = 0; i < t->n_trainers; i++) {
        pthread_join(me[i].thread, NULL);
        if (me[i].rc && !rc) {
            rc = me[i].rc;
            *err = me[i].err;
        }
        if (!rc && (me[i].incidents || memcmp(all[i].dense, all[0].dense, sizeof all[0].dense) ||
                    memcmp(all[i].rows, all[0].rows, sizeof all[0].rows)))
            rc = pd_fail(err, PD_EFAIL, "trainer %d sees something else than trainer 0", i);
    }
    if (!t->local && cluster_join(&c, err))
        rc = rc ? rc : PD_EFAIL;
    *result = all[0];
    /* A trainer gets the sums of its own steps; one trainer took part in all steps. */
    for (int i = 1; i < t->n_trainers; i++)
        if (all[i].samples > result->samples) {
            result->samples = all[i].samples;
            result->cost_sum = all[i].cost_sum;
            result->noise = all[i].noise;
        }
    free(all);
    return rc;
}
