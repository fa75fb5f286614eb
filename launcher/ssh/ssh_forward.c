/* SPDX-License-Identifier: Apache-2.0 */
/* ssh_forward.c - the connections that a jump host carries.
 *
 *     session of a host --(socketpair)-- forward --(direct-tcpip channel)-- jump host's session
 *
 * Backpressure, in both directions: bytes that the host's side does not take stay in libssh, whose
 * window fills. Bytes that the jump host's connection or the channel's window does not take stay in
 * the socketpair.
 */
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "launcher/ssh/ssh_jump.h"

enum { CARRY_BYTES = 64 << 10, CARRY_HELD_MAX = 256 << 10, CARRY_ROUNDS = 256 };

struct ssh_forward {
    struct ssh_jump *jump;
    struct session *s; /* the host's session; NULL after it has left or has taken `theirs` */
    ssh_channel channel;
    struct ssh_channel_callbacks_struct cb;
    char *host;
    int port, open, denied;
    char why[300];
    int ours, theirs; /* the pair; -1: closed, or taken over */
    uv_poll_t *poll;
    int events, readable, left; /* left: libssh still holds bytes that on_data refused */
    struct pd_buf to_host;      /* from the channel, not yet written to `ours` */
    struct pd_buf to_remote;    /* from `ours`, not yet taken by the channel */
    int local_ended, remote_ended, remote_closed;
    struct ssh_forward *next;
};

static void on_pair_closed(uv_handle_t *h) {
    struct session *s = h->data;
    free(h);
    session_handle_gone(s); /* s: of the jump host */
}

static void forward_free(struct ssh_forward *f) {
    struct ssh_jump *j = f->jump;
    if (f->poll) {
        f->poll->data = j->s;
        uv_close((uv_handle_t *)f->poll, on_pair_closed);
    }
    if (f->channel) {
        ssh_remove_channel_callbacks(f->channel, &f->cb);
        ssh_channel_free(f->channel);
    }
    pd_close(f->ours);
    pd_close(f->theirs);
    if (f->s)
        f->s->forward = NULL;
    pd_buf_release(&f->to_host);
    pd_buf_release(&f->to_remote);
    free(f->host);
    free(f);
}

static void on_pair(uv_poll_t *h, int status, int events) {
    struct ssh_forward *f = h->data;
    if (status || (events & UV_READABLE))
        f->readable = 1;
    session_drive(f->jump->s);
}

/* Sends the channel's bytes to the host at once. Up to CARRY_HELD_MAX of the rest are kept here;
 * more stays in libssh, whose window fills. */
static int on_data(ssh_session ssh, ssh_channel ch, void *data, uint32_t len, int is_stderr,
                   void *arg) {
    struct ssh_forward *f = arg;
    (void)ssh;
    (void)ch;
    if (is_stderr || f->ours < 0)
        return (int)len;
    ssize_t n = f->to_host.len ? 0 : send(f->ours, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);
    size_t done = n > 0 ? (size_t)n : 0;
    if (done < len && f->to_host.len < CARRY_HELD_MAX) {
        pd_put(&f->to_host, (uint8_t *)data + done, len - done);
        done = len;
    }
    f->left = done < len;
    return (int)done;
}

static void on_eof(ssh_session ssh, ssh_channel ch, void *arg) {
    (void)ssh;
    (void)ch;
    ((struct ssh_forward *)arg)->remote_ended = 1;
}

static void on_close_cb(ssh_session ssh, ssh_channel ch, void *arg) {
    (void)ssh;
    (void)ch;
    struct ssh_forward *f = arg;
    f->remote_ended = f->remote_closed = 1;
}

static struct ssh_forward *forward_new(struct ssh_jump *j, struct session *s) {
    struct ssh_forward *f = pd_calloc(1, sizeof *f);
    int pair[2];
    if (!f)
        return NULL;
    f->jump = j;
    f->ours = f->theirs = -1;
    f->port = s->target.port;
    pd_buf_init(&f->to_host);
    pd_buf_init(&f->to_remote);
    if (!(f->host = pd_strdup(s->target.host)) ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair))
        goto fail;
    f->ours = pair[0];
    f->theirs = pair[1];
    if (!(f->channel = ssh_channel_new(j->s->ssh)) || !(f->poll = pd_malloc(sizeof *f->poll)))
        goto fail;
    if (uv_poll_init(j->pool->loop, f->poll, f->ours)) {
        free(f->poll);
        f->poll = NULL;
        goto fail;
    }
    j->s->n_handles++;
    f->poll->data = f;
    f->cb = (struct ssh_channel_callbacks_struct){.userdata = f,
                                                  .channel_data_function = on_data,
                                                  .channel_eof_function = on_eof,
                                                  .channel_close_function = on_close_cb};
    ssh_callbacks_init(&f->cb);
    ssh_set_channel_callbacks(f->channel, &f->cb);
    f->s = s;
    s->forward = f;
    f->next = j->forwards;
    j->forwards = f;
    return f;
