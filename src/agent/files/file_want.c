/* SPDX-License-Identifier: Apache-2.0 */
/* file_want.c - wanted data files that are not on this node: their waiting trainers, and the
 * sources that are tried in turn. See file_fetch.h.
 *
 *     queued ─▶ where (HD_FILE) ─▶ pulling: from each holder in turn, then the launcher ─▶ here
 *       ▲                            └▶ all failed: pausing ─▶ where ... ROUNDS times ─▶ failed
 *       └ at most AT_ONCE at a time; files that a trainer waits for come first
 *
 * The head wants a copy of a file here (HD_FILE_COPY): the same, at a limited pace, and a failure
 * is told to the head. The limit ends if a trainer waits for the file.
 *
 * The sources of all rounds share one pull, so each goes on where the one before failed. */
#include "agent/files/file_fetch_internal.h"
#include "agent/core/msg.h"
#include "wire/msg.h"

enum { AT_ONCE = 4, AHEAD_MAX = 64, ROUNDS = 3, PAUSE_MS = 1000 };

struct waiter {
    struct waiter *next;
    struct file_channel *c;
    uint32_t id;
};

enum wanted_state { QUEUED, WHERE, PULLING, PAUSING };

struct wanted_file {
    struct wanted_file *next;
    struct file_fetch *d;
    char *path;
    struct waiter *waiters;
    enum wanted_state state;
    uint64_t since_ns, number; /* start of this state; number of its request or pull */
    int round;
    int is_copy; /* the head wants it here */
    struct object_id id;
    json_t *holders; /* from HD_FILE's answer */
    size_t next_holder;
    int asked_client;
    struct client *client; /* the client that the pull uses; NULL: a node, or no pull */
    char source[200];
    struct file_pull *pull; /* of the file `id`; NULL: no source was tried yet */
    struct pd_buf tried;    /* text: the sources that failed, and their errors */
};

static void start_some(struct file_fetch *d);
static void try_next(struct wanted_file *x);

/* --- wanted files --- */

static void drop_pull(struct wanted_file *x) {
    if (x->pull)
        file_pull_drop(x->pull);
    x->pull = NULL;
    x->client = NULL;
}

static void finish_wanted(struct wanted_file *x, const struct pd_err *err) {
    struct file_fetch *d = x->d;
    char text[300];
    drop_pull(x);
    if (err)
        pd_warn(&d->o.core->log, "%s", err->msg);
    else if (*x->source && !x->is_copy)
        pd_info(&d->o.core->log, "data file %s came from %s", file_shown_path(x->path, text),
                x->source);
    struct wanted_file **at = &d->wanted;
    while (*at != x)
        at = &(*at)->next;
    *at = x->next;
    if (!x->next)
        d->wanted_end = at;
    while (x->waiters) {
        struct waiter *w = x->waiters;
        x->waiters = w->next;
        file_answer(w->c, w->id, err);
        free(w);
    }
    if (x->is_copy && err && !d->closing)
        file_refuse_copy(d, x->path);
    json_decref(x->holders);
    pd_buf_release(&x->tried);
    free(x->path);
    free(x);
    start_some(d);
}

