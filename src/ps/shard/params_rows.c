/* SPDX-License-Identifier: Apache-2.0 */
/* params_rows.c - applies a step to the rows of a table.
 *
 *     contributions ─▶ merged by key, or chained by row ─▶ each row's sum, in the fixed tree
 *                   ─▶ lots of rows ─▶ optimizer
 *
 * Rows are short. Calling the optimizer for each row costs more time for the call, and for partly
 * filled vectors, than for the values. So the sums, values and state of some rows are copied side
 * by side, updated by one call, and copied back. The rules work value by value, so the bits are the
 * same. A wide row is updated in place. */
#include "math/row_copy.h"
#include "ps/shard/params.h"

enum {
    LOT = 512, /* values; the data of a lot stays in the nearest cache */
    LOT_ROWS = 64,
    WIDE = 64,  /* a row with at least this many values is wide */
    NOTES = 64, /* notes that are prefetched at a time */
    AHEAD = 16, /* distance at which wide rows are prefetched */
    MERGED = 8, /* contributions that are merged; with more, comparing keys would cost more than a
                   mark in each row */
};

struct touched_row { /* a row that the step changes */
    uint32_t row, first, last, n;
};
struct row_term { /* one contribution to it */
    const float *grad;
    uint32_t part, next;
};

/* A lot: rows that one call updates. */
struct lot {
    struct ps_params *p;
    const struct ps_optim_args *a;
    uint32_t id, dim, width, n, most; /* width: values of a sum; n: rows, at most `most` */
    int finite;                       /* 1: no sum so far was rejected as not finite */
    int noted; /* 1: changes of rows are recorded, for decay or for delta saves */
    uint32_t row[LOT_ROWS];
    float sum[LOT], w[LOT], state[PS_OPTIM_STATES * LOT];
};

static void lot_init(struct lot *l, struct ps_params *p, uint32_t id,
                     const struct ps_optim_args *a) {
    l->p = p;
    l->a = a;
    l->id = id;
    l->dim = p->decl.sparse[id].dim;
    l->width = params_width(p, id);
    l->most = LOT / l->width < LOT_ROWS ? LOT / l->width : LOT_ROWS;
    l->n = 0;
    l->finite = 1;
    l->noted = ps_lazy_decay_active(&p->decays[id]) || ps_dirty_rows_watched(&p->dirty[id]);
}

/* Records that this update changes the row. Brings its values up to the state before the update. */
static void mark_changed(struct ps_params *p, uint32_t id, uint32_t row, float *w) {
    struct ps_lazy_decay *d = &p->decays[id];
    ps_dirty_rows_mark(&p->dirty[id], row);
    if (!ps_lazy_decay_active(d))
        return;
    struct ps_row_note *note = ps_table_note(p->tables[id], row);
    ps_lazy_decay_catch_up(d, note->step, w, p->decl.sparse[id].dim);
    note->step = d->n + 1;
}

static void lot_apply(struct lot *l) {
    struct ps_params *p = l->p;
    const uint32_t n = l->n, width = l->width, n_states = p->apply_optim->state;
    float *row[LOT_ROWS];
    l->n = 0;
    if (p->decl.on_nan && !ps_all_finite(l->sum, (size_t)n * width)) {
        l->finite = 0;
        return;
    }
    assert(n_states <= PS_OPTIM_STATES);
    ps_table_change_rows(p->tables[l->id], l->row, n, row);
    for (uint32_t i = 0; i < n; i++) {
        if (l->noted)
            mark_changed(p, l->id, l->row[i], row[i]);
        pd_row_copy(l->w + i * width, row[i], width);
        for (uint32_t k = 0; k < n_states; k++)
            pd_row_copy(l->state + k * LOT + i * width, row[i] + (k + 1) * l->dim, width);
    }
    ps_optim_apply(p->apply_optim, l->a, l->w, l->state, LOT, l->sum, (size_t)n * width);
    for (uint32_t i = 0; i < n; i++) {
        pd_row_copy(row[i], l->w + i * width, width);
        for (uint32_t k = 0; k < n_states; k++)
            pd_row_copy(row[i] + (k + 1) * l->dim, l->state + k * LOT + i * width, width);
    }
}

