/* SPDX-License-Identifier: Apache-2.0 */
/* dispatch_sim.c - simulates dispatch to 10 ... 10,000 nodes without a network. The launcher's
 * relay_plan.c decides who takes from whom, and chunker.c the size of a chunk. Links and time are
 * simulated as events.
 *
 *     dispatch_sim BYTES RATE LATENCY NODES
 *     NODES: the largest number; RATE: bytes per second of every link in each direction;
 *     LATENCY: seconds from node to node
 *
 * The link of a sender carries one chunk at a time, to its takers in turn. The link of the receiver
 * takes in a chunk while it arrives, or later if that link is slower. A node forwards a chunk when
 * it is complete. At most WINDOW chunks are under way to a taker. Like agents, a node reports every
 * half second, and every 100 ms in the first second with a new source. Logins, hashing and disks
 * cost nothing here (a measured LATENCY includes their cost per hop).
 *
 * Prints a line for each number of nodes: seconds by the formula S/B + (N-1)(c/B + l); simulated
 * seconds; the same if one node in a hundred dies halfway (the survivors); if one node in a hundred
 * has a tenth of the rate (the others); and N S/B. */

/* Includes a source of the launcher, because programs of bench/ link only what is below the
 * launcher. */
#include "launcher/link/relay_plan.c"
#include "pack/object/chunker.h"

enum {
    FILES = 4,
    FRAME = 64 << 10 /* size of the launcher's messages (feed.c) */,
    WINDOW = 1 << 20,
    REPORT_MS = 500,
    YOUNG_MS = 1000,
    YOUNG_REPORT_MS = 100,
    NONE = -1
};
enum what { IDLE, ARRIVES, SWITCHES, REPORTS, LOST };
enum scenario { WELL, DYING, SLOW };

struct event {
    double t;
    enum what what;
    int node, other;
    /* turn, for ARRIVES and SWITCHES: the turn of the node's source at that time; the node may have
     * another source now. */
    long turn;
};

struct host {
    double rate, down_free, done, since, reported_at; /* since: time of the current source */
    long have, next, on_way, reported, turn;
    int source, first, sibling, last_served, sending, dead, victim;
};

struct sim {
    int n, launcher; /* launcher: it is one more host */
    long n_chunks;
    double t, chunk, latency;
    enum scenario scenario;
    struct host *v;
    struct relay_plan *plan;
    struct event *heap;
    size_t n_events, cap;
    int n_left; /* nodes that are still to complete */
};

/* --- events, the earliest first --- */

static void push(struct sim *s, struct event e) {
    if (s->n_events == s->cap) {
        s->cap = s->cap ? 2 * s->cap : 1024;
        s->heap = realloc(s->heap, s->cap * sizeof *s->heap);
        if (!s->heap)
            abort();
    }
    size_t i = s->n_events++;
    for (; i && s->heap[(i - 1) / 2].t > e.t; i = (i - 1) / 2)
        s->heap[i] = s->heap[(i - 1) / 2];
    s->heap[i] = e;
}

static struct event pop(struct sim *s) {
    struct event top = s->heap[0], e = s->heap[--s->n_events];
    size_t i = 0, k;
    while ((k = 2 * i + 1) < s->n_events) {
        if (k + 1 < s->n_events && s->heap[k + 1].t < s->heap[k].t)
            k++;
        if (s->heap[k].t >= e.t)
            break;
        s->heap[i] = s->heap[k];
        i = k;
    }
    s->heap[i] = e;
    return top;
}

/* --- links --- */

static int wants(const struct sim *s, const struct host *from, const struct host *to) {
    return to->next < from->have && (double)(to->on_way + 1) * s->chunk <= WINDOW;
}

/* Sends the next chunk over this host's link, if there is one. Takers are served in turn, after the
 * taker that was served last. */
