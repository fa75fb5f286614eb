/* SPDX-License-Identifier: Apache-2.0 */
/* file_serve.c - nodes that take data files from this node. Each connection asks for one file, gets
 * the list of its pieces, and then gets the objects that it asks for. An object is read from the
 * workspace and compared with its id, because the job may have changed the file. At most TAKERS
 * connections are served at a time. The others wait in the order in which they came; every
 * WAIT_SIGN_MS they get a sign that the node is alive. */
#include "agent/files/file_fetch.h"
#include "agent/core/msg.h"
#include "wire/msg.h"

enum {
    TAKERS = 32,
    CONNECTED = 4096,
    NEEDS = 16,
    OUT = 512 << 10,
    IDLE_MS = 60000,
    WAIT_SIGN_MS = 5000
};

struct need {
    struct need *next;
    size_t n; /* ids */
    struct object_id ids[];
};

/* A payload for the taker. */
struct file_out {
    struct file_out *next;
    uint16_t type;
    struct pd_buf b;
};

struct file_taker {
    struct file_taker *next;
    struct file_serve *v;
    struct net_conn *conn; /* NULL: the taker is gone */
    int refused;
    unsigned n_needs;
    uint64_t active_ns; /* time of the last frame from it, and of the last turn for it */
    uint64_t told_ns;   /* time of the last sign that it must wait */
    struct need *needs, **needs_end;
    /* owned by the thread while busy */
    uv_work_t work;
    int busy, fd, opened;
    char *path;
    struct file_pieces f;
    int known;           /* f was found by file_came */
    size_t next_piece;   /* where the search for the next id starts */
    uint64_t turn_bytes; /* bytes that this turn has read */
    struct need *turn;
    struct file_out *outs, **outs_end;
    struct object_codec *codec;
    uint8_t *buf; /* OBJECT_MAX */
    struct pd_err err;
};

/* The store is opened when the job is set up, and stays open. Its catalogs are mapped, so the
 * manifest stays readable even if `clean` or store_limit removes them. */
struct file_serve {
    struct file_fetch *d;
    const struct file_fetch_opts *o;
    struct file_taker *takers; /* newest first */
    uint64_t progress_ns;      /* time of the end of the last turn */
    uv_work_t opening;
    uv_mutex_t lock;
    struct store *st; /* under lock */
    struct pd_err no_store;
};

static void open_store(uv_work_t *w) {
    struct file_serve *v = w->data;
    uv_mutex_lock(&v->lock);
    store_open(&v->st, v->o->core->paths.root, &v->no_store);
    uv_mutex_unlock(&v->lock);
}

static void on_store_open(uv_work_t *w, int status) {
    struct file_serve *v = w->data;
    (void)status;
    kept_data_unlock(v->o->kept);
    if (v->no_store.code)
        pd_warn(&v->o->core->log, "data files can't be given to others: %s", v->no_store.msg);
}

int file_serve_new(struct file_serve **out, struct file_fetch *d, struct pd_err *err) {
    struct file_serve *v = pd_calloc(1, sizeof *v);
    if (!v || uv_mutex_init(&v->lock)) {
        free(v);
        return pd_oom(err, "a data file");
    }
    v->d = d;
    v->o = file_fetch_opts(d);
    v->opening.data = v;
    if (v->o->kept->root_n)
        uv_queue_work(&v->o->core->loop, &v->opening, open_store, on_store_open);
    *out = v;
    return 0;
}

void file_serve_free(struct file_serve *v) {
    if (!v)
        return;
    store_close(v->st);
    uv_mutex_destroy(&v->lock);
    free(v);
}

static void free_needs(struct need *q) {
    for (struct need *next; q; q = next) {
        next = q->next;
        free(q);
    }
}

static void free_outs(struct file_out *o) {
    for (struct file_out *next; o; o = next) {
        next = o->next;
        pd_buf_release(&o->b);
        free(o);
    }
}

static void start_waiting(struct file_serve *v);

