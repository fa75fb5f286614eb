/* SPDX-License-Identifier: Apache-2.0 */
/* graph.c - from the contents of train.ini (model_ini) to a checked graph: names are resolved,
 * layers ordered, shapes and parameters known. Every mismatch is an error with file:line here,
 * before anything is computed. */
#include "nn/graph/graph.h"

#include "model_ini/model_ini_key.h"
#include "nn/graph/sampler.h"

/* --- nodes --- */

int nn_build_find_node(const struct nn_graph *g, uint32_t n, const char *name) {
    for (uint32_t i = 0; i < n; i++)
        if (!strcmp(g->node[i].name, name))
            return (int)i;
    return -1;
}

static int find_layer_ini(const struct model_ini *m, const char *name) {
    for (uint32_t i = 0; i < m->n_layers; i++)
        if (!strcmp(m->layer[i].name.text, name))
            return (int)i;
    return -1;
}

/* Adds a name to the list `known`, which stays short. */
static void add_known(char *known, size_t cap, const char *name) {
    size_t n = strlen(known);
    if (n + strlen(name) + 7 < cap)
        snprintf(known + n, cap - n, "%s%s", n ? ", " : "", name);
    else if (!pd_ends_with(known, ", ..."))
        snprintf(known + n, cap - n, ", ...");
}

const char *nn_build_suggest_node(const struct nn_graph *g, int fields, int layers,
                                  const char *name, char out[120]) {
    char known[90] = "";
    for (uint32_t i = 0; fields && i < g->n_fields; i++)
        add_known(known, sizeof known, g->node[i].name);
    for (uint32_t i = 0; layers && i < g->model->n_layers; i++)
        add_known(known, sizeof known, g->model->layer[i].name.text);
    return pd_suggest(out, 120, name, known);
}

static void add_field(struct nn_graph *g, uint32_t i) {
    const struct model_ini *m = g->model;
    struct nn_node *n = &g->node[g->n_nodes];
    n->field = m->schema->field[i].batch;
    memcpy(n->name, n->field.name, sizeof n->name);
    n->line = m->data.fields.line;
    n->id = n->number = g->n_nodes++;
    n->size = n->field.width;
}

static int add_fields(struct nn_build *b, struct pd_err *err) {
    struct nn_graph *g = b->g;
    const struct data_ini *d = &g->model->data;
    const struct data_schema *s = g->model->schema;
    if (!d->line)
        return pd_fail(err, PD_ECONF,
                       "%s: there is no section [data], with format, train and fields", b->file);
    if (!s || data_schema_lacks_vocabulary(s))
        return pd_fail(err, PD_ECONF, "%s:%d: [data] needs %s", b->file, d->line,
                       !s ? "format" : "vocabulary or vocabulary_file");
    b->vocabulary = d->vocabulary.value;
    for (uint32_t i = 0; i < s->n_fields; i++)
        add_field(g, i);
    g->n_fields = g->n_nodes;
    for (uint32_t i = 0; i < g->n_fields; i++)
        g->field[i] = g->node[i].field;
    return 0;
}

static int check_keys(const struct nn_build *b, const struct layer_ini *ini,
                      const struct nn_layer *type, struct pd_err *err) {
    const char *name;
    int line = model_ini_foreign_key(ini, type->takes, &name);
    if (!line)
        return 0;
    char takes[600] = "";
    for (const char *const *t = type->takes; *t; t++) {
        size_t n = strlen(takes);
        snprintf(takes + n, sizeof takes - n, "%s%s", n ? ", " : "", *t);
    }
    return pd_fail(err, PD_ECONF, "%s:%d: layer '%s': %s takes no key '%s' (it takes: %s)", b->file,
                   line, ini->name.text, type->name, name, takes);
}

static const struct nn_layer *find_type(const struct nn_build *b, const struct layer_ini *ini,
                                        struct pd_err *err) {
    char known[600] = "", text[640];
    if (!ini->type.line) {
        pd_fail(err, PD_ECONF, "%s:%d: layer '%s' has no type", b->file, ini->name.line,
                ini->name.text);
        return NULL;
    }
    for (const struct nn_layer *const *t = nn_layers; *t; t++) {
        if (!strcmp((*t)->name, ini->type.text))
            return *t;
        size_t n = strlen(known);
        snprintf(known + n, sizeof known - n, "%s%s", n ? ", " : "", (*t)->name);
    }
    pd_fail(err, PD_ECONF, "%s:%d: unknown layer type '%s'%s", b->file, ini->type.line,
            ini->type.text, pd_suggest(text, sizeof text, ini->type.text, known));
    return NULL;
}

