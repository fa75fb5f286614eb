/* data.c - data files that are wanted here and are not here: who asks for them, who is asked for them, in turn. See data.h.
 *
 *     queued ─▶ where (HD_FILE) ─▶ pulling, from one holder after the other, then from the launcher ─▶ here
 *       ▲                            └▶ nobody gave it: pausing ─▶ where ... ROUNDS times ─▶ failed
 *       └ AT_ONCE at a time, those that somebody waits for first */
#include "agent/data.h"

#include <stdlib.h>
#include <string.h>

#include "agent/msg.h"
#include "agent/session.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/hash.h"
#include "wire/msg.h"

enum { AT_ONCE = 4, AHEAD_MAX = 64, ROUNDS = 3, PAUSE_MS = 1000, WHERE_MS = 5000, TICK_MS = 250, CAME_PIECES = 1 << 20 };

struct waiter {
    struct waiter *next;
    struct data_channel *c;
    uint32_t id;
};

enum fetch_state { QUEUED, WHERE, PULLING, PAUSING };

struct fetch {
    struct fetch *next;
    struct data *d;
    char *path;
    struct waiter *waiters;
    enum fetch_state state;
    uint64_t since_ns, number; /* in this state; of the request or pull under way */
    int round;
    struct object_id id;
    json_t *holders;           /* of HD_FILE's answer */
    size_t next_holder;
    int asked_client;
    struct session *client;    /* that the pull takes it from; else NULL */
    char source[200];
    struct data_pull *pull;
    struct pd_buf tried;       /* who failed, and why: text */
};

struct came {
    uint64_t hash;
    char *path;
    struct file_pieces f;
};

struct data {
    struct job *j;
    struct data_list *list; /* node 0 */
    struct data_serve *serve;
    struct data_asks *asks;
    struct fetch *fetches, **fetches_end;
    uint64_t next_number;
    struct came *came;
    size_t n_came, cap_came, n_pieces;
    uv_timer_t tick;
    int closing;
};

static void start_some(struct data *d);
static void try_next(struct fetch *x);

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

/* --- what is wanted ---------------------------------------------------------------------------------------------------- */

static void over(struct fetch *x, const struct pd_err *err) {
    struct data *d = x->d;
    char text[300];
    if (err)
        pd_warn(&d->j->ag->log, "%s", err->msg);
    else if (*x->source)
        pd_info(&d->j->ag->log, "data file %s came from %s", data_shown(x->path, text), x->source);
    struct fetch **at = &d->fetches;
    while (*at != x)
        at = &(*at)->next;
    *at = x->next;
    if (!x->next)
        d->fetches_end = at;
    while (x->waiters) {
        struct waiter *w = x->waiters;
        x->waiters = w->next;
        data_answer(w->c, w->id, err);
        free(w);
    }
    json_decref(x->holders);
    pd_buf_release(&x->tried);
    free(x->path);
    free(x);
    start_some(d);
}

void data_forget(struct data *d, const struct data_channel *c) {
    for (struct fetch *x = d->fetches; x; x = x->next)
        for (struct waiter **w = &x->waiters; *w;) {
            struct waiter *gone = *w;
            if (gone->c != c) {
                w = &gone->next;
                continue;
            }
            *w = gone->next;
            free(gone);
        }
}

static struct fetch *fetch_of(struct data *d, const char *path) {
    struct fetch *x = d->fetches;
    while (x && strcmp(x->path, path))
        x = x->next;
    return x;
}

static struct fetch *new_fetch(struct data *d, const char *path) {
    struct fetch *x = pd_calloc(1, sizeof *x);
    if (!x || !(x->path = pd_strdup(path))) {
        free(x);
        return NULL;
    }
    x->d = d;
    pd_buf_init(&x->tried);
    *d->fetches_end = x;
    d->fetches_end = &x->next;
    return x;
}

void data_want(struct data *d, struct data_channel *c, uint32_t id, const char *path) {
    unsigned n = 0;
    for (const struct fetch *x = d->fetches; x; x = x->next)
        n++;
    if (!data_path_ok(path)) {
        if (id)
            data_answer(c, id, &(struct pd_err){PD_EDATA, "that is no path in the workspace"});
        return;
    }
    if (data_is_here(d->j->ag->place.dir, path)) {
        if (id)
            data_answer(c, id, NULL);
        return;
    }
    struct fetch *x = fetch_of(d, path);
    if (!x && !id && n >= AHEAD_MAX)
        return;
    struct waiter *w = id ? pd_calloc(1, sizeof *w) : NULL;
    if ((id && !w) || (!x && !(x = new_fetch(d, path)))) {
        free(w);
        if (id)
            data_answer(c, id, &(struct pd_err){PD_ENOMEM, "out of memory"});
        return;
    }
    if (w) {
        *w = (struct waiter){x->waiters, c, id};
        x->waiters = w;
    }
    start_some(d);
}

