/* SPDX-License-Identifier: Apache-2.0 */
/* step.c - see step.h. */
#include "train/step.h"

#include "base/spans.h"
#include "ps/plan/sum_tree.h"
#include "train/checkpoint.h"

static int by_stream(const struct train_loop *l) {
    return l->options->reproducible == PD_REPRODUCIBLE_TOPOLOGY;
}

uint32_t train_n_parts(const struct train_loop *l) {
    return by_stream(l) ? l->stream_hi - l->stream_lo : 1;
}

uint32_t train_part(const struct train_loop *l, uint32_t k, uint32_t n) {
    return by_stream(l) ? l->now.counts[k] : n;
}

/* A running step. */
struct step_state {
    struct train_loop *l;
    const struct train_streams *streams;
    uint64_t pass;
    uint32_t at; /* samples of the feed taken so far; parts are computed in the order of the feed */
    double (*sums)[N_SUMS];
    uint32_t n_wave,
        wave; /* by stream: pieces computed by the threads; pieces of these used so far */
    struct train_grads *leaving; /* set that is pushed during backward; NULL: push afterwards */
    int rc;                      /* result of these pushes */
    uint64_t pushed_ns;          /* time of these pushes */
};

static void on_gradient(void *arg, uint32_t param) {
    struct step_state *s = arg;
    const uint64_t began = pd_mono_ns();
    if (!s->rc)
        s->rc = train_grads_push_one(s->l->params, s->leaving, param);
    s->pushed_ns += train_report_time(s->l->report, TRAIN_PUSH, began) - began;
}

/* The sum of a node of the tree; grads NULL: none of its streams has samples in this step. */
struct node_sum {
    struct train_grads *grads;
    double cost;
};

/* Makes the next n samples of the feed a piece of part k. */
static int take_piece(struct step_state *s, struct train_piece *p, enum train_grads_kind kind,
                      uint32_t k, uint32_t n, struct pd_err *err) {
    *p = (struct train_piece){.part = k, .first = s->at, .n = n};
    s->at += n;
    return train_grads_take(s->l->params, kind, &p->grads, err);
}

/* Computes n pieces. batch: the pieces are the whole batch and become one gradient. */
static int compute(struct step_state *s, uint32_t n, int batch, struct pd_err *err) {
    struct train_loop *l = s->l;
    const struct train_work w = {l->params,
                                 l->now.feed,
                                 (uint64_t)l->options->seed,
                                 s->pass,
                                 s->leaving ? on_gradient : NULL,
                                 s};
    struct train_piece *p = train_threads_pieces(l->threads);
    uint64_t forward_ns = 0;
    s->pushed_ns = 0;
    const uint64_t began = pd_mono_ns();
    int rc = batch ? train_threads_compute_batch(l->threads, &w, p, n, err)
                   : train_threads_compute(l->threads, &w, p, n, err);
    for (uint32_t i = 0; i < n && !rc; i++) {
        s->sums[p[i].part][SUM_COST] += p[i].cost.sum;
        s->sums[p[i].part][SUM_SAMPLES] += p[i].cost.n;
        forward_ns = p[i].forward_ns > forward_ns ? p[i].forward_ns : forward_ns;
    }
    /* The slowest piece tells where forward ends; pushes during backward count as pushes. */
    train_report_time(l->report, TRAIN_BACKWARD, began + forward_ns + s->pushed_ns);
    l->report->part_ns[TRAIN_FORWARD] += forward_ns;
    l->report->pass_part_ns[TRAIN_FORWARD] += forward_ns;
    return rc;
}

