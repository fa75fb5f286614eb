/* SPDX-License-Identifier: Apache-2.0 */
/* server.c - the pserver as a whole: starts its threads, wakes them at the end, and joins them.
 * server_thread.c has the thread. */
#include "ps/server/server.h"

#include "ps/server/server_internal.h"

enum { STOP_MS = 1000 };

static void wake_all(struct ps_server *s) {
    for (uint32_t i = 0; i < s->n_threads; i++)
        if (s->threads[i].alive)
            uv_async_send(&s->threads[i].wake);
}

enum pd_level server_level(struct ps_server *s, enum pd_level level) {
    return atomic_load(&s->ending) ? PD_INFO : level;
}

void server_fail(struct ps_server *s, const struct pd_err *why) {
    uv_mutex_lock(&s->lock);
    s->failed |= !s->stop;
    pd_err_copy(&s->err, why);
    wake_all(s);
    uv_mutex_unlock(&s->lock);
}

int server_give_up(struct ps_server *s, uint32_t trainer, uint64_t incarnation,
                   const struct pd_err *why) {
    uv_mutex_lock(&s->lock);
    struct given_up *g = s->given_up[trainer];
    if (!g && (g = s->given_up[trainer] = pd_calloc(1, sizeof *g)))
        g->incarnation = ~incarnation;
    /* Without memory the other threads notice by themselves. */
    if (g && g->incarnation != incarnation) {
        g->incarnation = incarnation;
        g->why = *why;
        wake_all(s);
    }
    uv_mutex_unlock(&s->lock);
    return g ? 0 : PD_ENOMEM;
}

int server_given_up(struct ps_server *s, uint32_t trainer, const uint64_t *incarnation,
                    struct pd_err *why) {
    uv_mutex_lock(&s->lock);
    const struct given_up *g = s->given_up[trainer];
    int yes = g && (!incarnation || g->incarnation == *incarnation);
    if (yes)
        *why = g->why;
    uv_mutex_unlock(&s->lock);
    return yes;
}

int server_verdict(struct ps_server *s, struct pd_err *why) {
    uv_mutex_lock(&s->lock);
    int stop = s->stop;
    *why = s->err;
    uv_mutex_unlock(&s->lock);
    return stop;
}

void server_thread_ends(struct server_thread *t) {
    uv_mutex_lock(&t->server->lock);
    t->alive = 0;
    uv_mutex_unlock(&t->server->lock);
}

void ps_server_stop(struct ps_server *s) {
    uv_mutex_lock(&s->lock);
    s->stop = 1;
    wake_all(s);
    uv_mutex_unlock(&s->lock);
}

/* --- the caller's loop: signals, and the end of threads --- */

static void close_main(struct ps_server *s) {
    server_beats_close(s);
    uv_handle_t *h[] = {(uv_handle_t *)&s->ended, (uv_handle_t *)&s->term, (uv_handle_t *)&s->intr,
                        (uv_handle_t *)&s->told, (uv_handle_t *)&s->late};
    for (size_t i = 0; i < sizeof h / sizeof h[0]; i++)
        if (!uv_is_closing(h[i]))
            uv_close(h[i], NULL);
}

static void on_ended(uv_async_t *a) {
    struct ps_server *s = a->data;
    uv_mutex_lock(&s->lock);
    uint32_t n = s->n_ended;
    uv_mutex_unlock(&s->lock);
    if (n == s->n_threads)
        close_main(s);
}

static void on_late(uv_timer_t *t) {
    struct ps_server *s = t->data;
    s->abandoned = 1; /* a thread is busy, perhaps with a slow disk; the process ends without it */
    close_main(s);
}

static void on_signal(uv_signal_t *h, int signum) {
    struct ps_server *s = h->data;
    pd_info(s->opts.log, "signal %d: the server ends", signum);
    ps_server_stop(s);
    uv_timer_start(&s->late, on_late, STOP_MS, 0);
}

static void on_told(uv_signal_t *h, int signum) {
    struct ps_server *s = h->data;
    (void)signum;
    if (!atomic_exchange(&s->ending, 1))
        pd_info(s->opts.log, "the job is being stopped");
}

static void listen_to(struct ps_server *s) {
    sigset_t told;
    uv_signal_start(&s->term, on_signal, SIGTERM);
    uv_signal_start(&s->intr, on_signal, SIGINT);
    uv_signal_start(&s->told, on_told, SIGUSR1);
    sigemptyset(&told);
    sigaddset(&told, SIGUSR1);
    /* The parent may have blocked it until this handler exists. */
    pthread_sigmask(SIG_UNBLOCK, &told, NULL);
}

static void thread_main(void *arg) {
    struct server_thread *t = arg;
    const struct ps_server_opts *o = &t->server->opts;
    if (o->cpus && pd_pin_thread(o->cpus, t->index))
        pd_warn(o->log, "thread %u cannot be pinned: %s", t->index, strerror(errno));
    server_thread_run(t);
    uv_mutex_lock(&t->server->lock);
    t->server->n_ended++;
    uv_async_send(&t->server->ended); /* under the lock: a thread that has seen the last count may
                                         close the handle */
    uv_mutex_unlock(&t->server->lock);
}

