/* SPDX-License-Identifier: Apache-2.0 */
/* seeding.c - see seeding.h. */
#include "launcher/link/seeding.h"

#include <arpa/inet.h>
#include <sodium.h>

#include "launcher/link/relay_plan.h"
#include "seed/seed.h"

enum {
    TICK_MS = 100,
    /* no chunk came for so long although the source has more: the source is bypassed */
    STUCK_MS = 4000,
    /* so long a seed with all chunks waits for hosts that are still logging in */
    HOLD_MS = 300,
    QUEUE = 4 * SEED_CHUNK,
};

enum seedling_state { COMING, TAKES, HAS_ALL, OVER };

struct seedling {
    struct seeding *s;
    int node;
    enum seedling_state state;
    void (*broken)(void *arg);
    void *arg;
    struct transport *t;
    uint32_t family, port; /* 4 or 6; 0: no host can take from it */
    uint8_t addr[16];
    uint32_t have, had; /* chunks now, and at the last tick */
    int from_here;
    uint32_t next; /* the next chunk to send from here */
    /* last time that `have` grew, the source changed, or the seed had all */
    uint64_t moved_ms;
};

struct seeding {
    uv_loop_t *loop;
    const struct agent_image *img;
    int n_nodes, n_here, n_coming, telling;
    uint32_t n_chunks;
    struct seedling **v;     /* indexed by node */
    int *n_takers;           /* indexed by node; scratch */
    struct relay_plan *plan; /* NULL: no seeds */
    uint8_t secret[32];
    uint64_t sent;
    uv_timer_t tick;
};

static uint64_t now(const struct seeding *s) { return uv_now(s->loop); }

/* --- records to a seed --- */

/* 0: sent. Otherwise the seedling may be gone. */
static int send_record(struct seedling *l, const struct seed_record *r, const void *body,
                       size_t n) {
    if (!transport_write(l->t, r, sizeof *r) && (!n || !transport_write(l->t, body, n))) {
        l->s->sent += sizeof *r + n;
        return 0;
    }
    l->broken(l->arg);
    return -1;
}

static void feed(struct seedling *l) {
    struct seeding *s = l->s;
    const struct agent_image *img = s->img;
    while (l->from_here && l->next < s->n_chunks && transport_queued(l->t) < QUEUE) {
        size_t at = (size_t)l->next * SEED_CHUNK,
               n = img->gzip_size - at < SEED_CHUNK ? img->gzip_size - at : SEED_CHUNK;
        struct seed_record r = {.op = SEED_OP_CHUNK, .a = l->next, .b = (uint32_t)n};
        l->next++;
        if (send_record(l, &r, img->gzip + at, n))
            return;
    }
}

static void send_source(struct seedling *l, int source) {
    const struct seedling *from = source >= 0 ? l->s->v[source] : NULL;
    struct seed_record r = {.op = SEED_OP_LAUNCHER};
    l->moved_ms = now(l->s);
    l->from_here = !from;
    l->next = l->have;
    if (from) {
        r = (struct seed_record){.op = SEED_OP_PEER, .a = from->family, .b = from->port};
        memcpy(r.addr, from->addr, sizeof r.addr);
    }
    if (!send_record(l, &r, NULL, 0))
        feed(l);
}

static void send_sources(struct seeding *s) {
    int node, source;
    if (s->telling)
        return;
    /* a seed that breaks meanwhile changes the plan; this loop sees the change */
    s->telling = 1;
    while (relay_plan_next(s->plan, &node, &source))
        if (s->v[node] && s->v[node]->state == TAKES)
            send_source(s->v[node], source);
    s->telling = 0;
}

static void dismiss(struct seedling *l) {
    struct seeding *s = l->s;
    enum seedling_state was = l->state;
    if (was == OVER)
        return;
    l->state = OVER;
    l->from_here = 0;
    s->v[l->node] = NULL;
    s->n_coming -= was == COMING;
    if (!--s->n_here)
        uv_timer_stop(&s->tick);
    if (was != COMING) {
        relay_plan_leave(s->plan, l->node, now(s));
        send_sources(s);
    }
}

