/* SPDX-License-Identifier: Apache-2.0 */
/* relay_plan.c - see relay_plan.h. */
#include "launcher/link/relay_plan.h"

enum {
    /* a node that cannot reach so many nodes takes from the launcher */
    UNREACHED_MAX = 2,
    /* so many failures without a success: these nodes do not reach each other */
    HOPELESS = 3,
    /* a rate counts after so long */
    JUDGE_MS = 150,
    /* a node is slow if all its reports of this time say so: */
    SLOW_MS = 200,
    /* its rate is less than its source's divided by this, */
    SLOWER = 3,
    /* its source is ahead by more than so many bytes, */
    AHEAD_BYTES = 512 << 10,
    /* and by more than the source gets in a second divided by this */
    AHEAD_PART = 10,
    TRIAL_JUDGE_MS = 600,
    TRIAL_MS = 1500,
    TRIALS = 3,
    /* The first node gets half the rate during a trial: a trial pays only if it has longer to go
     * than this. */
    TRIAL_WORTH_MS = 8 * TRIAL_MS,
};

enum relay_state { ABSENT, TAKES, HAS_ALL };

struct pnode {
    enum relay_state state;
    int source;
    int leaf, queued;
    int n_children; /* without leaves */
    int unreached[UNREACHED_MAX], n_unreached;
    uint64_t have, rate, report_ms;
    uint64_t since_ms;   /* when it got its source */
    uint64_t first_ms;   /* the first report since then */
    uint64_t usual_rate; /* of the last few reports */
    uint64_t slow_ms;    /* it has been slow for so long */
    long place;          /* in the chain: the order of arrival */
    int mark;
    int tried; /* another node had a trial to show that it is faster than its predecessors */
};

struct relay_plan {
    int n, relay;
    struct pnode *v;
    int *queue, n_queue; /* nodes to be told of a new source */
    long n_joined;
    int n_reached, n_unreached, hopeless, n_bypassed, marks;
    /* A trial shows whether the first node is slow or the launcher's link: for a while another node
     * takes from the launcher, too. */
    struct {
        int on, first, other, back; /* back: the other node's source before */
        uint64_t since_ms, first_had, other_had;
        int n;
    } trial;
};

struct relay_plan *relay_plan_new(int n_nodes, int relay) {
    struct relay_plan *p = pd_calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->n = n_nodes;
    p->relay = relay;
    p->v = pd_calloc((size_t)n_nodes + 1, sizeof *p->v);
    p->queue = pd_calloc((size_t)n_nodes + 1, sizeof *p->queue);
    if (!p->v || !p->queue) {
        relay_plan_free(p);
        return NULL;
    }
    for (int i = 0; i < n_nodes; i++)
        p->v[i].source = PLAN_NOBODY;
    return p;
}

void relay_plan_free(struct relay_plan *p) {
    if (!p)
        return;
    free(p->v);
    free(p->queue);
    free(p);
}

static int can_not_reach(const struct pnode *x, int source) {
    for (int i = 0; i < x->n_unreached; i++)
        if (x->unreached[i] == source)
            return 1;
    return 0;
}

/* Mark the nodes that take from `node`, directly or not, and `node` itself. Returns the mark. */
static int mark_descendants(struct relay_plan *p, int node) {
    struct pnode *v = p->v;
    int mark = p->marks + 1, other = p->marks + 2; /* of nodes that do not */
    p->marks = other;
    v[node].mark = mark;
    if (!v[node].n_children && !v[node].leaf)
        return mark;
    /* Pass each node once: a chain of thousands may lose its nodes one by one. */
    for (int i = 0; i < p->n; i++) {
        int at = i;
        for (; at >= 0 && v[at].mark < mark; at = v[at].source)
            v[at].mark = other;
        if (at >= 0 && v[at].mark == mark)
            for (at = i; v[at].mark != mark; at = v[at].source)
                v[at].mark = mark;
    }
    return mark;
}

/* The end of the chain. If no node ends it (leaves do not count), the node with the fewest
 * successors. */
