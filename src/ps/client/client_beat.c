/* SPDX-License-Identifier: Apache-2.0 */
/* client_beat.c - the trainer's end of the heartbeats; see client_beat.h. */
#include <pthread.h>
#include <uv.h>

#include "net/conn.h"
#include "ps/client/client_beat.h"
#include "wire/msg.h"

enum { ATTEMPT_MS = 5000, RETRY_TICKS = 4 };

struct beat_link {
    struct ps_beat *b;
    char ip[64];
    int port;
    struct net_conn *conn;
    int live, ever;         /* live: it has answered on this connection; ever: on any connection */
    uint64_t unheard_ticks; /* ticks with a connection before its first answer */
    int64_t quiet_ticks;    /* negative after a cut; see client_beat.h */
    uint32_t retry_ticks;
};

struct ps_beat {
    struct ps_beat_opts opts;
    uv_loop_t loop;
    uv_timer_t tick;
    uv_async_t stop;
    uv_thread_t thread;
    struct beat_link *links;
    atomic_int silent;  /* number of the first lost server + 1 */
    uint64_t passed_ms; /* the limit that it exceeded; written before `silent` */
};

static void send_beat(struct beat_link *l) {
    (void)net_send(l->conn, WIRE_PS_BEAT, 0, 0, NULL, 0, NULL, NULL);
}

static void on_open(struct net_conn *c, void *arg) {
    net_watch_host(c);
    send_beat(arg);
}

/* From its first answer on, the server's main thread has the connection. No further beat is sent
 * before that answer. */
static void on_frame(struct net_conn *c, struct wire_frame *f, void *arg) {
    struct beat_link *l = arg;
    (void)c;
    if (f->type == WIRE_PS_BEAT && !f->flags)
        l->live = l->ever = 1;
    l->quiet_ticks = 0;
    wire_frame_free(f);
}

static void on_close(struct net_conn *c, const struct pd_err *why, void *arg) {
    struct beat_link *l = arg;
    (void)c;
    (void)why; /* the other connections to this server report its end */
    l->conn = NULL;
    l->live = 0;
    l->retry_ticks = RETRY_TICKS;
}

static void try_connect(struct beat_link *l) {
    static const struct net_events events = {
        .on_open = on_open, .on_frame = on_frame, .on_close = on_close};
    const struct net_opts net = {.max_frame = PS_BEAT_FRAME_MAX};
    struct pd_err err = {0};
    l->quiet_ticks = 0;
    if (net_connect(&l->conn, &l->b->loop, l->ip, l->port, ATTEMPT_MS, &l->b->opts.hs, &net,
                    &events, l, &err))
        l->retry_ticks = RETRY_TICKS;
}

static void lose(struct ps_beat *b, uint32_t i, uint64_t limit_ms) {
    if (atomic_load(&b->silent))
        return;
    b->passed_ms = limit_ms;
    atomic_store(&b->silent, (int)i + 1);
}

/* Counts ticks in which the server's kernel acknowledges, but the server has not answered yet. Its
 * thread may be busy for a while. */
static void count_unheard(struct ps_beat *b, uint32_t i) {
    struct beat_link *l = &b->links[i];
    if (!l->conn || l->ever)
        return;
    const uint64_t limit =
        b->opts.first_ms > b->opts.limit_ms ? b->opts.first_ms : b->opts.limit_ms;
    l->unheard_ticks = net_has_unacknowledged(l->conn) ? 0 : l->unheard_ticks + 1;
    if (l->unheard_ticks * PS_BEAT_PERIOD_MS > limit)
        lose(b, i, limit);
}

static void on_tick(uv_timer_t *t) {
    struct ps_beat *b = t->data;
    for (uint32_t i = 0; i < b->opts.n_servers; i++) {
        struct beat_link *l = &b->links[i];
        if (!l->conn && (!l->retry_ticks || !--l->retry_ticks))
            try_connect(l);
        count_unheard(b, i);
        if (!l->conn || !l->live)
            continue;
        if (net_has_unacknowledged(l->conn)) {
            l->quiet_ticks = l->quiet_ticks < 0 ? l->quiet_ticks - 1 : -1;
            net_check_host(l->conn);
            continue;
        }
        if (++l->quiet_ticks * PS_BEAT_PERIOD_MS > (int64_t)b->opts.limit_ms)
            lose(b, i, b->opts.limit_ms);
        send_beat(l);
    }
}

static void on_stop(uv_async_t *a) {
    struct ps_beat *b = a->data;
    uv_close((uv_handle_t *)&b->tick, NULL);
    uv_close((uv_handle_t *)&b->stop, NULL);
    for (uint32_t i = 0; i < b->opts.n_servers; i++)
        if (b->links[i].conn)
            net_close(b->links[i].conn);
}

static void thread_main(void *arg) {
    struct ps_beat *b = arg;
    pthread_setname_np(pthread_self(), "ps_beat");
    uv_run(&b->loop, UV_RUN_DEFAULT);
}

/* Starts the thread with all signals blocked: signals are for the program's own threads. */
static int start_thread(struct ps_beat *b) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = uv_thread_create(&b->thread, thread_main, b);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

static void beat_free(struct ps_beat *b) {
    explicit_bzero(&b->opts.hs, sizeof b->opts.hs);
    free(b->links);
    free(b);
}

int ps_beat_start(struct ps_beat **out, const struct ps_beat_opts *o, struct pd_err *err) {
    struct ps_beat *b = pd_calloc(1, sizeof *b);
    if (b)
        b->links = pd_calloc(o->n_servers, sizeof *b->links);
    if (!b || !b->links || uv_loop_init(&b->loop)) {
        if (b)
            beat_free(b);
        return pd_fail(err, PD_ENOMEM, "no memory for heartbeats");
    }
    pd_secret_pages(&b->opts.hs, sizeof b->opts.hs);
    b->opts = *o;
    b->opts.servers = NULL;
    if (b->opts.limit_ms < PS_BEAT_LIMIT_MIN_MS)
        b->opts.limit_ms = PS_BEAT_LIMIT_MIN_MS;
    for (uint32_t i = 0; i < o->n_servers; i++) {
        b->links[i] = (struct beat_link){.b = b, .port = o->servers[i].port};
        snprintf(b->links[i].ip, sizeof b->links[i].ip, "%s", o->servers[i].ip);
    }
    uv_timer_init(&b->loop, &b->tick);
    uv_async_init(&b->loop, &b->stop, on_stop);
    b->tick.data = b->stop.data = b;
    uv_timer_start(&b->tick, on_tick, 0, PS_BEAT_PERIOD_MS);
    if (start_thread(b)) {
        on_stop(&b->stop);
        uv_run(&b->loop, UV_RUN_DEFAULT);
        uv_loop_close(&b->loop);
        beat_free(b);
        return pd_fail(err, PD_ENOMEM, "cannot start a thread for heartbeats");
    }
    *out = b;
    return 0;
}

void ps_beat_stop(struct ps_beat *b) {
    if (!b)
        return;
    uv_async_send(&b->stop);
    uv_thread_join(&b->thread);
    uv_loop_close(&b->loop);
    beat_free(b);
}

int ps_beat_silent(const struct ps_beat *b, uint64_t *limit_ms) {
    const int i = b ? atomic_load(&b->silent) - 1 : -1;
    if (i >= 0)
        *limit_ms = b->passed_ms;
    return i;
}