static const struct nn_act *find_act(const struct nn_build *b, const struct layer_ini *ini,
                                     struct pd_err *err) {
    char known[600] = "", text[640];
    if (!ini->act.line)
        return &nn_acts[0];
    for (const struct nn_act *a = nn_acts; a->name; a++) {
        if (!strcmp(a->name, ini->act.text))
            return a;
        size_t n = strlen(known);
        snprintf(known + n, sizeof known - n, "%s%s", n ? ", " : "", a->name);
    }
    pd_fail(err, PD_ECONF, "%s:%d: unknown activation '%s'%s", b->file, ini->act.line,
            ini->act.text, pd_suggest(text, sizeof text, ini->act.text, known));
    return NULL;
}

/* Append layer `l` of the file as a node; its inputs are nodes already. */
static int add_layer(struct nn_build *b, uint32_t l, struct pd_err *err) {
    struct nn_graph *g = b->g;
    const struct layer_ini *ini = &g->model->layer[l];
    struct nn_node *n = &g->node[g->n_nodes];
    memcpy(n->name, ini->name.text, sizeof n->name);
    n->line = ini->name.line;
    n->ini = ini;
    n->number = l;
    n->id = g->n_nodes;
    if (!(n->type = find_type(b, ini, err)) || !(n->act = find_act(b, ini, err)))
        return PD_ECONF;
    int rc = check_keys(b, ini, n->type, err);
    if (rc)
        return rc;
    n->in = pd_calloc(ini->inputs.n, sizeof *n->in);
    n->param = pd_calloc(ini->inputs.n + NN_MORE_PARAMS, sizeof *n->param);
    n->use = pd_calloc(ini->inputs.n + NN_MORE_USES, sizeof *n->use);
    g->n_nodes++; /* freed with the graph from here on */
    if (!n->in || !n->param || !n->use)
        return nn_build_no_memory(b, err);
    for (uint32_t k = 0; k < ini->inputs.n; k++) {
        n->in[k] = (uint32_t)nn_build_find_node(g, n->id, ini->inputs.at[k].text);
        g->node[n->in[k]].n_readers++;
    }
    n->n_in = ini->inputs.n;
    rc = n->type->shape(b, n, err);
    if (rc)
        return rc;
    if (ini->param.n > n->n_param)
        return pd_fail(err, PD_ECONF, "%s:%d: layer '%s' has %u parameters, but param names %u",
                       b->file, ini->param.line, n->name, n->n_param, ini->param.n);
    n->wants_grad = n->n_param > 0;
    for (uint32_t k = 0; k < n->n_in; k++)
        n->wants_grad |= g->node[n->in[k]].wants_grad;
    return 0;
}

/* --- order --- */

struct layer_walk {
    struct nn_build *b;
    /* for each layer of the file: 0 new, 1 on the path, 2 a node */
    uint8_t *mark;
    uint32_t *path; /* layers from the start of the walk */
    uint32_t n_path;
};

static int cycle_error(const struct layer_walk *w, uint32_t l, struct pd_err *err) {
    const struct model_ini *m = w->b->g->model;
    char text[600] = "";
    uint32_t i = 0;
    while (w->path[i] != l)
        i++;
    for (; i < w->n_path; i++) {
        size_t n = strlen(text);
        snprintf(text + n, sizeof text - n, "%s <- ", m->layer[w->path[i]].name.text);
    }
    return pd_fail(err, PD_ECONF, "%s:%d: the layers form a cycle: %s%s", w->b->file,
                   m->layer[l].inputs.line, text, m->layer[l].name.text);
}

/* Depth-first search in the order of the file: the order of nodes is a function of the file alone.
 * NN_MAX_LAYERS bounds the depth. */
