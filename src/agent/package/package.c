/* SPDX-License-Identifier: Apache-2.0 */
/* package.c - a package: turns of work, the messages after them, start and end. See package.h. */
#include "agent/package/package.h"

#include <sodium.h>

#include "base/memory_use.h"
#include "pack/object/manifest.h"
#include "wire/msg.h"

/* Intervals between two DS_STATUS. They are short while the launcher judges a new source
 * (YOUNG_MS), or while the source is silent (STUCK_MS). They are long while few bytes are requested
 * (BULK), because each message costs an acknowledgement on the launcher's link. */
enum {
    TICK_MS = 100,
    YOUNG_MS = 1000,
    STUCK_MS = 500,
    STATUS_STUCK_MS = 200,
    STATUS_MS = 500,
    STATUS_CALM_MS = 1000,
    BULK = 1 << 20
};
const char *const package_kind_names[N_PACKAGE_KINDS] = {"worker", "deploy", "workspace", "data",
                                                         "resume"};
static const char *const state_names[] = {"waiting", "fetching", "finishing", "done", "failed"};

struct package *package_find(const struct client_packages *all, const struct object_id *root) {
    struct package *d = all->first;
    while (d && (d->dead || !object_same(&d->root_id, root)))
        d = d->next;
    return d;
}

/* --- messages to the client --- */

static uint64_t idle_ms(const struct package *d, uint64_t now) {
    return d->totals.asked && d->active_ns ? (now - d->active_ns) / 1000000 : 0;
}

static void say_status(struct package *d) {
    const struct assemble_totals *t = &d->totals;
    uint64_t now = pd_mono_ns();
    int peers = 0;
    for (const struct package_taker *k = d->takers; k; k = k->next)
        peers += k->conn != NULL;
    if (now - d->rate_ns >= TICK_MS * UINT64_C(900000)) {
        d->rate = (t->fetched - d->rate_bytes) * 1000 / ((now - d->rate_ns) / 1000000 + 1);
        d->rate_ns = now;
        d->rate_bytes = t->fetched;
    }
    d->said_ns = now;
    d->said_asked = t->asked;
    if (!d->dead)
        client_send(d->all->c, WIRE_DS_STATUS, d->req,
                    wire_put(&wire_ds_status, &(struct ds_status){
                                                  .state = state_names[d->state],
                                                  .have = (int64_t)t->have,
                                                  .of = (int64_t)t->bytes,
                                                  .here = (int64_t)t->here,
                                                  .here_left = (int64_t)t->here_left,
                                                  .rest = (int64_t)t->rest,
                                                  .fetched = (int64_t)t->fetched,
                                                  .rate = (int64_t)d->rate,
                                                  .asked = (int64_t)t->asked,
                                                  .source = d->source,
                                                  .reached = d->reached,
                                                  .why = d->why.msg,
                                                  .idle_ms = (int64_t)idle_ms(d, now),
                                                  .served = (int64_t)d->served,
                                                  .peers = peers,
                                              }));
}

static unsigned status_every_ms(const struct package *d, uint64_t now) {
    if (package_is_over(d) || (d->totals.asked < BULK && d->said_asked < BULK))
        return STATUS_CALM_MS;
    if (now - d->source_ns < YOUNG_MS * UINT64_C(1000000))
        return TICK_MS;
    return idle_ms(d, now) > STUCK_MS ? STATUS_STUCK_MS : STATUS_MS;
}

static void on_timer(uv_timer_t *t) {
    struct package *d = t->data;
    uint64_t now = pd_mono_ns();
    if ((!package_is_over(d) || d->takers) &&
        now - d->said_ns >=
            status_every_ms(d, now) * UINT64_C(1000000) - TICK_MS * UINT64_C(500000))
        say_status(d);
}

static void enter(struct package *d, enum package_state state) {
    if (d->state == state)
        return;
    d->state = state;
    if (package_is_over(d))
        say_status(d);
}

static void say_end(struct package *d) {
    if (d->failed.code)
        client_refuse(d->all->c, WIRE_DS_END, d->req, &d->failed);
    else
        client_send(d->all->c, WIRE_DS_END, d->req,
                    wire_put(&wire_ds_end, &(struct ds_end){
                                               .path = d->w.target,
                                               .entries = (int64_t)d->w.totals.entries,
                                               .bytes = (int64_t)d->w.totals.bytes,
                                               .fetched = (int64_t)d->w.totals.fetched,
                                               .peak = (int64_t)pd_peak_memory(),
                                           }));
}

/* --- the source --- */