static void send_next(struct sim *s, int from) {
    struct host *h = &s->v[from];
    int to = NONE, first = NONE;
    if (h->sending || h->dead)
        return;
    int behind = 0;
    for (int i = h->first; i != NONE; i = s->v[i].sibling) {
        if (wants(s, h, &s->v[i])) {
            first = first == NONE ? i : first;
            to = behind && to == NONE ? i : to;
        }
        behind |= i == h->last_served;
    }
    to = to == NONE ? first : to;
    if (to == NONE)
        return;
    struct host *x = &s->v[to];
    double sent = s->t + s->chunk / h->rate;
    double begins = s->t + s->latency > x->down_free ? s->t + s->latency : x->down_free,
           arrives = begins + s->chunk / x->rate;
    if (arrives < sent + s->latency)
        arrives = sent + s->latency;
    h->sending = 1;
    h->last_served = to;
    x->next++;
    x->on_way++;
    x->down_free = arrives;
    push(s, (struct event){.t = sent, .what = IDLE, .node = from});
    push(s, (struct event){.t = arrives, .what = ARRIVES, .node = to, .turn = x->turn});
}

static void leave_source(struct sim *s, int node) {
    struct host *x = &s->v[node];
    if (x->source != NONE) {
        int *at = &s->v[x->source].first;
        while (*at != node)
            at = &s->v[*at].sibling;
        *at = x->sibling;
    }
    x->source = NONE;
    x->turn++;
    x->on_way = 0;
    x->next = x->have;
    if (x->down_free > s->t)
        x->down_free = s->t;
}

static void take(struct sim *s, int node, int source) {
    struct host *x = &s->v[node];
    leave_source(s, node);
    x->source = source;
    x->since = s->t;
    x->sibling = s->v[source].first;
    s->v[source].first = node;
    send_next(s, source);
}

/* Tells nodes their new sources. At the beginning this takes no time (the formula has no logins),
 * later a message and a connection. */
static void tell(struct sim *s) {
    int node, source;
    while (relay_plan_next(s->plan, &node, &source)) {
        int host = source == PLAN_LAUNCHER ? s->launcher : source;
        assert(source != PLAN_NOBODY);
        if (s->t == 0)
            take(s, node, host);
        else
            push(s, (struct event){
                        .t = s->t + 3 * s->latency, .what = SWITCHES, .node = node, .other = host});
    }
}

static uint64_t ms(const struct sim *s) { return (uint64_t)(s->t * 1000); }

/* --- what happens --- */

static void die(struct sim *s, int node) {
    struct host *x = &s->v[node];
    x->dead = 1;
    leave_source(s, node);
    for (int i = x->first; i != NONE; i = s->v[i].sibling)
        push(s, (struct event){.t = s->t + s->latency, .what = LOST, .node = i, .other = node});
    push(s,
         (struct event){.t = s->t + s->latency, .what = LOST, .node = s->launcher, .other = node});
}

static void arrives(struct sim *s, int node) {
    struct host *x = &s->v[node];
    x->have++;
    x->on_way--;
    int source = x->source;
    if (x->have == s->n_chunks) {
        x->done = s->t;
        relay_plan_done(s->plan, node);
        leave_source(s, node);
        s->n_left -= !x->victim;
    } else if (s->scenario == DYING && x->victim && x->have == s->n_chunks / 2) {
        die(s, node);
        return;
    }
    send_next(s, node);
    send_next(s, source);
}

static void reports(struct sim *s, int node) {
    struct host *x = &s->v[node];
    if (x->dead || x->done > 0)
        return;
    struct relay_plan_report r = {
        .have = (uint64_t)((double)x->have * s->chunk),
        .reached = x->have > 0,
        .asks = 1,
        .rate = (uint64_t)((double)(x->have - x->reported) * s->chunk / (s->t - x->reported_at))};
    x->reported = x->have;
    x->reported_at = s->t;
    if (x->source != NONE)
        relay_plan_status(s->plan, node, &r, ms(s));
    tell(s);
    push(s, (struct event){
                .t = s->t + (s->t - x->since < YOUNG_MS / 1e3 ? YOUNG_REPORT_MS : REPORT_MS) / 1e3,
                .what = REPORTS,
                .node = node});
}