static int choose_source(struct relay_plan *p, int node) {
    const struct pnode *me = &p->v[node];
    int best = PLAN_LAUNCHER;
    if (!p->relay || p->hopeless || me->n_unreached >= UNREACHED_MAX)
        return PLAN_LAUNCHER;
    int mark = mark_descendants(p, node);
    for (int i = 0; i < p->n; i++) {
        const struct pnode *x = &p->v[i];
        if (x->state == ABSENT || x->leaf || x->mark == mark ||
            (x->state == TAKES && x->source == PLAN_NOBODY) || can_not_reach(me, i))
            continue;
        if (best < 0 || x->n_children < p->v[best].n_children ||
            (x->n_children == p->v[best].n_children && x->place > p->v[best].place))
            best = i;
    }
    return best;
}

static void take_from(struct relay_plan *p, int node, int source, uint64_t now_ms) {
    struct pnode *x = &p->v[node];
    if (x->source >= 0 && !x->leaf)
        p->v[x->source].n_children--;
    x->source = source;
    x->since_ms = now_ms;
    x->slow_ms = 0;
    if (source >= 0 && !x->leaf)
        p->v[source].n_children++;
    if (source != PLAN_NOBODY && !x->queued) {
        x->queued = 1;
        p->queue[p->n_queue++] = node;
    }
}

/* The successors of `node` take from another source. */
static void bypass_node(struct relay_plan *p, int node, uint64_t now_ms) {
    int any = 0;
    for (int i = 0; i < p->n; i++)
        if (p->v[i].source == node && p->v[i].state == TAKES) {
            any = 1;
            take_from(p, i, choose_source(p, i), now_ms);
        }
    p->n_bypassed += any;
}

/* `node` has all: the nodes that take from the launcher take from `node` instead, which relieves
 * the launcher's link. */
static void spare_launcher(struct relay_plan *p, int node, uint64_t now_ms) {
    for (int i = 0; i < p->n && p->relay && !p->hopeless; i++) {
        const struct pnode *x = &p->v[i];
        if (x->state == TAKES && x->source == PLAN_LAUNCHER && x->n_unreached < UNREACHED_MAX &&
            !can_not_reach(x, node))
            take_from(p, i, node, now_ms);
    }
}

void relay_plan_join(struct relay_plan *p, int node, int has_all, int serves, uint64_t now_ms) {
    struct pnode *x = &p->v[node];
    if (x->state != ABSENT)
        return;
    x->state = has_all ? HAS_ALL : TAKES;
    x->place = ++p->n_joined;
    x->leaf = !serves;
    x->have = x->rate = x->usual_rate = 0;
    if (!has_all)
        take_from(p, node, choose_source(p, node), now_ms);
    else if (serves)
        spare_launcher(p, node, now_ms);
}

void relay_plan_done(struct relay_plan *p, int node) {
    if (p->v[node].state == TAKES)
        p->v[node].state = HAS_ALL;
}

void relay_plan_leave(struct relay_plan *p, int node, uint64_t now_ms) {
    struct pnode *x = &p->v[node];
    if (x->state == ABSENT)
        return;
    x->state = ABSENT;
    if (node == p->trial.first || node == p->trial.other)
        p->trial.on = 0; /* the other node keeps its source */
    take_from(p, node, PLAN_NOBODY, now_ms);
    bypass_node(p, node, now_ms);
}

/* A slow node becomes a leaf: its successors leave it, and it moves to the end of the chain, where
 * no node waits for it. */
static void make_leaf(struct relay_plan *p, int node, uint64_t now_ms) {
    struct pnode *x = &p->v[node];
    if (x->source >= 0)
        p->v[x->source].n_children--;
    x->leaf = 1;
    bypass_node(p, node, now_ms);
    take_from(p, node, choose_source(p, node), now_ms);
}

/* A slow node whose source is the launcher gets a trial: otherwise the rate of the launcher's link
 * is unknown. */
static void begin_trial(struct relay_plan *p, int first, const struct relay_plan_report *r,
                        uint64_t now_ms) {
    int other = -1;
    uint64_t rate = p->v[first].usual_rate;
    if (p->trial.on || p->trial.n == TRIALS || !p->relay || p->hopeless || !rate ||
        r->of <= r->have || (r->of - r->have) * 1000 / rate < TRIAL_WORTH_MS)
        return;
    for (int i = 0; i < p->n; i++) {
        const struct pnode *x = &p->v[i];
        if (x->state == TAKES && !x->leaf && !x->tried && x->source >= 0 && i != first &&
            (other < 0 || x->place < p->v[other].place))
            other = i;
    }
    if (other < 0)
        return;
    p->trial.on = 1;
    p->trial.n++;
    p->trial.first = first;
    p->trial.other = other;
    p->trial.back = p->v[other].source;
    p->trial.since_ms = now_ms;
    p->trial.first_had = p->v[first].have;
    p->trial.other_had = p->v[other].have;
    p->v[other].tried = 1;
    take_from(p, other, PLAN_LAUNCHER, now_ms);
}

