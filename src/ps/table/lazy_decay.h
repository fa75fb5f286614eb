/* SPDX-License-Identifier: Apache-2.0 */
/* lazy_decay.h - applies l1 and l2 to a table's rows for the updates that did not touch them, at
 * the next access to the row.
 *
 * In an update that touches a row, l2 * w is part of the gradient and l1 moves w towards 0
 * (optim.h). In any other update the gradient is only l2 * w, and plain gradient descent would
 * compute
 *
 *     w = w - lr * l2 * w, then |w| = max(|w| - lr * l1, 0)
 *
 * Over updates s+1..t, with a_i = 1 - lr_i l2 and c_i = lr_i l1, this is
 *
 *     |w_t| = max(P_t / P_s |w_s| - P_t (Q_t - Q_s), 0)
 *     P_t = a_1 a_2 ... a_t
 *     Q_t = c_1 / P_1 + ... + c_t / P_t
 *
 * A weight that reaches 0 stays 0. So two numbers per update are kept, and a row is brought up to
 * date in one step, however long ago its last access was. This is exact, up to rounding, for sgd;
 * for optimizers with their own step size it is the decoupled form. Where lr * l2 is 1 or more, w
 * becomes 0.
 *
 * The list of numbers is bounded. Once it is long, or P is close to underflow, all rows are brought
 * up to date and the list begins anew (ps_lazy_decay_is_long, ps_lazy_decay_begin_anew). at[1] is
 * then 0, 0. at[0] stands for a row that was never touched: log_p and q relative to at[1], less the
 * effect of all earlier updates.
 *
 * Source: J. Langford, L. Li, T. Zhang, "Sparse online learning via truncated gradient", JMLR 10
 * (2009), section 4. */
#pragma once

struct ps_lazy_decay {
    double l1, l2;
    uint32_t n; /* updates so far; after begin_anew: 1 for all before it, plus the updates since */
    size_t cap;
    struct ps_lazy_decay_at {
        double log_p, q;
    } * at; /* [n + 1]; at[0] is 0, 0 until the first begin_anew */
};

int ps_lazy_decay_init(struct ps_lazy_decay *d, float l1, float l2); /* 0 or PD_ENOMEM */
void ps_lazy_decay_release(struct ps_lazy_decay *d);
static inline int ps_lazy_decay_active(const struct ps_lazy_decay *d) {
    return d->l1 > 0 || d->l2 > 0;
}
/* Adds an update with this learning rate; 0 or PD_ENOMEM. */
int ps_lazy_decay_update(struct ps_lazy_decay *d, double lr);

/* Returns 1 when the list must begin anew. The caller then brings every row up to date
 * (ps_lazy_decay_catch_up), calls begin_anew, and uses 1 as every row's `from`. The result depends
 * only on the updates, so all server threads do this at the same update. */
int ps_lazy_decay_is_long(const struct ps_lazy_decay *d);
void ps_lazy_decay_begin_anew(struct ps_lazy_decay *d);

/* Restores a saved list at[0..n]. Returns 0 or PD_ENOMEM. */
int ps_lazy_decay_restore(struct ps_lazy_decay *d, const struct ps_lazy_decay_at *at, uint32_t n);

/* Brings w[0..n) from the state after `from` updates to the state after d->n updates. */
void ps_lazy_decay_catch_up(const struct ps_lazy_decay *d, uint32_t from, float *w, size_t n);