/* Computes all n samples, one piece per thread, added in their order. */
static int compute_batch(struct step_state *s, uint32_t n, struct node_sum *out,
                         struct pd_err *err) {
    struct train_loop *l = s->l;
    struct train_piece *p = train_threads_pieces(l->threads);
    const uint32_t n_threads = train_threads_size(l->threads),
                   n_pieces = n_threads < n ? n_threads : n;
    int rc = 0;
    for (uint32_t i = 0; i < n_pieces && !rc; i++) {
        const enum train_grads_kind kind = n_threads == 1 ? TRAIN_GRADS_ALONE
                                           : i            ? TRAIN_GRADS_OTHER
                                                          : TRAIN_GRADS_FIRST;
        rc = take_piece(s, &p[i], kind, 0,
                        (uint32_t)((uint64_t)n * (i + 1) / n_pieces - (uint64_t)n * i / n_pieces),
                        err);
        if (!rc && n_pieces > 1)
            train_grads_mark_samples(l->params, p[i].grads, l->now.feed, p[i].first, p[i].n);
    }
    if (!rc && n_threads == 1 && l->overlap && !(l->clip_norm > 0))
        s->leaving = p[0].grads;
    if (!rc)
        rc = compute(s, n_pieces, 1, err);
    if (rc)
        return rc;
    *out = (struct node_sum){p[0].grads, p[0].cost.sum};
    for (uint32_t i = 1; i < n_pieces; i++)
        out->cost += p[i].cost.sum;
    if (l->clip_norm > 0)
        train_grads_clip(l->params, out->grads, n, l->clip_norm);
    return 0;
}

/* Returns the sum of part k, which has samples. Parts are requested in order: the threads compute a
 * wave of parts at a time, one per thread. */
static int compute_part(struct step_state *s, uint32_t k, struct node_sum *out,
                        struct pd_err *err) {
    struct train_loop *l = s->l;
    struct train_piece *p = train_threads_pieces(l->threads);
    int rc = 0;
    if (s->wave == s->n_wave) {
        s->wave = s->n_wave = 0;
        for (uint32_t i = k;
             i < train_n_parts(l) && s->n_wave < train_threads_size(l->threads) && !rc; i++) {
            uint32_t n = train_part(l, i, 0);
            if (!n)
                continue;
            rc = take_piece(s, &p[s->n_wave], TRAIN_GRADS_ALONE, i, n, err);
            if (!rc)
                train_grads_mark_samples(l->params, p[s->n_wave].grads, l->now.feed,
                                         p[s->n_wave].first, n);
            s->n_wave++;
        }
        if (!rc)
            rc = compute(s, s->n_wave, 0, err);
        if (rc)
            return rc;
    }
    p += s->wave++;
    if (l->clip_norm > 0)
        train_grads_clip(l->params, p->grads, p->n, l->clip_norm);
    *out = (struct node_sum){p->grads, p->cost.sum};
    return 0;
}

/* Adds up the streams [lo, hi), a node of the tree. */
static int add_up(struct step_state *s, uint32_t lo, uint32_t hi, struct node_sum *out,
                  struct pd_err *err) {
    struct train_loop *l = s->l;
    *out = (struct node_sum){0};
    if (hi - lo == 1) {
        uint32_t k = lo - l->stream_lo, n = train_part(l, k, 0);
        return n ? compute_part(s, k, out, err) : 0;
    }
    struct node_sum right;
    uint32_t mid = ps_sum_tree_mid(l->n_streams, lo, hi);
    int rc = add_up(s, lo, mid, out, err);
    if (!rc)
        rc = add_up(s, mid, hi, &right, err);
    if (rc || !right.grads)
        return rc;
    if (!out->grads) {
        *out = right;
        return 0;
    }
    train_threads_add(l->threads, l->params, out->grads, right.grads);
    out->cost += right.cost;
    return 0;
}

