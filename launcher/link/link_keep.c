/* SPDX-License-Identifier: Apache-2.0 */
/* link_keep.c - a link that is kept: heartbeat, detection of a silent agent, and rejoining the job
 * after a loss.
 *
 *   OPEN ── lost, or silent for two periods ──▶ LOST ── 100 ms .. 1 s ──▶ CONNECT .. HELLO ──▶ OPEN
 *                                                ▲                            │
 *                                                └────────── failed ◀─────────┘
 *
 * If the host acknowledges what is sent, only its agent is silent: the host is busy, and a log-in
 * would take even longer. Then a connection counts as lost after three periods. Two are left for
 * the log-in.
 *
 * The agent's lease decides: the agent ends the job when no frame has reached it for a lease. It
 * counts from the last frame, so an attempt under way at the end of the lease gets one more period.
 */
#include <sodium.h>

#include "launcher/link/link_internal.h"

enum { BACKOFF_MIN_MS = 100, BACKOFF_MAX_MS = 1000, TRY_MIN_MS = 300, PERIODS = 5, BEATS = 2 };
enum { SILENT_PERIODS = 2, BUSY_PERIODS = 3 };

static uint64_t period_ms(const struct link *l) { return l->keep.lease_ms / PERIODS; }

/* Record the reasons in order, equal ones once. Of too many the last stays. */
static void add_reason(struct link *l, const struct pd_err *why) {
    char text[sizeof l->keep.reasons[0]];
    int i = l->keep.tries ? 1 : 0;
    static const char lost[] =
        "the connection was lost: "; /* prefix that the message already has */
    snprintf(text, sizeof text, "%.199s",
             why->msg + (pd_starts_with(why->msg, lost) ? strlen(lost) : 0));
    while (i < LINK_REASONS - 1 && l->keep.reasons[i][0] && strcmp(l->keep.reasons[i], text))
        i++;
    memcpy(l->keep.reasons[i], text, sizeof text);
}

/* "the connection was lost at 13:04:05 (reason) and not made again in 5.2 s: reason; reason".
 * Without counts: hosts that are lost together have one text. */
static void give_up_text(const struct link *l, struct pd_err *out) {
    char when[16] = "?", text[sizeof out->msg];
    struct tm tm;
    time_t at = (time_t)l->keep.lost_at;
    if (localtime_r(&at, &tm))
        strftime(when, sizeof when, "%H:%M:%S", &tm);
    snprintf(text, sizeof text, "the connection was lost at %s (%s) and not made again in %.1f s",
             when, l->keep.reasons[0], (double)(uv_now(l->env->loop) - l->keep.heard_ms) / 1000);
    for (int i = 1; i < LINK_REASONS && l->keep.reasons[i][0]; i++) {
        size_t n = strlen(text);
        snprintf(text + n, sizeof text - n, "%s%s", i == 1 ? ": " : "; ", l->keep.reasons[i]);
    }
    pd_err_clear(out);
    pd_fail(out, PD_ECLOSED, "%s", text);
}

/* Errors that another attempt would meet again: no such job, an impossible configuration. */
static int is_final(int code) {
    return code == PD_ENOENT || code == PD_ECONF || code == PD_ENOMEM || code == PD_EPROTO;
}

static void wait_for_retry(struct link *l) {
    unsigned range = BACKOFF_MIN_MS << (l->keep.tries < 4 ? l->keep.tries : 4);
    if (range > BACKOFF_MAX_MS)
        range = BACKOFF_MAX_MS;
    link_enter(l, PHASE_LOST, range / 2 + randombytes_uniform(range / 2 + 1));
}

static void begin_lost(struct link *l, const struct pd_err *why) {
    struct pd_err gone = {0};
    l->keep.lost = 1;
    l->keep.gave_up = 0;
    l->keep.tries = 0;
    l->keep.lost_at = time(NULL);
    memset(l->keep.reasons, 0, sizeof l->keep.reasons);
    add_reason(l, why);
    l->drain = NULL;
    l->phase = PHASE_LOST;
    pd_fail(&gone, PD_ECLOSED, "%s", why->msg);
    link_fail_requests(l, &gone);
    if (l->ev->on_lost && l->phase == PHASE_LOST)
        l->ev->on_lost(l, why, l->arg);
}

int link_lost(struct link *l, struct pd_err *why, enum link_phase was) {
    int cut = l->keep.cut;
    l->keep.cut = 0;
    if (!l->keep.lease_ms || l->own_close || launch_has_ended(l->env->launch))
        return 0;
    if (!l->keep.lost) {
        if (was != PHASE_OPEN || (l->why.code && !cut))
            return 0; /* the link broke for a reason that is not the network's */
        pd_err_clear(&l->why);
        begin_lost(l, why);
        if (l->phase ==
            PHASE_CLOSED) /* a callback closed the link: on_close comes from the timer */
            return 1;
    } else {
        pd_err_clear(&l->why);
        /* cut off by the end of the lease: recorded only if no other attempt failed */
        if (!l->keep.gave_up || !l->keep.reasons[1][0])
            add_reason(l, why);
        if (is_final(why->code)) {
            char text[sizeof why->msg], lease[120] = "";
            if (why->code == PD_ENOENT) /* paddlectl was stopped, for example */
                pd_fmt(lease, sizeof lease,
                       "; its agent ends when paddlectl is silent for %g s (attach_lease)",
                       (double)l->keep.lease_ms / 1000);
            snprintf(text, sizeof text, "%s, and then: %.600s%s", l->keep.reasons[0], why->msg,
                     lease);
            pd_err_clear(why);
            pd_fail(why, PD_EHOST, "%s", text);
            return 0;
        }
        if (l->keep.gave_up) {
            give_up_text(l, why);
            return 0;
        }
    }
    wait_for_retry(l);
    return 1;
}