static int init_main(struct ps_server *s) {
    if (uv_loop_init(&s->loop))
        return -1;
    if (server_beats_init(s)) {
        uv_loop_close(&s->loop);
        return -1;
    }
    uv_async_init(&s->loop, &s->ended, on_ended);
    uv_signal_init(&s->loop, &s->term);
    uv_signal_init(&s->loop, &s->intr);
    uv_signal_init(&s->loop, &s->told);
    uv_timer_init(&s->loop, &s->late);
    s->ended.data = s->term.data = s->intr.data = s->told.data = s->late.data = s;
    if (s->opts.signals) {
        listen_to(s);
        uv_unref((uv_handle_t *)&s->term);
        uv_unref((uv_handle_t *)&s->intr);
        uv_unref((uv_handle_t *)&s->told);
    }
    return 0;
}

int ps_server_new(struct ps_server **out, const struct ps_server_opts *opts, struct pd_err *err) {
    uint32_t n = opts->n_dense + opts->n_sparse;
    struct ps_server *s = pd_calloc(1, sizeof *s);
    int rc = 0;
    if (s) {
        s->opts = *opts;
        s->threads = pd_calloc(n, sizeof *s->threads);
        s->ports = pd_calloc(n, sizeof *s->ports);
        s->given_up = pd_calloc(opts->n_trainers, sizeof *s->given_up);
    }
    if (!s || !s->threads || !s->ports || !s->given_up || uv_mutex_init(&s->lock)) {
        if (s) {
            free(s->threads);
            free(s->ports);
            free(s->given_up);
        }
        free(s);
        s = NULL;
        rc = pd_fail(err, PD_ENOMEM, "no memory for a server");
    } else if (opts->n_dense < 1 || n > PS_SERVER_THREADS_MAX || opts->n_trainers < 1) {
        rc = pd_fail(err, PD_ECONF, "a server has 1 to %d ports and at least one trainer",
                     PS_SERVER_THREADS_MAX);
    } else if (init_main(s)) {
        rc = pd_fail(err, PD_ENOMEM, "no memory for an event loop");
    } else {
        s->has_loop = 1;
        s->epoch = pd_wall_us() ^ (uint64_t)getpid() << 48;
        for (uint32_t i = 0; i < n; i++)
            s->ports[i] = (uint16_t)net_bound_port(opts->fds[i]);
        s->first = n;
        /* From the last to the first: when the first port accepts, all others accept. */
        for (uint32_t i = n; i-- && !rc;) {
            s->first = i;
            rc = server_thread_init(s, i, opts->fds, err);
        }
    }
    if (!rc) {
        s->opts.fds = NULL; /* the caller's memory, used only above */
        s->opts.key = NULL;
        s->opts.job = NULL;
        *out = s;
        return 0;
    }
    uint32_t unused = s && s->has_loop ? s->first : n; /* threads that were not initialised */
    for (uint32_t i = 0; i < unused; i++)
        close(opts->fds[i]);
    ps_server_free(s);
    return rc;
}

int ps_server_run(struct ps_server *s, struct pd_err *err) {
    uint32_t started = 0;
    int rc = 0;
    uv_mutex_lock(&s->lock);
    s->n_threads = s->opts.n_dense + s->opts.n_sparse;
    for (uint32_t i = 0; i < s->n_threads; i++)
        s->threads[i].alive = 1;
    if (s->stop) /* stopped before it ran: the threads notice in their first iteration */
        wake_all(s);
    uv_mutex_unlock(&s->lock);
    for (; started < s->n_threads; started++)
        if (uv_thread_create(&s->threads[started].thread, thread_main, &s->threads[started])) {
            rc = pd_fail(err, PD_ENOMEM, "cannot start a thread");
            break;
        }
    if (rc) { /* the other threads never ran: ps_server_free closes their loops */
        for (uint32_t i = started; i < s->n_threads; i++)
            server_thread_ends(&s->threads[i]);
        uv_mutex_lock(&s->lock);
        s->n_ended += s->n_threads - started;
        uv_async_send(&s->ended);
        uv_mutex_unlock(&s->lock);
        ps_server_stop(s);
    }
    uv_run(&s->loop, UV_RUN_DEFAULT);
    if (s->abandoned)
        return s->failed ? pd_err_copy(err, &s->err) : 0;
    for (uint32_t i = 0; i < started; i++) {
        uv_thread_join(&s->threads[i].thread);
        s->threads[i].ran = 1;
    }
    if (rc)
        return rc;
    return s->failed ? pd_err_copy(err, &s->err) : 0;
}

void ps_server_free(struct ps_server *s) {
    if (!s || s->abandoned) /* a thread still uses it */
        return;
    for (uint32_t i = s->has_loop ? s->first : s->opts.n_dense + s->opts.n_sparse;
         i < s->opts.n_dense + s->opts.n_sparse; i++)
        server_thread_release(&s->threads[i]);
    if (s->has_loop) {
        close_main(s);
        uv_run(&s->loop, UV_RUN_DEFAULT);
        uv_loop_close(&s->loop);
    }
    uv_mutex_destroy(&s->lock);
    for (uint32_t i = 0; i < s->opts.n_trainers; i++)
        free(s->given_up[i]);
    free(s->given_up);
    free(s->beats);
    free(s->doubted);
    free(s->threads);
    free(s->ports);
    free(s);
}