static void end_trial(struct relay_plan *p, uint64_t now_ms) {
    int first = p->trial.first, other = p->trial.other, back = p->trial.back;
    struct pnode *x = &p->v[first], *o = &p->v[other];
    uint64_t got = x->have - p->trial.first_had, other_got = o->have - p->trial.other_had;
    p->trial.on = 0;
    if (x->state != TAKES || x->source != PLAN_LAUNCHER || o->state != TAKES ||
        o->source != PLAN_LAUNCHER)
        return;
    /* from now on the others send the first node what it lacks */
    if (other_got > AHEAD_BYTES && other_got / SLOWER > got) {
        make_leaf(p, first, now_ms);
        return;
    }
    int mark = mark_descendants(p, other),
        is_there = p->v[back].state != ABSENT && !p->v[back].leaf && p->v[back].mark != mark;
    take_from(p, other, is_there && !can_not_reach(o, back) ? back : choose_source(p, other),
              now_ms);
}

void relay_plan_status(struct relay_plan *p, int node, const struct relay_plan_report *r,
                       uint64_t now_ms) {
    struct pnode *x = &p->v[node];
    if (x->state == ABSENT)
        return;
    /* the report tells of the time since the last report from this source */
    uint64_t from_ms = x->report_ms > x->since_ms ? x->report_ms : x->since_ms;
    /* The first report from this source: its rate includes time before the source sent. */
    if (x->report_ms <= x->since_ms)
        x->first_ms = now_ms;
    x->report_ms = now_ms;
    x->have = r->have;
    /* a node that is done keeps its last rate */
    if (r->rate || r->asks) {
        x->rate = r->rate;
        if (x->first_ms != now_ms)
            x->usual_rate = x->usual_rate ? (3 * x->usual_rate + r->rate) / 4 : r->rate;
    }
    if (r->reached && x->source >= 0)
        p->n_reached++;
    if (p->trial.on && now_ms - p->trial.since_ms >= TRIAL_MS) {
        end_trial(p, now_ms);
        return;
    }
    if (x->state != TAKES || x->leaf || !x->n_children || !r->asks ||
        now_ms - x->since_ms < JUDGE_MS)
        return;
    if (x->source == PLAN_LAUNCHER && now_ms - x->first_ms >= TRIAL_JUDGE_MS)
        begin_trial(p, node, r, now_ms);
    if (x->source < 0)
        return;
    const struct pnode *s = &p->v[x->source];
    int slow = s->have > x->have + AHEAD_BYTES && s->have - x->have > s->rate / AHEAD_PART &&
               x->rate < s->rate / SLOWER;
    x->slow_ms = slow ? x->slow_ms + now_ms - from_ms : 0;
    if (x->slow_ms >= SLOW_MS)
        make_leaf(p, node, now_ms);
}

void relay_plan_unreached(struct relay_plan *p, int node, int source, uint64_t now_ms) {
    struct pnode *x = &p->v[node];
    if (x->state != TAKES || x->source != source || source < 0)
        return;
    if (x->n_unreached < UNREACHED_MAX)
        x->unreached[x->n_unreached++] = source;
    if (++p->n_unreached >= HOPELESS && !p->n_reached)
        p->hopeless = 1;
    take_from(p, node, choose_source(p, node), now_ms);
}

int relay_plan_next(struct relay_plan *p, int *node, int *source) {
    while (p->n_queue) {
        int i = p->queue[--p->n_queue];
        struct pnode *x = &p->v[i];
        x->queued = 0;
        if (x->state != TAKES)
            continue;
        *node = i;
        *source = x->source;
        return 1;
    }
    return 0;
}

int relay_plan_source(const struct relay_plan *p, int node) { return p->v[node].source; }
int relay_plan_is_leaf(const struct relay_plan *p, int node) { return p->v[node].leaf; }
int relay_plan_n_bypassed(const struct relay_plan *p) { return p->n_bypassed; }
