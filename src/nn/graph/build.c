/* SPDX-License-Identifier: Apache-2.0 */
/* build.c - functions for the `shape` functions of layers: sizes, parameters (new, or shared by
 * name), and the fields that look up rows of tables. */
#include "nn/graph/graph_internal.h"

enum { MAX_ELEMENTS_LOG2 = 36 }; /* elements of a parameter: 2^36 floats are 256 GiB */

int nn_build_no_memory(const struct nn_build *b, struct pd_err *err) {
    return pd_fail(err, PD_ENOMEM, "%s: out of memory", b->file);
}

uint64_t nn_build_size(const struct nn_build *b, const struct nn_node *self) {
    return self->ini->size.is_vocabulary ? b->vocabulary : self->ini->size.value;
}

int nn_build_need_values(const struct nn_build *b, const struct nn_node *self, struct pd_err *err) {
    for (uint32_t k = 0; k < self->n_in; k++) {
        const struct nn_node *in = &b->g->node[self->in[k]];
        if (!in->type && in->field.kind != PD_DENSE)
            return pd_fail(
                err, PD_ECONF,
                "%s:%d: layer '%s': its input '%s' is a field of %s, but %s needs values: put an "
                "embedding layer between",
                b->file, self->ini->inputs.line, self->name, in->name,
                in->field.kind == PD_ID ? "ids, [batch x 1]" : "lists of ids", self->type->name);
    }
    return 0;
}

static int build_use(struct nn_build *b, struct nn_node *self, uint32_t k, struct nn_use use,
                     struct pd_err *err) {
    struct nn_graph *g = b->g;
    uint32_t u = 0;
    while (u < g->n_uses && (g->use[u].param != use.param || g->use[u].field != use.field ||
                             g->use[u].drawn != use.drawn))
        u++;
    if (u == g->n_uses) {
        struct nn_use *grown = pd_realloc(g->use, (g->n_uses + 1) * sizeof *grown);
        if (!grown)
            return nn_build_no_memory(b, err);
        g->use = grown;
        g->use[g->n_uses++] = use;
    }
    self->use[k] = u;
    return 0;
}

int nn_build_use(struct nn_build *b, struct nn_node *self, uint32_t k, uint32_t param,
                 uint32_t field, struct pd_err *err) {
    return build_use(b, self, k, (struct nn_use){self->param[param], field, 0}, err);
}

int nn_build_use_drawn(struct nn_build *b, struct nn_node *self, uint32_t k, uint32_t param,
                       uint32_t sampler, struct pd_err *err) {
    return build_use(b, self, k, (struct nn_use){self->param[param], sampler, 1}, err);
}

/* The line of the first key of row policies. 0: none. */
static int any_life(const struct layer_ini *ini) {
    int line = ini->click.line;
    for (size_t i = 0; i < PD_ROW_LIFE_N && !line; i++)
        line = ini->life[i].line;
    return line;
}

static int share_param(const struct nn_build *b, const struct nn_node *self, struct nn_param *p,
                       int line, enum nn_kind kind, uint64_t rows, uint64_t cols, double std,
                       struct pd_err *err) {
    const struct layer_ini *ini = self->ini;
    if (p->rows != rows || p->cols != cols || p->kind != kind)
        return pd_fail(err, PD_ECONF,
                       "%s:%d: layer '%s' takes parameter '%s' as a %s of %llu x %llu, but on line "
                       "%d it is a %s of %llu x %llu",
                       b->file, line, self->name, p->name, kind == NN_TABLE ? "table" : "tensor",
                       (unsigned long long)rows, (unsigned long long)cols, p->line,
                       p->kind == NN_TABLE ? "table" : "tensor", (unsigned long long)p->rows,
                       (unsigned long long)p->cols);
    struct {
        const struct ini_number *given;
        double value, first;
        const char *name;
    } same[] = {
        {&ini->init_std, std, p->init_std, "init_std"},
        {&ini->lr_factor, ini->lr_factor.value, p->lr_factor, "lr_factor"},
        {&ini->init_mean, ini->init_mean.value, p->init_mean, "init_mean"},
        {&ini->l2, ini->l2.value, p->l2, "l2"},
    };
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++)
        if (same[i].given->line && same[i].value != same[i].first)
            return pd_fail(err, PD_ECONF, "%s:%d: parameter '%s' has %s %g here, but %g on line %d",
                           b->file, same[i].given->line, p->name, same[i].name, same[i].value,
                           same[i].first, p->line);
    if (any_life(ini))
        return pd_fail(err, PD_ECONF,
                       "%s:%d: parameter '%s': how its rows come and go is said where it appears "
                       "first, on line %d",
                       b->file, any_life(ini), p->name, p->line);
    if (ini->is_static.line && ini->is_static.value != p->is_static)
        return pd_fail(err, PD_ECONF,
                       "%s:%d: parameter '%s' is %sstatic here, but not so on line %d", b->file,
                       ini->is_static.line, p->name, ini->is_static.value ? "" : "not ", p->line);
    return 0;
}