static int step_of_nodes(struct step_state *s, int asked, struct pd_err *err) {
    struct train_loop *l = s->l;
    struct ps_range node[PS_NODES_MAX];
    uint32_t n = ps_sum_tree_nodes(l->n_streams, l->stream_lo, l->stream_hi, node);
    int rc = 0, more = l->next.n > 0;
    for (uint32_t i = 0; i < n && !rc; i++) {
        struct node_sum sum;
        if ((rc = add_up(s, node[i].lo, node[i].hi, &sum, err)) || !sum.grads)
            continue;
        const double stats[N_STEP_STATS] = {sum.cost, asked, more};
        asked = more = 0; /* count them once */
        const uint64_t began = pd_mono_ns();
        rc = ps_part(l->client, node[i].lo, node[i].hi, stats, N_STEP_STATS);
        if (!rc)
            rc = train_grads_push(l->params, sum.grads);
        train_report_time(l->report, TRAIN_PUSH, began);
        rc = train_client_error(l, rc, err);
    }
    if (!rc)
        rc = train_checkpoint_note(l, s->streams, s->sums, 1, err);
    return rc ? rc : train_client_error(l, ps_step_end(l->client, s->at, NULL, 0), err);
}

int train_step(struct train_loop *l, const struct train_streams *streams, uint64_t pass, uint32_t n,
               int asked, double (*sums)[N_SUMS], struct pd_err *err) {
    struct step_state s = {.l = l, .streams = streams, .pass = pass, .sums = sums};
    train_grads_reclaim(l->params);
    if (by_stream(l))
        return step_of_nodes(&s, asked, err);
    struct node_sum sum;
    int rc = compute_batch(&s, n, &sum, err);
    if (rc)
        return rc;
    const uint64_t began = pd_mono_ns();
    rc = train_grads_push(l->params, sum.grads);
    train_report_time(l->report, TRAIN_PUSH, began);
    rc = train_client_error(l, s.rc ? s.rc : rc, err);
    if (!rc)
        rc = train_checkpoint_note(l, streams, sums, 1, err);
    if (rc)
        return rc;
    rc = ps_step_end(l->client, n, (const double[N_STEP_STATS]){sum.cost, asked, l->next.n > 0},
                     N_STEP_STATS);
    return train_client_error(l, rc, err);
}

/* Every trainer receives the numbers of every stream, each at its own place of a sum, and adds them
 * here. */
static int sum_by_stream(struct train_loop *l, const double *v, size_t k, double *sum,
                         struct pd_err *err) {
    uint32_t n = l->n_streams, own = l->stream_hi - l->stream_lo;
    size_t total = n * k;
    double *all = pd_calloc(total, sizeof *all), **of = pd_calloc(n, sizeof *of);
    struct ps_range *r = pd_calloc(n, sizeof *r);
    struct ps_add *plan = pd_calloc(n, sizeof *plan);
    int rc = all && of && r && plan
                 ? 0
                 : pd_fail(err, PD_ENOMEM, "out of memory to add up %zu numbers", total);
    if (!rc)
        memcpy(all + l->stream_lo * k, v, own * k * sizeof *v);
    for (size_t at = 0; at < total && !rc; at += PS_REDUCE_MAX)
        rc = train_client_error(
            l,
            ps_reduce(l->client, all + at, total - at < PS_REDUCE_MAX ? total - at : PS_REDUCE_MAX),
            err);
    for (uint32_t i = 0; i < n && !rc; i++) {
        r[i] = (struct ps_range){i, i + 1};
        of[i] = all + i * k;
    }
    if (!rc) {
        ps_sum_tree_plan(r, n, n, plan);
        ps_sum_tree_sum_f64(plan, n, of, k);
        memcpy(sum, of[0], k * sizeof *sum);
    }
    free(all);
    free(of);
    free(r);
    free(plan);
    return rc;
}

int train_sum(struct train_loop *l, const double *v, size_t k, double *sum, struct pd_err *err) {
    const uint64_t began = pd_span_begin();
    int rc;
    if (by_stream(l)) {
        rc = sum_by_stream(l, v, k, sum, err);
    } else {
        memcpy(sum, v, k * sizeof *v);
        rc = train_client_error(l, ps_reduce(l->client, sum, k), err);
    }
    pd_span_end("barrier", began);
    return rc;
}
