/* SPDX-License-Identifier: Apache-2.0 */
/* server_answers.c - what a shard tells its trainers goes to their connections: answers, failures,
 * and whether a trainer takes its answers too slowly. */
#include "ps/server/server_internal.h"

enum { UNREAD_MAX = 64 << 20, HOLD_MOST = 16 << 10 };

static struct trainer_conn *connected_peer(struct server_thread *t, uint32_t trainer) {
    if (t->current && t->current->trainer == trainer)
        return t->current; /* also during its declaration */
    return t->seats[trainer].peer;
}

static void shard_answers(void *arg, uint32_t trainer, uint16_t type, uint64_t req,
                          const struct iovec *sec, uint32_t n_sec, void (*release)(void *),
                          void *release_arg) {
    struct server_thread *t = arg;
    struct trainer_conn *p = connected_peer(t, trainer);
    struct net_sec s[WIRE_SECTIONS];
    if (!p || p->refused) {
        if (release)
            release(release_arg);
        return;
    }
    size_t bytes = 0;
    for (uint32_t i = 0; i < n_sec; i++) {
        s[i] = (struct net_sec){sec[i].iov_base, sec[i].iov_len};
        bytes += sec[i].iov_len;
        t->sent += sec[i].iov_len + wire_pad(sec[i].iov_len);
    }
    t->sent += WIRE_HEADER;
    /* net itself holds the answers to the connection whose frame is being handled. Small answers to
     * other connections are held here, so that the sums of a step are sent together with its
     * values. */
    const int hold = p != t->current && bytes < HOLD_MOST;
    if (hold) {
        net_hold(p->conn, 1);
        t->holds = 1;
    }
    net_send(p->conn, type, 0, req, s, n_sec, release, release_arg);
    if (!hold && p != t->current)
        net_hold(p->conn, 0);
}

void server_send_held(uv_prepare_t *h) {
    struct server_thread *t = h->data;
    for (struct trainer_conn *p = t->holds ? t->peers : NULL; p; p = p->next)
        net_hold(p->conn, 0);
    t->holds = 0;
}

static void shard_fails(void *arg, uint32_t trainer, uint16_t type, uint64_t req,
                        const struct pd_err *why) {
    struct trainer_conn *p = connected_peer(arg, trainer);
    if (p && !p->refused)
        net_send_error(p->conn, type, req, why);
}

/* Backpressure: once UNREAD_MAX bytes of answers are queued for a trainer and it sends another
 * pull, stop reading from it until the queue is empty. So a trainer costs at most UNREAD_MAX bytes
 * and one answer. Pushes are read as long as it does not pull. */
static int shard_is_congested(void *arg, uint32_t trainer) {
    struct trainer_conn *p = connected_peer(arg, trainer);
    if (!p || p->refused || net_queued_bytes(p->conn) <= UNREAD_MAX)
        return 0;
    p->choked = 1;
    net_pause(p->conn);
    return 1;
}

const struct ps_shard_ops server_shard_ops = {.answer = shard_answers,
                                              .fail = shard_fails,
                                              .congested = shard_is_congested,
                                              .save = server_save};