static int visit(struct layer_walk *w, uint32_t l, struct pd_err *err) {
    const struct model_ini *m = w->b->g->model;
    const struct layer_ini *ini = &m->layer[l];
    char text[120];
    if (w->mark[l] == 2)
        return 0;
    if (w->mark[l] == 1)
        return cycle_error(w, l, err);
    w->mark[l] = 1;
    w->path[w->n_path++] = l;
    if (nn_build_find_node(w->b->g, w->b->g->n_fields, ini->name.text) >= 0)
        return pd_fail(err, PD_ECONF, "%s:%d: layer '%s' has the name of a field (line %d)",
                       w->b->file, ini->name.line, ini->name.text, m->data.fields.line);
    if (!ini->inputs.line)
        return pd_fail(err, PD_ECONF, "%s:%d: layer '%s' has no inputs", w->b->file, ini->name.line,
                       ini->name.text);
    if (ini->inputs.n > NN_MAX_INPUTS)
        return pd_fail(err, PD_ECONF, "%s:%d: layer '%s' has more than %d inputs", w->b->file,
                       ini->inputs.line, ini->name.text, NN_MAX_INPUTS);
    for (uint32_t k = 0; k < ini->inputs.n; k++) {
        const char *name = ini->inputs.at[k].text;
        int in = find_layer_ini(m, name), rc = 0;
        if (in >= 0)
            rc = visit(w, (uint32_t)in, err);
        else if (nn_build_find_node(w->b->g, w->b->g->n_fields, name) < 0)
            rc = pd_fail(err, PD_ECONF,
                         "%s:%d: layer '%s': there is no layer or field called '%s'%s", w->b->file,
                         ini->inputs.line, ini->name.text, name,
                         nn_build_suggest_node(w->b->g, 1, 1, name, text));
        if (rc)
            return rc;
    }
    w->n_path--;
    w->mark[l] = 2;
    return add_layer(w->b, l, err);
}

static int add_layers(struct nn_build *b, struct pd_err *err) {
    uint32_t n = b->g->model->n_layers;
    struct layer_walk w = {b, pd_calloc(n, 1), pd_calloc(n, sizeof(uint32_t)), 0};
    int rc = w.mark && w.path ? 0 : nn_build_no_memory(b, err);
    for (uint32_t l = 0; !rc && l < n; l++)
        rc = visit(&w, l, err);
    free(w.mark);
    free(w.path);
    return rc;
}

/* --- costs and evaluators --- */

static int find_label(const struct nn_build *b, const char *what, const char *owner, int owner_line,
                      const struct ini_name *label, enum nn_label kind, uint32_t *out,
                      struct pd_err *err) {
    if (!label->line)
        return pd_fail(err, PD_ECONF, "%s:%d: %s '%s' has no label", b->file, owner_line, what,
                       owner);
    char text[120];
    int i = nn_build_find_node(b->g, b->g->n_fields, label->text);
    if (i < 0)
        return pd_fail(err, PD_ECONF, "%s:%d: %s '%s': its label '%s' is not a field%s", b->file,
                       label->line, what, owner, label->text,
                       nn_build_suggest_node(b->g, 1, 0, label->text, text));
    enum pd_field_kind is = b->g->node[i].field.kind;
    if (is == PD_LIST || (is == PD_DENSE && kind == NN_LABEL_CLASS))
        return pd_fail(err, PD_ECONF,
                       "%s:%d: %s '%s': its label '%s' is a %s field, but it needs %s", b->file,
                       label->line, what, owner, label->text, is == PD_LIST ? "list" : "dense",
                       kind == NN_LABEL_CLASS ? "the id of a class" : "a number or an id");
    *out = b->g->node[i].number;
    return 0;
}

static int find_input_layer(const struct nn_build *b, const char *what, const char *owner,
                            int owner_line, const struct ini_name *input, uint32_t *out,
                            struct pd_err *err) {
    if (!input->line)
        return pd_fail(err, PD_ECONF, "%s:%d: %s '%s' has no input", b->file, owner_line, what,
                       owner);
    char text[120];
    int i = nn_build_find_node(b->g, b->g->n_nodes, input->text);
    if (i < 0 || !b->g->node[i].type)
        return pd_fail(err, PD_ECONF, "%s:%d: %s '%s': there is no layer called '%s'%s", b->file,
                       input->line, what, owner, input->text,
                       nn_build_suggest_node(b->g, 0, 1, input->text, text));
    *out = (uint32_t)i;
    return 0;
}