static void happen(struct sim *s, const struct event *e) {
    s->t = e->t;
    switch (e->what) {
    case IDLE:
        s->v[e->node].sending = 0;
        send_next(s, e->node);
        break;
    case ARRIVES:
        if (e->turn == s->v[e->node].turn)
            arrives(s, e->node);
        break;
    /* to the source that the plan chose then; a newer choice follows if there is one */
    case SWITCHES:
        if (!s->v[e->node].dead && s->v[e->node].done <= 0) {
            if (s->v[e->other].dead) {
                leave_source(s, e->node);
                push(s,
                     (struct event){
                         .t = s->t + s->latency, .what = LOST, .node = e->node, .other = e->other});
            } else {
                take(s, e->node, e->other);
            }
        }
        break;
    case REPORTS:
        reports(s, e->node);
        break;
    case LOST: /* the connection is lost; the taker reports it, or the launcher sees it */
        if (e->node == s->launcher)
            relay_plan_leave(s->plan, e->other, ms(s));
        else
            relay_plan_unreached(s->plan, e->node, e->other, ms(s));
        tell(s);
        break;
    }
}

/* Seconds until all nodes except victims have completed. */
static double run(int n, double bytes, double chunk, double rate, double latency,
                  enum scenario scenario) {
    struct sim s = {.n = n,
                    .launcher = n,
                    .n_chunks = (long)((bytes + chunk - 1) / chunk),
                    .chunk = chunk,
                    .latency = latency,
                    .scenario = scenario};
    int n_victims = scenario == WELL ? 0 : n < 100 ? 1 : n / 100;
    double last = 0;
    s.plan = relay_plan_new(n, 1);
    s.v = calloc((size_t)n + 1, sizeof *s.v);
    if (!s.plan || !s.v)
        abort();
    for (int i = 0; i <= n; i++)
        s.v[i] = (struct host){
            .rate = rate, .source = NONE, .first = NONE, .sibling = NONE, .last_served = NONE};
    s.v[n].have = s.n_chunks;
    for (int k = 0; k < n_victims; k++) {
        struct host *x = &s.v[(long)(k + 1) * n / (n_victims + 1)];
        x->victim = 1;
        x->rate = scenario == SLOW ? rate / 10 : rate;
    }
    s.n_left = n - n_victims;
    for (int i = 0; i < n; i++)
        relay_plan_join(s.plan, i, 0, 1, 0);
    tell(&s);
    for (int i = 0; i < n; i++)
        push(&s, (struct event){
                     .t = YOUNG_REPORT_MS / 1e3 * (1 + (double)i / n), .what = REPORTS, .node = i});
    while (s.n_left && s.n_events) {
        struct event e = pop(&s);
        happen(&s, &e);
    }
    for (int i = 0; i < n; i++)
        if (!s.v[i].victim && s.v[i].done > last)
            last = s.v[i].done;
    if (s.n_left) {
        fprintf(stderr, "dispatch_sim: %d of %d nodes never completed\n", s.n_left, n);
        exit(1);
    }
    relay_plan_free(s.plan);
    free(s.v);
    free(s.heap);
    return last;
}

int main(int argc, char **argv) {
    static const int sizes[] = {10, 30, 100, 300, 1000, 3000, 10000};
    int given = argc == 5;
    double bytes = given ? strtod(argv[1], NULL) : 0, rate = given ? strtod(argv[2], NULL) : 0,
           latency = given ? strtod(argv[3], NULL) : -1;
    long most = given ? strtol(argv[4], NULL, 10) : 0;
    if (!(bytes >= 1 && rate >= 1 && latency >= 0 && most >= sizes[0])) {
        fprintf(stderr, "usage: dispatch_sim BYTES RATE LATENCY NODES\n");
        return 2;
    }
    struct chunker c;
    chunker_init(&c, (uint64_t)bytes / FILES, (uint64_t)bytes);
    double chunk = c.mean > FRAME ? c.mean : FRAME; /* smaller objects share a message */
    printf("# chunk %.0f\n", chunk);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && sizes[i] <= most; i++) {
        int n = sizes[i];
        printf("%d %.4f", n, bytes / rate + (n - 1) * (chunk / rate + latency));
        for (int k = WELL; k <= SLOW; k++)
            printf(" %.4f", run(n, bytes, chunk, rate, latency, (enum scenario)k));
        printf(" %.4f\n", n * bytes / rate);
        fflush(stdout);
    }
    return 0;
}
