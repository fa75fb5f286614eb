/* SPDX-License-Identifier: Apache-2.0 */
/* client.c - begin and end of a client: options, declarations, start, free. */
#include "math/hash.h"
#include "ps/client/client_beat.h"
#include "ps/client/client_internal.h"

enum { COPIES_LENT = 32 };
static const uint64_t MAX_LENT = UINT64_C(1) << 40;

#define FLUSH_NS 1000000000u

static const char zero_key[WIRE_KEY_BYTES];

/* --- options --- */

static int add_server(struct ps_client *c, const char *text, size_t n, struct pd_err *err) {
    char item[96];
    struct server *s = &c->servers[c->n_servers];
    uint64_t port;
    if (pd_fmt(item, sizeof item, "%.*s", (int)n, text))
        return pd_fail(err, PD_ECONF, "pservers: '%.*s' is too long", (int)(n < 200 ? n : 200),
                       text);
    char *colon = strrchr(item, ':'), *ip = item;
    if (!colon || pd_parse_u64(colon + 1, 65535, &port) || port == 0)
        return pd_fail(err, PD_ECONF, "pservers: '%s' is not ip:port", item);
    *colon = 0;
    if (*ip == '[' && colon > ip + 1 && colon[-1] == ']') { /* [v6]:port */
        colon[-1] = 0;
        ip++;
    }
    if (pd_fmt(s->ip, sizeof s->ip, "%s", ip))
        return pd_fail(err, PD_ECONF, "pservers: '%s' is too long", ip);
    s->port = (int)port;
    c->n_servers++;
    return 0;
}

static int parse_servers(struct ps_client *c, const char *list, struct pd_err *err) {
    size_t n = 1;
    for (const char *p = list; p && *p; p++)
        n += *p == ',';
    if (!list || !*list)
        return pd_fail(err, PD_ECONF, "pservers: no server is named");
    c->servers = pd_calloc(n, sizeof *c->servers);
    if (!c->servers)
        return pd_fail(err, PD_ENOMEM, "no memory for a client");
    int rc = 0;
    for (const char *p = list; !rc; p++) {
        size_t k = strcspn(p, ",");
        rc = add_server(c, p, k, err);
        p += k;
        if (!*p)
            break;
    }
    return rc;
}

static int set_optimizer(struct ps_optim_conf *c, const struct ps_optimizer *o,
                         struct pd_err *err) {
    char text[PS_OPTIM_TEXT_MAX];
    if (o->conf) {
        *c = *o->conf;
        return ps_optim_conf_check(c, err);
    }
    if (!o->name || pd_fmt(text, sizeof text, "%s learning_rate=%.17g %s", o->name,
                           o->learning_rate, o->settings ? o->settings : ""))
        return pd_fail(err, PD_ECONF, "no optimizer, or too many settings");
    int rc = ps_optim_conf_parse(c, text, err);
    if (!rc && o->eps > 0)
        c->epsilon = o->eps;
    return rc;
}

int ps_job_of_environ(char out[PS_JOB_MAX], struct pd_err *err) {
    const char *job = getenv("PADDLE_JOB_ID"), *restarts = getenv("PADDLE_RESTART_COUNT");
    int again = job && restarts && strcmp(restarts, "0");
    return pd_fmt(out, PS_JOB_MAX, "%s%s%s", job ? job : "", again ? "." : "",
                  again ? restarts : "")
               ? pd_fail(err, PD_ECONF, "PADDLE_JOB_ID is too long")
               : 0;
}