fail:
    forward_free(f);
    return NULL;
}

int ssh_forward_open(struct session *s, int *fd, struct pd_err *err) {
    struct ssh_jump *j = s->via;
    const char *name = jump_name(j);
    struct ssh_forward *f = s->forward;
    *fd = -1;
    if (j->down)
        return pd_fail(err, j->why.code, "%s", j->why.msg);
    if (!f) {
        if (!forward_new(j, s))
            return pd_fail(err, PD_ENOMEM, "jump host %s: out of memory or file descriptors", name);
        session_wake(j->s); /* libssh may be on the stack, so run_carry opens the channel */
        return 0;
    }
    if (f->denied)
        return pd_fail(err, PD_EHOST, "jump host %s cannot connect to %s, port %d: %s", name,
                       f->host, f->port, f->why);
    if (f->open) {
        *fd = f->theirs;
        f->theirs = -1;
        f->s = NULL;
        s->forward = NULL;
    }
    return 0;
}

void ssh_forward_leave(struct session *s) {
    struct ssh_forward *f = s->forward;
    if (!f)
        return;
    s->forward = NULL;
    f->s = NULL;
    f->local_ended = 1;
    if (f->jump->s)
        session_wake(f->jump->s);
}

static void forward_denied(struct ssh_forward *f, const char *why) {
    const char *reason =
        strstr(why, ") "); /* "Channel opening failure: channel 43 error (2) Connection refused" */
    f->denied = 1;
    reason = reason ? reason + 2 : why;
    pd_fmt(f->why, sizeof f->why, "%s", *reason ? reason : "it does not say why");
    if (f->s)
        session_wake(f->s);
}

static void forward_opening(struct ssh_forward *f) {
    int rc = ssh_channel_open_forward(f->channel, f->host, f->port, "127.0.0.1", 0);
    if (rc == SSH_AGAIN)
        return;
    if (rc != SSH_OK) {
        forward_denied(f, ssh_get_error(f->jump->s->ssh));
        return;
    }
    f->open = 1;
    if (f->s)
        session_wake(f->s);
}

void jump_forwards_drop(struct ssh_jump *j) {
    while (j->forwards) {
        struct ssh_forward *f = j->forwards;
        struct session *s = f->s;
        j->forwards = f->next;
        forward_free(f);
        if (s)
            session_wake(s);
    }
}

/* --- carrying --- */

static void drop_front(struct pd_buf *b, size_t n) {
    memmove(b->data, b->data + n, b->len - n);
    b->len -= n;
}

static void towards_host(struct ssh_forward *f) {
    uint8_t *buf = f->jump->pool->read_buf;
    for (;;) {
        if (f->to_host.len) {
            ssize_t n = send(f->ours, f->to_host.data, f->to_host.len, MSG_NOSIGNAL | MSG_DONTWAIT);
            if (n <= 0) {
                if (n < 0 && errno != EAGAIN)
                    f->local_ended = 1;
                return;
            }
            drop_front(&f->to_host, (size_t)n);
            continue;
        }
        if (!f->left)
            break;
        /* This read enlarges the window again. */
        int n = ssh_channel_read_nonblocking(f->channel, buf, CARRY_BYTES, 0);
        f->left = n > 0;
        if (n > 0)
            pd_put(&f->to_host, buf, (size_t)n);
    }
    if (f->remote_ended && f->ours >= 0)
        shutdown(f->ours, SHUT_WR);
}