void file_forget_channel(struct file_fetch *d, const struct file_channel *c) {
    for (struct wanted_file *x = d->wanted; x; x = x->next)
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

static struct wanted_file *wanted_of(struct file_fetch *d, const char *path) {
    struct wanted_file *x = d->wanted;
    while (x && strcmp(x->path, path))
        x = x->next;
    return x;
}

static struct wanted_file *new_wanted(struct file_fetch *d, const char *path) {
    struct wanted_file *x = pd_calloc(1, sizeof *x);
    if (!x || !(x->path = pd_strdup(path))) {
        free(x);
        return NULL;
    }
    x->d = d;
    pd_buf_init(&x->tried);
    *d->wanted_end = x;
    d->wanted_end = &x->next;
    return x;
}

void file_want(struct file_fetch *d, struct file_channel *c, uint32_t id, const char *path) {
    unsigned n = 0;
    for (const struct wanted_file *x = d->wanted; x; x = x->next)
        n++;
    if (!file_path_ok(path)) {
        if (id)
            file_answer(
                c, id,
                &(struct pd_err){.code = PD_EDATA, .msg = "that is no path in the workspace"});
        return;
    }
    if (file_is_here(d->o.core->paths.dir, path)) {
        if (id)
            file_answer(c, id, NULL);
        return;
    }
    struct wanted_file *x = wanted_of(d, path);
    if (!x && !id && n >= AHEAD_MAX)
        return;
    struct waiter *w = id ? pd_calloc(1, sizeof *w) : NULL;
    if ((id && !w) || (!x && !(x = new_wanted(d, path)))) {
        free(w);
        if (id)
            file_answer(c, id, &(struct pd_err){.code = PD_ENOMEM, .msg = "out of memory"});
        return;
    }
    if (w) {
        *w = (struct waiter){x->waiters, c, id};
        x->waiters = w;
        if (x->pull)
            file_pull_pace(x->pull, 0);
    }
    start_some(d);
}

void file_want_copy(struct file_fetch *d, const char *path) {
    struct wanted_file *x = file_path_ok(path) ? wanted_of(d, path) : NULL;
    if (!file_path_ok(path) || d->closing)
        return;
    if (file_is_here(d->o.core->paths.dir, path)) {
        file_announce_one(d, path);
        return;
    }
    if (!x && !(x = new_wanted(d, path))) {
        file_refuse_copy(d, path);
        return;
    }
    x->is_copy = 1;
    start_some(d);
}

/* --- finding the holders --- */

static void enter(struct wanted_file *x, enum wanted_state state) {
    x->state = state;
    x->since_ns = pd_mono_ns();
}

static void note_failure(struct wanted_file *x, const char *who, const char *why) {
    pd_put_fmt(&x->tried, "%s%s: %s", x->tried.len ? "; " : "", who, why);
}

static void give_up(struct wanted_file *x) {
    struct pd_err err = {0};
    char text[300];
    if (++x->round < ROUNDS && !x->d->closing) {
        enter(x, PAUSING);
        return;
    }
    pd_put_u8(&x->tried, 0);
    pd_fail(&err, PD_EFAIL, "data file %s is not on node %d, and no source sent it: %s",
            file_shown_path(x->path, text), x->d->o.spec->node,
            x->tried.failed ? "" : (const char *)x->tried.data);
    finish_wanted(x, &err);
}

static void take_holders(struct wanted_file *x, const json_t *body, const uint8_t *id) {
    struct hd_file_answer m;
    struct pd_err err = {0};
    if (wire_get(&wire_hd_file_answer, &m, body, &err)) {
        finish_wanted(x, &err);
        return;
    }
    json_decref(x->holders);
    x->holders = json_incref(m.holders);
    if (memcmp(x->id.b, id, OBJECT_ID)) /* what came belongs to another file */
        drop_pull(x);
    memcpy(x->id.b, id, OBJECT_ID);
    x->next_holder = 0;
    x->asked_client = 0;
    enter(x, PULLING);
    try_next(x);
}

void file_on_holders(struct file_fetch *d, const struct wire_frame *f, const json_t *body,
                     const struct pd_err *refused) {
    struct wanted_file *x = d->wanted;
    struct pd_err err = {0};
    while (x && !(x->state == WHERE && x->number == f->req))
        x = x->next;
    if (!x)
        return;
    if (refused) {
        finish_wanted(x, refused);
    } else if (f->n_sec < 2 || f->len[1] != OBJECT_ID) {
        pd_fail(&err, PD_EPROTO, "the head's answer about a data file is damaged");
        finish_wanted(x, &err);
    } else {
        take_holders(x, body, f->sec[1]);
    }
}

static void ask_where(struct wanted_file *x) {
    struct file_fetch *d = x->d;
    struct object_id id;
    struct pd_err err = {0};
    x->number = ++d->next_number;
    enter(x, WHERE);
    pd_buf_clear(&x->tried); /* only the last round's failures are reported */
    if (!d->o.io->is_head(d->o.arg)) {
        d->o.io->ask_head(d->o.arg, WIRE_HD_FILE, x->number, x->path,
                          strlen(x->path)); /* if the request is lost, where_ms ends the wait */
        return;
    }
    json_t *body = file_holders_of(d, d->o.spec->node, x->path, &id, &err);
    if (body)
        take_holders(x, body, id.b);
    else
        finish_wanted(x, &err);
    json_decref(body);
}

/* --- pulling --- */

static void on_pulled(void *arg, struct file_pieces *pieces, const struct pd_err *err) {
    struct wanted_file *x = arg;
    struct file_fetch *d = x->d;
    x->client = NULL;
    if (err) {
        note_failure(x, x->source, err->msg);
        try_next(x);
        return;
    }
    x->pull = NULL; /* it ends itself */
    file_note_came(d, x->path, pieces);
    finish_wanted(x, NULL);
}

/* 0: the pull from this source has begun. */
static int pull_from(struct wanted_file *x, const struct file_source *from, struct pd_err *err) {
    struct file_fetch *d = x->d;
    char text[300];
    x->number = ++d->next_number;
    int rc =
        x->pull ? 0 : file_pull_new(&x->pull, d, x->path, &x->id, x->number, on_pulled, x, err);
    if (!rc)
        rc = file_pull_from(x->pull, from, x->number, err);
    if (rc)
        return rc;
    file_pull_pace(x->pull, x->is_copy && !x->waiters ? d->copy_rate : 0);
    x->client = from->client;
    if (file_pull_bytes(x->pull))
        pd_info(&d->o.core->log, "data file %s: %llu bytes have come, %s is asked for the others",
                file_shown_path(x->path, text), (unsigned long long)file_pull_bytes(x->pull),
                x->source);
    return 0;
}

/* The next source in *from and x->source. 1: there is one; 0: it cannot be asked; -1: there are no
 * more. */
static int next_source(struct wanted_file *x, struct file_source *from) {
    struct file_holder h;
    struct pd_err err = {0};
    if (x->next_holder < json_array_size(x->holders)) {
        if (wire_get(&wire_file_holder, &h, json_array_get(x->holders, x->next_holder++), &err)) {
            note_failure(x, "the head", err.msg);
            return 0;
        }
        *from = (struct file_source){.addrs = h.addrs, .port = (int)h.port};
        snprintf(x->source, sizeof x->source, "node %d (%.150s)", (int)h.node, h.name);
        if (h.lost)
            note_failure(x, x->source, "it is lost");
        return !h.lost;
    }
    if (x->asked_client)
        return -1;
    x->asked_client = 1;
    snprintf(x->source, sizeof x->source, "the launcher");
    if (!x->d->feeders) {
        note_failure(x, x->source,
                     "it is not connected to this node, or does not have the package");
        return 0;
    }
    *from = (struct file_source){.client = x->d->feeders->client};
    return 1;
}

/* Tries the next source. If none is left, this round is over. */
static void try_next(struct wanted_file *x) {
    while (!x->d->closing) {
        struct pd_err err = {0};
        struct file_source from = {0};
        const int is = next_source(x, &from);
        if (is < 0) {
            give_up(x);
            return;
        }
        if (is && !pull_from(x, &from, &err))
            return;
        if (is)
            note_failure(x, x->source, err.msg);
    }
}

/* 1: the connection to the head is broken. Wanted files wait; if the connection does not come back
 * in time, the lease ends the job. */
static int hears_nothing(const struct file_fetch *d) {
    return !d->o.io->is_head(d->o.arg) && !d->o.io->is_joined(d->o.arg);
}

static void start_some(struct file_fetch *d) {
    for (;;) {
        unsigned active = 0;
        struct wanted_file *best = NULL;
        for (struct wanted_file *x = d->wanted; x; x = x->next) {
            active += x->state == WHERE || x->state == PULLING;
            if (x->state == QUEUED && (!best || (x->waiters && !best->waiters)))
                best = x;
        }
        if (!best || active >= AT_ONCE || d->closing || hears_nothing(d))
            return;
        ask_where(best);
    }
}

void file_want_tick(struct file_fetch *d) {
    uint64_t now = pd_mono_ns();
    for (struct wanted_file *x = d->wanted, *next; x; x = next) {
        uint64_t ms = (now - x->since_ns) / 1000000u;
        next = x->next;
        if (x->state == PAUSING && ms >= PAUSE_MS * (unsigned)x->round) {
            x->state = QUEUED;
        } else if (x->state == WHERE && hears_nothing(d)) {
            x->state = QUEUED;
        } else if (x->state == WHERE && ms >= d->where_ms) {
            note_failure(x, "the head", "it does not answer");
            give_up(x);
            break; /* the list may have changed */
        }
    }
    start_some(d);
}

void file_want_end(struct file_fetch *d) {
    while (d->wanted)
        finish_wanted(d->wanted,
                      &(struct pd_err){.code = PD_ECANCELED, .msg = "the job is ending"});
}

/* --- from a client --- */

void file_want_fed(struct file_fetch *d, const struct client *c, const struct wire_frame *f,
                   const json_t *body) {
    struct wanted_file *x = d->wanted;
    struct pd_err why = {0};
    while (x && !(x->client == c && x->number == f->req))
        x = x->next;
    if (x && *msg_str(body, "error")) {
        pd_fail(&why, PD_EDATA, "%.600s", msg_str(body, "error"));
        file_pull_fail(x->pull, &why);
    } else if (x && f->n_sec > 1) {
        file_pull_frame(x->pull, f->type, f->sec[1], f->len[1]);
    }
}

void file_want_client_gone(struct file_fetch *d, const struct client *c) {
    const struct pd_err gone = {.code = PD_ECLOSED, .msg = "its connection was lost"};
    for (struct wanted_file *x = d->wanted; x;) {
        int its = x->client == c;
        if (its) {
            x->client = NULL;
            file_pull_fail(x->pull, &gone);
        }
        x = its ? d->wanted : x->next; /* the list may have changed */
    }
}
