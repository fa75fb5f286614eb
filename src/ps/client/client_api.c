/* SPDX-License-Identifier: Apache-2.0 */
/* client_api.c - the calls of a step: checks their arguments and passes them on to the servers'
 * functions, or in geo mode to the local ones. */
#include "ps/client/client_internal.h"

static int usable(struct ps_client *c, int ok, const char *what, int id) {
    if (c->err.code)
        return c->err.code;
    if (!c->started || !ok)
        return client_fail(c, PD_EUSAGE, "%s: parameter %d is not declared, or not of that size",
                           what, id);
    return 0;
}

static int is_dense(const struct ps_client *c, int id, size_t n) {
    return id >= 0 && (uint32_t)id < c->decl.n_dense && c->decl.dense[id].n == n;
}

static int is_table(const struct ps_client *c, int table) {
    return table >= 0 && (uint32_t)table < c->decl.n_sparse;
}

int ps_pull_dense(struct ps_client *c, int id, float *out, size_t n) {
    int rc = usable(c, is_dense(c, id, n), "ps_pull_dense", id);
    return rc ? rc : c->geo ? geo_pull_dense(c, id, out) : client_pull_dense(c, id, out);
}

const float *ps_local_dense(const struct ps_client *c, int id, size_t n) {
    return c->shard && c->started && !c->err.code && is_dense(c, id, n)
               ? ps_shard_dense(c->shard, (uint32_t)id)
               : NULL;
}

int ps_pull_rows(struct ps_client *c, int table, size_t n, const uint64_t *keys, float *out,
                 enum ps_pull_mode mode) {
    int rc = usable(c, is_table(c, table), "ps_pull_rows", table);
    return rc || !n ? rc
           : c->geo ? geo_pull_rows(c, table, n, keys, out, mode)
                    : client_pull_rows(c, table, n, keys, out, mode);
}

int ps_pull_rows_next(struct ps_client *c, int table, size_t n, const uint64_t *keys, float *out) {
    int rc = usable(c, is_table(c, table), "ps_pull_rows_next", table);
    return rc || !n ? rc : client_pull_rows_next(c, table, n, keys, out);
}

int ps_flush(struct ps_client *c) { return client_flush(c) || client_poll(c) ? c->err.code : 0; }

/* After the end of a step: pulls the rows of the next step that could not be requested before. */
static int pull_later(struct ps_client *c, int rc) {
    while (!rc && c->later) {
        struct pull_later *q = c->later;
        c->later = q->next;
        rc = ps_pull_rows(c, q->table, q->n, q->keys, q->out, PS_CREATE);
        free(q);
    }
    return rc;
}

int ps_wait(struct ps_client *c) {
    return client_wait_pulls(c) || !c->geo ? c->err.code : geo_complete(c);
}

int ps_push_dense(struct ps_client *c, int id, const float *grad, size_t n) {
    int rc = usable(c, is_dense(c, id, n), "ps_push_dense", id);
    return rc ? rc : c->geo ? geo_push_dense(c, id, grad) : client_push_dense(c, id, grad);
}

int ps_push_rows(struct ps_client *c, int table, size_t n, const uint64_t *keys,
                 const float *grad) {
    int rc = usable(c, is_table(c, table), "ps_push_rows", table);
    return rc || !n ? rc
           : c->geo ? geo_push_rows(c, table, n, keys, grad)
                    : client_push_rows(c, table, n, keys, grad, NULL);
}

int ps_push_seen_rows(struct ps_client *c, int table, size_t n, const uint64_t *keys,
                      const float *grad, const uint32_t *seen) {
    int rc = usable(c, is_table(c, table) && pd_row_life_active(&c->decl.sparse[table].life),
                    "ps_push_seen_rows", table);
    return rc || !n ? rc
                    : client_push_rows(c, table, n, keys, grad, seen); /* geo has no such tables */
}

