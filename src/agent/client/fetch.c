/* SPDX-License-Identifier: Apache-2.0 */
/* fetch.c - AG_FETCH: sends a folder of the job to a client as a package of objects. The client
 * asks for the objects that it lacks.
 *
 *     scan (a thread) ─▶ AG_FETCH: root ─▶ DS_NEED ─▶ feed ─▶ DS_OBJECT ─▶ DS_END from the client
 *          ▲                                           │
 *          └── a file changed meanwhile: next round ───┘
 *
 * The feed reads each object again and compares it with its hash. Therefore a client never gets
 * bytes that its manifest does not name. A folder that changes in each of ROUNDS rounds is an
 * error. */
#include "agent/client/fetch.h"

#include "pack/scan/feed.h"
#include "wire/client_bodies.h"
#include "wire/msg.h"

enum { ROUNDS = 5, SIGN_MS = 5000 };

struct folder_fetch {
    struct client *c;
    struct folder_fetch *next;
    uint64_t req;
    int round;                            /* counts scans from 1 */
    char dir[PATH_MAX], hashes[PATH_MAX]; /* hashes: the scan's cache */
    struct scan *scan;
    struct feed *feed; /* NULL during a scan */
    struct feed_taker *taker;
    int over; /* the client is gone or has every object: ends when no work is in progress */
    uv_work_t work;
    uv_timer_t sign;
    uint64_t told; /* the scan's progress with the last sign */
    struct pd_err err;
};

/* The fetches of one client. */
struct folder_fetches {
    struct folder_fetch *first;
};

/* --- the end --- */

static void on_closed(uv_handle_t *h) {
    struct folder_fetch *x = h->data;
    client_unref(x->c);
    free(x);
}

/* No work of x is in progress: removes and frees it. */
static void finish(struct folder_fetch *x) {
    struct folder_fetches *all = client_state(x->c, &fetch_service);
    struct folder_fetch **p = &all->first;
    while (*p != x)
        p = &(*p)->next;
    *p = x->next;
    scan_free(x->scan);
    uv_close((uv_handle_t *)&x->sign, on_closed);
}

static void fail(struct folder_fetch *x) {
    client_refuse(x->c, WIRE_AG_FETCH, x->req, &x->err);
    finish(x);
}

static void start_round(struct folder_fetch *x);

static void on_feed_gone(void *arg) {
    struct folder_fetch *x = arg;
    if (x->over)
        finish(x);
    else if (x->err.code == PD_ENOMEM)
        fail(x); /* another scan of the folder would need as much */
    else
        start_round(x);
}

static void drop_feed(struct folder_fetch *x) {
    struct feed *f = x->feed;
    x->feed = NULL;
    feed_taker_free(x->taker);
    x->taker = NULL;
    feed_free(f, on_feed_gone, x);
}

static void end_fetch(struct folder_fetch *x) {
    if (x->over)
        return;
    x->over = 1;
    if (x->feed)
        drop_feed(x);
    else if (x->scan)
        scan_cancel(x->scan);
}

/* --- a round --- */

static void send_records(void *arg, const struct pd_bytes *parts, size_t n) {
    struct folder_fetch *x = arg;
    struct pd_buf b = {0};
    for (size_t i = 0; i < n; i++)
        pd_put(&b, parts[i].p, parts[i].n);
    const struct net_sec sec[2] = {{"", 0}, {b.data, b.len}};
    if (b.failed)
        client_close(x->c, 1); /* a requested object must not be left out */
    else
        client_send_raw(x->c, WIRE_DS_OBJECT, x->req, sec, 2);
    pd_buf_release(&b);
}

static size_t unsent_bytes(void *arg) {
    return client_queued_bytes(((struct folder_fetch *)arg)->c);
}

static void on_changed(void *arg, const struct pd_err *err) {
    struct folder_fetch *x = arg;
    pd_info(&client_core(x->c)->log, "round %d of fetching %s: %s", x->round, x->dir, err->msg);
    x->err = *err;
    drop_feed(x);
}

static void send_root(struct folder_fetch *x) {
    struct scan_totals t;
    struct object_id id;
    size_t n;
    const uint8_t *root = scan_root(x->scan, &id, &n);
    const char *first = scan_first_skipped(x->scan);
    scan_get_totals(x->scan, &t);
    if (client_send_with(
            x->c, WIRE_AG_FETCH, x->req,
            wire_put(&wire_ag_fetch_answer, &(struct ag_fetch_answer){.round = x->round,
                                                                      .skipped = (int64_t)t.skipped,
                                                                      .first_skipped = first}),
            root, n) == PD_ENOMEM)
        client_close(x->c, 1); /* without a root the client would wait for ever */
}

static void scan_work(uv_work_t *w) {
    struct folder_fetch *x = w->data;
    scan_run(x->scan, &x->err);
}

static void on_scanned(uv_work_t *w, int status) {
    static const struct feed_io io = {send_records, unsent_bytes};
    struct folder_fetch *x = w->data;
    if (status)
        pd_fail(&x->err, PD_ECANCELED, "the agent is ending");
    if (!x->err.code && !x->over) {
        x->feed = feed_new(&client_core(x->c)->loop, x->scan, 0, FEED_CACHE_MIN, on_changed, x);
        x->taker = x->feed ? feed_taker_new(x->feed, &io, x) : NULL;
        if (!x->taker)
            pd_oom(&x->err, "a folder to send");
    }
    if (x->over)
        finish(x);
    else if (!x->err.code)
        send_root(x);
    else if (x->feed)
        drop_feed(x);
    else
        fail(x);
}