static int check_opts(struct ps_client *c, struct pd_err *err) {
    struct ps_client_opts *o = &c->opts;
    if (!o->n_streams) {
        o->n_streams = o->n_trainers;
        o->stream_lo = o->trainer_id;
        o->stream_hi = o->trainer_id + 1;
    }
    if (o->local && o->n_trainers != 1)
        return pd_fail(err, PD_ECONF, "local training has one trainer, not %u", o->n_trainers);
    if (o->trainer_id >= o->n_trainers || o->n_trainers > PS_TRAINERS_MAX)
        return pd_fail(err, PD_ECONF, "trainer_id %u of %u trainers", o->trainer_id, o->n_trainers);
    if (o->stream_lo >= o->stream_hi || o->stream_hi > o->n_streams)
        return pd_fail(err, PD_ECONF, "streams [%u, %u) of %u", o->stream_lo, o->stream_hi,
                       o->n_streams);
    if (pd_fmt(c->job_id, sizeof c->job_id, "%s", o->job ? o->job : ""))
        return pd_fail(err, PD_ECONF, "job id '%s' is too long", o->job);
    int rc = set_optimizer(&c->decl.optim, &o->optimizer, err);
    if (rc)
        return rc;
    if (pd_fmt(c->decl.update, sizeof c->decl.update, "%s", o->update ? o->update : "sync"))
        return pd_fail(err, PD_ECONF, "there is no update rule '%s'", o->update);
    if (!(c->rule = ps_update_rule_find(c->decl.update)))
        return pd_fail(err, PD_ECONF, "there is no update rule '%s'", c->decl.update);
    if (o->local && c->rule->adds) { /* one trainer has no other to exchange with */
        pd_fmt(c->decl.update, sizeof c->decl.update, "sync");
        c->rule = ps_update_rule_find("sync");
    }
    if (c->rule->adds && !(c->geo = geo_new(o->geo_sgd_need_push_nums)))
        return pd_fail(err, PD_ENOMEM, "no memory for a client");
    c->decl.staleness = o->staleness;
    c->decl.discard_ratio = o->async_lagged_grad_discard_ratio;
    c->decl.on_nan = o->reject_nan ? PS_NAN_REFUSE : o->stop_on_nan ? PS_NAN_STOP : PS_NAN_TAKE;
    c->decl.seed = o->seed;
    c->decl.n_trainers = o->n_trainers;
    c->decl.n_streams = o->n_streams;
    pd_secret_pages(c->key, sizeof c->key);
    memcpy(c->key, o->key ? o->key : (const uint8_t *)zero_key, sizeof c->key);
    return o->local ? 0 : parse_servers(c, o->pservers, err);
}

int ps_client_new(struct ps_client **out, const struct ps_client_opts *opts, struct pd_err *err) {
    struct ps_client *c = pd_calloc(1, sizeof *c);
    if (!c)
        return pd_fail(err, PD_ENOMEM, "no memory for a client");
    c->opts = *opts;
    /* Unique for each start, so that a server never takes a push of this process for a push of an
     * earlier process. */
    c->incarnation = pd_mix64(pd_wall_us() ^ (uint64_t)getpid() << 40 ^ pd_mono_ns());
    int rc = check_opts(c, err);
    c->opts.pservers = c->opts.job = c->opts.update = NULL;
    memset(&c->opts.optimizer, 0, sizeof c->opts.optimizer);
    c->opts.key = NULL;
    if (rc)
        ps_client_free(c);
    else
        *out = c;
    return rc;
}

const struct pd_err *ps_client_err(const struct ps_client *c) { return &c->err; }
void ps_client_stats(const struct ps_client *c, struct ps_client_stats *out) { *out = c->stats; }

static int declared(struct ps_client *c, int rc, const struct pd_err *err, uint32_t id) {
    if (!rc && c->started)
        return client_fail(c, PD_EUSAGE, "declared after ps_start");
    return rc ? client_fail_with(c, err) : (int)id;
}

int ps_declare_dense(struct ps_client *c, const struct ps_dense_spec *spec) {
    struct pd_err err = {0};
    int rc = ps_declaration_add_dense(&c->decl, spec, &err);
    return declared(c, rc, &err, c->decl.n_dense - 1);
}

int ps_declare_table(struct ps_client *c, const struct ps_table_spec *spec) {
    struct pd_err err = {0};
    int rc = ps_declaration_add_table(&c->decl, spec, &err);
    return declared(c, rc, &err, c->decl.n_sparse - 1);
}