void link_retry(struct link *l) {
    struct pd_err err = {0};
    l->keep.tries++;
    l->keep.try_ms = uv_now(l->env->loop);
    if (!link_connect(l, 0, &err))
        return;
    l->t = NULL;
    link_finish(l, &err);
}

void link_is_back(struct link *l) {
    struct pd_err gone = {0};
    l->keep.heard_ms = uv_now(l->env->loop);
    if (!l->keep.lost)
        return;
    l->keep.lost = 0;
    pd_fail(&gone, PD_ECLOSED, "the connection was lost");
    link_fail_requests(l, &gone); /* requests made during the loss: never sent */
}

void link_ping(struct link *l) {
    const struct ag_ping m = {.owner = l->env->shows ? l->env->owner : "",
                              .claim = l->keep.claims,
                              .sent_ns = (int64_t)pd_mono_ns(),
                              .holder = l->env->holder};
    link_send(l, WIRE_AG_PING, 0, wire_put(&wire_ag_ping, &m), NULL, 0);
}

void link_claim(struct link *l, int claims) {
    const int begins = claims && !l->keep.claims;
    l->keep.claims = claims;
    if (begins)
        link_ping(l);
}

static void close_silent(struct link *l, const char *why) {
    l->keep.cut = 1;
    pd_fail(&l->why, PD_ECLOSED, "%s", why);
    transport_close(l->t);
}

static int host_is_alive(const struct link *l) {
    return l->host->local || transport_is_acknowledged(l->t);
}

/* `late`: this process stood still, and a ping is overdue on the first beat after it. */
static void beat_open(struct link *l, uint64_t now, int late) {
    char why[100];
    l->keep.n_beats++;
    /* a package is being sent, and the pings wait behind it */
    if (l->drain)
        l->keep.heard_ms = now;
    const uint64_t silent = now - l->keep.heard_ms;
    if (l->keep.answers_pings && silent > SILENT_PERIODS * period_ms(l) &&
        (silent > BUSY_PERIODS * period_ms(l) || !host_is_alive(l))) {
        pd_fmt(why, sizeof why, "nothing was heard for %.3g s", (double)silent / 1000);
        close_silent(l, why);
    } else if (late || l->keep.n_beats % BEATS == 0) {
        link_ping(l);
    }
}

static void beat_lost(struct link *l, uint64_t now) {
    struct pd_err gone = {0};
    char why[120];
    uint64_t limit = 4 * l->keep.opened_ms;
    if (limit < l->keep.lease_ms / 4)
        limit = l->keep.lease_ms / 4;
    if (limit < TRY_MIN_MS)
        limit = TRY_MIN_MS;
    int over = now - l->keep.heard_ms >= l->keep.lease_ms + period_ms(l),
        slow = now - l->keep.try_ms >= limit;
    l->keep.gave_up = over;
    if (over && !l->t) {
        give_up_text(l, &gone);
        link_finish(l, &gone);
    } else if (!l->keep.cut && l->t && (over || (slow && l->phase == PHASE_CONNECT))) {
        pd_fmt(why, sizeof why, "no answer in %.3g s while %s",
               (double)(now - l->keep.try_ms) / 1000, link_doing(l, l->phase));
        close_silent(l, why);
    } else {
        pd_fail(&gone, PD_ECLOSED, "the connection is lost");
        link_fail_requests(l, &gone);
    }
}

static void on_beat(uv_timer_t *t) {
    struct link *l = t->data;
    uint64_t now = uv_now(l->env->loop), every = period_ms(l) / BEATS;
    int late = now - l->keep.beat_ms > 2 * every;
    l->keep.beat_ms = now;
    if (l->phase == PHASE_CLOSED || !l->keep.lease_ms)
        return;
    /* this process stood still; the agent's bytes may still wait to be read */
    if (late && !l->keep.lost)
        l->keep.heard_ms = now;
    if (l->keep.lost)
        beat_lost(l, now);
    else if (l->phase == PHASE_OPEN && !l->keep.cut && !l->own_close)
        beat_open(l, now, late);
}

void link_keep(struct link *l, uint64_t lease_ms) {
    uint64_t now = uv_now(l->env->loop), every = lease_ms / PERIODS / BEATS;
    if (l->phase == PHASE_CLOSED)
        return;
    l->keep.lease_ms = lease_ms;
    l->keep.heard_ms = l->keep.beat_ms = now;
    uv_timer_start(&l->beat, on_beat, every, every);
    /* silence means something only if the agent has answered a ping before */
    link_ping(l);
}