/* A scan takes the hashes of unchanged files from the cache. The last round hashes every file. */
static void start_round(struct folder_fetch *x) {
    scan_free(x->scan);
    x->scan = NULL;
    if (x->round++ == ROUNDS) {
        pd_err_prefix(&x->err, "%d times in a row", ROUNDS);
        fail(x);
        return;
    }
    pd_err_clear(&x->err);
    x->told = 0;
    if (!scan_new_folder(&x->scan, x->dir, SCAN_OUTPUTS | SCAN_ALONE, &x->err)) {
        if (x->round < ROUNDS)
            scan_set_cache(x->scan, x->hashes);
        if (uv_queue_work(&client_core(x->c)->loop, &x->work, scan_work, on_scanned))
            pd_fail(&x->err, PD_EFAIL, "cannot start a thread");
    }
    if (x->err.code)
        fail(x);
}

/* A client gives up a folder that is silent for long. A sign tells it that the scan advances, or
 * that the agent waits for the client's requests. */
static void on_sign(uv_timer_t *t) {
    struct folder_fetch *x = t->data;
    uint64_t entries, hashed, total;
    if (x->over || (x->feed && !feed_waits(x->taker)))
        return;
    if (!x->feed && x->scan) {
        scan_progress(x->scan, &entries, &hashed, &total);
        if (entries + hashed == x->told)
            return;
        x->told = entries + hashed;
    }
    client_send(x->c, WIRE_AG_FETCH, x->req, json_object());
}

/* --- requests --- */

static int on_fetch(struct client *c, const struct wire_frame *f, const json_t *body,
                    struct pd_err *err) {
    const char *job_dir = client_core(c)->paths.dir;
    char folder[PATH_MAX];
    struct ag_fetch m;
    struct folder_fetches *all = client_state(c, &fetch_service);
    struct stat st;
    if (wire_get(&wire_ag_fetch, &m, body, err))
        return err->code;
    if (strcmp(m.dir, "output") && strcmp(m.dir, "log"))
        return pd_fail(err, PD_EPROTO, "AG_FETCH gets output or log, not '%s'", m.dir);
    if (*m.only && !node_paths_name_ok(m.only))
        return pd_fail(err, PD_EPROTO, "AG_FETCH gets a folder's name, not '%s'", m.only);
    struct folder_fetch *x = pd_calloc(1, sizeof *x);
    if (!x)
        return pd_oom(err, "a folder to send");
    *x = (struct folder_fetch){.c = c, .req = f->req, .next = all->first};
    int rc = node_paths_join(job_dir, m.dir, *m.only ? folder : x->dir, err);
    if (!rc && *m.only)
        rc = node_paths_join(folder, m.only, x->dir, err);
    if (!rc && pd_fmt(x->hashes, sizeof x->hashes, "%s/.%s%s%s.hashes", job_dir, m.dir,
                      *m.only ? "." : "", m.only))
        rc = pd_fail(err, PD_EIO, "path too long: %s/.%s.hashes", job_dir, m.dir);
    if (rc || stat(x->dir, &st) || !S_ISDIR(st.st_mode)) {
        free(x);
        const struct ag_fetch_answer none = {.missing = 1};
        return rc ? rc : client_answer(c, f, wire_put(&wire_ag_fetch_answer, &none), err);
    }
    all->first = x;
    client_ref(c);
    x->work.data = x->sign.data = x;
    uv_timer_init(&client_core(c)->loop, &x->sign);
    uv_timer_start(&x->sign, on_sign, SIGN_MS, SIGN_MS);
    start_round(x);
    return 0;
}

static struct folder_fetch *find(struct client *c, uint64_t req) {
    struct folder_fetch *x = ((struct folder_fetches *)client_state(c, &fetch_service))->first;
    while (x && (x->req != req || x->over))
        x = x->next;
    return x;
}

/* Requests of an earlier round, or for a failed folder, are ignored: the client asks again. */
static int on_need(struct client *c, const struct wire_frame *f, const json_t *body,
                   struct pd_err *err) {
    struct folder_fetch *x = find(c, f->req);
    struct ds_need m;
    if (wire_get(&wire_ds_need, &m, body, err))
        return err->code;
    if (!x || !x->taker || m.round != x->round || f->n_sec < 2)
        return 0;
    int rc = feed_ask(x->taker, f->sec[1], f->len[1], err);
    if (rc)
        end_fetch(x);
    return rc;
}

static int on_end(struct client *c, const struct wire_frame *f, const json_t *body,
                  struct pd_err *err) {
    struct folder_fetch *x = find(c, f->req);
    (void)body;
    if (x)
        end_fetch(x);
    return client_answer(c, f, json_object(), err);
}

static void send_more(struct client *c) {
    const struct folder_fetches *all = client_state(c, &fetch_service);
    for (struct folder_fetch *x = all->first; x; x = x->next)
        if (x->taker)
            feed_send(x->taker);
}

static void end_all(struct client *c) {
    const struct folder_fetches *all = client_state(c, &fetch_service);
    for (struct folder_fetch *x = all->first, *next; x; x = next) {
        next = x->next; /* end_fetch may free x */
        end_fetch(x);
    }
}

static const struct client_request requests[] = {{WIRE_AG_FETCH, 1, 1, on_fetch, NULL},
                                                 {WIRE_DS_NEED, 1, 1, on_need, NULL},
                                                 {WIRE_DS_END, 1, 1, on_end, NULL},
                                                 {0}};

const struct client_service fetch_service = {.name = "fetch",
                                             .requests = requests,
                                             .state_size = sizeof(struct folder_fetches),
                                             .on_drain = send_more,
                                             .on_close = end_all};
