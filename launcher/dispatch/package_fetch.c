/* SPDX-License-Identifier: Apache-2.0 */
/* package_fetch.c - a folder that comes back from a node: docs/protocol.md, "Fetching".
 *
 *     AG_FETCH: root ─┐
 *     DS_OBJECT ──────┴─▶ turns of work on a thread of the pool ─▶ DS_NEED ... DS_END
 *
 * A turn checks and writes what came since the last one; while `busy` it owns struct fetch_work. A
 * new root, of a folder that changed meanwhile, takes over what the one before had.
 */
#include "launcher/dispatch/package.h"
#include "pack/object/manifest.h"
#include "pack/store/assemble.h"

enum {
    PATIENCE_MS = 120000, /* for the first sign of the node */
    STEP_MS = 20,
    WINDOW = 2 << 20,  /* bytes asked for; more by what one leaf of the manifest names */
    UNREAD = 64 << 20, /* bytes that wait for the next turn, at most */
    NEED_MAX = 2048,   /* ids of a message */
    ROUNDS_MAX = 16,
};

struct fetch_work {
    const char *store;
    char target[PATH_MAX], old[PATH_MAX], suffix[32];
    uint8_t root[MANIFEST_ROOT_MAX]; /* a new one, if root_n is not 0 */
    size_t root_n;
    uint64_t due; /* as in assemble_opts, with a new root */
    struct pd_buf records;
    struct store *st;
    struct assemble *a;
    struct object_codec *codec;
    /* results */
    int more, complete;
    struct assemble_totals totals;
    struct object_id need[NEED_MAX];
    size_t n_need;
    struct pd_err err;
};

struct package_fetch {
    struct package_fetches *all;
    struct package_fetch *next; /* in `waiting` */
    struct link *l;
    uv_loop_t *loop;
    uint64_t req;
    uint64_t of, have, due; /* this folder's part of the sums in `all` */
    int round;
    int busy, active;
    int ended;                       /* DS_END was sent */
    int complete, over;              /* over: `done` was called */
    struct pd_err err;               /* of this end */
    uint8_t root[MANIFEST_ROOT_MAX]; /* for the next turn */
    size_t root_n;
    struct pd_buf in;
    uv_work_t work;
    struct fetch_work w;
    struct package_fetched res;
    package_fetch_done done;
    void *arg;
};

/* --- a turn of work --- */

static void begin_round(struct fetch_work *w) {
    const struct assemble_opts o = {.root = w->store,
                                    .target = w->target,
                                    .window = WINDOW,
                                    .keeps_rest = 1,
                                    .due = w->due,
                                    .old = *w->old ? w->old : NULL,
                                    .old_suffix = w->suffix,
                                    .before = w->a};
    w->a = NULL;
    if (!w->codec && !(w->codec = object_codec_new()))
        pd_oom(&w->err, "a folder that arrives");
    if (!w->err.code && !w->st)
        store_open(&w->st, w->store, &w->err);
    if (w->err.code)
        assemble_free(o.before);
    else
        assemble_new(&w->a, w->st, &o, w->root, w->root_n, &w->err);
}

static void put_records(struct fetch_work *w) {
    const uint8_t *p = w->records.data, *end = p + w->records.len, *raw[OBJECT_BATCH];
    struct object_record r[OBJECT_BATCH];
    int rc = 1;
    while (rc == 1) {
        size_t n = 0;
        while (n < OBJECT_BATCH && (rc = object_next(&p, end, &r[n], &w->err)) == 1)
            n++;
        if (rc < 0 || object_decode_all(w->codec, r, n, raw, &w->err))
            return;
        for (size_t i = 0; i < n; i++)
            if (assemble_put(w->a, &r[i].id, raw[i], r[i].raw_len, &w->err))
                return;
    }
}

static void run_turn(uv_work_t *work) {
    struct fetch_work *w = &((struct package_fetch *)work->data)->w;
    w->n_need = 0;
    w->more = 0;
    if (w->records.len && w->a)
        put_records(w);
    if (w->root_n && !w->err.code)
        begin_round(w);
    if (w->err.code || (w->more = assemble_step(w->a, STEP_MS, &w->err)) < 0)
        return;
    assemble_totals(w->a, &w->totals);
    w->n_need = assemble_need(w->a, w->need, NEED_MAX);
    if (assemble_complete(w->a))
        w->complete = !assemble_finish(w->a, &w->err);
}

