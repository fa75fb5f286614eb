/* SPDX-License-Identifier: Apache-2.0 */
/* transport_local.c - a node on this machine: the agent is a child process that speaks over pipes,
 * or `in` is a socket, for both directions, and there is no process.
 *
 * The transport counts its open handles. It ends when the process has exited and every handle is
 * closed. */
#include "launcher/transport/transport.h"

enum { KILL_MS = 1000, REST_MS = 200 };

struct local {
    struct transport base; /* must be first: the public pointer points here */
    uv_process_t process;
    uv_pipe_t in, out, err;
    /* calls on_open later: never inside the call that opens; then the time for KILL */
    uv_timer_t timer;
    uv_shutdown_t shut;
    int n_handles, closing, exited, eof, end_group, background;
    struct pd_err why;
};

struct write_req {
    uv_write_t req;
    struct local *l;
    size_t n;
    char bytes[];
};

static void on_closed(uv_handle_t *h) {
    struct local *l = h->data;
    if (--l->n_handles)
        return;
    l->base.ev->on_close(&l->why, l->base.arg);
    transport_release(&l->base);
    free(l);
}

static void for_all(struct local *l, void (*f)(uv_handle_t *)) {
    uv_handle_t *all[] = {(uv_handle_t *)&l->process, (uv_handle_t *)&l->in, (uv_handle_t *)&l->out,
                          (uv_handle_t *)&l->err, (uv_handle_t *)&l->timer};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i]->type) /* it was made */
            f(all[i]);
}

static void close_one(uv_handle_t *h) {
    if (!uv_is_closing(h))
        uv_close(h, on_closed);
}

static void close_all(struct local *l) { for_all(l, close_one); }

/* The stream ends when the process has ended and both pipes are drained. */
static void maybe_end(struct local *l) {
    if (l->closing || !l->exited || l->eof < 2)
        return;
    transport_ended(&l->base, &l->why);
    l->closing = 1;
    close_all(l);
}

/* Processes that the command has left still hold its pipes. */
static void on_rest(uv_timer_t *t) {
    struct local *l = t->data;
    l->eof = 2;
    maybe_end(l);
}

static void on_exit_cb(uv_process_t *p, int64_t status, int sig) {
    struct local *l = p->data;
    l->exited = 1;
    l->base.status = (int)status;
    if (sig) {
        const char *name = sigabbrev_np(sig);
        if (name)
            snprintf(l->base.signal, sizeof l->base.signal, "%s", name);
        else
            snprintf(l->base.signal, sizeof l->base.signal, "%d", sig);
    }
    if (!l->closing && l->background)
        uv_timer_start(&l->timer, on_rest, REST_MS, 0);
    if (!l->closing)
        maybe_end(l);
    else if (kill(-p->pid, 0)) /* on_kill ends the rest of the group */
        close_all(l);
}

static void on_alloc(uv_handle_t *h, size_t want, uv_buf_t *buf) {
    (void)h;
    (void)want;
    buf->base = pd_malloc(65536);
    buf->len = buf->base ? 65536 : 0;
}

static void on_read(uv_stream_t *s, ssize_t n, const uv_buf_t *buf) {
    struct local *l = s->data;
    if (n > 0 && !l->closing) {
        if (s == (uv_stream_t *)&l->err)
            transport_add_stderr(&l->base, (uint8_t *)buf->base, (size_t)n);
        else
            l->base.ev->on_bytes((uint8_t *)buf->base, (size_t)n, l->base.arg);
    }
    free(buf->base);
    if (n < 0) {
        if (n != UV_EOF &&
            n !=
                UV_ECONNRESET) { /* what was read is not all; the process may wait for more input */
            const int no_memory = n == UV_ENOBUFS; /* on_alloc */
            pd_fail(&l->why, no_memory ? PD_ENOMEM : PD_EIO, "cannot read its output: %s",
                    no_memory ? "out of memory" : uv_strerror((int)n));
            if (!l->exited)
                kill(l->end_group ? -l->process.pid : l->process.pid, SIGTERM);
        }
        uv_read_stop(s);
        l->eof++;
        maybe_end(l);
    }
}

static void on_written(uv_write_t *req, int status) {
    struct write_req *w = (struct write_req *)req;
    struct local *l = w->l;
    (void)status; /* a broken pipe shows as the end of the process */
    l->base.queued -= w->n;
    if (!l->closing && l->base.queued < TRANSPORT_LOW_WATER && l->base.ev->on_drain)
        l->base.ev->on_drain(l->base.arg);
    free(w);
}

static int local_write(struct transport *t, const void *p, size_t n) {
    struct local *l = (struct local *)t;
    if (l->closing)
        return 0;
    struct write_req *w = pd_malloc(sizeof *w + n);
    if (!w)
        return PD_ENOMEM;
    w->l = l;
    w->n = n;
    memcpy(w->bytes, p, n);
    uv_buf_t b = uv_buf_init(w->bytes, (unsigned)n);
    if (uv_write(&w->req, (uv_stream_t *)&l->in, &b, 1, on_written)) {
        free(w); /* the pipe is broken: the exit status will say why */
        return 0;
    }
    l->base.queued += n;
    return 0;
}