/* Set the initial values of a parameter: mean and std as the servers take them (see struct
 * nn_param). */
static int initial(const struct nn_build *b, const struct nn_node *self, const char *suffix,
                   struct nn_param *p, double std, struct pd_err *err) {
    const struct layer_ini *ini = self->ini;
    static const char *const kinds[] = {"normal", "uniform", "xavier"};
    int k = 0;
    p->init_mean = !strcmp(suffix, "gamma");
    p->init_std = 0;
    if (!strcmp(suffix, "b") || !strcmp(suffix, "beta") || !strcmp(suffix, "out") ||
        p->init_mean > 0)
        return 0;
    while (ini->init.line && k < 3 && strcmp(kinds[k], ini->init.text))
        k++;
    if (k == 3)
        return pd_fail(err, PD_ECONF,
                       "%s:%d: layer '%s': init is normal, uniform or xavier, not '%s'", b->file,
                       ini->init.line, self->name, ini->init.text);
    if (ini->init_max.line && k != 1)
        return pd_fail(err, PD_ECONF, "%s:%d: layer '%s': init_max is for init = uniform", b->file,
                       ini->init_max.line, self->name);
    if (ini->init_std.line && k != 0)
        return pd_fail(err, PD_ECONF, "%s:%d: layer '%s': init_std is for init = normal", b->file,
                       ini->init_std.line, self->name);
    p->init_mean = ini->init_mean.value;
    double fans = (double)(p->kind == NN_TABLE ? 1 : p->rows) +
                  (double)p->cols; /* of a table: the row that one id brings in */
    p->init_std = k == 2               ? sqrt(2 / fans)
                  : k == 0             ? std
                  : ini->init_max.line ? -ini->init_max.value
                                       : -std * sqrt(3); /* the same standard deviation */
    return 0;
}

/* Set the policy of a table's rows. */
static int life(const struct nn_build *b, const struct nn_node *self, struct nn_param *p,
                struct pd_err *err) {
    const struct layer_ini *ini = self->ini;
    int line = any_life(ini), f = -1;
    pd_row_life_init(&p->life);
    p->click = -1;
    if (!line)
        return 0;
    if (p->kind != NN_TABLE)
        return pd_fail(err, PD_ECONF,
                       "%s:%d: layer '%s': only the rows of a table are admitted or age "
                       "(sparse_update = true)",
                       b->file, line, self->name);
    /* Its rows are never pushed or seen: they would never be admitted, or all be removed. */
    if (ini->is_static.value)
        return pd_fail(
            err, PD_ECONF,
            "%s:%d: layer '%s': rows that are static are neither admitted nor do they age", b->file,
            line, self->name);
    for (size_t i = 0; i < PD_ROW_LIFE_N; i++)
        if (ini->life[i].line)
            *pd_row_life_at(&p->life, i) = ini->life[i].value;
    if (pd_row_life_check(&p->life, err)) {
        pd_err_prefix(err, "%.200s:%d: layer '%.64s'", b->file, line, self->name);
        return PD_ECONF;
    }
    for (uint32_t i = 0; ini->click.line && i < b->g->n_fields && f < 0; i++)
        if (!strcmp(b->g->node[i].name, ini->click.text) && b->g->node[i].field.kind != PD_LIST)
            f = (int)i;
    if (ini->click.line && f < 0)
        return pd_fail(
            err, PD_ECONF,
            "%s:%d: layer '%s': click is a field with one id or number a sample, not '%s'", b->file,
            ini->click.line, self->name, ini->click.text);
    p->click = f;
    return 0;
}

