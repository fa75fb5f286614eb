/* data.c - data files apart, after the job has begun: what came here, node 0's answers, the client's messages, beginning and end. What is
 * wanted here: data_want.c. See data.h. */
#include <stdlib.h>
#include <string.h>

#include "agent/data_int.h"
#include "agent/msg.h"
#include "agent/session.h"
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

struct job *data_job(const struct data *d) { return d->j; }
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
    if (d->j->spec.node)
        link_ask_head(d->j->link, WIRE_HD_FILE_HERE, 0, path, strlen(path));
    else if (d->list)
        data_list_note(d->list, path, 0);
}

/* --- on node 0: who has it -------------------------------------------------------------------------------------------- */

json_t *data_holders_of(struct data *d, int asker, const char *path, struct object_id *id) {
    const struct job *j = d->j;
    struct data_holders h;
    int32_t node[DATA_RANKS + 64];
    size_t n = 0;
    if (!d->list || !j->head || !data_list_find(d->list, path, &h))
        return NULL;
    for (int k = 0; k < DATA_RANKS; k++)
        if (h.rank[k] >= 0 && h.rank[k] < j->spec.roles.n[ROLE_TRAINER]) /* ranks as the job began: the files were sent then */
            node[n++] = j->spec.roles.nodes[ROLE_TRAINER][h.rank[k]];
    for (size_t i = 0; i < h.n_nodes && n < sizeof node / sizeof node[0]; i++)
        node[n++] = h.node[i];
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) {
        int it = node[(i + (size_t)asker) % n]; /* askers begin with different ones */
        const json_t *peer = json_array_get(j->peers, (size_t)it);
        if (it != asker)
            json_array_append_new(list, json_pack("{s:i, s:O?, s:o, s:O?, s:b}", "node", it, "name", json_object_get(peer, "name"), "addrs",
                                                  head_addrs(j->head, it), "port", json_object_get(peer, "port"), "lost", !head_has(j->head, it)));
    }
    *id = h.id;
    return json_pack("{s:o}", "holders", list);
}

/* A node's HD_FILE or HD_FILE_HERE, on node 0. */
void data_on_asked(struct data *d, int node, struct net_conn *c, const struct wire_frame *f) {
    char path[PATH_MAX], text[300];
    struct object_id id;
    struct pd_err err = {0};
    size_t n = f->n_sec > 1 ? f->len[1] : 0;
    if (!n || n >= sizeof path)
        return;
    memcpy(path, f->sec[1], n);
    path[n] = 0;
    if (f->type == WIRE_HD_FILE_HERE) {
        if (d->list)
            data_list_note(d->list, path, node);
        return;
    }
    json_t *body = data_holders_of(d, node, path, &id);
    if (body) {
        msg_send_with(c, f->type, f->req, body, id.b, OBJECT_ID);
        return;
    }
    pd_fail(&err, PD_ENOENT, "%s is none of the data files that were sent with this job", data_shown(path, text));
    net_send_error(c, f->type, f->req, &err);
}

int data_channel(struct data *d, struct pd_err *err) { return data_asks_open(d->asks, err); }

/* --- clients --------------------------------------------------------------------------------------------------------- */

static struct data *data_of(const struct session *s, struct pd_err *err) {
    struct job *j = s->ag->job;
    if (j && !j->quitting && j->data)
        return j->data;
    pd_fail(err, PD_EPROTO, "this job has no data files apart");
    return NULL;
}

int data_on_list(struct session *s, const struct wire_frame *f, const json_t *body, struct pd_err *err) {
    struct data *d = data_of(s, err);
    if (!d)
        return err->code;
    if (d->j->spec.node || f->n_sec < 2)
        return pd_fail(err, PD_EPROTO, "AG_DATA_LIST goes to node 0, and has rows");
    if (!d->list && !(d->list = data_list_new()))
        return pd_fail(err, PD_ENOMEM, "out of memory");
    int rc = data_list_take(d->list, (uint64_t)msg_int(body, "first", 0, INT64_MAX, 0), (uint64_t)msg_int(body, "of", 0, INT64_MAX, 0), f->sec[1],
                            f->len[1], err);
    json_int_t next = (json_int_t)data_list_n(d->list);
    return rc ? rc : msg_send(s->conn, f->type, f->req, json_pack("{s:I}", "next", next)) ? pd_fail(err, PD_ENOMEM, "out of memory") : 0;
}

int data_on_feed(struct session *s, const struct wire_frame *f, const json_t *body, struct pd_err *err) {
    (void)f;
    (void)body;
    if (!data_of(s, err))
        return err->code;
    s->feeds = 1;
    return 0;
}

/* --- the whole --------------------------------------------------------------------------------------------------------- */

static void on_tick(uv_timer_t *t) {
    struct data *d = t->data;
    wanted_tick(d);
    data_serve_tick(d->serve);
}

int data_new(struct data **out, struct job *j, struct pd_err *err) {
    struct data *d = pd_calloc(1, sizeof *d);
    if (!d)
        return pd_fail(err, PD_ENOMEM, "out of memory");
    d->j = j;
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
    uv_timer_init(&j->ag->loop, &d->tick);
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