static void on_shut(uv_shutdown_t *req, int status) {
    (void)req; /* a broken pipe shows as the end of the process */
    (void)status;
}

static void local_eof(struct transport *t) {
    struct local *l = (struct local *)t;
    /* the shutdown waits for the writes before it */
    if (!l->closing)
        uv_shutdown(&l->shut, (uv_stream_t *)&l->in, on_shut);
}

static void on_kill(uv_timer_t *t) {
    struct local *l = t->data;
    kill(-l->process.pid, SIGKILL);
    if (l->exited)
        close_all(l);
}

static void local_close(struct transport *t) {
    struct local *l = (struct local *)t;
    if (l->closing)
        return;
    l->closing = 1;
    pd_err_clear(&l->why);
    if (l->end_group && !kill(-l->process.pid, SIGTERM)) {
        /* repeated: a killed process can belong to the group after its leader has ended */
        uv_timer_start(&l->timer, on_kill, KILL_MS, KILL_MS);
        uv_close((uv_handle_t *)&l->in, on_closed);
    } else {
        close_all(l); /* the agent's relay ends at the end of its stdin */
    }
}

static void on_opened(uv_timer_t *timer) {
    struct local *l = timer->data;
    if (!l->closing)
        l->base.ev->on_open(l->base.arg);
}

static struct local *new_local(uv_loop_t *loop, const struct transport_events *ev, void *arg) {
    struct local *l = pd_calloc(1, sizeof *l);
    if (!l)
        return NULL;
    transport_init(&l->base, ev, arg);
    l->base.write = local_write;
    l->base.eof = local_eof;
    l->base.close = local_close;
    uv_pipe_init(loop, &l->in, 0);
    uv_timer_init(loop, &l->timer);
    l->in.data = l->timer.data = l;
    l->n_handles = 2;
    return l;
}

int transport_socket(struct transport **out, uv_loop_t *loop, int fd,
                     const struct transport_events *ev, void *arg, struct pd_err *err) {
    struct local *l = new_local(loop, ev, arg);
    if (!l) {
        close(fd);
        return pd_oom(err, "a connection on this machine");
    }
    *out = &l->base;
    l->exited = l->eof = 1; /* the end of the socket is the end */
    l->base.status = 0;
    int rc = uv_pipe_open(&l->in, fd);
    if (rc) {
        close(fd);
        pd_fail(&l->why, PD_EHOST, "cannot read its socket: %s", uv_strerror(rc));
        l->closing = 1;
        close_all(l);
        return 0;
    }
    uv_read_start((uv_stream_t *)&l->in, on_alloc, on_read);
    uv_timer_start(&l->timer, on_opened, 0, 0);
    return 0;
}

int transport_local(struct transport **out, uv_loop_t *loop, char *const *argv,
                    const struct transport_events *ev, void *arg, struct pd_err *err) {
    struct local *l = new_local(loop, ev, arg);
    if (!l)
        return pd_oom(err, "a process on this machine");
    uv_pipe_init(loop, &l->out, 0);
    uv_pipe_init(loop, &l->err, 0);
    l->out.data = l->err.data = l->process.data = l;
    l->n_handles = 5;
    uv_stdio_container_t io[3] = {
        {.flags = UV_CREATE_PIPE | UV_READABLE_PIPE, .data.stream = (uv_stream_t *)&l->in},
        {.flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE, .data.stream = (uv_stream_t *)&l->out},
        {.flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE, .data.stream = (uv_stream_t *)&l->err},
    };
    uv_process_options_t o = {
        .file = argv[0],
        .args = (char **)argv,
        .exit_cb = on_exit_cb,
        .stdio = io,
        .stdio_count = 3,
        /* a session of its own: paddlectl handles a Ctrl-C at the terminal, not the agent */
        .flags = UV_PROCESS_DETACHED};
    int rc = uv_spawn(loop, &l->process, &o);
    *out = &l->base;
    /* the handle needs uv_close all the same; on_close reports the failure */
    if (rc) {
        pd_fail(&l->why, PD_EHOST, "cannot start %s: %s", argv[0], uv_strerror(rc));
        l->closing = 1;
        close_all(l);
        return 0;
    }
    uv_read_start((uv_stream_t *)&l->out, on_alloc, on_read);
    uv_read_start((uv_stream_t *)&l->err, on_alloc, on_read);
    uv_timer_start(&l->timer, on_opened, 0, 0);
    return 0;
}

void transport_local_end_group(struct transport *t) { ((struct local *)t)->end_group = 1; }

void transport_local_background(struct transport *t) {
    struct local *l = (struct local *)t;
    l->background = 1;
    for_all(l, uv_unref);
}

int transport_local_pid(const struct transport *t) {
    const struct local *l = (const struct local *)t;
    return l->closing ? 0 : l->process.pid;
}
