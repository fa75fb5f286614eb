/* fetch.c - AG_FETCH: a folder of the job as a package. A thread packs; its chunks wait in a short
 * queue that the loop empties as fast as the client reads, so memory stays bounded and the loop
 * never waits.
 *
 *     thread: pack_tree ─▶ queue of MAX_CHUNKS ─▶ loop: net_send while little is queued ─▶ client
 */
#include "agent/client/fetch.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "pack/pack.h"
#include "wire/msg.h"

enum { MAX_CHUNKS = 4, HIGH_WATER = 1 << 20 };

struct fetch_chunk {
    size_t n;
    uint8_t bytes[];
};

struct folder_fetch {
    struct client *c;
    struct folder_fetch *next;
    uint64_t req;
    char dir[PATH_MAX];
    uv_thread_t thread;
    uv_async_t wake;
    /* shared with the thread */
    uv_mutex_t lock;
    uv_cond_t room;
    struct fetch_chunk *queue[MAX_CHUNKS];
    unsigned n_queue;
    int finished, canceled;
    struct pack_result res;
    struct pd_err err;
};

/* Of one client. */
struct folder_fetches {
    struct folder_fetch *first;
};

/* On the thread. */
static int put_chunk(void *arg, const void *p, size_t n, struct pd_err *err) {
    struct folder_fetch *x = arg;
    struct fetch_chunk *c = pd_malloc(sizeof *c + n);
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
    struct folder_fetch *x = arg;
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
    struct folder_fetch *x = h->data;
    for (unsigned i = 0; i < x->n_queue; i++)
        free(x->queue[i]);
    uv_mutex_destroy(&x->lock);
    uv_cond_destroy(&x->room);
    client_unref(x->c);
    free(x);
}

/* The thread has ended, or is about to. */
static void end_fetch(struct folder_fetch *x) {
    struct folder_fetches *all = client_state(x->c, &fetch_service);
    uv_thread_join(&x->thread);
    struct folder_fetch **p = &all->first;
    while (*p != x)
        p = &(*p)->next;
    *p = x->next;
    if (x->err.code)
        client_refuse(x->c, WIRE_AG_PKG_END, x->req, &x->err);
    else
        client_send(x->c, WIRE_AG_PKG_END, x->req,
                    json_pack("{s:s, s:I, s:I, s:o}", "sha256", x->res.sha256, "bytes",
                              (json_int_t)x->res.packed, "skipped", (json_int_t)x->res.skipped,
                              "first_skipped",
                              wire_text(x->res.first_skipped, strlen(x->res.first_skipped))));
    uv_close((uv_handle_t *)&x->wake, on_closed);
}

/* Send what is there while the client keeps up. */
static void pump(struct folder_fetch *x) {
    for (;;) {
        if (client_queued_bytes(x->c) >= HIGH_WATER)
            return; /* on_drain comes back here */
        uv_mutex_lock(&x->lock);
        struct fetch_chunk *c = x->n_queue ? x->queue[0] : NULL;
        if (c) {
            memmove(x->queue, x->queue + 1, --x->n_queue * sizeof *x->queue);
            uv_cond_signal(&x->room);
        }
        int finished = x->finished && !c;
        x->canceled = !client_is_open(x->c);
        if (x->canceled)
            uv_cond_signal(&x->room);
        uv_mutex_unlock(&x->lock);
        if (c) {
            struct net_sec sec[2] = {{"", 0}, {c->bytes, c->n}};
            client_send_raw(x->c, WIRE_AG_PKG_DATA, x->req, sec, 2);
        }
        free(c);
        if (finished) {
            end_fetch(x);
            return;
        }
        if (!c)
            return;
    }
}

static void on_wake(uv_async_t *h) { pump(h->data); }

/* Also when the connection is gone: the threads then end. */
static void pump_all(struct client *c) {
    const struct folder_fetches *all = client_state(c, &fetch_service);
    for (struct folder_fetch *x = all->first, *next; x; x = next) {
        next = x->next; /* pump may finish it */
        pump(x);
    }
}

/* Takes x over, also on failure. */
static int start_fetch(struct client *c, struct folder_fetch *x, struct pd_err *err) {
    if (uv_mutex_init(&x->lock)) {
        free(x);
        return pd_fail(err, PD_ENOMEM, "out of memory");
    }
    if (uv_cond_init(&x->room)) {
        uv_mutex_destroy(&x->lock);
        free(x);
        return pd_fail(err, PD_ENOMEM, "out of memory");
    }
    struct folder_fetches *all = client_state(c, &fetch_service);
    uv_async_init(&client_core(c)->loop, &x->wake, on_wake);
    x->wake.data = x;
    x->c = c;
    client_ref(c);
    if (uv_thread_create(&x->thread, pack, x)) {
        uv_close((uv_handle_t *)&x->wake, on_closed);
        return pd_fail(err, PD_EFAIL, "cannot start a thread");
    }
    x->next = all->first;
    all->first = x;
    return 0;
}

static int on_fetch(struct client *c, const struct wire_frame *f, const json_t *body,
                    struct pd_err *err) {
    const char *dir = msg_str(body, "dir");
    struct stat st;
    if (strcmp(dir, "output") && strcmp(dir, "log"))
        return pd_fail(err, PD_EPROTO, "AG_FETCH gets output or log, not '%.40s'", dir);
    struct folder_fetch *x = pd_calloc(1, sizeof *x);
    if (!x)
        return pd_fail(err, PD_ENOMEM, "out of memory");
    int rc = node_paths_join(client_core(c)->paths.dir, dir, x->dir, err);
    if (rc) {
        free(x);
        return rc;
    }
    int missing = stat(x->dir, &st) || !S_ISDIR(st.st_mode);
    x->req = f->req;
    if (missing) {
        free(x);
    } else if ((rc = start_fetch(c, x, err))) {
        return rc;
    }
    client_send(c, WIRE_AG_PKG_BEGIN, f->req,
                json_pack("{s:s, s:s, s:s, s:b}", "kind", dir, "name", client_core(c)->paths.job,
                          "hash", "", "missing", missing));
    if (missing)
        client_send(c, WIRE_AG_PKG_END, f->req,
                    json_pack("{s:s, s:i, s:i, s:s}", "sha256", "", "bytes", 0, "skipped", 0,
                              "first_skipped", ""));
    return 0;
}

static const struct client_request requests[] = {{WIRE_AG_FETCH, 1, 1, on_fetch, NULL}, {0}};

const struct client_service fetch_service = {.name = "fetch",
                                             .requests = requests,
                                             .state_size = sizeof(struct folder_fetches),
                                             .on_drain = pump_all,
                                             .on_close = pump_all};