/* --- who has it ------------------------------------------------------------------------------------------------------ */

static void enter(struct fetch *x, enum fetch_state state) {
    x->state = state;
    x->since_ns = pd_mono_ns();
}

static void note_failure(struct fetch *x, const char *who, const char *why) {
    pd_put_fmt(&x->tried, "%s%s: %s", x->tried.len ? "; " : "", who, why);
}

static void give_up(struct fetch *x) {
    struct pd_err err = {0};
    char text[300];
    if (++x->round < ROUNDS && !x->d->closing) {
        enter(x, PAUSING);
        return;
    }
    pd_put_u8(&x->tried, 0);
    pd_fail(&err, PD_EFAIL, "data file %s is not on node %d, and nobody gave it: %s", data_shown(x->path, text), x->d->j->spec.node,
            x->tried.failed ? "" : (const char *)x->tried.data);
    over(x, &err);
}

/* {holders: [{node, name, addrs, port}]} for node `asker`; NULL: no such file. */
static json_t *holders_of(struct data *d, int asker, const char *path, struct object_id *id) {
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
    json_t *body = holders_of(d, node, path, &id);
    if (body) {
        msg_send_with(c, f->type, f->req, body, id.b, OBJECT_ID);
        return;
    }
    pd_fail(&err, PD_ENOENT, "%s is none of the data files that were sent with this job", data_shown(path, text));
    net_send_error(c, f->type, f->req, &err);
}

static void take_holders(struct fetch *x, json_t *body, const uint8_t *id) {
    json_decref(x->holders);
    x->holders = json_incref(json_object_get(body, "holders"));
    memcpy(x->id.b, id, OBJECT_ID);
    x->next_holder = 0;
    x->asked_client = 0;
    enter(x, PULLING);
    try_next(x);
}

void data_on_where(struct data *d, const struct wire_frame *f) {
    struct fetch *x = d->fetches;
    struct pd_err err = {0};
    json_t *body = NULL;
    while (x && !(x->state == WHERE && x->number == f->req))
        x = x->next;
    if (!x)
        return;
    if (f->flags & WIRE_F_ERROR)
        msg_error(f, &err);
    else if (!msg_body(f, &body, &err) && (f->n_sec < 2 || f->len[1] != OBJECT_ID))
        pd_fail(&err, PD_EPROTO, "node 0's answer about a data file is damaged");
    if (err.code)
        over(x, &err);
    else
        take_holders(x, body, f->sec[1]);
    json_decref(body);
}

static void ask_where(struct fetch *x) {
    struct data *d = x->d;
    char text[300];
    struct object_id id;
    struct pd_err err = {0};
    x->number = ++d->next_number;
    enter(x, WHERE);
    pd_buf_clear(&x->tried); /* the last round tells why */
    if (d->j->spec.node) {
        link_ask_head(d->j->link, WIRE_HD_FILE, x->number, x->path, strlen(x->path)); /* again after WHERE_MS, should it be lost */
        return;
    }
    json_t *body = holders_of(d, 0, x->path, &id);
    if (body) {
        take_holders(x, body, id.b);
        json_decref(body);
        return;
    }
    pd_fail(&err, PD_ENOENT, "%s is none of the data files that were sent with this job", data_shown(x->path, text));
    over(x, &err);
}

/* --- taking it --------------------------------------------------------------------------------------------------------- */

static void on_pulled(void *arg, struct file_pieces *pieces, const struct pd_err *err) {
    struct fetch *x = arg;
    struct data *d = x->d;
    x->pull = NULL;
    x->client = NULL;
    if (err) {
        note_failure(x, x->source, err->msg);
        try_next(x);
        return;
    }
    remember(d, x->path, pieces);
    if (d->j->spec.node)
        link_ask_head(d->j->link, WIRE_HD_FILE_HERE, 0, x->path, strlen(x->path));
    else if (d->list)
        data_list_note(d->list, x->path, 0);
    over(x, NULL);
}

static struct session *feeder(const struct data *d) {
    struct session *s = d->j->ag->sessions;
    while (s && !(s->conn && s->feeds))
        s = s->next;
    return s;
}

