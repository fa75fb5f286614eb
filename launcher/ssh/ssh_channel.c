/* SPDX-License-Identifier: Apache-2.0 */
/* ssh_channel.c - the open channel of a command: its start, bytes in both directions, its end. */
#include "launcher/ssh/ssh_internal.h"

enum { DRIVE_BUDGET = 4 << 20, GROW_AFTER = 512 << 10 };

static void on_exit_status(ssh_session ssh, ssh_channel ch, int status, void *arg) {
    (void)ssh;
    (void)ch;
    ((struct session *)arg)->base.status = status;
}

static void on_exit_signal(ssh_session ssh, ssh_channel ch, const char *signal, int core,
                           const char *msg, const char *lang, void *arg) {
    (void)ssh;
    (void)ch;
    (void)core;
    (void)msg;
    (void)lang;
    struct session *s = arg;
    snprintf(s->base.signal, sizeof s->base.signal, "%s", signal && *signal ? signal : "?");
}

static void on_channel_close(ssh_session ssh, ssh_channel ch, void *arg) {
    (void)ssh;
    (void)ch;
    ((struct session *)arg)->remote_closed = 1;
}

enum ssh_step run_channel(struct session *s) {
    if (!s->channel) {
        if (!(s->channel = ssh_channel_new(s->ssh)))
            return session_fail(s, PD_ENOMEM, "out of memory");
        s->channel_cb = (struct ssh_channel_callbacks_struct){
            .userdata = s,
            .channel_exit_status_function = on_exit_status,
            .channel_exit_signal_function = on_exit_signal,
            .channel_close_function = on_channel_close,
        };
        ssh_callbacks_init(&s->channel_cb);
        ssh_set_channel_callbacks(s->channel, &s->channel_cb);
    }
    int rc = ssh_channel_open_session(s->channel);
    if (rc == SSH_AGAIN)
        return STEP_CHANNEL;
    return rc == SSH_OK
               ? STEP_EXEC
               : session_fail(s, PD_EHOST, "cannot open a channel: %s", ssh_get_error(s->ssh));
}

enum ssh_step run_exec(struct session *s) {
    int rc = ssh_channel_request_exec(s->channel, s->command);
    if (rc == SSH_AGAIN)
        return STEP_EXEC;
    return rc == SSH_OK
               ? STEP_OPEN
               : session_fail(s, PD_EHOST, "cannot run a command: %s", ssh_get_error(s->ssh));
}

void channel_release(struct session *s) {
    if (!s->channel)
        return;
    ssh_remove_channel_callbacks(s->channel, &s->channel_cb);
    ssh_channel_free(s->channel);
    s->channel = NULL;
}

int channel_wants_write(const struct session *s) {
    return s->step == STEP_OPEN && transport_queued(&s->base) &&
           ssh_channel_window_size(s->channel) > 0;
}

/* Reads one stream once. Returns the number of bytes; 0: none now; -1: the connection is lost. A
 * large count makes libssh enlarge its window, at the cost of a message: only streams with much
 * data ask for it, and rarely. */
static int read_some(struct session *s, int is_stderr) {
    uint32_t want = 65536;
    if (s->read_since_grow >= GROW_AFTER) {
        want = SSH_READ_BYTES;
        s->read_since_grow = 0;
    }
    int n = ssh_channel_read_timeout(s->channel, s->pool->read_buf, want, is_stderr, 0);
    if (n == SSH_AGAIN || n == SSH_EOF || (n == SSH_ERROR && s->remote_closed))
        return 0;
    if (n > 0 && !is_stderr)
        s->read_since_grow += (uint64_t)n;
    return n < 0 ? -1 : n;
}

/* Hand on what is there. -1: lost. Stderr is drained too, unread it would stall the channel. */
static int read_all(struct session *s) {
    size_t total = 0;
    for (;;) {
        int closed = s->remote_closed;
        /* After EOF reads and polls of libssh return at once without looking at the socket, where
         * the CLOSE is still to come. Of its public calls this one takes what has arrived and does
         * nothing else here. */
        if (ssh_channel_is_eof(s->channel))
            ssh_channel_accept_x11(s->channel, 0);
        int n = read_some(s, 0);
        if (n > 0)
            s->base.ev->on_bytes(s->pool->read_buf, (size_t)n, s->base.arg);
        if (n < 0 || s->step != STEP_OPEN)
            return n < 0 ? -1 : 0;
        int m = read_some(s, 1);
        if (m < 0)
            return -1;
        transport_add_stderr(&s->base, s->pool->read_buf, (size_t)m);
        if (s->step != STEP_OPEN)
            return 0;
        total += (size_t)n + (size_t)m;
        if (!n && !m &&
            closed == s->remote_closed) /* the read of stderr may have brought the last of stdout */
            return 0;
        if (total > DRIVE_BUDGET) { /* other hosts come first; the loop returns at once */
            s->more = 1;
            return 0;
        }
    }
}

static int write_all(struct session *s) {
    int wrote = 0;
    while (transport_queued(&s->base) && !(ssh_get_poll_flags(s->ssh) & SSH_WRITE_PENDING)) {
        size_t n = transport_queued(&s->base);
        if (n > SSH_WRITE_BYTES)
            n = SSH_WRITE_BYTES;
        int k = ssh_channel_write(s->channel, s->base.queue.data + s->base.queue_off, (uint32_t)n);
        if (k == SSH_AGAIN || k == 0)
            break; /* the window is full; the message that enlarges it makes the socket readable */
        if (k < 0)
            return -1;
        transport_pop(&s->base, (size_t)k);
        wrote = 1;
    }
    if (wrote && transport_queued(&s->base) < TRANSPORT_LOW_WATER && s->base.ev->on_drain)
        s->base.ev->on_drain(s->base.arg);
    if (s->step == STEP_OPEN && s->base.at_eof && !s->sent_eof && !transport_queued(&s->base)) {
        s->sent_eof = 1;
        return ssh_channel_send_eof(s->channel) == SSH_ERROR ? -1 : 0;
    }
    return 0;
}

enum ssh_step run_open(struct session *s) {
    if (read_all(s))
        return session_lost(s);
    if (s->step != STEP_OPEN)
        return s->step;
    if (s->remote_closed && !s->more) { /* CLOSE, not EOF: the exit status comes after EOF */
        transport_ended(&s->base, &s->why);
        return STEP_FAILED;
    }
    if (s->remote_closed)
        return s->step;
    if (write_all(s))
        return session_lost(s);
    /* Writing takes in what has arrived, too: it lies in libssh's buffers, and no event of the
     * socket will tell of it. */
    if (s->step != STEP_OPEN)
        return s->step;
    /* Looking takes in packets as well: the CLOSE, so first look, then ask whether it is closed;
     * and, while stderr is looked at, bytes of stdout or room to write, of which no event of the
     * socket would tell any more. So a look that took a packet in is followed by another turn. */
    uint64_t before = s->packets.in_packets;
    int out = ssh_channel_poll(s->channel, 0), err = ssh_channel_poll(s->channel, 1);
    s->more |= s->packets.in_packets != before || s->remote_closed || out > 0 || err > 0 ||
               out == SSH_ERROR || err == SSH_ERROR;
    return s->step;
}
