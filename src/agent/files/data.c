/* data.c - data files apart, after the job has begun: what came here, node 0's answers, the client's messages, beginning and end. What is
 * wanted here: data_want.c. See data.h. */
#include <stdlib.h>
#include <string.h>

#include "agent/files/data_int.h"
#include "agent/core/msg.h"
#include "base/clock.h"
#include "base/fault.h"
#include "math/hash.h"
#include "wire/msg.h"

enum { TICK_MS = 250, CAME_PIECES = 1 << 20 };

struct came {
    uint64_t hash;
    char *path;
    struct file_pieces f;
};

const struct data_opts *data_opts(const struct data *d) { return &d->o; }
struct data_serve *data_server(const struct data *d) { return d->serve; }

/* --- files that came ------------------------------------------------------------------------------------------------ */

static uint64_t hash_of(const char *path) {
    uint64_t h = 0;
    for (; *path; path++)
        h = pd_mix64(h ^ (unsigned char)*path) + 1;
    return h;
}

const struct file_pieces *data_came(const struct data *d, const char *path) {
    uint64_t h = hash_of(path);
    for (size_t i = 0; i < d->n_came; i++)
        if (d->came[i].hash == h && !strcmp(d->came[i].path, path))
            return &d->came[i].f;
    return NULL;
}

/* So that others can have it from here: what does not fit is only not served. */
static void remember(struct data *d, const char *path, struct file_pieces *f) {
    if (data_came(d, path) || d->n_pieces + f->n > CAME_PIECES)
        return;
    if (d->n_came == d->cap_came) {
        size_t cap = d->cap_came ? 2 * d->cap_came : 64;
        struct came *v = pd_realloc(d->came, cap * sizeof *v);
        if (!v)
            return;
        d->came = v;
        d->cap_came = cap;
    }
    char *copy = pd_strdup(path);
    if (!copy)
        return;
    d->came[d->n_came++] = (struct came){hash_of(path), copy, *f};
    d->n_pieces += f->n;
    *f = (struct file_pieces){0};
}

void data_came_here(struct data *d, const char *path, struct file_pieces *pieces) {
    remember(d, path, pieces);
    if (d->o.spec->node)
        d->o.io->ask_head(d->o.arg, WIRE_HD_FILE_HERE, 0, path, strlen(path));
    else if (d->list)
        data_list_note(d->list, path, 0);
}

/* --- on node 0: who has it -------------------------------------------------------------------------------------------- */

json_t *data_holders_of(struct data *d, int asker, const char *path, struct object_id *id, struct pd_err *err) {
    const struct roles *roles = &d->o.spec->roles; /* as the job began: the files were sent then */
    struct data_holders h;
    int32_t node[DATA_RANKS + 64];
    char text[300];
    size_t n = 0;
    if (!d->list || !data_list_find(d->list, path, &h)) {
        pd_fail(err, PD_ENOENT, "%s is none of the data files that were sent with this job", data_shown(path, text));
        return NULL;
    }
    for (int k = 0; k < DATA_RANKS; k++)
        if (h.rank[k] >= 0 && h.rank[k] < roles->n[ROLE_TRAINER])
            node[n++] = roles->nodes[ROLE_TRAINER][h.rank[k]];
    for (size_t i = 0; i < h.n_nodes && n < sizeof node / sizeof node[0]; i++)
        node[n++] = h.node[i];
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) {
        int it = node[(i + (size_t)asker) % n]; /* askers begin with different ones */
        if (it != asker)
            json_array_append_new(list, d->o.io->peer(d->o.arg, it));
    }
    *id = h.id;
    json_t *body = json_pack("{s:o}", "holders", list);
    if (!body)
        pd_fail(err, PD_ENOMEM, "out of memory");
    return body;
}

int data_on_asked(struct data *d, int node, const struct wire_frame *f, json_t **body, struct object_id *id, struct pd_err *err) {
    char path[PATH_MAX];
    size_t n = f->n_sec > 1 ? f->len[1] : 0;
    if (!n || n >= sizeof path)
        return 1;
    memcpy(path, f->sec[1], n);
    path[n] = 0;
    if (f->type == WIRE_HD_FILE_HERE) {
        if (d->list)
            data_list_note(d->list, path, node);
        return 1;
    }
    *body = data_holders_of(d, node, path, id, err);
    return *body ? 0 : err->code;
}

int data_channel(struct data *d, struct pd_err *err) { return data_asks_open(d->asks, err); }