/* Applies the sum of the m contributions at p->scratch.from to the row. p->scratch.sub has their
 * streams. */
static void apply_sum(struct lot *l, uint32_t row, uint32_t m) {
    struct ps_params *p = l->p;
    if (m > 2 || l->width >= WIDE)
        ps_sum_tree_plan(p->scratch.sub, m, p->decl.n_streams, p->scratch.plan);
    if (l->width >= WIDE) {
        float *w = ps_table_change(p->tables[l->id], row);
        mark_changed(p, l->id, row, w);
        l->finite &= ps_params_reduce_and_apply(p, m, l->a, 0, w, w + l->dim, l->dim, l->width);
        return;
    }
    if (l->n == l->most)
        lot_apply(l);
    float *sum = l->sum + l->n * l->width;
    ps_table_prefetch(p->tables[l->id], row);
    l->row[l->n++] = row;
    if (m == 1)
        pd_row_copy(sum, p->scratch.from[0], l->width);
    else if (m == 2)
        pd_row_sum(sum, p->scratch.from[0], p->scratch.from[1], l->width);
    else
        pd_row_copy(
            sum, ps_sum_tree_sum_f32(p->scratch.plan, m, p->scratch.from, p->scratch.tmp, l->width),
            l->width);
}

/* --- many contributions: chained --- */

/* Chains the contributions to each row. A row's mark is its index in `touched` plus one. Nothing is
 * sorted: rows are independent, and each chain is in stream order like the contributions. */
static int touch_rows(struct ps_params *p, uint32_t id, uint32_t n_parts, size_t *n_touched) {
    size_t total = 0, n = 0, k = 0;
    const uint32_t width = params_width(p, id);
    struct ps_row_note *notes[2][NOTES];
    for (uint32_t i = 0; i < n_parts; i++)
        total +=
            p->scratch.parts[i]->tables[id].pushed ? p->scratch.parts[i]->tables[id].list.n : 0;
    if (pd_grow(p->scratch.touched, p->scratch.cap_touched, total) ||
        pd_grow(p->scratch.nodes, p->scratch.cap_nodes, total))
        return PD_ENOMEM;
    for (uint32_t i = 0; i < n_parts; i++) {
        const struct row_push *push = &p->scratch.parts[i]->tables[id];
        const size_t n_rows = push->pushed ? push->list.n : 0;
        const uint32_t *rows = push->list.rows;
        for (size_t j = 0, ready = 0; j < n_rows; j++, k++) {
            for (; ready < n_rows && ready < j + NOTES; ready += NOTES)
                ps_table_notes(p->tables[id], rows + ready,
                               n_rows - ready < NOTES ? n_rows - ready : NOTES,
                               notes[ready / NOTES % 2]);
            if (rows[j] == PS_ROW_NONE)
                continue; /* not admitted */
            uint32_t *mark = &notes[j / NOTES % 2][j % NOTES]->mark;
            p->scratch.nodes[k] = (struct row_term){.grad = push->grad + j * width, .part = i};
            if (!*mark) {
                p->scratch.touched[n] = (struct touched_row){
                    .row = rows[j], .first = (uint32_t)k, .last = (uint32_t)k, .n = 1};
                *mark = (uint32_t)++n;
            } else {
                struct touched_row *t = &p->scratch.touched[*mark - 1];
                p->scratch.nodes[t->last].next = (uint32_t)k;
                t->last = (uint32_t)k;
                t->n++;
            }
        }
    }
    *n_touched = n;
    return 0;
}