int ps_part(struct ps_client *c, uint32_t lo, uint32_t hi, const double *stats, size_t n_stats) {
    if (c->err.code)
        return c->err.code;
    if (!c->started || c->geo || n_stats > PS_STATS_MAX || lo >= hi || lo < c->opts.stream_lo ||
        hi > c->opts.stream_hi || c->n_parts == PS_PARTS_MAX ||
        (c->n_parts && n_stats != c->n_part_stats))
        return client_fail(c, PD_EUSAGE, "ps_part: streams %u to %u with %zu numbers do not fit",
                           lo, hi, n_stats);
    if (!c->parts && !(c->parts = pd_calloc(PS_PARTS_MAX, sizeof *c->parts)))
        return client_fail(c, PD_ENOMEM, "no memory for the parts of a step");
    struct step_part *p = &c->parts[c->n_parts++];
    *p = (struct step_part){.lo = lo, .hi = hi};
    if (n_stats)
        memcpy(p->stats, stats, n_stats * sizeof *stats);
    c->n_part_stats = n_stats;
    return 0;
}

int ps_step_end(struct ps_client *c, uint64_t n_samples, const double *stats, size_t n_stats) {
    if (c->err.code)
        return c->err.code;
    if (!c->started || n_stats > PS_STATS_MAX || (c->n_parts && n_stats))
        return client_fail(
            c, PD_EUSAGE,
            "ps_step_end: only after ps_start, with at most %d numbers, after ps_part with none",
            PS_STATS_MAX);
    n_stats = c->n_parts ? c->n_part_stats : n_stats;
    if (n_stats && !c->sums && !(c->sums = pd_calloc(CLIENT_STATS_KEPT, sizeof *c->sums)))
        return client_fail(c, PD_ENOMEM, "no memory for a step's sums");
    return pull_later(c, c->geo ? geo_step_end(c, n_samples, stats, n_stats)
                                : client_step_end(c, n_samples, stats, n_stats));
}

uint64_t ps_step(const struct ps_client *c) { return c->geo ? geo_steps(c) : c->step; }

int ps_resumed(const struct ps_client *c, uint64_t *pass, uint64_t *batches) {
    if (!c->resumed)
        return 0;
    *pass = c->pass;
    *batches = c->geo ? geo_steps_in(c, c->first_step, c->step) : c->step - c->first_step;
    return 1;
}

int ps_resumed_torn(const struct ps_client *c) {
    int torn = 0;
    for (uint32_t i = 0; i < c->n_links; i++)
        torn |= c->links[i]->from_step != c->step;
    return c->resumed && torn;
}

int ps_resumed_sums(const struct ps_client *c, uint64_t pass, struct ps_before *out) {
    /* The first dense thread may already be in the next pass. */
    const uint64_t there = c->resumed ? c->dense[0]->from_pass : 0;
    if (!c->resumed || pass > there || pass + 1 < there)
        return 0;
    const uint64_t from = c->dense[0]->from_step;
    *out = (struct ps_before){
        .batches = UINT64_MAX, .ms = c->before_ms[pass < there], .sums = c->before[pass < there]};
    if (pass == there)
        out->batches = c->geo ? geo_steps_in(c, c->first_step, from) : from - c->first_step;
    return 1;
}

uint32_t ps_repeated(const struct ps_client *c) { return c->n_repeated; }

static int all_sums(const struct ps_client *c) { return c->n_sums == c->n_sums_asked; }

int ps_wait_stats(struct ps_client *c) {
    return client_flush(c) ? c->err.code : client_wait(c, all_sums, "the sums of a step");
}

size_t ps_stats_pending(const struct ps_client *c) { return c->n_sums_asked; }

int ps_step_stats(struct ps_client *c, uint64_t *step, uint64_t *n_samples,
                  double out[PS_STATS_MAX]) {
    if (client_flush(c) || (!c->n_sums && client_poll(c)))
        return c->err.code;
    if (!c->n_sums)
        return 0;
    const struct step_sums *s = &c->sums[c->first_sum];
    *step = s->step;
    *n_samples = s->n_samples;
    memcpy(out, s->v, sizeof s->v);
    c->first_sum = (c->first_sum + 1) % CLIENT_STATS_KEPT;
    c->n_sums--;
    c->n_sums_asked--;
    return 1;
}