static int add_cost(struct nn_build *b, const struct cost_ini *ini, struct pd_err *err) {
    struct nn_graph *g = b->g;
    struct nn_cost_node *c = &g->cost[g->n_costs];
    *c = (struct nn_cost_node){.name = ini->name.text, .line = ini->name.line, .id = g->n_costs};
    if (!ini->type.line)
        return pd_fail(err, PD_ECONF, "%s:%d: cost '%s' has no type", b->file, c->line, c->name);
    char known[600] = "", text[640];
    for (const struct nn_cost_type *const *t = nn_cost_types; *t && !c->type; t++) {
        size_t n = strlen(known);
        snprintf(known + n, sizeof known - n, "%s%s", n ? ", " : "", (*t)->name);
        c->type = strcmp((*t)->name, ini->type.text) ? NULL : *t;
    }
    if (!c->type)
        return pd_fail(err, PD_ECONF, "%s:%d: unknown cost type '%s'%s", b->file, ini->type.line,
                       ini->type.text, pd_suggest(text, sizeof text, ini->type.text, known));
    if (ini->input.n != c->type->n_in && ini->input.line)
        return pd_fail(err, PD_ECONF, "%s:%d: cost '%s': %s takes %u input%s, not %u", b->file,
                       ini->input.line, c->name, c->type->name, c->type->n_in,
                       c->type->n_in == 1 ? "" : "s", ini->input.n);
    int rc = 0;
    struct ini_name none = {"", 0};
    for (c->n_in = 0; c->n_in < c->type->n_in && !rc; c->n_in++)
        rc = find_input_layer(b, "cost", c->name, c->line,
                              ini->input.line ? &ini->input.at[c->n_in] : &none, &c->in[c->n_in],
                              err);
    if (!rc && c->type->label != NN_LABEL_NONE)
        rc = find_label(b, "cost", c->name, c->line, &ini->label, c->type->label, &c->label, err);
    if (rc)
        return rc;
    struct nn_node *in = &g->node[c->in[0]];
    if (c->type->act && strcmp(in->act->name, c->type->act))
        return pd_fail(
            err, PD_ECONF,
            "%s:%d: cost '%s': %s needs an input with act = %s, but '%s' (line %d) has %s", b->file,
            ini->input.line, c->name, c->type->name, c->type->act, in->name, in->line,
            in->act->name);
    c->weight = (float)ini->weight.value;
    c->delta = ini->delta.line ? (float)ini->delta.value : 1;
    if (c->type->shape) {
        rc = c->type->shape(b, c, err);
    } else {
        for (uint32_t k = 0; k < c->n_in && !rc; k++)
            if (g->node[c->in[k]].size != 1)
                rc =
                    pd_fail(err, PD_ECONF,
                            "%s:%d: cost '%s': %s needs one value a sample, but its input '%s' "
                            "(line %d) is [batch x %u]",
                            b->file, ini->input.line, c->name, c->type->name,
                            g->node[c->in[k]].name, g->node[c->in[k]].line, g->node[c->in[k]].size);
        uint32_t width = c->type->label == NN_LABEL_NONE ? 1 : g->node[c->label].size;
        if (!rc && width != 1)
            rc = pd_fail(err, PD_ECONF,
                         "%s:%d: cost '%s': its label '%s' has %u values a sample, but its input "
                         "is [batch x 1]",
                         b->file, ini->label.line, c->name, g->node[c->label].name, width);
    }
    for (uint32_t k = 0; k < c->n_in; k++) {
        g->node[c->in[k]].n_costs++;
        g->node[c->in[k]].n_plain_costs += !c->type->act;
    }
    g->n_costs++;
    return rc;
}

