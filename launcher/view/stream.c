/* SPDX-License-Identifier: Apache-2.0 */
/* stream.c - see stream.h. */
#include "launcher/view/stream.h"

#include "launcher/view/show_text.h"
#include "launcher/view/view.h"

enum { KEEP_FILE = 1 << 20, LAST_MS = 100 };

struct text {
    struct spool spool;
    uint64_t shown;
    int ended;
};

struct stream_view {
    const char *const *names;
    size_t n;
    struct text *v; /* stdout and stderr of host i are 2i and 2i+1 */
    /* the same view as `out` if both lead to the same place, so their order is kept */
    struct view *out, *err;
    uv_async_t room;
    char *buf;   /* STREAM_LINE_MAX */
    size_t next; /* the next text in turn */
    int closing, is_broken;
    void (*broken)(void *arg);
    void *arg;
};

/* Runs on the view's thread. */
static void on_room_thread(void *arg) {
    struct stream_view *v = arg;
    uv_async_send(&v->room);
}

/* Pass on whole lines of text `at` while there is room. 1: lines wait, but there is no room. */
static int show_some(struct stream_view *v, size_t at) {
    struct text *t = &v->v[at];
    struct view *to = at % 2 ? v->err : v->out;
    const char *name = v->names[at / 2];
    struct pd_buf b = {0};
    int full = 0;
    while (t->shown < t->spool.size && !(full = view_backlog(to) >= VIEW_ROOM)) {
        ssize_t k = spool_read(&t->spool, t->shown, v->buf, STREAM_LINE_MAX);
        /* the file has failed: its bytes are lost, which is reported */
        if (k <= 0) {
            view_printf(to, "%s: its output cannot be read back", name);
            t->shown = t->spool.size;
            break;
        }
        const char *last = memrchr(v->buf, '\n', (size_t)k);
        if (last)
            k = last + 1 - v->buf;
        else if (k < STREAM_LINE_MAX && !t->ended)
            break;
        pd_buf_clear(&b);
        for (char *s = v->buf, *end = v->buf + k; s < end;) {
            const char *nl = memchr(s, '\n', (size_t)(end - s));
            size_t len = (size_t)((nl ? nl : end) - s);
            pd_put(&b, name, strlen(name));
            pd_put(&b, ": ", 2);
            if (view_is_terminal(to))
                show_put_text(&b, s, len, SHOW_PLAIN, 0);
            else
                pd_put(&b, s, len);
            pd_put(&b, "\n", 1);
            s += len + (nl != NULL);
        }
        if (b.failed) { /* try again later */
            full = 1;
            break;
        }
        view_put(to, b.data, b.len);
        t->shown += (uint64_t)k;
    }
    pd_buf_release(&b);
    if (t->shown && t->shown == t->spool.size) {
        spool_restart(&t->spool);
        t->shown = 0;
        /* only the beginning of a line */
    } else if (t->shown > KEEP_FILE && t->spool.size - t->shown < STREAM_LINE_MAX) {
        struct pd_err ignored = {0};
        ssize_t k = spool_read(&t->spool, t->shown, v->buf, STREAM_LINE_MAX);
        if (k > 0) {
            spool_restart(&t->spool);
            t->shown = 0;
            spool_put(&t->spool, v->buf, (size_t)k, &ignored);
        }
    }
    return full;
}

static void show_all(struct stream_view *v) {
    int left = 0;
    if (v->is_broken)
        return;
    if (view_is_broken(v->out) || view_is_broken(v->err)) {
        v->is_broken = 1;
        v->broken(v->arg);
        return;
    }
    for (size_t i = 0; i < 2 * v->n; i++) {
        size_t at = (v->next + i) % (2 * v->n);
        if (show_some(v, at) && !left) {
            left = 1;
            v->next = at;
        }
    }
}

static int all_shown(const struct stream_view *v) {
    for (size_t i = 0; i < 2 * v->n; i++)
        if (v->v[i].shown < v->v[i].spool.size)
            return 0;
    return !view_backlog(v->out) && !view_backlog(v->err);
}

static void maybe_close(struct stream_view *v) {
    if (v->closing && (v->is_broken || all_shown(v)) && !uv_is_closing((uv_handle_t *)&v->room)) {
        view_on_room(v->out, NULL, NULL);
        view_on_room(v->err, NULL, NULL);
        uv_close((uv_handle_t *)&v->room, NULL);
    }
}

static void on_room(uv_async_t *h) {
    struct stream_view *v = h->data;
    show_all(v);
    maybe_close(v);
}

static int same_place(int a, int b) {
    struct stat x, y;
    return !fstat(a, &x) && !fstat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

int stream_view_new(struct stream_view **out, uv_loop_t *loop, const char *const *names, size_t n,
                    size_t memory, void (*broken)(void *arg), void *arg, struct pd_err *err) {
    struct stream_view *v = pd_calloc(1, sizeof *v);
    int rc = v ? 0 : pd_oom(err, "log lines");
    if (rc)
        return rc;
    *v = (struct stream_view){.names = names, .n = n, .broken = broken, .arg = arg};
    v->buf = pd_malloc(STREAM_LINE_MAX);
    v->v = pd_calloc(2 * n, sizeof *v->v);
    if (!v->buf || !v->v)
        rc = pd_oom(err, "log lines");
    for (size_t i = 0; !rc && i < 2 * n; i++)
        spool_init(&v->v[i].spool, memory);
    if (!rc && uv_async_init(loop, &v->room, on_room))
        rc = pd_fail(err, PD_EFAIL, "cannot wake the loop");
    if (rc) {
        free(v->buf);
        free(v->v);
        free(v);
        return rc;
    }
    v->room.data = v;
    rc = view_new(&v->out, STDOUT_FILENO, VIEW_COLOUR_NEVER, err);
    if (!rc && same_place(STDOUT_FILENO, STDERR_FILENO))
        v->err = v->out;
    else if (!rc)
        rc = view_new(&v->err, STDERR_FILENO, VIEW_COLOUR_NEVER, err);
    if (rc) {
        uv_close((uv_handle_t *)&v->room, NULL);
        uv_run(loop, UV_RUN_NOWAIT);
        stream_view_free(v);
        return rc;
    }
    view_on_room(v->out, on_room_thread, v);
    view_on_room(v->err, on_room_thread, v);
    *out = v;
    return 0;
}

int stream_view_put(struct stream_view *v, size_t host, int is_stderr, const void *p, size_t n,
                    struct pd_err *err) {
    size_t at = 2 * host + (is_stderr != 0);
    if (v->is_broken)
        return 0;
    int rc = spool_put(&v->v[at].spool, p, n, err);
    show_some(v, at);
    return rc;
}

void stream_view_end(struct stream_view *v, size_t host) {
    for (size_t at = 2 * host; at < 2 * host + 2; at++) {
        v->v[at].ended = 1;
        show_some(v, at);
    }
}

void stream_view_end_all(struct stream_view *v) {
    v->closing = 1;
    uv_async_send(&v->room);
}

void stream_view_free(struct stream_view *v) {
    if (v->err != v->out)
        view_free(v->err, LAST_MS);
    view_free(v->out, LAST_MS);
    for (size_t i = 0; i < 2 * v->n; i++)
        spool_release(&v->v[i].spool);
    free(v->v);
    free(v->buf);
    free(v);
}