/* Threads are counted over all servers, in server order. */
static int number_threads(struct ps_client *c) {
    uint64_t n_dense = 0, n_sparse = 0;
    for (uint32_t i = 0; i < c->n_servers; i++) {
        n_dense += c->servers[i].n_dense;
        n_sparse += c->servers[i].n_sparse;
    }
    c->dense = pd_calloc(n_dense, sizeof *c->dense);
    c->sparse = pd_calloc(n_sparse, sizeof *c->sparse);
    if (!c->dense || !c->sparse)
        return client_fail(c, PD_ENOMEM, "no memory for a client");
    for (uint32_t i = 0; i < c->n_servers; i++)
        for (uint32_t k = 0; k < c->servers[i].n_links; k++) {
            struct server_link *l = c->servers[i].links[k];
            int dense = k < c->servers[i].n_dense;
            l->kind = dense ? PS_KIND_DENSE : PS_KIND_SPARSE;
            l->thread = dense ? c->n_dense : c->n_sparse;
            if (dense)
                c->dense[c->n_dense++] = l;
            else
                c->sparse[c->n_sparse++] = l;
        }
    return 0;
}

static int start_local(struct ps_client *c) {
    struct ps_shard_opts o = {.kind = PS_KIND_BOTH,
                              .n_trainers = 1,
                              .epoch = 1,
                              .output_dir = c->opts.output_dir,
                              .log = c->opts.log,
                              .crew = c->opts.crew};
    if (!(o.pool = c->pool = pd_pool_new()))
        return client_fail(c, PD_ENOMEM, "no memory for a local server");
    c->servers = pd_calloc(1, sizeof *c->servers);
    c->dense = pd_calloc(1, sizeof *c->dense);
    c->sparse = pd_calloc(1, sizeof *c->sparse);
    if (!c->servers || !c->dense || !c->sparse || ps_shard_new(&c->shard, &o, &client_local_ops, c))
        return client_fail(c, PD_ENOMEM, "no memory for a local server");
    snprintf(c->servers[0].ip, sizeof c->servers[0].ip, "local");
    c->n_servers = c->n_dense = c->n_sparse = 1;
    c->servers[0].n_dense = c->servers[0].n_sparse = 1;
    struct server_link *l = client_add_link(c, 0, 0);
    if (!l)
        return c->err.code;
    l->kind = PS_KIND_BOTH;
    c->dense[0] = c->sparse[0] = l;
    return 0;
}

static int make_layout(struct ps_client *c) {
    uint64_t *n = pd_calloc(c->decl.n_dense, sizeof *n);
    c->segs = pd_calloc((size_t)c->decl.n_dense * c->n_dense, sizeof *c->segs);
    c->last = pd_calloc((size_t)c->decl.n_sparse * 2, sizeof(struct rows *));
    int rc = n && c->segs && c->last ? 0 : PD_ENOMEM;
    for (uint32_t i = 0; i < c->decl.n_dense && !rc; i++)
        n[i] = c->decl.dense[i].n;
    if (!rc)
        rc = ps_layout_dense(c->decl.n_dense, n, c->n_servers, c->n_dense, c->segs);
    free(n);
    return rc ? client_fail(c, rc, "no memory for a client") : 0;
}

/* Reserves virtual memory for many copies of all dense gradients: for a step's parts, and for
 * several steps. */
static void make_region(struct ps_client *c) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < c->decl.n_dense && bytes < MAX_LENT / COPIES_LENT; i++)
        bytes += ps_seg_padded(c->decl.dense[i].n) * sizeof(float);
    if (bytes && bytes < MAX_LENT / COPIES_LENT)
        (void)net_region_new(&c->region, bytes * COPIES_LENT,
                             NET_LENT_AT_ONCE); /* optional: without it, pushes are slower */
}

float *ps_lend(struct ps_client *c, size_t n) {
    return n < MAX_LENT / sizeof(float) ? net_region_take(c->region, n * sizeof(float)) : NULL;
}

static int all_attached(const struct ps_client *c) {
    for (uint32_t i = 0; i < c->n_links; i++)
        if (c->links[i]->state != LINK_ATTACHED)
            return 0;
    return 1;
}

