/* SPDX-License-Identifier: Apache-2.0 */
/* eval_keys.c - the keys of [evaluator NAME] that only some evaluators have: slice; group,
 * group_weight, max_samples, k. src/nn/evals/eval.c and eval_groups.c use them. */
#include "nn/graph/graph_internal.h"

/* A line of the log and an event have no place for the values of more slices. */
enum { MAX_SLICES = 64 };

static int find_field(const struct nn_build *b, const char *evaluator, const char *key,
                      const struct ini_name *name, struct pd_err *err) {
    char text[120];
    const int i = nn_build_find_node(b->g, b->g->n_fields, name->text);
    if (i < 0)
        pd_fail(err, PD_ECONF, "%s:%d: evaluator '%s': its %s '%s' is not a field%s", b->file,
                name->line, evaluator, key, name->text,
                nn_build_suggest_node(b->g, 1, 0, name->text, text));
    return i;
}

static int set_slices(const struct nn_build *b, const struct evaluator_ini *ini,
                      struct nn_eval_node *ev, struct pd_err *err) {
    if (!ini->slice.line)
        return 0;
    const int i = find_field(b, ev->name, "slice", &ini->slice, err);
    if (i < 0)
        return PD_ECONF;
    const struct pd_field *f = &b->g->node[i].field;
    const int category = b->g->model->schema->field[b->g->node[i].number].type == DATA_CATEGORY;
    if (f->kind != PD_ID || category || !f->vocabulary || f->vocabulary > MAX_SLICES)
        return pd_fail(err, PD_ECONF,
                       "%s:%d: evaluator '%s': its slice '%s' has %s, but it needs one id a sample "
                       "below a vocabulary of at most %d",
                       b->file, ini->slice.line, ev->name, ini->slice.text,
                       f->kind == PD_LIST    ? "lists"
                       : f->kind == PD_DENSE ? "numbers"
                       : category            ? "hashes of texts"
                                             : "more ids",
                       MAX_SLICES);
    ev->slice = b->g->node[i].number;
    ev->n_slices = (uint32_t)f->vocabulary;
    return 0;
}

int nn_build_eval_keys(const struct nn_build *b, const struct evaluator_ini *ini,
                       struct nn_eval_node *ev, struct pd_err *err) {
    static const char *const weights[NN_N_WEIGHTS] = {"samples", "positives", "equal"};
    const struct nn_evaluator *t = ev->type;
    const struct {
        const char *name;
        int line, takes;
    } key[] = {{"slice", ini->slice.line, !t->of_cost && !t->collects},
               {"group", ini->group.line, t->of_group != NULL},
               {"group_weight", ini->group_weight.line, t->of_group != NULL},
               {"max_samples", ini->max_samples.line, t->of_group != NULL},
               {"k", ini->k.line, t->takes_k}};
    for (size_t i = 0; i < sizeof key / sizeof key[0]; i++)
        if (key[i].line && !key[i].takes)
            return pd_fail(err, PD_ECONF, "%s:%d: evaluator '%s': %s takes no key '%s'", b->file,
                           key[i].line, ev->name, t->name, key[i].name);
    if (!t->of_group)
        return set_slices(b, ini, ev, err);
    if (!ini->group.line)
        return pd_fail(err, PD_ECONF,
                       "%s:%d: evaluator '%s': %s needs group = FIELD, the user or query of a "
                       "sample",
                       b->file, ini->name.line, ev->name, t->name);
    const int i = find_field(b, ev->name, "group", &ini->group, err);
    if (i < 0)
        return PD_ECONF;
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