/* Dismiss the seeds that have all and that no host takes from. One stays while hosts are coming
 * that could take from it. */
static void dismiss_idle(struct seeding *s) {
    int waits = 0;
    memset(s->n_takers, 0, (size_t)s->n_nodes * sizeof *s->n_takers);
    for (int i = 0; i < s->n_nodes; i++)
        if (s->v[i] && s->v[i]->state == TAKES && relay_plan_source(s->plan, i) >= 0)
            s->n_takers[relay_plan_source(s->plan, i)]++;
    for (int i = 0; i < s->n_nodes; i++) {
        struct seedling *l = s->v[i];
        struct seed_record r = {.op = SEED_OP_GO};
        if (!l || l->state != HAS_ALL || s->n_takers[i])
            continue;
        if (!waits && s->n_coming && l->port && now(s) - l->moved_ms < HOLD_MS) {
            waits = 1;
            continue;
        }
        if (!send_record(l, &r, NULL, 0))
            dismiss(l);
    }
}

/* --- records from a seed --- */

static int seed_begins(struct seedling *l, unsigned long port) {
    struct seeding *s = l->s;
    struct seed_record r = {.op = SEED_OP_INIT, .a = (uint32_t)s->img->gzip_size, .b = SEED_CHUNK};
    if (l->state != COMING || !l->t || port > 65535)
        return PD_EPROTO;
    l->port = l->family ? (uint32_t)port : 0;
    l->state = TAKES;
    l->moved_ms = now(s);
    s->n_coming--;
    memcpy(r.secret, s->secret, sizeof r.secret);
    int rc = send_record(l, &r, s->img->chunk_ids, (size_t)s->n_chunks * SEED_HASH);
    sodium_memzero(&r, sizeof r);
    if (!rc) {
        relay_plan_join(s->plan, l->node, 0, l->port != 0, now(s));
        send_sources(s);
    }
    return 0;
}

static int seed_grows(struct seedling *l, unsigned long have) {
    if (l->state != TAKES || have < l->have || have > l->s->n_chunks)
        return PD_EPROTO;
    l->have = (uint32_t)have;
    l->moved_ms = now(l->s);
    return 0;
}

static int seed_is_done(struct seedling *l) {
    if (l->state != TAKES)
        return PD_EPROTO;
    l->have = l->s->n_chunks;
    l->state = HAS_ALL;
    l->from_here = 0;
    l->moved_ms = now(l->s);
    relay_plan_done(l->s->plan, l->node);
    dismiss_idle(l->s);
    return 0;
}

/* The seed cannot take from its source. Its record does not name the source: if the source has just
 * changed, a good one is bypassed. */
static int source_is_lost(struct seedling *l) {
    struct seeding *s = l->s; /* telling may free the seedling */
    int source = relay_plan_source(s->plan, l->node);
    if (l->state == TAKES && source >= 0) {
        relay_plan_unreached(s->plan, l->node, source, now(s));
        send_sources(s);
        dismiss_idle(s);
    }
    return 0;
}

int seedling_message(struct seedling *l, const char *words, struct pd_err *err) {
    const char *number = strchr(words, ' ');
    char *end = NULL;
    unsigned long v = number ? strtoul(number + 1, &end, 10) : 0;
    int numbered = number && end != number + 1 && !*end, rc = PD_EPROTO;
    if (pd_starts_with(words, SEED_SAYS_PORT) && numbered)
        rc = seed_begins(l, v);
    else if (pd_starts_with(words, SEED_SAYS_HAVE) && numbered)
        rc = seed_grows(l, v);
    else if (!strcmp(words, SEED_SAYS_DONE))
        rc = seed_is_done(l);
    else if (pd_starts_with(words, SEED_SAYS_LOST))
        rc = source_is_lost(l);
    return rc ? pd_fail(err, rc, "the seed said '%.80s'", words) : 0;
}

void seedling_send(struct seedling *l) { feed(l); }