static void maybe_free(struct file_taker *t) {
    if (t->conn || t->busy)
        return;
    struct file_serve *v = t->v;
    struct file_taker **at = &v->takers;
    while (*at != t)
        at = &(*at)->next;
    *at = t->next;
    pd_close(t->fd);
    free_needs(t->needs);
    free_needs(t->turn);
    free_outs(t->outs);
    file_pieces_release(&t->f);
    object_codec_free(t->codec);
    free(t->buf);
    free(t->path);
    free(t);
    start_waiting(v);
}

/* --- a turn of work, on a thread of the pool --- */

static struct pd_buf *new_out(struct file_taker *t, uint16_t type) {
    struct file_out *o = pd_calloc(1, sizeof *o);
    if (!o)
        return NULL;
    o->type = type;
    pd_buf_init(&o->b);
    *t->outs_end = o;
    t->outs_end = &o->next;
    return &o->b;
}

static int find_pieces(struct file_taker *t) {
    struct file_serve *v = t->v;
    uv_mutex_lock(&v->lock);
    int rc =
        v->st ? file_pieces_find(&t->f, v->st, v->o->kept->root, v->o->kept->root_n, t->path) : 0;
    uv_mutex_unlock(&v->lock);
    if (rc < 0)
        return pd_fail(&t->err, rc, "out of memory");
    return rc ? 0 : pd_fail(&t->err, PD_ENOENT, "it does not have it");
}

static int open_file(struct file_taker *t) {
    int rc = t->known ? 0 : find_pieces(t);
    if (rc)
        return rc;
    t->fd = file_open_here(t->v->o->core->paths.dir, t->path, &t->err);
    t->codec = object_codec_new();
    t->buf = pd_malloc(OBJECT_MAX);
    if (t->fd < 0)
        return t->fd;
    struct pd_buf *b = t->codec && t->buf ? new_out(t, WIRE_DF_FILE) : NULL;
    if (b)
        file_pieces_put(b, &t->f);
    return b && !b->failed ? 0 : pd_oom(&t->err, "a data file");
}

static const struct file_piece *piece_of(struct file_taker *t, const struct object_id *id) {
    for (size_t i = 0; i < t->f.n; i++) {
        size_t k = (t->next_piece + i) % t->f.n;
        if (!object_same(&t->f.v[k].id, id))
            continue;
        t->next_piece = k + 1;
        return &t->f.v[k];
    }
    return NULL;
}

static int read_at(int fd, uint8_t *p, size_t n, uint64_t off) {
    for (ssize_t k; n; p += k, n -= (size_t)k, off += (uint64_t)k) {
        k = pread(fd, p, n, (off_t)off);
        if (k <= 0)
            return -1; /* the file is shorter than before */
    }
    return 0;
}

static int encode_needed(struct file_taker *t, const struct need *q) {
    struct pd_buf *b = NULL;
    int rc = 0;
    for (size_t i = 0; i < q->n && !rc; i++) {
        const struct file_piece *p = piece_of(t, &q->ids[i]);
        struct object_id is;
        if (!p)
            return pd_fail(&t->err, PD_EPROTO, "the file has no such object");
        if ((t->turn_bytes += p->len) > 2 * FILE_WINDOW)
            return pd_fail(&t->err, PD_EPROTO, "the other node asks for more than %d bytes at once",
                           2 * FILE_WINDOW);
        if (read_at(t->fd, t->buf, p->len, p->off))
            return pd_fail(&t->err, PD_EDATA, "the file was changed there");
        object_id_of(&is, t->buf, p->len);
        if (!object_same(&is, &p->id))
            return pd_fail(&t->err, PD_EDATA, "the file was changed there");
        if (pd_fault("data.serve.wrong"))
            t->buf[p->len / 2] ^= 1; /* simulates a source that can't be trusted */
        if ((!b || b->len >= OUT) && !(b = new_out(t, WIRE_DF_DATA)))
            return pd_oom(&t->err, "a data file");
        if ((rc = object_encode(t->codec, &p->id, t->buf, p->len, b)))
            pd_fail(&t->err, rc, "out of memory");
    }
    return rc;
}

