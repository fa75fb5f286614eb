/* cost.c - the tables of costs and evaluators.
 *
 * cross_entropy, fused with the softmax below it: with logits x, cost = log sum exp(x) - x[label], exact where
 * -log(softmax) has underflowed, and the gradient before the softmax is y - onehot(label): no division.
 */
#include <math.h>

#include "nn/internal.h"
#include "nn/kernel.h"

static int cross_entropy_shape(const struct nn_build *b, const struct nn_cost_node *self, struct pd_err *err) {
    const struct nn_node *in = &b->g->node[self->input];
    if (in->size < b->vocabulary)
        return pd_fail(err, PD_ECONF,
                       "%s:%d: cost '%s': label '%s' has %llu classes, but its input '%s' (line %d) is [batch x %u]",
                       b->file, self->line, self->name, b->g->node[self->label].name,
                       (unsigned long long)b->vocabulary, in->name, in->line, in->size);
    return 0;
}

static void cross_entropy_before(struct nn_exec *e, const struct nn_cost_node *self) {
    size_t size = e->g->node[self->input].size;
    const float *x = e->state[self->input].y;
    const uint64_t *label = nn_ids(e, self->label);
    for (uint32_t i = 0; i < e->n; i++)
        e->picked[self->id][i] = (double)x[i * size + label[i]];
}

static double cross_entropy_value(struct nn_exec *e, const struct nn_cost_node *self) {
    const double *log_sum = e->state[self->input].log_sum, *picked = e->picked[self->id];
    double sum = 0;
    for (uint32_t i = 0; i < e->n; i++)
        sum += log_sum[i] - picked[i];
    return sum;
}

static void cross_entropy_backward(struct nn_exec *e, const struct nn_cost_node *self) {
    const struct nn_node *in = &e->g->node[self->input];
    struct nn_state *s = &e->state[self->input];
    const uint64_t *label = nn_ids(e, self->label);
    size_t n = (size_t)e->n * in->size;
    if (!in->dy_is_y)
        nn_axpy(n, self->weight, s->y, s->dy);
    else if (self->weight != 1)
        nn_scale(n, self->weight, s->dy);
    for (uint32_t i = 0; i < e->n; i++)
        s->dy[(size_t)i * in->size + label[i]] -= self->weight;
}

const struct nn_cost_type nn_cost_types[] = {
    {"cross_entropy", "softmax", cross_entropy_shape, cross_entropy_before, cross_entropy_value,
     cross_entropy_backward, "-log of the probability of the label"},
    {NULL, NULL, NULL, NULL, NULL, NULL, NULL},
};

/* --- evaluators ---------------------------------------------------------------------------------- */

static double cost_sum(const struct nn_exec *e, const struct nn_eval_node *self) { return e->cost_sum[self->input]; }

static double wrong_sum(const struct nn_exec *e, const struct nn_eval_node *self) {
    size_t size = e->g->node[self->input].size;
    const float *y = e->state[self->input].y;
    const uint64_t *label = nn_ids(e, self->label);
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < e->n; i++)
        wrong += nn_argmax(size, y + i * size) != label[i];
    return wrong;
}

static double mean(double sum, double n) { return n > 0 ? sum / n : 0; }
static double exp_mean(double sum, double n) { return exp(mean(sum, n)); }

const struct nn_evaluator nn_evaluators[] = {
    {"perplexity", 1, 0, cost_sum, exp_mean, "exp of the mean of a cost"},
    {"classification_error", 0, 1, wrong_sum, mean, "share of samples whose largest output is not the label"},
    {NULL, 0, 0, NULL, NULL, NULL},
};