static void on_reached(void *arg) {
    struct package *d = arg;
    d->reached = 1;
    d->active_ns = pd_mono_ns();
    pd_err_clear(&d->why);
    source_link_send(d->pull, WIRE_DS_PULL, d->root_id.b, OBJECT_ID);
    package_input(d, PACKAGE_IN_AGAIN, NULL, NULL, 0);
    say_status(d);
}

static void on_source_failed(void *arg, const struct pd_err *why) {
    struct package *d = arg;
    d->pull = NULL;
    d->reached = 0;
    d->why = *why;
    if (!package_is_over(d) && !d->dead) {
        pd_warn(&client_core(d->all->c)->log, "package %s: its source, node %d: %s",
                package_kind_names[d->w.kind], d->source, why->msg);
        say_status(d);
    }
}

static void ask(struct package *d) {
    const struct package_work *w = &d->w;
    if (!w->n_need || d->source == PACKAGE_NO_SOURCE)
        return;
    for (const struct package_input *in = d->inputs; in; in = in->next)
        if (in->what == PACKAGE_IN_AGAIN)
            return; /* the source has changed since this turn began: the next turn lists all missing
                       objects, including these */
    if (w->totals.asked && !d->active_ns)
        d->active_ns = pd_mono_ns();
    if (d->source != PACKAGE_LAUNCHER) {
        if (d->pull && d->reached) /* else on_reached asks again */
            source_link_send(d->pull, WIRE_DS_NEED, w->need, w->n_need * OBJECT_ID);
    } else {
        struct net_sec sec[2] = {{NULL, 0}, {w->need, w->n_need * OBJECT_ID}};
        client_send_raw(d->all->c, WIRE_DS_NEED, d->req, sec, 2);
    }
}

static void free_bytes(const struct package_input *in) {
    if (in->frame)
        wire_frame_free(in->frame);
    else
        free(in->p);
}

/* Takes the bytes of `what` over, also on failure. */
void package_put(struct package *d, const struct package_input *what) {
    struct package_input *in = d->dead ? NULL : pd_malloc(sizeof *in);
    if (!in) {
        free_bytes(what);
        if (!d->dead)
            package_fail(d, &(struct pd_err){.code = PD_ENOMEM, .msg = "out of memory"});
        return;
    }
    *in = *what;
    *d->inputs_end = in;
    d->inputs_end = &in->next;
    *(in->taker ? &in->taker->unread : &d->unread) += in->n + PACKAGE_INPUT;
    if (in->what == PACKAGE_IN_RECORDS)
        d->active_ns = pd_mono_ns();
    package_next_turn(d);
}

/* --- turns of work --- */

static void free_inputs(struct package_input *in) {
    for (struct package_input *next; in; in = next) {
        next = in->next;
        free_bytes(in);
        free(in);
    }
}

int package_may_wait(const struct package *d, const struct package_taker *t, size_t n) {
    return t ? t->unread + n + PACKAGE_INPUT <= PACKAGE_NEED_UNREAD
             : d->unread + n + PACKAGE_INPUT <= PACKAGE_UNREAD;
}

void package_input(struct package *d, enum package_what what, struct package_taker *t, uint8_t *p,
                   size_t n) {
    package_put(d, &(struct package_input){.what = what, .taker = t, .p = p, .n = n});
}

static int on_payload(void *arg, uint16_t type, uint8_t *p, size_t n, struct pd_err *err) {
    struct package *d = arg;
    int rc = 0;
    if (type != WIRE_DS_OBJECT)
        rc = pd_fail(err, PD_EPROTO, "a source does not send %s", wire_msg_name(type));
    else if (!package_may_wait(d, NULL, n))
        rc = pd_fail(err, PD_EPROTO, "it sends an object that was not requested");
    if (rc)
        free(p);
    else
        package_input(d, PACKAGE_IN_RECORDS, NULL, p, n);
    return rc;
}

static int link_source(struct package *d, const struct ds_source *m, const uint8_t *secret,
                       struct pd_err *err) {
    static const struct source_link_events ev = {on_reached, on_payload, on_source_failed};
    struct agent_core *core = client_core(d->all->c);
    const int node = agent_node_id(core);
    struct wire_hs_opts hs = {
        .self = {.role = WIRE_ROLE_AGENT, .id = node > 0 ? (uint32_t)node : 0},
        .plain = !m->encrypt};
    if (!json_array_size(m->addrs) || !m->port || !node_paths_name_ok(m->token))
        return pd_fail(err, PD_EPROTO, "DS_SOURCE: a node needs addrs, port and token");
    snprintf(hs.self.job, sizeof hs.self.job, "%s", m->token);
    memcpy(hs.key, secret, WIRE_KEY_BYTES);
    int rc = source_link_new(&d->pull, core, m->addrs, (int)m->port, &hs, &ev, d, err);
    sodium_memzero(&hs, sizeof hs);
    return rc;
}