/* --- time --- */

static void on_tick(uv_timer_t *t) {
    struct seeding *s = t->data;
    for (int i = 0; i < s->n_nodes; i++) {
        struct seedling *l = s->v[i];
        if (!l || l->state != TAKES)
            continue;
        struct relay_plan_report r = {.have = (uint64_t)l->have * SEED_CHUNK,
                                      .of = (uint64_t)s->n_chunks * SEED_CHUNK,
                                      .asks = 1,
                                      .reached = l->have > l->had,
                                      .rate = (uint64_t)(l->have - l->had) * SEED_CHUNK * 1000 /
                                              TICK_MS};
        int source = relay_plan_source(s->plan, i);
        l->had = l->have;
        if (source >= 0 && now(s) - l->moved_ms > STUCK_MS && s->v[source] &&
            s->v[source]->have > l->have)
            relay_plan_unreached(s->plan, i, source, now(s));
        else
            relay_plan_status(s->plan, i, &r, now(s));
    }
    send_sources(s);
    dismiss_idle(s);
}

/* --- seedlings --- */

struct seedling *seedling_new(struct seeding *s, int node, void (*broken)(void *arg), void *arg) {
    struct seedling *l = s && s->plan && !s->v[node] ? pd_calloc(1, sizeof *l) : NULL;
    if (!l)
        return NULL;
    *l = (struct seedling){.s = s, .node = node, .broken = broken, .arg = arg};
    s->v[node] = l;
    s->n_coming++;
    if (!s->n_here++) {
        uv_timer_start(&s->tick, on_tick, TICK_MS, TICK_MS);
        uv_unref((uv_handle_t *)&s->tick);
    }
    return l;
}

void seedling_free(struct seedling *l) {
    if (l)
        dismiss(l);
    free(l);
}

/* "10.0.0.9 40122 10.0.0.1 22": the third word is the host's address on this connection. */
void seedling_begin(struct seedling *l, struct transport *t, const char *connection) {
    char addr[64];
    l->t = t;
    l->s->sent += l->s->img->seed_size;
    if (sscanf(connection, "%*63s %*15s %63s", addr) != 1)
        return;
    if (inet_pton(AF_INET, addr, l->addr) == 1)
        l->family = 4;
    /* an address of one network link ("fe80::1%eth0") means nothing to other hosts */
    else if (inet_pton(AF_INET6, addr, l->addr) == 1)
        l->family = 6;
}

/* --- all of them --- */

struct seeding *seeding_new(uv_loop_t *loop, const struct agent_image *img, int n_nodes,
                            int relay) {
    struct seeding *s = pd_calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->loop = loop;
    s->img = img;
    s->n_nodes = n_nodes;
    s->n_chunks = (uint32_t)((img->gzip_size + SEED_CHUNK - 1) / SEED_CHUNK);
    s->v = pd_calloc((size_t)n_nodes + 1, sizeof(struct seedling *));
    s->n_takers = pd_calloc((size_t)n_nodes + 1, sizeof *s->n_takers);
    if (!s->v || !s->n_takers ||
        (relay && img->seed && n_nodes > 1 && !(s->plan = relay_plan_new(n_nodes, 1)))) {
        free(s->v);
        free(s->n_takers);
        free(s);
        return NULL;
    }
    randombytes_buf(s->secret, sizeof s->secret);
    uv_timer_init(loop, &s->tick);
    s->tick.data = s;
    return s;
}

void seeding_free(struct seeding *s) {
    if (!s)
        return;
    uv_close((uv_handle_t *)&s->tick, NULL);
    uv_run(s->loop, UV_RUN_NOWAIT); /* lets the timer close */
    relay_plan_free(s->plan);
    sodium_memzero(s->secret, sizeof s->secret);
    free(s->v);
    free(s->n_takers);
    free(s);
}

void seeding_count(struct seeding *s, size_t n) {
    if (s)
        s->sent += n;
}

uint64_t seeding_sent(const struct seeding *s) { return s ? s->sent : 0; }