static int add_evaluator(struct nn_build *b, const struct evaluator_ini *ini, struct pd_err *err) {
    struct nn_graph *g = b->g;
    struct nn_eval_node *ev = &g->eval[g->n_evals];
    *ev = (struct nn_eval_node){.name = ini->name.text,
                                .threshold = ini->threshold.line ? ini->threshold.value : 0.5,
                                .positive = ini->positive.line ? (uint32_t)ini->positive.value : 1};
    char known[600] = "", text[640];
    for (const struct nn_evaluator *const *t = nn_evaluators; *t && !ev->type; t++) {
        size_t n = strlen(known);
        snprintf(known + n, sizeof known - n, "%s%s", n ? ", " : "", (*t)->name);
        ev->type = strcmp((*t)->name, ini->type.text) ? NULL : *t;
    }
    if (!ev->type)
        return pd_fail(err, PD_ECONF, "%s:%d: unknown evaluator type '%s'%s", b->file,
                       ini->type.line ? ini->type.line : ini->name.line, ini->type.text,
                       pd_suggest(text, sizeof text, ini->type.text, known));
    g->n_evals++;
    if (ev->type->of_cost) {
        uint32_t c = 0;
        while (c < g->n_costs && strcmp(g->cost[c].name, ini->input.text))
            c++;
        if (c == g->n_costs)
            return pd_fail(err, PD_ECONF,
                           "%s:%d: evaluator '%s': its input is the name of a cost, not '%s'",
                           b->file, ini->input.line ? ini->input.line : ini->name.line,
                           ini->name.text, ini->input.text);
        ev->input = c;
        return nn_build_eval_keys(b, ini, ev, err);
    }
    int rc = find_input_layer(b, "evaluator", ini->name.text, ini->name.line, &ini->input,
                              &ev->input, err);
    if (!rc)
        rc = find_label(b, "evaluator", ini->name.text, ini->name.line, &ini->label, NN_LABEL_VALUE,
                        &ev->label, err);
    if (!rc)
        rc = nn_build_eval_keys(b, ini, ev, err);
    const struct nn_node *in = &g->node[ev->input];
    if (!rc && ev->type->max_cols && in->size > ev->type->max_cols)
        rc = pd_fail(
            err, PD_ECONF,
            "%s:%d: evaluator '%s': %s takes one output, but '%s' (line %d) is [batch x %u]",
            b->file, ini->input.line, ev->name, ev->type->name, in->name, in->line, in->size);
    if (!rc && ev->positive > 0 && ev->positive >= in->size && in->size > 1)
        rc = pd_fail(
            err, PD_ECONF,
            "%s:%d: evaluator '%s': positive is class %u, but '%s' (line %d) is [batch x %u]",
            b->file, ini->positive.line ? ini->positive.line : ini->name.line, ev->name,
            ev->positive, in->name, in->line, in->size);
    if (!rc && ev->type->of_probabilities && strcmp(in->act->name, "sigmoid") &&
        strcmp(in->act->name, "softmax"))
        rc = pd_fail(err, PD_ECONF,
                     "%s:%d: evaluator '%s': %s needs an input with act = sigmoid or softmax, but "
                     "'%s' (line %d) has %s",
                     b->file, ini->input.line, ev->name, ev->type->name, in->name, in->line,
                     in->act->name);
    return rc;
}

/* A layer that no cost reads, directly or not, would never learn: report it as a mistake. */
static int check_used(const struct nn_build *b, struct pd_err *err) {
    struct nn_graph *g = b->g;
    if (!g->n_costs)
        return pd_fail(
            err, PD_ECONF,
            "%s: there is no section [cost NAME], as [cost c] with type, input and label", b->file);
    for (uint32_t i = g->n_fields; i < g->n_nodes; i++) {
        const struct nn_node *n = &g->node[i];
        if (!n->n_readers && !n->n_costs)
            return pd_fail(err, PD_ECONF, "%s:%d: layer '%s' is used by no other layer and no cost",
                           b->file, n->line, n->name);
    }
    for (uint32_t i = g->n_fields; i < g->n_nodes; i++) {
        struct nn_node *n = &g->node[i];
        n->dy_is_y = n->n_costs == 1 && n->n_plain_costs == 0 && n->n_readers == 0;
    }
    return 0;
}

/* Set `together` of matrices that only one layer uses. */
static void mark_joint(struct nn_graph *g) {
    for (uint32_t i = g->n_fields; i < g->n_nodes; i++)
        for (uint32_t k = 0; g->node[i].together && k < g->node[i].n_in; k++) {
            const uint32_t id = g->node[i].param[k];
            struct nn_param *p = &g->param[id];
            p->together = g->param_readers[id] == 1 && !p->is_static;
        }
}