void package_set_source(struct package *d, const struct ds_source *m, const uint8_t *secret) {
    struct pd_err why = {0};
    source_link_close(d->pull);
    d->pull = NULL;
    pd_err_clear(&d->why);
    d->source = secret ? (int)m->node : PACKAGE_LAUNCHER;
    d->reached = !secret;
    d->active_ns = 0;
    d->source_ns = pd_mono_ns();
    if (secret && link_source(d, m, secret, &why))
        on_source_failed(d, &why);
    if (d->state == PACKAGE_WAITING)
        enter(d, PACKAGE_FETCHING);
    package_input(d, PACKAGE_IN_AGAIN, NULL, NULL, 0);
}

static void package_free(struct package *d) {
    struct package **at = &d->all->first;
    while (*at != d)
        at = &(*at)->next;
    *at = d->next;
    free_inputs(d->inputs);
    free_inputs(d->w.inputs);
    package_work_release(&d->w);
    client_unref(d->all->c);
    free(d);
}

static void on_timer_closed(uv_handle_t *h) { package_free(h->data); }

static void run_turn(uv_work_t *r) {
    struct package *d = r->data;
    if (d->cleaning)
        package_work_end(&d->w);
    else
        package_work_turn(&d->w);
}

void package_forget_taker(struct package *d, const struct package_taker *t) {
    for (struct package_taker **at = &d->takers; *at; at = &(*at)->next)
        if (*at == t) {
            *at = t->next;
            break;
        }
    for (struct package_input **in = &d->inputs; *in;) { /* requests that came during the turn */
        struct package_input *x = *in;
        if (x->taker != t) {
            in = &x->next;
            continue;
        }
        *in = x->next;
        free_bytes(x);
        free(x);
    }
    d->inputs_end = &d->inputs;
    while (*d->inputs_end)
        d->inputs_end = &(*d->inputs_end)->next;
}

static void forget_gone_takers(struct package *d) {
    for (struct package_taker *t = d->takers, *next; t; t = next) {
        next = t->next;
        if (t->conn)
            continue;
        package_forget_taker(d, t);
        package_taker_gone(t);
    }
}

void package_settle(struct package *d) {
    if (!d->dead)
        say_status(d);
    else if (d->cleaned && !d->busy && !d->takers && !uv_is_closing((uv_handle_t *)&d->timer))
        uv_close((uv_handle_t *)&d->timer, on_timer_closed);
}

/* After a turn: enters the package's next state, if it is complete or has failed. */
static void take_outcome(struct package *d) {
    const struct pd_log *log = &client_core(d->all->c)->log;
    if (package_is_over(d))
        return;
    if (d->w.finished) {
        pd_info(log, "package %s: %llu entries, %llu bytes in %s; %llu bytes came",
                package_kind_names[d->w.kind], (unsigned long long)d->w.totals.entries,
                (unsigned long long)d->w.totals.bytes, d->w.target,
                (unsigned long long)d->w.totals.fetched);
        enter(d, PACKAGE_DONE);
    } else if (d->failed.code && d->w.a) {
        return; /* the next turn removes the tree; then the package enters PACKAGE_FAILED */
    } else if (d->w.err.code || d->failed.code) {
        pd_fail(&d->failed, d->w.err.code, "%s", d->w.err.msg);
        pd_warn(log, "package %s: %s", package_kind_names[d->w.kind], d->failed.msg);
        enter(d, PACKAGE_FAILED);
    } else {
        if (d->w.complete)
            enter(d, PACKAGE_FINISHING);
        return;
    }
    source_link_close(d->pull);
    d->pull = NULL;
    say_end(d);
}

/* Data files are moved to the place in their catalog when the job is set up, maybe by a later
 * client. Until then a lock keeps `clean` from removing the catalog as one without a tree. */
static void hold_data(struct package *d) {
    if (d->w.held > 0)
        kept_data_lock(d->all->kept, d->w.held);
    d->w.held = 0;
}

static void on_worked(uv_work_t *r, int status) {
    struct package *d = r->data;
    d->busy = 0;
    hold_data(d);
    const int found = d->w.totals.here && !d->totals.here;
    d->totals = d->w.totals;
    d->served = d->w.served;
    if (d->finishing) {
        client_work_end(d->all->c);
        d->finishing = 0;
    }
    free_inputs(d->w.inputs);
    d->w.inputs = NULL;
    if (status && !d->dead)
        pd_fail(&d->failed, PD_ECANCELED, "the agent is ending");
    for (size_t i = 0; i < d->w.n_takers; i++)
        package_taker_flush(d->w.takers[i]);
    forget_gone_takers(d);
    if (d->dead) {
        d->cleaned |= d->cleaning;
        package_next_turn(d);
        package_settle(d);
        return;
    }
    ask(d);
    if (found) /* progress counts it from the start */
        say_status(d);
    take_outcome(d);
    package_next_turn(d);
}