static void run_turn(uv_work_t *w) {
    struct file_taker *t = w->data;
    int rc = t->opened ? 0 : open_file(t);
    t->opened = 1;
    t->turn_bytes = 0;
    for (const struct need *q = t->turn; q && !rc; q = q->next)
        rc = encode_needed(t, q);
}

/* --- the loop --- */

static void start_turn(struct file_taker *t);

static void refuse(struct file_taker *t, const struct pd_err *e) {
    char text[300];
    t->refused = 1;
    if (!t->conn)
        return;
    pd_warn(&t->v->o->core->log, "%s, which asks for data file %s: %s", net_peer_addr(t->conn),
            t->path ? file_shown_path(t->path, text) : "?", e->msg);
    net_send_error(t->conn, WIRE_DF_DATA, 0, e); /* the taker then closes the connection */
}

static void send_outs(struct file_taker *t) {
    int rc = 0;
    for (struct file_out *o = t->outs; o && t->conn && !rc; o = o->next)
        for (size_t at = 0;
             at < o->b.len &&
             !rc;) { /* records are never cut: a buffer of records is shorter than a frame may be */
            size_t n =
                o->type == WIRE_DF_FILE && o->b.len - at > FILE_FRAME ? FILE_FRAME : o->b.len - at;
            rc = msg_send_payload(t->conn, o->type, o->b.data + at, n);
            at += n;
            if (pd_fault("data.serve.gone"))
                rc = PD_ECLOSED;
        }
    free_outs(t->outs);
    t->outs = NULL;
    t->outs_end = &t->outs;
    if (rc && t->conn)
        net_close(t->conn);
}

static void on_worked(uv_work_t *w, int status) {
    struct file_taker *t = w->data;
    t->busy = 0;
    t->active_ns = t->v->progress_ns = pd_mono_ns();
    free_needs(t->turn);
    t->turn = NULL;
    if (status)
        pd_fail(&t->err, PD_ECANCELED, "the agent is ending");
    send_outs(t);
    if (t->err.code && !t->refused)
        refuse(t, &t->err);
    if (t->needs && t->conn && !t->refused)
        start_turn(t);
    maybe_free(t);
}

static int is_served(const struct file_taker *t) { return t->busy || t->opened; }
static int waits(const struct file_taker *t) {
    return t->conn && t->path && !t->refused && !is_served(t);
}

static int has_room(const struct file_serve *v) {
    unsigned n = 0;
    for (const struct file_taker *t = v->takers; t; t = t->next)
        n += (unsigned)is_served(t);
    return n < TAKERS;
}

static void start_turn(struct file_taker *t) {
    if (t->busy || t->refused || !t->path || (!t->opened && !has_room(t->v)))
        return;
    t->turn = t->needs;
    t->needs = NULL;
    t->needs_end = &t->needs;
    t->n_needs = 0;
    t->work.data = t;
    if (uv_queue_work(&t->v->o->core->loop, &t->work, run_turn, on_worked))
        refuse(t, &(struct pd_err){.code = PD_ENOMEM, .msg = "cannot start a thread"});
    else
        t->busy = 1;
}

/* Starts waiting takers, in the order in which they came. */
static void start_waiting(struct file_serve *v) {
    for (struct file_taker *oldest = v->takers; oldest && has_room(v);) {
        oldest = NULL;
        for (struct file_taker *t = v->takers; t; t = t->next)
            if (waits(t))
                oldest = t;
        if (oldest)
            start_turn(oldest);
    }
}

static int take_path(struct file_taker *t, const uint8_t *p, size_t n, struct pd_err *err) {
    if (t->path || memchr(p, 0, n) || n >= PATH_MAX || !(t->path = pd_calloc(1, n + 1)))
        return pd_fail(err, PD_EPROTO, "DF_FILE names one file, once");
    memcpy(t->path, p, n);
    if (!file_path_ok(t->path))
        return pd_fail(err, PD_EPROTO, "that is no path in a workspace");
    const struct file_pieces *f = file_came(t->v->d, t->path);
    for (size_t i = 0; f && i < f->n; i++)
        if (file_pieces_add(&t->f, &f->v[i].id, f->v[i].len, f->v[i].off))
            return pd_oom(err, "a data file");
    if (f) {
        t->f.size = f->size;
        t->f.mtime_ns = f->mtime_ns;
        t->f.mode = f->mode;
        t->known = 1;
    }
    return 0;
}