/* --- clients --------------------------------------------------------------------------------------------------------- */

static struct data *data_of(const struct client *c) {
    struct data *const *slot = client_context(c, &data_service);
    return slot && *slot && !(*slot)->closing ? *slot : NULL;
}

static struct data *must_have(const struct client *c, struct pd_err *err) {
    struct data *d = data_of(c);
    if (!d)
        pd_fail(err, PD_EPROTO, "this job has no data files apart");
    return d;
}

static int on_list(struct client *c, const struct wire_frame *f, const json_t *body, struct pd_err *err) {
    struct data *d = must_have(c, err);
    if (!d)
        return err->code;
    if (d->o.spec->node || f->n_sec < 2)
        return pd_fail(err, PD_EPROTO, "AG_DATA_LIST goes to node 0, and has rows");
    if (!d->list && !(d->list = data_list_new()))
        return pd_fail(err, PD_ENOMEM, "out of memory");
    int rc = data_list_take(d->list, (uint64_t)msg_int(body, "first", 0, INT64_MAX, 0), (uint64_t)msg_int(body, "of", 0, INT64_MAX, 0), f->sec[1],
                            f->len[1], err);
    return rc ? rc : client_answer(c, f, json_pack("{s:I}", "next", (json_int_t)data_list_n(d->list)), err);
}

static int on_feed(struct client *c, const struct wire_frame *f, const json_t *body, struct pd_err *err) {
    struct data *d = must_have(c, err);
    struct data_feeder *its = client_state(c, &data_service);
    (void)f;
    (void)body;
    if (!d)
        return err->code;
    if (!its->client) {
        *its = (struct data_feeder){d->feeders, c};
        d->feeders = its;
    }
    return 0;
}

static int on_fed(struct client *c, const struct wire_frame *f, const json_t *body, struct pd_err *err) {
    struct data *d = data_of(c);
    (void)err;
    if (d)
        wanted_fed(d, c, f, body);
    return 0; /* or it is not waited for any more */
}

static void on_client_gone(struct client *c) {
    struct data *const *slot = client_context(c, &data_service);
    const struct data_feeder *its = client_state(c, &data_service);
    if (!its->client)
        return;
    struct data_feeder **at = &(*slot)->feeders;
    while (*at != its)
        at = &(*at)->next;
    *at = its->next;
    wanted_client_gone(*slot, c);
}

static const struct client_request requests[] = {
    {WIRE_AG_DATA_LIST, 1, 1, on_list, NULL},
    {WIRE_AG_DATA_FEED, 1, 0, on_feed, NULL},
    {WIRE_DF_FILE, 1, 1, on_fed, NULL},
    {WIRE_DF_DATA, 1, 1, on_fed, NULL},
    {0},
};

const struct client_service data_service = {.name = "data files", .requests = requests, .state_size = sizeof(struct data_feeder),
                                            .on_close = on_client_gone};

/* --- the whole --------------------------------------------------------------------------------------------------------- */

static void on_tick(uv_timer_t *t) {
    struct data *d = t->data;
    wanted_tick(d);
    data_serve_tick(d->serve);
}

int data_new(struct data **out, const struct data_opts *o, struct pd_err *err) {
    struct data *d = pd_calloc(1, sizeof *d);
    if (!d)
        return pd_fail(err, PD_ENOMEM, "out of memory");
    d->o = *o;
    d->wanted_end = &d->wanted;
    d->where_ms = DATA_WHERE_MS;
    int rc = data_serve_new(&d->serve, d, err);
    rc = rc ? rc : data_asks_new(&d->asks, d, err);
    if (rc) {
        data_serve_free(d->serve);
        data_asks_free(d->asks);
        free(d);
        return rc;
    }
    uv_timer_init(&o->core->loop, &d->tick);
    d->tick.data = d;
    uv_timer_start(&d->tick, on_tick, TICK_MS, TICK_MS);
    *out = d;
    return 0;
}

void data_close(struct data *d) {
    if (!d || d->closing)
        return;
    d->closing = 1;
    wanted_end(d);
    data_asks_close(d->asks);
    uv_close((uv_handle_t *)&d->tick, NULL);
}

void data_free(struct data *d) {
    if (!d)
        return;
    for (size_t i = 0; i < d->n_came; i++) {
        free(d->came[i].path);
        file_pieces_release(&d->came[i].f);
    }
    free(d->came);
    data_list_free(d->list);
    data_serve_free(d->serve);
    data_asks_free(d->asks);
    free(d);
}