/* Applies n rows that have marks. The marks are cleared even if a sum is not finite. */
static void apply_touched(struct lot *l, size_t n) {
    struct ps_params *p = l->p;
    for (size_t i = 0; i < n; i++) {
        const struct touched_row *t = &p->scratch.touched[i];
        uint32_t m = 0;
        ps_table_note(p->tables[l->id], t->row)->mark = 0;
        if (l->width >= WIDE && i + AHEAD < n)
            ps_table_prefetch(p->tables[l->id], p->scratch.touched[i + AHEAD].row);
        for (uint32_t k = t->first; m < t->n; k = p->scratch.nodes[k].next, m++) {
            p->scratch.sub[m] = p->scratch.ranges[p->scratch.nodes[k].part];
            p->scratch.from[m] = p->scratch.nodes[k].grad;
        }
        apply_sum(l, t->row, m);
    }
}

/* --- up to MERGED contributions: merged by key --- */

/* The position in a contribution. */
struct key_cursor {
    const uint64_t *key, *end;
    const uint32_t *row;
    const float *grad;
    struct ps_range streams;
};

/* Takes the least key of the m cursors. Its contributions go to p->scratch.from and p->scratch.sub,
 * their number to *n, and the cursors at that key advance. Returns 1 if a cursor has reached its
 * end. The loop has no branches, since they would be mispredicted. */
static inline int next_key(struct ps_params *p, struct key_cursor *h, uint32_t m, size_t width,
                           uint32_t *row, uint32_t *n) {
    uint64_t least = *h[0].key;
    uint32_t k = 0, r = 0;
    int over = 0;
    for (uint32_t i = 1; i < m; i++)
        least = *h[i].key < least ? *h[i].key : least;
    for (uint32_t i = 0; i < m; i++) {
        const size_t here = *h[i].key == least;
        p->scratch.from[k] = h[i].grad;
        p->scratch.sub[k] = h[i].streams;
        r |= *h[i].row & -(uint32_t)here; /* equal in all cursors at this key */
        k += (uint32_t)here;
        h[i].key += here;
        h[i].row += here;
        h[i].grad += here * width;
        over |= h[i].key == h[i].end;
    }
    *row = r;
    *n = k;
    return over;
}

static uint32_t drop_ended(struct key_cursor *h, uint32_t m) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < m; i++)
        if (h[i].key != h[i].end)
            h[kept++] = h[i];
    return kept;
}

static void apply_merged(struct lot *l, uint32_t n_parts) {
    struct ps_params *p = l->p;
    struct key_cursor h[MERGED];
    uint32_t m = 0, n, row;
    for (uint32_t i = 0; i < n_parts; i++) {
        const struct row_push *push = &p->scratch.parts[i]->tables[l->id];
        if (push->pushed && push->list.n)
            h[m++] = (struct key_cursor){push->list.keys, push->list.keys + push->list.n,
                                         push->list.rows, push->grad, p->scratch.ranges[i]};
    }
    while (m) {
        for (uint32_t i = 0; l->width >= WIDE && i < m; i++)
            if (h[i].end - h[i].key > AHEAD && h[i].row[AHEAD] != PS_ROW_NONE)
                ps_table_prefetch(p->tables[l->id], h[i].row[AHEAD]);
        const int over = next_key(p, h, m, l->width, &row, &n);
        if (row != PS_ROW_NONE) /* PS_ROW_NONE: not admitted */
            apply_sum(l, row, n);
        if (over)
            m = drop_ended(h, m);
    }
}

int ps_params_apply_rows(struct ps_params *p, uint32_t id, uint32_t n_parts,
                         const struct ps_optim_args *a) {
    uint32_t here = 0;
    size_t n = 0;
    struct lot l;
    for (uint32_t i = 0; i < n_parts; i++)
        here += p->scratch.parts[i]->tables[id].pushed != 0;
    if (here > MERGED && touch_rows(p, id, n_parts, &n))
        return PD_ENOMEM;
    lot_init(&l, p, id, a);
    if (here > MERGED)
        apply_touched(&l, n);
    else
        apply_merged(&l, n_parts);
    if (l.n)
        lot_apply(&l);
    return l.finite ? 0 : PD_ENUM;
}