static int take_need(struct file_taker *t, const uint8_t *p, size_t n, struct pd_err *err) {
    if (!t->path || n % OBJECT_ID || n > FILE_NEED_MAX * OBJECT_ID)
        return pd_fail(err, PD_EPROTO,
                       "DF_NEED lists at most %d objects of the file that DF_FILE names",
                       FILE_NEED_MAX);
    if (t->n_needs == NEEDS || net_queued_bytes(t->conn) > 2 * FILE_WINDOW)
        return pd_fail(err, PD_EPROTO, "the other node asks again before it has read its answers");
    struct need *q = pd_malloc(sizeof *q + n);
    if (!q)
        return pd_oom(err, "a data file");
    q->next = NULL;
    q->n = n / OBJECT_ID;
    memcpy(q->ids, p, n);
    *t->needs_end = q;
    t->needs_end = &q->next;
    t->n_needs++;
    return 0;
}

static struct file_taker *taker_of(struct file_serve *v, struct net_conn *c) {
    struct file_taker *t = v->takers;
    while (t && t->conn != c)
        t = t->next;
    return t;
}

static struct file_taker *new_taker(struct file_serve *v, struct net_conn *c) {
    unsigned n = 0;
    for (const struct file_taker *o = v->takers; o; o = o->next)
        n++;
    struct file_taker *t = n < CONNECTED ? pd_calloc(1, sizeof *t) : NULL;
    if (!t)
        return NULL;
    t->v = v;
    t->conn = c;
    t->fd = -1;
    t->active_ns = t->told_ns = pd_mono_ns();
    t->needs_end = &t->needs;
    t->outs_end = &t->outs;
    t->next = v->takers;
    v->takers = t;
    return t;
}

void file_serve_frame(struct file_serve *v, struct net_conn *c, struct wire_frame *f) {
    struct file_taker *t = taker_of(v, c);
    struct pd_err err = {0};
    uint8_t *p = NULL;
    size_t n;
    if (!t && !(t = new_taker(v, c))) {
        net_send_error(
            c, WIRE_DF_DATA, 0,
            &(struct pd_err){.code = PD_EFAIL, .msg = "too many nodes take files from it"});
        net_close_after_flush(c);
    } else if (!t->refused) {
        t->active_ns = pd_mono_ns();
        if (f->type != WIRE_DF_FILE && f->type != WIRE_DF_NEED)
            pd_fail(&err, PD_EPROTO, "a taker does not send %s", wire_msg_name(f->type));
        else if (!msg_payload(f, &p, &n, &err) &&
                 !(f->type == WIRE_DF_FILE ? take_path : take_need)(t, p, n, &err))
            start_turn(t);
        if (err.code)
            refuse(t, &err);
    }
    free(p);
    wire_frame_free(f);
}

void file_serve_tick(struct file_serve *v) {
    const uint64_t now = pd_mono_ns();
    for (struct file_taker *t = v->takers; t; t = t->next) {
        if (waits(t) && now - v->progress_ns < IDLE_MS * UINT64_C(1000000)) {
            if (now - t->told_ns > WAIT_SIGN_MS * UINT64_C(1000000)) {
                t->told_ns = now;
                (void)msg_send(t->conn, WIRE_HD_PING, 0, json_object());
            }
        } else if (t->conn && !t->busy && now - t->active_ns > IDLE_MS * UINT64_C(1000000)) {
            net_close(t->conn);
        }
    }
}

void file_serve_gone(struct file_serve *v, struct net_conn *c) {
    struct file_taker *t = taker_of(v, c);
    if (!t)
        return;
    t->conn = NULL;
    maybe_free(t);
}
