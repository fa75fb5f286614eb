/* SPDX-License-Identifier: Apache-2.0 */
/* file_pull.c - pulls one data file from one source at a time: a node's agent or the launcher. The
 * source first sends the list of the file's pieces, which must match the file id. Then it sends the
 * objects in order. Each object is compared with its id and written to a temporary file (`aside`).
 * The complete file is renamed into the workspace. The next source goes on behind the last object
 * that was written.
 *
 *     idle ─▶ connecting ─▶ asking (DF_FILE) ─▶ taking (DF_NEED, DF_DATA) ─▶ in place
 *      ▲                        the source failed │
 *      └──────────────────────────────────────────┘ */
#include <sodium.h>

#include "agent/files/file_fetch.h"
#include "wire/msg.h"

enum { LOOK_MS = 1000, PACE_MS = 50 };

struct file_pull {
    const struct file_fetch_opts *o;
    char *path;
    struct object_id id;
    uint64_t number;
    void (*done)(void *arg, struct file_pieces *pieces, const struct pd_err *err);
    void *arg;
    /* the source */
    struct client *client;    /* NULL: the source is a node */
    struct source_link *link; /* to the node; NULL: none */
    /* the file */
    struct pd_buf head; /* the list of pieces, while it is incomplete */
    struct file_pieces f;
    int known;    /* f is complete and matches the id */
    size_t asked; /* number of requested pieces */
    uint64_t asked_bytes;
    struct pd_buf in; /* records */
    uint64_t active_ns;
    uint64_t pace, pace_ns, paced; /* bytes a second (0: no limit), since when, bytes asked since */
    uv_timer_t timer;
    int idle;          /* no source: none was tried yet, or the last one failed */
    struct pd_err why; /* the source failed; `done` waits for the turn of work */
    int over;          /* the file is in place, or the pull was dropped */
    int timer_closed;
    /* a turn of work; owned by the thread while busy */
    uv_work_t work;
    int busy;
    struct pd_buf turn;
    int fd, finished;
    size_t got; /* number of written pieces */
    uint64_t got_bytes;
    char aside[PATH_MAX];
    struct object_codec *codec;
    struct pd_err err;
};

static void maybe_free(struct file_pull *p) {
    if (!p->over || p->busy || !p->timer_closed)
        return;
    pd_close(p->fd);
    if (*p->aside && !p->finished)
        unlink(p->aside);
    pd_buf_release(&p->in);
    pd_buf_release(&p->turn);
    pd_buf_release(&p->head);
    file_pieces_release(&p->f);
    object_codec_free(p->codec);
    free(p->path);
    free(p);
}

static void on_timer_closed(uv_handle_t *h) {
    struct file_pull *p = h->data;
    p->timer_closed = 1;
    maybe_free(p);
}

void file_pull_drop(struct file_pull *p) {
    if (p->over)
        return;
    p->over = 1;
    source_link_close(p->link);
    p->link = NULL;
    uv_close((uv_handle_t *)&p->timer, on_timer_closed);
}

/* The source's part is over: err is NULL if the file is in place. */
static void finish_pull(struct file_pull *p, const struct pd_err *err) {
    if (p->over || p->idle)
        return;
    source_link_close(p->link);
    p->link = NULL;
    p->client = NULL;
    if (p->busy) {
        pd_err_copy(&p->why, err);
        return;
    }
    p->idle = 1;
    p->done(p->arg, &p->f, err);
    if (!err)
        file_pull_drop(p);
}

void file_pull_fail(struct file_pull *p, const struct pd_err *err) { finish_pull(p, err); }

static void fail_pull(struct file_pull *p, int code, const char *text) {
    struct pd_err err = {0};
    pd_fail(&err, code, "%s", text);
    finish_pull(p, &err);
}

/* --- messages to the source --- */

static void send_to_source(struct file_pull *p, uint16_t type, const void *bytes, size_t n) {
    if (p->client)
        client_send_with(p->client, type, 0, json_pack("{s:I}", "pull", (json_int_t)p->number),
                         bytes, n);
    else if (p->link)
        source_link_send(p->link, type, bytes, n);
}

static int may_ask(const struct file_pull *p) {
    return !p->pace ||
           (double)p->paced <= (double)(pd_mono_ns() - p->pace_ns) / 1e9 * (double)p->pace;
}

/* Requests as many more pieces as fit into the window and the pace. */
static void request_window(struct file_pull *p) {
    uint8_t ids[FILE_NEED_MAX * OBJECT_ID];
    size_t n = 0;
    while (p->asked < p->f.n &&
           p->asked_bytes - p->got_bytes < (p->client ? FILE_CLIENT_WINDOW : FILE_WINDOW) &&
           n < FILE_NEED_MAX && may_ask(p)) {
        p->paced += p->f.v[p->asked].len;
        memcpy(ids + n++ * OBJECT_ID, p->f.v[p->asked].id.b, OBJECT_ID);
        p->asked_bytes += p->f.v[p->asked++].len;
    }
    if (n)
        send_to_source(p, WIRE_DF_NEED, ids, n * OBJECT_ID);
}

