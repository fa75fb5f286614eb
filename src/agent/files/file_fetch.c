/* SPDX-License-Identifier: Apache-2.0 */
/* file_fetch.c - see file_fetch.h: the head's answers, clients' messages, start and end of the
 * service. file_want.c has the wanted files, file_known.c the known files and holders. */
#include "agent/files/file_fetch_internal.h"
#include "agent/core/msg.h"
#include "wire/msg.h"

enum { TICK_MS = 250 };

struct file_serve *file_fetch_server(const struct file_fetch *d) {
    return d->serve;
}

/* --- on the head: requests of nodes --- */

static int path_of(const struct wire_frame *f, char path[PATH_MAX]) {
    const size_t n = f->n_sec > 1 ? f->len[1] : 0;
    if (!n || n >= PATH_MAX)
        return 0;
    memcpy(path, f->sec[1], n);
    path[n] = 0;
    return 1;
}

int file_on_asked(struct file_fetch *d, int node, const struct wire_frame *f, json_t **body,
                  struct object_id *id, struct pd_err *err) {
    char path[PATH_MAX];
    if (!path_of(f, path))
        return 1;
    if (f->type == WIRE_HD_FILE_HERE) {
        if (d->list)
            file_index_note(d->list, path, node);
        file_copies_here(d);
        return 1;
    }
    if (f->type == WIRE_HD_FILE_COPY) {
        file_copies_refused(d, node, path);
        return 1;
    }
    *body = file_holders_of(d, node, path, id, err);
    return *body ? 0 : err->code;
}

void file_on_copy(struct file_fetch *d, const struct wire_frame *f) {
    char path[PATH_MAX];
    if (path_of(f, path))
        file_want_copy(d, path);
}

int file_has_list(const struct file_fetch *d) { return file_index_is_whole(d->list); }

int file_fetch_channel(struct file_fetch *d, struct pd_err *err) {
    return file_asks_open(d->asks, err);
}

/* --- clients --- */

static struct file_fetch *fetch_of(const struct client *c) {
    struct file_fetch *const *slot = client_context(c, &file_fetch_service);
    return slot && *slot && !(*slot)->closing ? *slot : NULL;
}

static struct file_fetch *must_have(const struct client *c, struct pd_err *err) {
    struct file_fetch *d = fetch_of(c);
    if (!d)
        pd_fail(err, PD_EPROTO, "this job has no data files apart");
    return d;
}

static int on_list(struct client *c, const struct wire_frame *f, const json_t *body,
                   struct pd_err *err) {
    struct file_fetch *d = must_have(c, err);
    struct ag_data_list m;
    if (!d || wire_get(&wire_ag_data_list, &m, body, err))
        return err->code;
    if (f->n_sec < 2)
        return pd_fail(err, PD_EPROTO, "AG_DATA_LIST has no rows");
    if (!d->list && !(d->list = file_index_new()))
        return pd_oom(err, "the data files of a job");
    if (!m.first) { /* its rows are those of an earlier list */
        file_copies_free(d->copies);
        d->copies = NULL;
    }
    int rc = file_index_take(d->list, (uint64_t)m.first, (uint64_t)m.of, f->sec[1], f->len[1], err);
    if (rc)
        return rc;
    const struct ag_data_list_answer a = {.next = (int64_t)file_index_n(d->list)};
    return client_answer(c, f, wire_put(&wire_ag_data_list_answer, &a), err);
}

static int on_feed(struct client *c, const struct wire_frame *f, const json_t *body,
                   struct pd_err *err) {
    struct file_fetch *d = must_have(c, err);
    struct file_feeder *its = client_state(c, &file_fetch_service);
    (void)f;
    (void)body;
    if (!d)
        return err->code;
    if (!its->client) {
        *its = (struct file_feeder){d->feeders, c};
        d->feeders = its;
    }
    return 0;
}

static int on_fed(struct client *c, const struct wire_frame *f, const json_t *body,
                  struct pd_err *err) {
    struct file_fetch *d = fetch_of(c);
    (void)err;
    if (d)
        file_want_fed(d, c, f, body);
    return 0; /* a late answer is ignored */
}

static void on_client_gone(struct client *c) {
    struct file_fetch *const *slot = client_context(c, &file_fetch_service);
    const struct file_feeder *its = client_state(c, &file_fetch_service);
    if (!its->client)
        return;
    struct file_feeder **at = &(*slot)->feeders;
    while (*at != its)
        at = &(*at)->next;
    *at = its->next;
    file_want_client_gone(*slot, c);
}

static const struct client_request requests[] = {
    {WIRE_AG_DATA_LIST, 1, 1, on_list, NULL},
    {WIRE_AG_DATA_FEED, 1, 0, on_feed, NULL},
    {WIRE_DF_FILE, 1, 1, on_fed, NULL},
    {WIRE_DF_DATA, 1, 1, on_fed, NULL},
    {0},
};

const struct client_service file_fetch_service = {.name = "data files",
                                                  .requests = requests,
                                                  .state_size = sizeof(struct file_feeder),
                                                  .on_close = on_client_gone};

/* --- start and end --- */

static void on_tick(uv_timer_t *t) {
    struct file_fetch *d = t->data;
    file_want_tick(d);
    file_serve_tick(d->serve);
    file_copies_tick(d);
}

int file_fetch_new(struct file_fetch **out, const struct file_fetch_opts *o, struct pd_err *err) {
    struct file_fetch *d = pd_calloc(1, sizeof *d);
    if (!d)
        return pd_oom(err, "the data files of a job");
    d->o = *o;
    d->wanted_end = &d->wanted;
    d->where_ms = FILE_HOLDERS_MS;
    d->copy_rate = FILE_COPY_RATE;
    int rc = file_asks_new(&d->asks, d, file_want, file_forget_channel, err);
    rc = rc ? rc : file_serve_new(&d->serve, d, err); /* last: a thread of the loop uses it */
    if (rc) {
        file_asks_free(d->asks);
        free(d);
        return rc;
    }
    uv_timer_init(&o->core->loop, &d->tick);
    d->tick.data = d;
    uv_timer_start(&d->tick, on_tick, TICK_MS, TICK_MS);
    *out = d;
    return 0;
}

void file_fetch_close(struct file_fetch *d) {
    if (!d || d->closing)
        return;
    d->closing = 1;
    file_want_end(d);
    file_asks_close(d->asks);
    uv_close((uv_handle_t *)&d->tick, NULL);
}

void file_fetch_free(struct file_fetch *d) {
    if (!d)
        return;
    file_known_release(d);
    file_copies_free(d->copies);
    file_index_free(d->list);
    file_serve_free(d->serve);
    file_asks_free(d->asks);
    free(d);
}
