/* SPDX-License-Identifier: Apache-2.0 */
/* file_asks.c - the sockets over which trainers ask their agent for data files.
 *
 * PADDLE_DATA_FD is a stream socket. A trainer sends {u32 n, u32 id, n bytes of a path}. id 0 means
 * that it will need the file soon; such a request has no answer. The answer is {u32 n, u32 id, u32
 * code (0, or PD_E* as a positive number), n bytes of text}. */
#include <sys/socket.h>

#include "agent/files/file_fetch.h"

struct file_channel {
    struct file_channel *next;
    struct file_asks *a; /* NULL: the channel is closing */
    uv_pipe_t pipe;
    struct pd_buf in;
    char room[8192];
};

struct file_asks {
    struct file_fetch *d;
    void (*want)(struct file_fetch *d, struct file_channel *c, uint32_t id, const char *path);
    void (*gone)(struct file_fetch *d, const struct file_channel *c);
    struct file_channel *channels;
};

int file_asks_new(struct file_asks **out, struct file_fetch *d,
                  void (*want)(struct file_fetch *d, struct file_channel *c, uint32_t id,
                               const char *path),
                  void (*gone)(struct file_fetch *d, const struct file_channel *c),
                  struct pd_err *err) {
    struct file_asks *a = *out = pd_calloc(1, sizeof *a);
    if (!a)
        return pd_oom(err, "the requests of a trainer");
    *a = (struct file_asks){.d = d, .want = want, .gone = gone};
    return 0;
}

static void on_channel_closed(uv_handle_t *h) {
    struct file_channel *c = h->data;
    pd_buf_release(&c->in);
    free(c);
}

static void close_channel(struct file_channel *c) {
    struct file_asks *a = c->a;
    if (!a)
        return;
    struct file_channel **at = &a->channels;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    c->a = NULL;
    uv_close((uv_handle_t *)&c->pipe, on_channel_closed);
    a->gone(a->d, c);
}

void file_asks_close(struct file_asks *a) {
    while (a->channels)
        close_channel(a->channels);
}

void file_asks_free(struct file_asks *a) { free(a); }

static void on_written(uv_write_t *w, int status) {
    (void)status; /* an error means that the process is gone and needs no answer */
    free(w->data);
    free(w);
}

void file_answer(struct file_channel *c, uint32_t id, const struct pd_err *err) {
    struct pd_buf b = {0};
    if (!c->a)
        return; /* an earlier answer has closed the channel */
    uv_write_t *w = pd_calloc(1, sizeof *w);
    size_t n = err ? strlen(err->msg) : 0;
    pd_put_u32(&b, (uint32_t)n);
    pd_put_u32(&b, id);
    pd_put_u32(&b, err ? (uint32_t)-err->code : 0);
    pd_put(&b, err ? err->msg : "", n);
    uv_buf_t bytes = uv_buf_init((char *)b.data, (unsigned)b.len);
    if (w)
        w->data = b.data;
    if (!w || b.failed || uv_write(w, (uv_stream_t *)&c->pipe, &bytes, 1, on_written)) {
        pd_buf_release(&b);
        free(w);
        close_channel(c); /* this ends the trainer's wait, too */
    }
}

/* Handles the complete requests. 0, or -1 if the bytes are not a trainer's request. */
static int take_requests(struct file_channel *c) {
    size_t at = 0;
    while (c->a && c->in.len - at >= 8) {
        struct pd_reader r;
        char path[PATH_MAX];
        pd_reader_init(&r, c->in.data + at, 8);
        uint32_t n = pd_get_u32(&r), id = pd_get_u32(&r);
        if (!n || n >= PATH_MAX)
            return -1;
        if (c->in.len - at < 8 + n)
            break;
        memcpy(path, c->in.data + at + 8, n);
        path[n] = 0;
        if (strlen(path) != n)
            return -1;
        at += 8 + n;
        c->a->want(c->a->d, c, id, path);
    }
    if (at) {
        memmove(c->in.data, c->in.data + at, c->in.len - at);
        c->in.len -= at;
    }
    return 0;
}

static void on_room(uv_handle_t *h, size_t n, uv_buf_t *buf) {
    struct file_channel *c = h->data;
    (void)n;
    *buf = uv_buf_init(c->room, sizeof c->room);
}

static void on_request(uv_stream_t *s, ssize_t n, const uv_buf_t *buf) {
    struct file_channel *c = s->data;
    if (n > 0)
        pd_put(&c->in, buf->base, (size_t)n);
    if (c->a && (n < 0 || c->in.failed || take_requests(c)))
        close_channel(c);
}

int file_asks_open(struct file_asks *a, struct pd_err *err) {
    int fd[2];
    struct file_channel *c = pd_calloc(1, sizeof *c);
    if (!c)
        return pd_oom(err, "the requests of a trainer");
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd)) {
        free(c);
        return pd_fail_errno(err, PD_EIO, errno, "cannot make a socket for the trainer");
    }
    uv_pipe_init(&file_fetch_opts(a->d)->core->loop, &c->pipe, 0);
    c->pipe.data = c;
    c->a = a;
    c->next = a->channels;
    a->channels = c;
    pd_buf_init(&c->in);
    int opened = !uv_pipe_open(&c->pipe, fd[0]);
    if (!opened)
        close(fd[0]);
    if (!opened || uv_read_start((uv_stream_t *)&c->pipe, on_room, on_request)) {
        close_channel(c);
        close(fd[1]);
        return pd_fail(err, PD_EIO, "cannot read from the trainer's socket");
    }
    return fd[1];
}