int nn_build_param(struct nn_build *b, struct nn_node *self, uint32_t k, const char *suffix,
                   enum nn_kind kind, uint64_t rows, uint64_t cols, double std,
                   struct pd_err *err) {
    struct nn_graph *g = b->g;
    const struct layer_ini *ini = self->ini;
    int named = k < ini->param.n, line = named ? ini->param.line : self->line;
    int is_bias = !strcmp(suffix, "b") || !strcmp(suffix, "beta") ||
                  !strcmp(suffix, "gamma"); /* no decay unless the file asks for it */
    char name[2 * NN_NAME_MAX];
    snprintf(name, sizeof name, named ? "%s" : "%s.%s", named ? ini->param.at[k].text : self->name,
             suffix);
    if (strlen(name) >= NN_NAME_MAX)
        return pd_fail(err, PD_ECONF,
                       "%s:%d: the parameter's name '%s' is too long; give one with param =",
                       b->file, line, name);
    int i = nn_graph_find_param(g, name);
    if (i >= 0) {
        int rc = share_param(b, self, &g->param[i], line, kind, rows, cols, std, err);
        if (rc)
            return rc;
    } else {
        if (rows > (UINT64_C(1) << MAX_ELEMENTS_LOG2) / cols && kind == NN_DENSE)
            return pd_fail(err, PD_ECONF,
                           "%s:%d: parameter '%s' of %llu x %llu is larger than 2^%d values",
                           b->file, line, name, (unsigned long long)rows, (unsigned long long)cols,
                           MAX_ELEMENTS_LOG2);
        struct nn_param *grown = pd_realloc(g->param, (g->n_params + 1) * sizeof *grown);
        if (grown)
            g->param = grown;
        uint32_t *readers = pd_realloc(g->param_readers, (g->n_params + 1) * sizeof *readers);
        if (readers)
            g->param_readers = readers;
        if (!grown || !readers)
            return nn_build_no_memory(b, err);
        i = (int)g->n_params++;
        struct nn_param *p = &g->param[i];
        memset(p, 0, sizeof *p);
        memcpy(p->name, name, strlen(name) + 1);
        p->kind = kind;
        p->rows = rows;
        p->cols = cols;
        int rc = initial(b, self, suffix, p, std, err);
        if (!rc)
            rc = life(b, self, p, err);
        if (rc)
            return rc;
        p->is_static = ini->is_static.value;
        p->lr_factor = p->is_static ? 0 : ini->lr_factor.line ? ini->lr_factor.value : 1;
        p->l1 = ini->l1.line ? ini->l1.value : is_bias ? 0 : g->model->optimizer.l1.value;
        p->l2 = ini->l2.line ? ini->l2.value : is_bias ? 0 : g->model->optimizer.l2.value;
        p->line = line;
        g->param_readers[i] = 0;
    }
    g->param_readers[i]++;
    self->param[self->n_param++] = (uint32_t)i;
    return 0;
}

int nn_build_average(struct nn_build *b, struct nn_node *self, uint32_t k, const char *suffix,
                     uint64_t cols, double share, double first, struct pd_err *err) {
    struct nn_graph *g = b->g;
    uint32_t before = g->n_params;
    int rc = nn_build_param(b, self, k, suffix, NN_DENSE, 1, cols, 0, err);
    if (rc)
        return rc;
    struct nn_param *p = &g->param[self->param[self->n_param - 1]];
    if (g->n_params == before)
        return pd_fail(err, PD_ECONF,
                       "%s:%d: layer '%s': its parameter '%s' is the layer's alone, but line %d "
                       "has one of that name",
                       b->file, self->line, self->name, p->name, p->line);
    p->init_mean = first;
    p->init_std = p->l1 = p->l2 = 0;
    p->average = share;
    return 0;
}

int nn_build_n_in(const struct nn_build *b, const struct nn_node *self, uint32_t lo, uint32_t hi,
                  struct pd_err *err) {
    if (self->n_in >= lo && self->n_in <= hi)
        return nn_build_need_values(b, self, err);
    char many[40] = "";
    if (hi > lo)
        snprintf(many, sizeof many, hi == NN_MAX_INPUTS ? " or more" : " to %u", hi);
    return pd_fail(err, PD_ECONF, "%s:%d: layer '%s': %s takes %u%s input%s, not %u", b->file,
                   self->ini->inputs.line, self->name, self->type->name, lo, many,
                   hi > 1 ? "s" : "", self->n_in);
}

int nn_build_same_size(const struct nn_build *b, const struct nn_node *self, struct pd_err *err) {
    const struct nn_node *first = &b->g->node[self->in[0]];
    for (uint32_t k = 1; k < self->n_in; k++) {
        const struct nn_node *in = &b->g->node[self->in[k]];
        if (in->size != first->size)
            return pd_fail(err, PD_ECONF,
                           "%s:%d: layer '%s': its inputs must be of one size, but '%s' is [batch "
                           "x %u] and '%s' is [batch x %u]",
                           b->file, self->ini->inputs.line, self->name, first->name, first->size,
                           in->name, in->size);
    }
    return 0;
}
