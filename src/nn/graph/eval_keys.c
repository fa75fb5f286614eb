/* SPDX-License-Identifier: Apache-2.0 */
/* eval_keys.c - the keys of [evaluator NAME] that only some evaluators have: group, group_weight,
 * max_samples, k. src/nn/evals/eval_groups.c uses them. */
#include "nn/graph/graph_internal.h"

int nn_build_eval_keys(const struct nn_build *b, const struct evaluator_ini *ini,
                       struct nn_eval_node *ev, struct pd_err *err) {
    static const char *const weights[NN_N_WEIGHTS] = {"samples", "positives", "equal"};
    const struct nn_evaluator *t = ev->type;
    const struct {
        const char *name;
        int line, takes;
    } key[] = {{"group", ini->group.line, t->of_group != NULL},
               {"group_weight", ini->group_weight.line, t->of_group != NULL},
               {"max_samples", ini->max_samples.line, t->of_group != NULL},
               {"k", ini->k.line, t->takes_k}};
    char text[120];
    for (size_t i = 0; i < sizeof key / sizeof key[0]; i++)
        if (key[i].line && !key[i].takes)
            return pd_fail(err, PD_ECONF, "%s:%d: evaluator '%s': %s takes no key '%s'", b->file,
                           key[i].line, ev->name, t->name, key[i].name);
    if (!t->of_group)
        return 0;
    if (!ini->group.line)
        return pd_fail(err, PD_ECONF,
                       "%s:%d: evaluator '%s': %s needs group = FIELD, the user or query of a "
                       "sample",
                       b->file, ini->name.line, ev->name, t->name);
    const int i = nn_build_find_node(b->g, b->g->n_fields, ini->group.text);
    if (i < 0)
        return pd_fail(err, PD_ECONF, "%s:%d: evaluator '%s': its group '%s' is not a field%s",
                       b->file, ini->group.line, ev->name, ini->group.text,
                       nn_build_suggest_node(b->g, 1, 0, ini->group.text, text));
    if (b->g->node[i].field.kind != PD_ID)
        return pd_fail(err, PD_ECONF,
                       "%s:%d: evaluator '%s': its group '%s' is a %s field, but it needs one id "
                       "a sample",
                       b->file, ini->group.line, ev->name, ini->group.text,
                       b->g->node[i].field.kind == PD_LIST ? "list" : "dense");
    ev->group = b->g->node[i].number;
    ev->k = ini->k.line ? (uint32_t)ini->k.value : 10;
    ev->max_samples = ini->max_samples.line ? (size_t)ini->max_samples.value : 1 << 18;
    ev->weight = t->takes_k ? NN_WEIGHT_EQUAL : NN_WEIGHT_SAMPLES;
    if (!ini->group_weight.line)
        return 0;
    for (uint32_t w = 0; w < NN_N_WEIGHTS; w++)
        if (!strcmp(weights[w], ini->group_weight.text)) {
            ev->weight = w;
            return 0;
        }
    return pd_fail(err, PD_ECONF,
                   "%s:%d: evaluator '%s': group_weight is samples, positives or equal, not '%s'",
                   b->file, ini->group_weight.line, ev->name, ini->group_weight.text);
}