/* -1: the connection of the jump host is lost. */
static int towards_remote(struct ssh_forward *f) {
    ssh_session ssh = f->jump->s->ssh;
    uint8_t *buf = f->jump->pool->read_buf;
    for (;;) {
        if (ssh_get_poll_flags(ssh) & SSH_WRITE_PENDING)
            return 0;
        if (f->to_remote.len) {
            int k = ssh_channel_write(f->channel, f->to_remote.data, (uint32_t)f->to_remote.len);
            if (k < 0)
                return f->remote_closed ? 0 : -1;
            drop_front(&f->to_remote, (size_t)k);
            if (f->to_remote.len) /* the window is full */
                return 0;
        }
        if (!f->readable || f->local_ended)
            return 0;
        ssize_t n = recv(f->ours, buf, CARRY_BYTES, MSG_DONTWAIT);
        if (n > 0)
            pd_put(&f->to_remote, buf, (size_t)n);
        else if (n == 0 || errno != EAGAIN)
            f->local_ended = 1;
        else
            f->readable = 0;
        if (f->to_remote.failed)
            return -1;
    }
}

/* The host has left, or the other side has closed and all its bytes are handed on. */
static int forward_is_over(const struct ssh_forward *f) {
    if (!f->open)
        return f->denied && !f->s;
    if (f->local_ended)
        return !f->to_remote.len || f->remote_closed;
    return f->remote_closed && !f->to_host.len && !f->left;
}

static void forward_arm(struct ssh_forward *f) {
    int events = f->to_host.len ? UV_WRITABLE : 0;
    if (f->open && !f->readable && !f->local_ended)
        events |= UV_READABLE;
    if (events == f->events)
        return;
    f->events = events;
    if (events)
        uv_poll_start(f->poll, events, on_pair);
    else
        uv_poll_stop(f->poll);
}

static int carry_forward(struct ssh_forward *f) {
    /* Also after the host has left: a channel that libssh has asked for must be closed in order. */
    if (!f->open && !f->denied)
        forward_opening(f);
    if (!f->open || f->denied)
        return 0;
    towards_host(f);
    return f->to_host.failed ? -1 : towards_remote(f);
}

static enum ssh_step carry_lost(struct session *s) {
    const char *jump = jump_failure(s);
    return session_fail(s, PD_ECLOSED, "%s", jump ? jump : ssh_get_error(s->ssh));
}

/* Makes libssh read the socket once; on_data hands the bytes on. The second call has no other
 * effect here, but overwrites the error text, where the reason of a refusal would be. */
static void read_socket(struct session *s) {
    struct ssh_forward *f = s->jump->forwards;
    while (f && (f->open || f->denied))
        f = f->next;
    if (f)
        forward_opening(f);
    else
        ssh_channel_open_forward_port(s->ssh, 0, NULL, NULL, NULL);
}

enum ssh_step run_carry(struct session *s) {
    struct ssh_jump *j = s->jump;
    int waiting = 0;
    for (int i = 0;; i++) {
        read_socket(s);
        if (ssh_get_status(s->ssh) & (SSH_CLOSED | SSH_CLOSED_ERROR))
            return carry_lost(s);
        if (ioctl(s->fd, FIONREAD, &waiting) || !waiting)
            break;
        if (i == CARRY_ROUNDS) { /* other hosts come first */
            s->more = 1;
            break;
        }
    }
    for (struct ssh_forward **p = &j->forwards, *f; (f = *p);) {
        if (carry_forward(f))
            return carry_lost(s);
        if (!forward_is_over(f)) {
            forward_arm(f);
            p = &f->next;
            continue;
        }
        /* With unsent bytes libssh would not send the CLOSE. */
        if (f->open && (ssh_get_poll_flags(s->ssh) & SSH_WRITE_PENDING)) {
            p = &f->next;
            continue;
        }
        *p = f->next;
        forward_free(f);
    }
    /* A write also reads packets, and the socket will not signal these. */
    for (struct ssh_forward *f = j->forwards; f; f = f->next)
        s->more |= (f->remote_closed && !f->to_host.len && !f->left) ||
                   (!f->open && !f->denied && ssh_channel_is_open(f->channel));
    return STEP_CARRY;
}

int jump_carries(const struct session *s) {
    for (struct ssh_forward *f = s->step == STEP_CARRY ? s->jump->forwards : NULL; f; f = f->next)
        if (f->open && !f->remote_closed && f->to_remote.len &&
            ssh_channel_window_size(f->channel) > 0)
            return 1;
    return 0;
}