/* --- the loop --- */

static void start_waiting(struct package_fetches *all);

static void release(struct package_fetch *f) {
    struct package_fetches *all = f->all;
    struct package_fetch **p = &all->waiting;
    while (*p && *p != f)
        p = &(*p)->next;
    if (*p)
        *p = f->next;
    all->n_active -= (unsigned)f->active;
    assemble_free(f->w.a);
    store_close(f->w.st);
    object_codec_free(f->w.codec);
    pd_buf_release(&f->w.records);
    pd_buf_release(&f->in);
    free(f);
    start_waiting(all);
}

static void count(struct package_fetch *f, uint64_t of, uint64_t have, uint64_t due) {
    f->all->of += of - f->of;
    f->all->have += have - f->have;
    f->all->due += due - f->due;
    f->of = of;
    f->have = have;
    f->due = due;
}

/* `err` is what became of the link or the node: a failure of this end came first. */
static void finish(struct package_fetch *f, const struct pd_err *err) {
    pd_fail(&f->err, err ? err->code : PD_EPROTO, "%s",
            err ? err->msg : "the node ended the transfer");
    f->over = 1;
    count(f, f->of, f->have, 0);
    f->all->n_done += f->complete || f->res.missing;
    f->done(f->arg, &f->res, f->complete || f->res.missing ? NULL : &f->err);
    if (!f->busy)
        release(f);
}

/* The node's answer is the last of this request. */
static void say_end(struct package_fetch *f) {
    f->ended = 1;
    link_send(f->l, WIRE_DS_END, f->req, json_object(), NULL, 0);
}

static void next_turn(struct package_fetch *f);

static void on_turn(uv_work_t *work, int status) {
    struct package_fetch *f = work->data;
    f->busy = 0;
    count(f, f->of, f->w.totals.have + f->w.totals.here_left,
          f->over                      ? 0
          : f->w.err.code || f->root_n ? f->due
          : f->of > f->w.totals.have   ? f->of - f->w.totals.have
                                       : 0);
    if (f->over) {
        if (f->w.complete) /* nobody knows of it: the folder may be fetched again */
            pd_rm_tree(f->w.target, NULL);
        release(f);
        return;
    }
    pd_err_copy(&f->err, &f->w.err);
    f->complete = f->w.complete;
    if (status)
        pd_fail(&f->err, PD_ECANCELED, "fetching was cancelled");
    /* After a new root, these objects are no longer those of the node's folder. */
    if (f->w.n_need && !f->err.code && !f->root_n)
        link_send(f->l, WIRE_DS_NEED, f->req,
                  wire_put(&wire_ds_need, &(struct ds_need){.round = f->round}), f->w.need,
                  f->w.n_need * OBJECT_ID);
    if (f->err.code || f->complete)
        say_end(f);
    else
        next_turn(f);
}

static void next_turn(struct package_fetch *f) {
    struct pd_buf empty = f->w.records;
    if (f->busy || f->ended || !f->active || !(f->root_n || f->in.len || f->w.more))
        return;
    pd_buf_clear(&empty);
    f->w.records = f->in;
    f->in = empty;
    memcpy(f->w.root, f->root, f->w.root_n = f->root_n);
    f->w.due = f->all->due - f->due;
    f->root_n = 0;
    int rc = uv_queue_work(f->loop, &f->work, run_turn, on_turn);
    f->busy = !rc;
    if (rc) {
        pd_fail(&f->err, PD_EFAIL, "cannot start a thread: %s", uv_strerror(rc));
        say_end(f);
    }
}

static void start_waiting(struct package_fetches *all) {
    while (all->waiting && all->n_active < PACKAGE_FETCHES) {
        struct package_fetch *f = all->waiting;
        all->waiting = f->next;
        all->n_active++;
        f->active = 1;
        next_turn(f);
    }
}

