/* SPDX-License-Identifier: Apache-2.0 */
/* callback_shell.c - see callback_shell.h. Both directions are bounded: a slow reader stops the
 * other end. */
#include "agent/callback/callback_shell.h"

#include "agent/core/msg.h"
#include "wire/msg.h"

enum { PIECE = 64 << 10, QUEUE = 1 << 20, LINGER_MS = 3000, KILL_MS = 1000, N_PIPES = 3 };

struct callback_shell {
    struct net_conn *c; /* NULL: closed, or the caller's again */
    uv_process_t process;
    uv_pipe_t pipes[N_PIPES];
    uv_timer_t timer; /* after the loss of the connection: TERM, then KILL */
    uv_shutdown_t shut;
    int n_handles, plain, exited, n_eof, closing, stopped, ends, signal;
    int64_t status;
    size_t queued; /* bytes for standard input */
    const struct callback_shell_events *ev;
    void *arg;
    char piece[PIECE]; /* last: it is not cleared, so a command without output takes no memory */
};

struct piece_write {
    uv_write_t req;
    struct callback_shell *s;
    size_t n;
    char bytes[];
};

static void maybe_over(struct callback_shell *s) {
    if (s->n_handles || s->c)
        return;
    s->ev->on_over(s->arg);
    free(s);
}

static void on_closed(uv_handle_t *h) {
    struct callback_shell *s = h->data;
    s->n_handles--;
    maybe_over(s);
}

static void close_handle(uv_handle_t *h) {
    if (!uv_is_closing(h))
        uv_close(h, on_closed);
}

static void close_pipes(struct callback_shell *s) {
    for (int i = 0; i < N_PIPES; i++)
        close_handle((uv_handle_t *)&s->pipes[i]);
}

static void close_all(struct callback_shell *s) {
    s->closing = 1;
    close_pipes(s);
    close_handle((uv_handle_t *)&s->timer);
    close_handle((uv_handle_t *)&s->process);
}

/* The command and its output are over. */
static void maybe_end(struct callback_shell *s) {
    if (s->closing || !s->exited || s->n_eof < 2)
        return;
    if (s->c) {
        const struct cb_end end = {
            .status = s->status, .signal = s->signal, .waits = s->ev->on_end(s->arg)};
        msg_send(s->c, WIRE_CB_END, 0, wire_put(&wire_cb_end, &end));
        if (end.waits) {
            struct net_conn *c = s->c;
            s->c = NULL;
            net_resume(c);
        } else {
            net_close_after_flush(s->c);
        }
    }
    close_all(s);
}

static void on_exit_cb(uv_process_t *p, int64_t status, int sig) {
    struct callback_shell *s = p->data;
    s->exited = 1;
    s->status = status & 255;
    s->signal = sig;
    if (s->ends && !kill(-p->pid, 0))
        return; /* on_kill ends the rest of the group */
    if (!s->c && !s->closing)
        close_all(s);
    maybe_end(s);
}

static void on_alloc(uv_handle_t *h, size_t want, uv_buf_t *buf) {
    struct callback_shell *s = h->data;
    (void)want;
    *buf = uv_buf_init(s->piece, PIECE);
}

static void read_some(struct callback_shell *s);

static void on_read(uv_stream_t *from, ssize_t n, const uv_buf_t *buf) {
    struct callback_shell *s = from->data;
    if (n > 0 && s->c) {
        const struct net_sec sec = {buf->base, (size_t)n};
        net_send(s->c, from == (uv_stream_t *)&s->pipes[2] ? WIRE_CB_ERR : WIRE_CB_OUT, 0, 0, &sec,
                 1, NULL, NULL);
        if (net_queued_bytes(s->c) > QUEUE) {
            s->stopped = 1;
            for (int i = 1; i < N_PIPES; i++)
                uv_read_stop((uv_stream_t *)&s->pipes[i]);
        }
    } else if (n < 0) {
        close_handle((uv_handle_t *)from);
        s->n_eof++;
        maybe_end(s);
    }
}

static void read_some(struct callback_shell *s) {
    for (int i = 1; i < N_PIPES; i++)
        if (!uv_is_closing((uv_handle_t *)&s->pipes[i]))
            uv_read_start((uv_stream_t *)&s->pipes[i], on_alloc, on_read);
}

void callback_shell_drained(struct callback_shell *s) {
    if (s->stopped && !s->closing)
        read_some(s);
    s->stopped = 0;
}

