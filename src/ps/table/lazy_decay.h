/* lazy_decay.h - l1 and l2 of a table's rows in the updates that do not touch them, made up for
 * when somebody looks.
 *
 * In an update that touches a row, l2 * w is part of the gradient and l1 moves w towards 0
 * (optim.h). In an update that does not, the gradient is only l2 * w, and plain gradient descent
 * would compute
 *
 *     w = w - lr * l2 * w, then |w| = max(|w| - lr * l1, 0)
 *
 * Over updates s+1..t, with a_i = 1 - lr_i l2 and c_i = lr_i l1, this is
 *
 *     |w_t| = max(P_t / P_s |w_s| - P_t (Q_t - Q_s), 0)
 *     P_t = a_1 a_2 ... a_t
 *     Q_t = c_1 / P_1 + ... + c_t / P_t
 *
 * (once at 0, a weight stays there), so two numbers per update are kept and a row is brought up to
 * date in one step, however long nobody asked for it. Exact, up to rounding, for sgd; for
 * optimizers with a step of their own it is the decoupled form. Where lr * l2 is 1 or more, nothing
 * is left.
 *
 * The numbers do not grow for ever: once there are many, or P has become so small that it would be
 * lost, all rows are brought up to date, and what is kept begins anew (ps_lazy_decay_is_long,
 * ps_lazy_decay_begin_anew). at[0] is where a row stands that was never touched since the training
 * began, seen from there: log_p and q of at[1], which are 0, less what all updates before have
 * done. Source: J. Langford, L. Li, T. Zhang, "Sparse online learning via truncated gradient", JMLR
 * 10 (2009), section 4.
 */
#ifndef PD_PS_LAZY_DECAY_H
#define PD_PS_LAZY_DECAY_H

#include <stddef.h>
#include <stdint.h>

struct ps_lazy_decay {
    double l1, l2;
    uint32_t n; /* updates so far, or since it began anew and one for all before */
    size_t cap;
    struct ps_lazy_decay_at {
        double log_p, q;
    } * at; /* [n + 1]; at[0] is 0, 0 until it began anew */
};

int ps_lazy_decay_init(struct ps_lazy_decay *d, float l1, float l2); /* 0 or PD_ENOMEM */
void ps_lazy_decay_release(struct ps_lazy_decay *d);
static inline int ps_lazy_decay_active(const struct ps_lazy_decay *d) {
    return d->l1 > 0 || d->l2 > 0;
}
int ps_lazy_decay_update(struct ps_lazy_decay *d,
                         double lr); /* one more update with this rate; 0 or PD_ENOMEM */

/* Is it time? Then every row is brought up to date (ps_lazy_decay_catch_up), it begins anew, and
 * every row's `from` is 1. It depends on the updates alone, so all server threads do it at the same
 * one. */
int ps_lazy_decay_is_long(const struct ps_lazy_decay *d);
void ps_lazy_decay_begin_anew(struct ps_lazy_decay *d);

/* As it was when these n + 1 numbers were kept: at[0..n]. 0 or PD_ENOMEM. */
int ps_lazy_decay_restore(struct ps_lazy_decay *d, const struct ps_lazy_decay_at *at, uint32_t n);

/* Bring w[0..n) from the state after `from` updates to that after d->n. */
void ps_lazy_decay_catch_up(const struct ps_lazy_decay *d, uint32_t from, float *w, size_t n);

#endif