/* The pace allows more than it did. */
static void ask_more(struct file_pull *p) {
    if (p->known && !p->busy && !p->idle && !p->why.code)
        request_window(p);
}

/* --- a turn of work, on a thread of the pool --- */

static int write_record(struct file_pull *p, const struct object_record *r) {
    const uint8_t *raw;
    const struct file_piece *x = p->got < p->f.n ? &p->f.v[p->got] : NULL;
    if (!x || !object_same(&r->id, &x->id) || r->raw_len != x->len)
        return pd_fail(&p->err, PD_EDATA, "it sent an object that was not asked for");
    int rc = object_decode(p->codec, r, &raw, &p->err);
    for (size_t at = 0; !rc && at < x->len;) {
        ssize_t k = pwrite(p->fd, raw + at, x->len - at, (off_t)(x->off + at));
        if (k < 0 && errno != EINTR)
            return pd_fail_errno(&p->err, PD_EIO, errno, "cannot write %.600s", p->aside);
        at += k > 0 ? (size_t)k : 0;
    }
    p->got += !rc;
    p->got_bytes += rc ? 0 : x->len;
    return rc;
}

static int put_in_place(struct file_pull *p) {
    const struct timespec times[2] = {{0, UTIME_OMIT},
                                      {p->f.mtime_ns / 1000000000, p->f.mtime_ns % 1000000000}};
    if (ftruncate(p->fd, (off_t)p->f.size) || fchmod(p->fd, p->f.mode) || futimens(p->fd, times) ||
        fsync(p->fd))
        return pd_fail_errno(&p->err, PD_EIO, errno, "cannot finish %.600s", p->aside);
    int rc = file_put_here(p->o->core->paths.dir, p->aside, p->path, &p->err);
    p->finished = !rc;
    return rc;
}

static int fits_disk(struct file_pull *p) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < p->f.n; i++)
        bytes += p->f.v[i].len;
    return pd_disk_room(-1, p->o->core->paths.dir, "the file", bytes, 0, &p->err);
}

static void run_turn(uv_work_t *w) {
    struct file_pull *p = w->data;
    struct object_record r;
    int rc = 0;
    if (p->fd < 0)
        rc = fits_disk(p);
    if (!rc && p->fd < 0 &&
        (p->fd = open(p->aside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)) < 0)
        rc = pd_fail_errno(&p->err, PD_EIO, errno, "cannot make %.600s", p->aside);
    if (!rc && !p->codec && !(p->codec = object_codec_new()))
        rc = pd_oom(&p->err, "a data file");
    const uint8_t *at = p->turn.data, *stop = at + p->turn.len;
    while (!rc && (rc = object_next(&at, stop, &r, &p->err)) == 1)
        rc = write_record(p, &r);
    if (!rc && p->got == p->f.n)
        put_in_place(p);
}

static void start_turn(struct file_pull *p);

static void on_worked(uv_work_t *w, int status) {
    struct file_pull *p = w->data;
    p->busy = 0;
    pd_buf_clear(&p->turn);
    p->active_ns = pd_mono_ns();
    if (status)
        pd_fail(&p->err, PD_ECANCELED, "the agent is ending");
    if (p->err.code) {
        finish_pull(p, &p->err);
    } else if (p->finished) {
        finish_pull(p, NULL);
    } else if (p->why.code) {
        finish_pull(p, &p->why);
    } else if (!p->over) {
        request_window(p);
        if (p->in.len)
            start_turn(p);
    }
    maybe_free(p);
}

static void start_turn(struct file_pull *p) {
    if (p->busy || p->over)
        return;
    const struct pd_buf empty = p->turn;
    p->turn = p->in;
    p->in = empty;
    p->work.data = p;
    if (uv_queue_work(&p->o->core->loop, &p->work, run_turn, on_worked))
        fail_pull(p, PD_ENOMEM, "cannot start a thread");
    else
        p->busy = 1;
}

/* --- messages from the source --- */

static void take_pieces(struct file_pull *p, const uint8_t *bytes, size_t n) {
    struct object_id is;
    struct pd_err err = {0};
    pd_put(&p->head, bytes, n);
    size_t all = file_pieces_length(p->head.data, p->head.len);
    if (p->head.failed)
        fail_pull(p, PD_ENOMEM, "out of memory");
    else if (all > FILE_PIECES_BYTES || (all && p->head.len > all))
        fail_pull(p, PD_EDATA, "its list of the file's pieces is too long");
    else if (!all || p->head.len < all)
        return;
    else if (file_pieces_get(&p->f, p->head.data, p->head.len, &err))
        finish_pull(p, &err);
    else if (file_pieces_id(&p->f, &is))
        fail_pull(p, PD_ENOMEM, "out of memory");
    else if (!object_same(&is, &p->id))
        fail_pull(p, PD_EDATA, "what it has is not that file");
    else {
        p->known = 1;
        p->asked = p->got;
        p->asked_bytes = p->got_bytes;
        pd_buf_release(&p->head);
        pd_buf_init(&p->head);
        start_turn(p); /* an empty file is already complete */
    }
}