static void on_written(uv_write_t *req, int status) {
    struct piece_write *w = (struct piece_write *)req;
    struct callback_shell *s = w->s;
    (void)status; /* a command need not read its input */
    s->queued -= w->n;
    if (s->c && s->queued < QUEUE / 2)
        net_resume(s->c);
    free(w);
}

static void write_some(struct callback_shell *s, const uint8_t *p, size_t n) {
    struct piece_write *w;
    if (s->closing || uv_is_closing((uv_handle_t *)&s->pipes[0]) || !n)
        return;
    if (!(w = pd_malloc(sizeof *w + n))) {
        net_close(s->c);
        return;
    }
    w->s = s;
    w->n = n;
    memcpy(w->bytes, p, n);
    const uv_buf_t b = uv_buf_init(w->bytes, (unsigned)n);
    if (uv_write(&w->req, (uv_stream_t *)&s->pipes[0], &b, 1, on_written)) {
        free(w);
        return;
    }
    s->queued += n;
    if (s->queued > QUEUE)
        net_pause(s->c);
}

static void on_shut(uv_shutdown_t *req, int status) {
    struct callback_shell *s = req->handle->data;
    (void)status;
    close_handle((uv_handle_t *)&s->pipes[0]);
}

void callback_shell_frame(struct callback_shell *s, const struct wire_frame *f) {
    if (f->type == WIRE_CB_OUT && f->n_sec)
        write_some(s, f->sec[0], f->len[0]);
    else if (f->type == WIRE_CB_EOF && !s->shut.handle &&
             !uv_is_closing((uv_handle_t *)&s->pipes[0]))
        uv_shutdown(&s->shut, (uv_stream_t *)&s->pipes[0], on_shut);
}

static void on_kill(uv_timer_t *t) {
    struct callback_shell *s = t->data;
    s->ends = 0;
    kill(-s->process.pid, SIGKILL);
    if (s->exited)
        close_all(s);
}

static void on_term(uv_timer_t *t) {
    struct callback_shell *s = t->data;
    s->ends = 1; /* until KILL */
    kill(-s->process.pid, SIGTERM);
    uv_timer_start(t, on_kill, KILL_MS, 0);
}

void callback_shell_lost(struct callback_shell *s) {
    s->c = NULL;
    if (s->exited && !s->closing)
        close_all(s);
    if (s->closing) {
        maybe_over(s);
        return;
    }
    close_pipes(s);
    uv_timer_start(&s->timer, on_term, s->plain ? 0 : LINGER_MS, 0);
}

int callback_shell_is(const struct callback_shell *s, pid_t pid) {
    return !s->closing && !s->exited && s->process.pid == pid;
}

static void open_handles(struct callback_shell *s, uv_loop_t *loop) {
    for (int i = 0; i < N_PIPES; i++) {
        uv_pipe_init(loop, &s->pipes[i], 0);
        s->pipes[i].data = s;
    }
    uv_timer_init(loop, &s->timer);
    s->timer.data = s->process.data = s;
    s->n_handles = N_PIPES + 2;
}

struct callback_shell *callback_shell_new(uv_loop_t *loop, struct net_conn *c,
                                          const struct cb_open *o,
                                          const struct callback_shell_events *ev, void *arg) {
    struct callback_shell *s = pd_malloc(sizeof *s);
    char sh[] = "/bin/sh", flag[] = "-c";
    char *argv[] = {sh, flag, (char *)(uintptr_t)o->line, NULL};
    uv_stdio_container_t io[N_PIPES];
    if (!s)
        return NULL;
    memset(s, 0, offsetof(struct callback_shell, piece));
    s->c = c;
    s->plain = (int)o->plain;
    s->ev = ev;
    s->arg = arg;
    open_handles(s, loop);
    for (int i = 0; i < N_PIPES; i++)
        io[i] = (uv_stdio_container_t){.flags = UV_CREATE_PIPE |
                                                (i ? UV_WRITABLE_PIPE : UV_READABLE_PIPE),
                                       .data.stream = (uv_stream_t *)&s->pipes[i]};
    const uv_process_options_t options = {.file = argv[0],
                                          .args = argv,
                                          .exit_cb = on_exit_cb,
                                          .stdio = io,
                                          .stdio_count = N_PIPES,
                                          .flags = UV_PROCESS_DETACHED};
    const int rc = uv_spawn(loop, &s->process, &options);
    if (rc) {
        struct pd_err err = {0};
        pd_fail(&err, PD_EHOST, "cannot start /bin/sh: %s", uv_strerror(rc));
        net_send_error(c, WIRE_CB_END, 0, &err);
        net_close_after_flush(c);
        close_all(s);
    } else {
        read_some(s);
    }
    return s;
}