/* If heartbeats cannot start, the job runs without them and waits for a stopped server. */
static void start_beats(struct ps_client *c) {
    struct ps_beat_opts o = {.n_servers = c->n_servers,
                             .limit_ms = c->opts.heartbeat_ms,
                             .first_ms = client_connect_ms(c),
                             .log = c->opts.log,
                             .hs = {.self = {.role = WIRE_ROLE_TRAINER,
                                             .id = c->opts.trainer_id,
                                             .incarnation = c->incarnation},
                                    .plain = c->opts.plain}};
    struct pd_err err = {0};
    if (c->opts.local || !c->opts.heartbeat_ms)
        return;
    struct ps_beat_server *s = pd_calloc(c->n_servers, sizeof *s);
    if (!s) {
        pd_warn(c->opts.log, "no memory for heartbeats");
        return;
    }
    for (uint32_t i = 0; i < c->n_servers; i++)
        s[i] = (struct ps_beat_server){c->servers[i].ip, c->servers[i].port};
    o.servers = s;
    memcpy(o.hs.self.job, c->job_id, sizeof o.hs.self.job);
    memcpy(o.hs.key, c->key, sizeof o.hs.key);
    if (ps_beat_start(&c->beat, &o, &err))
        pd_warn(c->opts.log, "%s", err.msg);
    explicit_bzero(&o.hs, sizeof o.hs);
    free(s);
}

int ps_start(struct ps_client *c) {
    struct pd_err err = {0};
    if (c->err.code)
        return c->err.code;
    if (c->started)
        return client_fail(c, PD_EUSAGE, "ps_start was called before");
    c->started = 1;
    if (c->opts.local ? start_local(c) : client_connect_all(c) || number_threads(c))
        return c->err.code;
    c->decl.n_servers = c->n_servers;
    c->decl.n_dense_threads = c->n_dense;
    c->decl.n_sparse_threads = c->n_sparse;
    if (ps_declaration_check(&c->decl, &err))
        return client_fail_with(c, &err);
    if (make_layout(c))
        return c->err.code;
    c->planes = ps_declaration_planes(&c->decl);
    if (!c->opts.local && !c->geo)
        make_region(c);
    start_beats(c);
    c->declaring = 1;
    for (uint32_t i = 0; i < c->n_links && !c->err.code; i++)
        ps_link_declare(c->links[i]);
    if (client_wait(c, all_attached, "the declaration"))
        return c->err.code;
    return c->geo ? geo_start(c) : 0;
}

/* A failure's reason may be queued behind a push. It gets a second to be sent, so that the others
 * learn it. */
static void flush_links(struct ps_client *c) {
    uint64_t until = pd_mono_ns() + FLUSH_NS;
    for (uint32_t i = 0; i < c->n_links; i++)
        if (c->links[i]->conn)
            net_close_after_flush(c->links[i]->conn);
    for (int open = 1; open && pd_mono_ns() < until;) {
        uv_run(&c->loop, UV_RUN_ONCE); /* the tick timer keeps it from sleeping past the limit */
        open = 0;
        for (uint32_t i = 0; i < c->n_links; i++)
            open |= c->links[i]->conn != NULL;
    }
}

void ps_client_free(struct ps_client *c) {
    if (!c)
        return;
    ps_beat_stop(c->beat);
    c->beat = NULL; /* the tick looks at it while links are flushed */
    /* Otherwise the servers would wait for it to come back. */
    if (c->connected && !c->leaving && !c->err.code) {
        struct pd_err why = {0};
        pd_fail(&why, PD_EFAIL, "it has left without ps_bye in step %llu",
                (unsigned long long)c->step);
        client_tell_servers(c, &why, 0);
        c->err = why;
    }
    c->leaving = 1;
    if (c->has_loop) {
        if (c->err.code)
            flush_links(c);
        for (uint32_t i = 0; i < c->n_links; i++)
            if (c->links[i]->conn)
                net_close(c->links[i]->conn);
        uv_close((uv_handle_t *)&c->tick, NULL);
        uv_run(&c->loop, UV_RUN_DEFAULT);
        uv_loop_close(&c->loop);
    }
    client_links_release(c);
    client_step_release(c); /* after the loop: buffers are released when their connections close */
    client_save_release(c);
    free(c->pass_rows);
    ps_shard_free(c->shard);
    net_region_free(c->region);
    geo_free(c);
    for (uint32_t i = 0; i < c->n_servers; i++)
        free(c->servers[i].links);
    free(c->servers);
    free(c->dense);
    free(c->sparse);
    free(c->segs);
    free(c->requests);
    free(c->sums);
    pd_buf_release(&c->head);
    ps_declaration_release(&c->decl);
    pd_pool_free(c->pool);
    explicit_bzero(c->key, sizeof c->key);
    free(c);
}