/* The next one that may have it; none is left: this round is over. */
static void try_next(struct fetch *x) {
    struct data *d = x->d;
    while (!x->pull && !d->closing) {
        struct pd_err err = {0};
        struct data_source_of from = {0};
        if (x->next_holder < json_array_size(x->holders)) {
            const json_t *h = json_array_get(x->holders, x->next_holder++);
            from.addrs = json_object_get(h, "addrs");
            from.port = (int)msg_int(h, "port", 1, 65535, 1);
            snprintf(x->source, sizeof x->source, "node %d (%.150s)", (int)msg_int(h, "node", 0, SPEC_MAX_NODES, 0), msg_str(h, "name"));
            if (msg_bool(h, "lost")) {
                note_failure(x, x->source, "it is lost");
                continue;
            }
        } else if (!x->asked_client) {
            x->asked_client = 1;
            snprintf(x->source, sizeof x->source, "the launcher");
            if (!(from.s = feeder(d))) {
                note_failure(x, x->source, "it is not connected to this node, or does not have the package");
                continue;
            }
        } else {
            give_up(x);
            return;
        }
        x->number = ++d->next_number;
        if (data_pull_new(&x->pull, d, x->path, &x->id, &from, x->number, on_pulled, x, &err)) {
            x->pull = NULL;
            note_failure(x, x->source, err.msg);
        } else {
            x->client = from.s;
        }
    }
}

static void start_some(struct data *d) {
    for (;;) {
        unsigned active = 0;
        struct fetch *best = NULL;
        for (struct fetch *x = d->fetches; x; x = x->next) {
            active += x->state == WHERE || x->state == PULLING;
            if (x->state == QUEUED && (!best || (x->waiters && !best->waiters)))
                best = x;
        }
        if (!best || active >= AT_ONCE || d->closing)
            return;
        ask_where(best);
    }
}

static void on_tick(uv_timer_t *t) {
    struct data *d = t->data;
    uint64_t now = pd_mono_ns();
    for (struct fetch *x = d->fetches, *next; x; x = next) {
        uint64_t ms = (now - x->since_ns) / 1000000u;
        next = x->next;
        if (x->state == PAUSING && ms >= PAUSE_MS * (unsigned)x->round) {
            x->state = QUEUED;
        } else if (x->state == WHERE && ms >= WHERE_MS) {
            note_failure(x, "node 0", "it does not answer");
            give_up(x);
            break; /* the list may have changed */
        }
    }
    data_serve_tick(d->serve);
    start_some(d);
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

static struct fetch *fed_by(const struct session *s, uint64_t number) {
    const struct job *j = s->ag->job;
    struct fetch *x = j && j->data ? j->data->fetches : NULL;
    while (x && !(x->client == s && x->number == number))
        x = x->next;
    return x;
}

int data_on_fed(struct session *s, const struct wire_frame *f, const json_t *body, struct pd_err *err) {
    struct fetch *x = fed_by(s, f->req);
    struct pd_err why = {0};
    (void)err;
    if (x && *msg_str(body, "error")) {
        pd_fail(&why, PD_EDATA, "%.600s", msg_str(body, "error"));
        data_pull_fail(x->pull, &why);
    } else if (x && f->n_sec > 1) {
        data_pull_frame(x->pull, f->type, f->sec[1], f->len[1]);
    }
    return 0; /* or it is not waited for any more */
}

void data_session_gone(struct session *s) {
    const struct pd_err gone = {PD_ECLOSED, "its connection was lost"};
    struct job *j = s->ag->job;
    s->feeds = 0;
    for (struct fetch *x = j && j->data ? j->data->fetches : NULL; x;) {
        int its = x->client == s;
        if (its)
            data_pull_fail(x->pull, &gone);
        x = its ? j->data->fetches : x->next; /* the list may have changed */
    }
}

/* --- the whole --------------------------------------------------------------------------------------------------------- */

int data_new(struct data **out, struct job *j, struct pd_err *err) {
    struct data *d = pd_calloc(1, sizeof *d);
    if (!d)
        return pd_fail(err, PD_ENOMEM, "out of memory");
    d->j = j;
    d->fetches_end = &d->fetches;
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
    while (d->fetches) {
        if (d->fetches->pull)
            data_pull_drop(d->fetches->pull);
        over(d->fetches, &(struct pd_err){PD_ECANCELED, "the job is ending"});
    }
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
