/* fetch.c - AG_FETCH: a folder of the job as a package. A thread packs; its chunks wait in a short queue that the
 * loop empties as fast as the client reads, so memory stays bounded and the loop never waits.
 *
 *     thread: pack_tree ─▶ queue of MAX_CHUNKS ─▶ loop: net_send while little is queued ─▶ client
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/session.h"
#include "base/fault.h"
#include "pack/pack.h"
#include "wire/msg.h"

enum { MAX_CHUNKS = 4, HIGH_WATER = 1 << 20 };

struct chunk {
    size_t n;
    uint8_t bytes[];
};

struct fetch {
    struct session *s;
    struct fetch *next;
    uint64_t req;
    char dir[PATH_MAX];
    uv_thread_t thread;
    uv_async_t wake;
    /* shared with the thread */
    uv_mutex_t lock;
    uv_cond_t room;
    struct chunk *queue[MAX_CHUNKS];
    unsigned n_queue;
    int finished, canceled;
    struct pack_result res;
    struct pd_err err;
};

/* On the thread. */
static int put_chunk(void *arg, const void *p, size_t n, struct pd_err *err) {
    struct fetch *x = arg;
    struct chunk *c = pd_malloc(sizeof *c + n);
    if (!c)
        return pd_fail(err, PD_ENOMEM, "out of memory");
    c->n = n;
    memcpy(c->bytes, p, n);
    uv_mutex_lock(&x->lock);
    while (x->n_queue == MAX_CHUNKS && !x->canceled)
        uv_cond_wait(&x->room, &x->lock);
    int canceled = x->canceled;
    if (!canceled)
        x->queue[x->n_queue++] = c;
    uv_mutex_unlock(&x->lock);
    if (canceled) {
        free(c);
        return pd_fail(err, PD_ECANCELED, "the client is gone");
    }
    uv_async_send(&x->wake);
    return 0;
}

static void pack(void *arg) {
    struct fetch *x = arg;
    struct pd_err err = {0};
    struct pack_result res;
    memset(&res, 0, sizeof res);
    pack_tree(x->dir, PACK_OUTPUTS, put_chunk, x, &res, &err);
    uv_mutex_lock(&x->lock);
    x->err = err;
    x->res = res;
    x->finished = 1;
    uv_mutex_unlock(&x->lock);
    uv_async_send(&x->wake);
}

static void on_closed(uv_handle_t *h) {
    struct fetch *x = h->data;
    for (unsigned i = 0; i < x->n_queue; i++)
        free(x->queue[i]);
    uv_mutex_destroy(&x->lock);
    uv_cond_destroy(&x->room);
    session_unref(x->s);
    free(x);
}

/* The thread has ended, or is about to. */
static void finish(struct fetch *x) {
    struct session *s = x->s;
    uv_thread_join(&x->thread);
    struct fetch **p = &s->fetches;
    while (*p != x)
        p = &(*p)->next;
    *p = x->next;
    if (s->conn && x->err.code)
        net_send_error(s->conn, WIRE_AG_PKG_END, x->req, &x->err);
    else if (s->conn)
        msg_send(s->conn, WIRE_AG_PKG_END, x->req,
                 json_pack("{s:s, s:I, s:I, s:o}", "sha256", x->res.sha256, "bytes", (json_int_t)x->res.packed, "skipped",
                           (json_int_t)x->res.skipped, "first_skipped",
                           msg_text(x->res.first_skipped, strlen(x->res.first_skipped))));
    uv_close((uv_handle_t *)&x->wake, on_closed);
}

/* Send what is there while the client keeps up. */
static void pump(struct fetch *x) {
    struct session *s = x->s;
    for (;;) {
        if (s->conn && net_queued_bytes(s->conn) >= HIGH_WATER)
            return; /* on_drain comes back here */
        uv_mutex_lock(&x->lock);
        struct chunk *c = x->n_queue ? x->queue[0] : NULL;
        if (c) {
            memmove(x->queue, x->queue + 1, --x->n_queue * sizeof *x->queue);
            uv_cond_signal(&x->room);
        }
        int finished = x->finished && !c;
        x->canceled = !s->conn;
        if (x->canceled)
            uv_cond_signal(&x->room);
        uv_mutex_unlock(&x->lock);
        if (c && s->conn) {
            struct net_sec sec[2] = {{"", 0}, {c->bytes, c->n}};
            net_send(s->conn, WIRE_AG_PKG_DATA, 0, x->req, sec, 2, NULL, NULL);
        }
        free(c);
        if (finished) {
            finish(x);
            return;
        }
        if (!c)
            return;
    }
}

static void on_wake(uv_async_t *h) { pump(h->data); }

void fetch_pump(struct session *s) {
    for (struct fetch *x = s->fetches, *next; x; x = next) {
        next = x->next; /* pump may finish it */
        pump(x);
    }
}

/* Takes x over, also on failure. */
static int begin(struct session *s, struct fetch *x, struct pd_err *err) {
    if (uv_mutex_init(&x->lock)) {
        free(x);
        return pd_fail(err, PD_ENOMEM, "out of memory");
    }
    if (uv_cond_init(&x->room)) {
        uv_mutex_destroy(&x->lock);
        free(x);
        return pd_fail(err, PD_ENOMEM, "out of memory");
    }
    uv_async_init(&s->ag->loop, &x->wake, on_wake);
    x->wake.data = x;
    x->s = s;
    s->refs++;
    if (uv_thread_create(&x->thread, pack, x)) {
        uv_close((uv_handle_t *)&x->wake, on_closed);
        return pd_fail(err, PD_EFAIL, "cannot start a thread");
    }
    x->next = s->fetches;
    s->fetches = x;
    return 0;
}

int fetch_on_fetch(struct session *s, const struct wire_frame *f, const json_t *body, struct pd_err *err) {
    const char *dir = msg_str(body, "dir");
    struct stat st;
    if (strcmp(dir, "output") && strcmp(dir, "log"))
        return pd_fail(err, PD_EPROTO, "AG_FETCH gets output or log, not '%.40s'", dir);
    struct fetch *x = pd_calloc(1, sizeof *x);
    if (!x)
        return pd_fail(err, PD_ENOMEM, "out of memory");
    int rc = place_path(s->ag->place.dir, dir, x->dir, err);
    if (rc) {
        free(x);
        return rc;
    }
    int missing = stat(x->dir, &st) || !S_ISDIR(st.st_mode);
    x->req = f->req;
    if (missing) {
        free(x);
    } else if ((rc = begin(s, x, err))) {
        return rc;
    }
    msg_send(s->conn, WIRE_AG_PKG_BEGIN, f->req, json_pack("{s:s, s:s, s:s, s:b}", "kind", dir, "name", s->ag->place.job,
                                                          "hash", "", "missing", missing));
    if (missing)
        msg_send(s->conn, WIRE_AG_PKG_END, f->req,
                 json_pack("{s:s, s:i, s:i, s:s}", "sha256", "", "bytes", 0, "skipped", 0, "first_skipped", ""));
    return 0;
}