static int check_optimizer(const struct nn_build *b, struct pd_err *err) {
    const struct optimizer_ini *o = &b->g->model->optimizer;
    if (!o->line)
        return pd_fail(err, PD_ECONF,
                       "%s: there is no section [optimizer], with type and learning_rate", b->file);
    for (uint32_t i = 0; i < o->n_settings && !model_ini_setting(b->g->model, "learning_rate"); i++)
        if (pd_edit_distance(o->setting[i].name.text, "learning_rate") < 3)
            return pd_fail(err, PD_ECONF,
                           "%s:%d: an optimizer has no setting '%s', did you mean 'learning_rate'?",
                           b->file, o->setting[i].name.line, o->setting[i].name.text);
    if (!o->type.line || !model_ini_setting(b->g->model, "learning_rate"))
        return pd_fail(err, PD_ECONF, "%s:%d: [optimizer] needs %s", b->file, o->line,
                       !o->type.line ? "type" : "learning_rate");
    return 0;
}

/* --- load and accessors --- */

/* Takes over `model`, even on failure. */
static int graph_new(struct nn_graph **out, struct model_ini *model, struct pd_err *err) {
    struct nn_graph *g = pd_calloc(1, sizeof *g);
    if (!g) {
        model_ini_free(model);
        return pd_oom(err, "a network");
    }
    g->model = model;
    struct nn_build b = {.g = g, .file = model->file};
    g->node = pd_calloc((size_t)model->data.fields.n + model->n_layers, sizeof *g->node);
    g->field = pd_calloc(model->data.fields.n, sizeof *g->field);
    g->cost = pd_calloc(model->n_costs, sizeof *g->cost);
    g->eval = pd_calloc(model->n_evaluators, sizeof *g->eval);
    int rc = g->node && g->field && g->cost && g->eval ? 0 : nn_build_no_memory(&b, err);
    if (!rc)
        rc = add_fields(&b, err);
    if (!rc)
        rc = add_layers(&b, err);
    for (uint32_t i = 0; !rc && i < model->n_costs; i++)
        rc = add_cost(&b, &model->cost[i], err);
    for (uint32_t i = 0; !rc && i < model->n_evaluators; i++)
        rc = add_evaluator(&b, &model->evaluator[i], err);
    if (!rc)
        rc = check_used(&b, err);
    if (!rc)
        rc = check_optimizer(&b, err);
    if (rc) {
        nn_graph_free(g);
        return rc;
    }
    mark_joint(g);
    *out = g;
    return 0;
}

int nn_graph_load_text(struct nn_graph **out, const char *path, const char *text,
                       struct pd_err *err) {
    struct model_ini *m;
    int rc = model_ini_read(&m, path, text, err);
    return rc ? rc : graph_new(out, m, err);
}

int nn_graph_load(struct nn_graph **out, const char *path, struct pd_err *err) {
    return nn_graph_load_text(out, path, NULL, err);
}

void nn_graph_free(struct nn_graph *g) {
    if (!g)
        return;
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        free(g->node[i].in);
        free(g->node[i].param);
        free(g->node[i].use);
    }
    free(g->node);
    free(g->field);
    free(g->param);
    free(g->param_readers);
    free(g->cost);
    free(g->eval);
    free(g->use);
    nn_samplers_free(g);
    model_ini_free(g->model);
    free(g);
}

const struct model_ini *nn_graph_model(const struct nn_graph *g) { return g->model; }
uint32_t nn_graph_n_fields(const struct nn_graph *g) { return g->n_fields; }

const struct pd_field *nn_graph_field(const struct nn_graph *g, uint32_t i) {
    assert(i < g->n_fields);
    return &g->field[i];
}

uint32_t nn_graph_n_params(const struct nn_graph *g) { return g->n_params; }

const struct nn_param *nn_graph_param(const struct nn_graph *g, uint32_t i) {
    assert(i < g->n_params);
    return &g->param[i];
}

int nn_graph_find_param(const struct nn_graph *g, const char *name) {
    for (uint32_t i = 0; i < g->n_params; i++)
        if (!strcmp(g->param[i].name, name))
            return (int)i;
    return -1;
}

uint32_t nn_graph_n_evaluators(const struct nn_graph *g) { return g->n_evals; }

uint32_t nn_graph_layer_size(const struct nn_graph *g, const char *name) {
    for (uint32_t i = g->n_fields; i < g->n_nodes; i++)
        if (!strcmp(g->node[i].name, name))
            return g->node[i].size;
    return 0;
}

const char *nn_graph_cost_input(const struct nn_graph *g, uint32_t cost) {
    assert(cost < g->n_costs);
    return g->node[g->cost[cost].in[0]].name;
}