static void take_root(struct package_fetch *f, const struct wire_frame *frame,
                      const struct ag_fetch_answer *m) {
    struct manifest_node root;
    if (m->round != ++f->round || f->round > ROUNDS_MAX)
        pd_fail(&f->err, PD_EPROTO, "the node sent a folder out of order");
    if (m->skipped)
        pd_fmt(f->res.skipped, sizeof f->res.skipped,
               "%lld entr%s could not travel, the first: %.200s", (long long)m->skipped,
               m->skipped == 1 ? "y" : "ies", m->first_skipped);
    memcpy(f->root, frame->sec[1], f->root_n = frame->len[1]);
    if (!manifest_read_root(&root, f->root, f->root_n, NULL)) /* else the turn reports it */
        count(f, root.data_bytes, f->have, root.data_bytes);
    if (f->round == 1) {
        struct package_fetch **p = &f->all->waiting;
        while (*p)
            p = &(*p)->next;
        *p = f;
        start_waiting(f->all);
    }
}

static int on_frame(struct link *l, const struct wire_frame *frame, json_t *body,
                    const struct pd_err *err, void *arg) {
    struct package_fetch *f = arg;
    size_t n = frame && frame->n_sec > 1 ? frame->len[1] : 0;
    struct ag_fetch_answer m = {.missing = 0};
    (void)l;
    if (!err && frame->type == WIRE_AG_FETCH)
        (void)wire_get(&wire_ag_fetch_answer, &m, body, &f->err);
    f->res.missing = !f->round && m.missing;
    if (err || f->res.missing || frame->type == WIRE_DS_END) {
        finish(f, err);
        return 1;
    }
    if (f->ended)
        return 0;
    if (frame->type == WIRE_AG_FETCH && n && n <= MANIFEST_ROOT_MAX && !f->err.code)
        take_root(f, frame, &m);
    else if (frame->type == WIRE_DS_OBJECT && f->round) {
        f->res.bytes += n;
        f->all->arrived += n;
        pd_put(&f->in, frame->sec[1], n);
        if (f->in.failed)
            pd_oom(&f->err, "objects that arrive");
        else if (f->in.len > UNREAD)
            pd_fail(&f->err, PD_EPROTO, "the node sends more than was asked for");
    }
    if (!f->err.code)
        next_turn(f);
    else if (!f->busy)
        say_end(f);
    return 0;
}

int package_fetches_init(struct package_fetches *all, const char *store, const char *aside,
                         const char *into, struct pd_err *err) {
    *all = (struct package_fetches){.n_active = 0};
    if (!realpath(into, all->into)) /* nothing was fetched before */
        *all->into = 0;
    return realpath(store, all->store) && realpath(aside, all->aside)
               ? 0
               : pd_fail(err, PD_EIO, "cannot find %.600s", aside);
}

/* A subfolder arrives at the same place below the node's folder. */
static int go_below(struct package_fetch *f, char target[PATH_MAX], const char *only) {
    const size_t n = strlen(target);
    return only &&
           (pd_mkdirs(target, 0755, &f->err) || pd_fmt(target + n, PATH_MAX - n, "/%s", only));
}

int package_fetch(struct package_fetches *all, struct link *l, uv_loop_t *loop, const char *dir,
                  const char *only, int node, package_fetch_done done, void *arg) {
    struct package_fetch *f = pd_calloc(1, sizeof *f);
    int logs = !strcmp(dir, "log");
    if (!f)
        return PD_ENOMEM;
    *f = (struct package_fetch){
        .all = all, .l = l, .loop = loop, .res.dir = dir, .done = done, .arg = arg};
    f->work.data = f;
    f->w.store = all->store;
    pd_buf_init(&f->in);
    pd_buf_init(&f->w.records);
    if (!pd_fmt(f->w.target, sizeof f->w.target, "%s/%snode-%d", all->aside, logs ? "logs/" : "",
                node) &&
        !go_below(f, f->w.target, only) &&
        !pd_fmt(f->w.suffix, sizeof f->w.suffix, "%s%d", ".node-", node) &&
        !(*all->into && (logs ? pd_fmt(f->w.old, sizeof f->w.old, "%s/log/node-%d", all->into, node)
                              : pd_fmt(f->w.old, sizeof f->w.old, "%s%s%s", all->into,
                                       only ? "/" : "", only ? only : ""))) &&
        (f->req = link_expect(l, WIRE_AG_FETCH, PATIENCE_MS, "fetching outputs", on_frame, f))) {
        link_send(
            l, WIRE_AG_FETCH, f->req,
            wire_put(&wire_ag_fetch, &(struct ag_fetch){.dir = dir, .only = only ? only : ""}),
            NULL, 0);
        return 0;
    }
    free(f);
    return PD_EIO;
}