static int has_work(struct package *d) {
    const struct package_work *w = &d->w;
    int some = !w->begun || d->inputs || (w->more && !w->err.code) ||
               (d->state == PACKAGE_FINISHING && !w->finished) ||
               (d->failed.code && w->a && !w->finished);
    for (const struct package_taker *t = d->takers; t && !some; t = t->next)
        some =
            t->conn && t->n_ready && net_queued_bytes(t->conn) < PACKAGE_QUEUE / 2 && !t->err.code;
    return some;
}

/* Sets the takers of this turn, and the bytes that the turn may produce for each. */
static int hand_over_takers(struct package *d) {
    struct package_work *w = &d->w;
    size_t n = 0;
    if (!w->takers && !(w->takers = pd_calloc(PACKAGE_TAKERS, sizeof *w->takers)))
        return -1;
    for (struct package_taker *t = d->takers; t && n < PACKAGE_TAKERS; t = t->next) {
        size_t queued = t->conn ? net_queued_bytes(t->conn) : PACKAGE_QUEUE;
        t->unread = 0;
        t->room = queued < PACKAGE_QUEUE ? PACKAGE_QUEUE - queued : 0;
        w->takers[n++] = t;
    }
    w->n_takers = n;
    return 0;
}

/* Bytes that the client's other packages still write to the same disk. */
static uint64_t due_of_others(const struct package *d) {
    uint64_t due = 0;
    for (const struct package *o = d->all->first; o; o = o->next)
        if (o != d && !o->dead && !package_is_over(o) && o->bytes > o->totals.have)
            due += o->bytes - o->totals.have;
    return due;
}

void package_next_turn(struct package *d) {
    struct package_work *w = &d->w;
    if (d->busy || (d->dead ? d->cleaned : !has_work(d)))
        return;
    if (!d->dead && hand_over_takers(d)) {
        if (!package_is_over(d))
            pd_oom(&d->failed, "a package");
        if (!w->a || package_is_over(d)) {
            take_outcome(d);
            return;
        }
        w->n_takers = 0; /* this turn removes the tree */
    }
    w->inputs = d->inputs;
    d->inputs = NULL;
    d->inputs_end = &d->inputs;
    d->unread = 0;
    w->serves = d->all->serve != NULL;
    w->give_up = d->failed.code != 0;
    w->finish = d->state == PACKAGE_FINISHING && !w->finished;
    w->due = due_of_others(d);
    d->cleaning = d->dead;
    if (d->dead)
        w->n_takers = 0;
    d->work.data = d;
    if (uv_queue_work(&client_core(d->all->c)->loop, &d->work, run_turn, on_worked)) {
        if (d->dead) { /* no thread: clean up here */
            package_work_end(w);
            d->cleaned = 1;
        }
        return;
    }
    d->busy = 1;
    if (w->finish && !d->dead) {
        d->finishing = 1;
        client_work_begin(d->all->c);
    }
}

void package_fail(struct package *d, const struct pd_err *e) {
    if (package_is_over(d) || d->dead)
        return;
    pd_fail(&d->failed, e->code, "%s", e->msg);
    if (d->busy)
        return; /* the next turn handles the failure */
    if (d->w.a)
        package_next_turn(d);
    else
        take_outcome(d);
}

/* --- the beginning and the end --- */

void package_drop(struct package *d) {
    d->dead = 1;
    source_link_close(d->pull);
    d->pull = NULL;
    for (struct package_taker *t = d->takers; t; t = t->next)
        if (t->conn)
            net_abort(t->conn); /* a pserver asks for this port first */
    uv_timer_stop(&d->timer);
    package_next_turn(d);
    package_settle(d);
}

int package_start(struct package *d, struct pd_err *err) {
    struct client_packages *all = d->all;
    if (uv_timer_init(&client_core(all->c)->loop, &d->timer))
        return pd_oom(err, "a package");
    d->timer.data = d;
    d->rate_ns = d->said_ns = pd_mono_ns();
    d->next = all->first;
    all->first = d;
    client_ref(all->c);
    if (d->w.have) { /* the package may still be served: the first request opens the store */
        d->state = PACKAGE_DONE;
        d->w.finished = 1;
    }
    uv_timer_start(&d->timer, on_timer, TICK_MS, TICK_MS);
    return 0;
}
