/* evaluator.c - the table of evaluators. */
#include <math.h>

#include "nn/internal.h"
#include "nn/kernel.h"

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