void file_pull_frame(struct file_pull *p, uint16_t type, const uint8_t *bytes, size_t n) {
    if (p->over || p->idle || p->why.code)
        return;
    p->active_ns = pd_mono_ns();
    if (type == WIRE_DF_FILE && !p->known) {
        take_pieces(p, bytes, n);
        return;
    }
    const int fits = n <= FILE_FRAME + OBJECT_MAX + OBJECT_HEADER &&
                     p->in.len + n <= 2 * FILE_WINDOW; /* at most a window is outstanding */
    if (type != WIRE_DF_DATA || !p->known || !fits) {
        fail_pull(p, PD_EPROTO, "it sent what was not asked for");
        return;
    }
    pd_put(&p->in, bytes, n);
    if (p->in.failed)
        fail_pull(p, PD_ENOMEM, "out of memory");
    start_turn(p);
}

static void on_timer(uv_timer_t *t) {
    struct file_pull *p = t->data;
    if (!p->busy && !p->idle && pd_mono_ns() - p->active_ns > FILE_IDLE_MS * UINT64_C(1000000))
        fail_pull(p, PD_ETIMEOUT, "it was silent for 20 s");
    else
        ask_more(p);
}

/* --- a node as the source --- */

static void on_open(void *arg) {
    struct file_pull *p = arg;
    p->active_ns = pd_mono_ns();
    send_to_source(p, WIRE_DF_FILE, p->path, strlen(p->path));
}

static int on_payload(void *arg, uint16_t type, uint8_t *bytes, size_t n, struct pd_err *err) {
    struct file_pull *p = arg;
    int rc = 0;
    p->active_ns = pd_mono_ns(); /* also HD_PING: the source serves others first */
    if (type == WIRE_DF_FILE || type == WIRE_DF_DATA)
        file_pull_frame(p, type, bytes, n);
    else if (type != WIRE_HD_PING)
        rc = pd_fail(err, PD_EPROTO, "a source does not send %s", wire_msg_name(type));
    free(bytes);
    return rc;
}

static void on_failed(void *arg, const struct pd_err *why) {
    struct file_pull *p = arg;
    p->link = NULL;
    finish_pull(p, why);
}

int file_pull_from(struct file_pull *p, const struct file_source *from, uint64_t number,
                   struct pd_err *err) {
    static const struct source_link_events ev = {on_open, on_payload, on_failed};
    struct wire_hs_opts hs;
    pd_err_clear(&p->err);
    pd_err_clear(&p->why);
    pd_buf_clear(&p->in);
    pd_buf_clear(&p->head);
    file_pieces_release(&p->f);
    p->known = 0;
    p->number = number;
    p->active_ns = pd_mono_ns();
    int rc = 0;
    if (from->client) {
        p->client = from->client;
        send_to_source(p, WIRE_DF_FILE, p->path, strlen(p->path));
    } else {
        peer_id_put(p->o->self, WIRE_ROLE_TAKER, &hs);
        rc = source_link_new(&p->link, p->o->core, from->addrs, from->port, &hs, &ev, p, err);
        sodium_memzero(&hs, sizeof hs);
    }
    p->idle = rc != 0;
    return rc;
}

void file_pull_pace(struct file_pull *p, uint64_t bytes_per_s) {
    const unsigned turn_ms = bytes_per_s ? PACE_MS : LOOK_MS;
    p->pace = bytes_per_s;
    p->pace_ns = pd_mono_ns();
    p->paced = 0;
    uv_timer_start(&p->timer, on_timer, turn_ms, turn_ms);
    ask_more(p);
}

uint64_t file_pull_bytes(const struct file_pull *p) { return p->got_bytes; }

int file_pull_new(struct file_pull **out, struct file_fetch *d, const char *path,
                  const struct object_id *id, uint64_t number,
                  void (*done)(void *arg, struct file_pieces *pieces, const struct pd_err *err),
                  void *arg, struct pd_err *err) {
    const struct file_fetch_opts *o = file_fetch_opts(d);
    struct file_pull *p = pd_calloc(1, sizeof *p);
    if (!p || !(p->path = pd_strdup(path)) ||
        pd_fmt(p->aside, sizeof p->aside, "%s/.agent/data-%llu", o->core->paths.dir,
               (unsigned long long)number)) {
        free(p ? p->path : NULL);
        free(p);
        return pd_oom(err, "a data file");
    }
    p->o = o;
    p->id = *id;
    p->done = done;
    p->arg = arg;
    p->fd = -1;
    p->idle = 1;
    pd_buf_init(&p->head);
    pd_buf_init(&p->in);
    pd_buf_init(&p->turn);
    uv_timer_init(&o->core->loop, &p->timer);
    p->timer.data = p;
    uv_timer_start(&p->timer, on_timer, LOOK_MS, LOOK_MS);
    *out = p;
    return 0;
}
