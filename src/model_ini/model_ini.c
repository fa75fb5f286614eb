/* SPDX-License-Identifier: Apache-2.0 */
/* model_ini.c - see model_ini.h. One table lists the keys; the rest is its interpreter. */
#include "model_ini/model_ini.h"

#include "conf/ini_file.h"
#include "model_ini/model_ini_internal.h"
#include "model_ini/model_ini_key.h"

enum value_type { V_NAME, V_NAMES, V_TEXT, V_SIZE, V_SIZE_OR_VOCABULARY, V_NUMBER, V_BOOL };
enum section { S_DATA, S_FIELD, S_LAYER, S_COST, S_OPTIMIZER, S_EVALUATOR, N_SECTIONS };

static const char *const section_name[N_SECTIONS] = {"data", "field",     "layer",
                                                     "cost", "optimizer", "evaluator"};

struct ini_key {
    enum section section;
    const char *name;
    enum value_type type;
    size_t offset;
    double min, max; /* bounds of a number or size */
    const char *text;
};

#define DATA(k, t, lo, hi, text) \
    { S_DATA, #k, t, offsetof(struct data_ini, k), lo, hi, text }
#define LAYER(k, t, lo, hi, text) \
    { S_LAYER, #k, t, offsetof(struct layer_ini, k), lo, hi, text }
#define COST(k, t, lo, hi, text) \
    { S_COST, #k, t, offsetof(struct cost_ini, k), lo, hi, text }
#define OPT(k, t, lo, hi, text) \
    { S_OPTIMIZER, #k, t, offsetof(struct optimizer_ini, k), lo, hi, text }
#define EVAL(k, t, lo, hi, text) \
    { S_EVALUATOR, #k, t, offsetof(struct evaluator_ini, k), lo, hi, text }
static const struct ini_key keys[] = {
    DATA(train, V_TEXT, 0, 0, "patterns of the training files, relative to train.ini's folder"),
    DATA(test, V_TEXT, 0, 0, "patterns of the test files; default: no test"),
    DATA(vocabulary, V_SIZE, 1, 4e18, "number of ids of formats that are texts of ids"),
    DATA(vocabulary_file, V_TEXT, 0, 0, "a file with a word on each line: its lines are the ids"),
    DATA(start_id, V_SIZE, 0, 4e18, "id of <s>, the start of a sentence; default: from the file"),
    DATA(end_id, V_SIZE, 0, 4e18, "id of <e>, the end of a sentence; default: from the file"),
    LAYER(type, V_NAME, 0, 0, "the layer, one of those below"),
    LAYER(inputs, V_NAMES, 0, 0, "names of layers or fields, in order"),
    LAYER(param, V_NAMES, 0, 0,
          "names of the parameters; layers that give the same name share the parameter"),
    LAYER(size, V_SIZE_OR_VOCABULARY, 1, 1 << 24, "outputs of a sample, or of a looked-up row"),
    LAYER(act, V_NAME, 0, 0, "activation; default linear"),
    LAYER(bias, V_BOOL, 0, 0, "whether the layer adds a trained bias; default true"),
    LAYER(sparse_update, V_BOOL, 0, 0,
          "the parameter is a table: a step moves only the rows of the batch; default false"),
    LAYER(is_distributed, V_BOOL, 0, 0,
          "as sparse_update; the original system's name for tables on servers; default false"),
    {S_LAYER, "static", V_BOOL, offsetof(struct layer_ini, is_static), 0, 0,
     "the parameters keep their values; default false"},
    LAYER(pooling, V_NAME, 0, 0,
          "embedding: sum (default), mean, sqrtn, bi_interaction or fm of a list's rows; "
          "pool: max or mean"),
    LAYER(combine, V_NAME, 0, 0, "several fields side by side (concat, default) or added (sum)"),
    LAYER(dim, V_SIZE, 1, 1 << 20, "width of each vector of the inputs"),
    LAYER(kind, V_NAME, 0, 0, "cross: matrix (default, DCNv2) or vector (DCN)"),
    LAYER(rank, V_SIZE, 1, 1 << 20,
          "cross: the matrix is a product of two of this rank; default: a whole matrix"),
    LAYER(channels, V_SIZE, 1, 1 << 20, "of the input image; default: the input layer's"),
    LAYER(height, V_SIZE, 1, 1 << 16, "of the input image; default: the input layer's"),
    LAYER(width, V_SIZE, 1, 1 << 16, "of the input image; default: the input layer's"),
    LAYER(filter, V_SIZE, 1, 1 << 10, "height and width of the window"),
    LAYER(stride, V_SIZE, 1, 1 << 10,
          "distance of two places of the window; default: conv 1, pool filter"),
    LAYER(padding, V_SIZE, 0, 1 << 10, "zeros around the image; default 0"),
    LAYER(eps, V_NUMBER, 1e-12, 1, "added to the variance; default 1e-5"),
    LAYER(momentum, V_NUMBER, 0, 1, "share that the running mean and variance keep; default 0.9"),
    LAYER(scale, V_NUMBER, -1e6, 1e6, "factor of the similarity, or of the drawn ids; default 1"),
    LAYER(negatives, V_SIZE, 1, 1 << 16, "number of ids that are drawn for a group of samples"),
    LAYER(share, V_SIZE, 1, 1 << 20, "neighbouring samples that share their drawn ids; default 1"),
    LAYER(counts, V_TEXT, 0, 0,
          "file whose line i ends with the count of id i; default: the count is 1 / (i + 1)"),
    LAYER(power, V_NUMBER, 0, 1, "exponent of the counts; default 0.75, nce 1"),
    LAYER(click, V_NAME, 0, 0, "ageing: the field that is 1 for a sample with a click"),
#define X(name, least, most, def, text)                                                           \
    {S_LAYER,  #name,                                                                             \
     V_NUMBER, offsetof(struct layer_ini, life) + PD_ROW_LIFE_##name * sizeof(struct ini_number), \
     least,    most,                                                                              \
     text},
    PD_ROW_LIFE_TABLE(X)
#undef X
        LAYER(init, V_NAME, 0, 0, "first values: normal (default), uniform or xavier"),
    LAYER(init_std, V_NUMBER, 0, 1e6,
          "normal: standard deviation of the first values; default: see the layer"),
    LAYER(init_mean, V_NUMBER, -1e6, 1e6, "mean of the first values; default 0"),
    LAYER(init_max, V_NUMBER, 0, 1e6, "uniform: largest distance from the mean"),
    LAYER(rate, V_NUMBER, 0, 0.999, "probability that a value becomes 0 in training"),
    LAYER(lr_factor, V_NUMBER, 0, 1e6, "factor of the learning rate; default 1"),
    LAYER(l1, V_NUMBER, 0, 1e6, "as l1 of [optimizer], for this layer"),
    LAYER(l2, V_NUMBER, 0, 1e6, "as l2 of [optimizer], for this layer"),
    COST(type, V_NAME, 0, 0, "the cost, one of those below"),
    COST(input, V_NAMES, 0, 0, "the layer; rank takes two"),
    COST(label, V_NAME, 0, 0, "the field with the label"),
    COST(weight, V_NUMBER, 0, 1e6, "factor of the cost in the sum of all costs; default 1"),
    COST(delta, V_NUMBER, 1e-12, 1e12, "huber: where the cost becomes linear; default 1"),
    OPT(type, V_NAME, 0, 0, "the optimizer, one of those below"),
    OPT(l1, V_NUMBER, 0, 1e6, "moves each value towards 0 by learning_rate * l1; default 0"),
    OPT(l2, V_NUMBER, 0, 1e6, "adds l2 * w to the gradient; default 0"),
    EVAL(type, V_NAME, 0, 0, "the evaluator, one of those below"),
    EVAL(input, V_NAME, 0, 0, "the layer; perplexity takes a cost"),
    EVAL(label, V_NAME, 0, 0, "the field with the label"),
    EVAL(threshold, V_NUMBER, -1e9, 1e9,
         "an output of one value means 1 from this value on; default 0.5"),
    EVAL(positive, V_SIZE, 0, 1 << 24, "the positive class of several; default 1"),
    EVAL(slice, V_NAME, 0, 0, "a field of at most 64 ids; each of them also has values of its own"),
    EVAL(group, V_NAME, 0, 0, "gauc, ndcg, recall: the field with the user or query of a sample"),
    EVAL(group_weight, V_NAME, 0, 0,
         "of a group: samples (default of gauc), positives or equal (default of ndcg, recall)"),
    EVAL(k, V_SIZE, 1, 1 << 20, "ndcg, recall: number of first samples of a group; default 10"),
    EVAL(max_samples, V_SIZE, 1024, 1 << 26,
         "gauc, ndcg, recall: of more samples a part of the groups counts; default 262144"),
};
enum { N_KEYS = sizeof keys / sizeof keys[0] };

/* The line number is at the end of a value type, or beside the value. */
static int *line_of(const struct ini_key *k, void *base) {
    void *p = (char *)base + k->offset;
    switch (k->type) {
    case V_NAME:
        return &((struct ini_name *)p)->line;
    case V_NAMES:
        return &((struct ini_names *)p)->line;
    case V_TEXT:
        return &((struct ini_text *)p)->line;
    case V_SIZE:
    case V_SIZE_OR_VOCABULARY:
        return &((struct ini_size *)p)->line;
    case V_NUMBER:
        return &((struct ini_number *)p)->line;
    case V_BOOL:
        return &((struct ini_bool *)p)->line;
    }
    return NULL;
}

int model_ini_foreign_key(const struct layer_ini *l, const char *const *takes, const char **name) {
    for (int i = 0; i < N_KEYS; i++) {
        if (keys[i].section != S_LAYER || !strcmp(keys[i].name, "type"))
            continue;
        int line = *line_of(&keys[i], (void *)(uintptr_t)l);
        int known = 0;
        for (const char *const *t = takes; *t && !known; t++)
            known = !strcmp(*t, keys[i].name);
        if (line && !known) {
            *name = keys[i].name;
            return line;
        }
    }
    return 0;
}

int model_ini_key(size_t i, struct model_ini_key *out) {
    static const char *const kind[] = {[V_NAME] = "name",
                                       [V_NAMES] = "names",
                                       [V_TEXT] = "text",
                                       [V_SIZE] = "",
                                       [V_SIZE_OR_VOCABULARY] = ", or vocabulary",
                                       [V_NUMBER] = "",
                                       [V_BOOL] = "true, false"};
    if (i >= N_KEYS)
        return PD_ENOENT;
    const struct ini_key *k = &keys[i];
    *out = (struct model_ini_key){section_name[k->section], k->name, k->text, ""};
    if (k->max > 0)
        pd_fmt(out->value, sizeof out->value, "%.10g to %.10g%s", k->min, k->max, kind[k->type]);
    else
        pd_fmt(out->value, sizeof out->value, "%s", kind[k->type]);
    return 0;
}

/* --- values --- */

struct parse {
    struct model_ini *m;
    const char *file;
};

static int name_ok(const char *s, size_t n) {
    if (n == 0 || n >= NN_NAME_MAX)
        return 0;
    for (size_t i = 0; i < n; i++)
        if (!((s[i] >= 'a' && s[i] <= 'z') || (s[i] >= 'A' && s[i] <= 'Z') ||
              (s[i] >= '0' && s[i] <= '9') || s[i] == '_' || s[i] == '.' || s[i] == '-'))
            return 0;
    return 1;
}

static int set_name(struct ini_name *out, const char *s, size_t n, const char *file, int line,
                    const char *what, struct pd_err *err) {
    if (!name_ok(s, n))
        return pd_fail(err, PD_ECONF,
                       "%s:%d: %s: a name is 1 to %d letters, digits or _ . -, not '%.*s'", file,
                       line, what, NN_NAME_MAX - 1, (int)(n < 200 ? n : 200), s);
    memcpy(out->text, s, n);
    out->text[n] = 0;
    out->line = line;
    return 0;
}

static int set_names(struct ini_names *out, const char *s, const char *file, int line,
                     const char *what, struct pd_err *err) {
    const char *sep = " \t,";
    uint32_t n = 0;
    for (const char *p = s + strspn(s, sep); *p; n++, p += strspn(p, sep))
        p += strcspn(p, sep);
    if (n == 0)
        return pd_fail(err, PD_ECONF, "%s:%d: %s is empty", file, line, what);
    out->at = pd_calloc(n, sizeof *out->at);
    if (!out->at)
        return pd_fail(err, PD_ENOMEM, "%s: out of memory", file);
    out->line = line;
    for (const char *p = s + strspn(s, sep); *p; p += strspn(p, sep)) {
        size_t len = strcspn(p, sep);
        int rc = set_name(&out->at[out->n], p, len, file, line, what, err);
        if (rc)
            return rc;
        out->n++;
        p += len;
    }
    return 0;
}

static int set_size(const struct ini_key *k, struct ini_size *out, const char *s, const char *file,
                    int line, struct pd_err *err) {
    out->line = line;
    if (k->type == V_SIZE_OR_VOCABULARY && !strcmp(s, "vocabulary")) {
        out->is_vocabulary = 1;
        return 0;
    }
    if (pd_parse_u64(s, (uint64_t)k->max, &out->value) || out->value < (uint64_t)k->min)
        return pd_fail(err, PD_ECONF, "%s:%d: %s is a whole number from %.0f to %.0f%s, not '%s'",
                       file, line, k->name, k->min, k->max,
                       k->type == V_SIZE_OR_VOCABULARY ? " or the word vocabulary" : "", s);
    return 0;
}

static int set_value(const struct parse *ps, const char *section, const struct ini_key *k,
                     void *base, const char *s, int line, struct pd_err *err) {
    void *p = (char *)base + k->offset;
    int *seen = line_of(k, base);
    if (*seen)
        return pd_fail(err, PD_ECONF, "%s:%d: %s of [%s] is given twice (first on line %d)",
                       ps->file, line, k->name, section, *seen);
    switch (k->type) {
    case V_NAME:
        return set_name(p, s, strlen(s), ps->file, line, k->name, err);
    case V_NAMES:
        return set_names(p, s, ps->file, line, k->name, err);
    case V_TEXT: {
        struct ini_text *t = p;
        if (!*s || pd_fmt(t->text, sizeof t->text, "%s", s))
            return pd_fail(err, PD_ECONF, "%s:%d: %s is empty or too long", ps->file, line,
                           k->name);
        t->line = line;
        return 0;
    }
    case V_SIZE:
    case V_SIZE_OR_VOCABULARY:
        return set_size(k, p, s, ps->file, line, err);
    case V_NUMBER: {
        struct ini_number *v = p;
        if (pd_parse_f64(s, k->min, k->max, &v->value))
            return pd_fail(err, PD_ECONF, "%s:%d: %s is a number from %g to %g, not '%s'", ps->file,
                           line, k->name, k->min, k->max, s);
        v->line = line;
        return 0;
    }
    case V_BOOL: {
        struct ini_bool *b = p;
        if (strcmp(s, "true") && strcmp(s, "false"))
            return pd_fail(err, PD_ECONF, "%s:%d: %s is true or false, not '%s'", ps->file, line,
                           k->name, s);
        b->value = s[0] == 't';
        b->line = line;
        return 0;
    }
    }
    return PD_EFAIL;
}

/* --- sections --- */

/* The element with this name in an array of structs of `size` bytes that begin with their name;
 * appended if it is new. */
static void *named(void **array, uint32_t *n, size_t size, const struct parse *ps, const char *name,
                   int line, struct pd_err *err) {
    for (uint32_t i = 0; i < *n; i++) {
        struct ini_name *at = (void *)((char *)*array + i * size);
        if (!strcmp(at->text, name))
            return at;
    }
    if (*n >= NN_MAX_LAYERS) {
        pd_fail(err, PD_ECONF, "%s:%d: more than %d layers", ps->file, line, NN_MAX_LAYERS);
        return NULL;
    }
    struct ini_name tmp;
    if (set_name(&tmp, name, strlen(name), ps->file, line, "section", err))
        return NULL;
    void *grown = pd_realloc(*array, (*n + 1) * size);
    if (!grown) {
        pd_fail(err, PD_ENOMEM, "%s: out of memory", ps->file);
        return NULL;
    }
    *array = grown;
    void *e = (char *)grown + *n * size;
    memset(e, 0, size);
    *(struct ini_name *)e = tmp;
    (*n)++;
    return e;
}

static void *layer_at(const struct parse *ps, const char *name, int line, struct pd_err *err) {
    void *array = ps->m->layer;
    struct layer_ini *l = named(&array, &ps->m->n_layers, sizeof *l, ps, name, line, err);
    ps->m->layer = array;
    return l;
}

static void *cost_at(const struct parse *ps, const char *name, int line, struct pd_err *err) {
    void *array = ps->m->cost;
    struct cost_ini *c = named(&array, &ps->m->n_costs, sizeof *c, ps, name, line, err);
    ps->m->cost = array;
    if (c && !c->weight.line)
        c->weight.value = 1;
    return c;
}

static void *evaluator_at(const struct parse *ps, const char *name, int line, struct pd_err *err) {
    void *array = ps->m->evaluator;
    struct evaluator_ini *e = named(&array, &ps->m->n_evaluators, sizeof *e, ps, name, line, err);
    ps->m->evaluator = array;
    return e;
}

/* Finds the kind of section `section`, such as "layer hidden". */
static int find_section(const struct parse *ps, const char *section, int line, enum section *which,
                        struct pd_err *err) {
    size_t word = strcspn(section, " \t");
    const char *name = section + word + strspn(section + word, " \t");
    int s = 0;
    while (s < N_SECTIONS &&
           (strlen(section_name[s]) != word || memcmp(section, section_name[s], word)))
        s++;
    if (s == N_SECTIONS) {
        char type[64], text[120];
        snprintf(type, sizeof type, "%.*s", (int)word, section);
        return pd_fail(err, PD_ECONF, "%s:%d: unknown section [%s]%s", ps->file, line, section,
                       pd_suggest(text, sizeof text, type,
                                  "data, field, layer, cost, optimizer, evaluator, train"));
    }
    int unnamed = s == S_DATA || s == S_OPTIMIZER;
    if (unnamed != !*name)
        return pd_fail(err, PD_ECONF,
                       unnamed ? "%s:%d: section [%s] takes no name"
                               : "%s:%d: section [%s] needs a name: [%s NAME]",
                       ps->file, line, section, section_name[s]);
    *which = (enum section)s;
    return 0;
}

/* The struct that the section fills; NULL with `err` set. */
static void *section_at(const struct parse *ps, const char *section, int line, enum section *which,
                        struct pd_err *err) {
    const char *name = section + strcspn(section, " \t");
    name += strspn(name, " \t");
    if (find_section(ps, section, line, which, err))
        return NULL;
    switch (*which) {
    case S_DATA:
        ps->m->data.line = ps->m->data.line ? ps->m->data.line : line;
        return &ps->m->data;
    case S_OPTIMIZER:
        ps->m->optimizer.line = ps->m->optimizer.line ? ps->m->optimizer.line : line;
        return &ps->m->optimizer;
    case S_FIELD:
        return ps->m; /* its keys are passed on as text */
    case S_LAYER:
        return layer_at(ps, name, line, err);
    case S_COST:
        return cost_at(ps, name, line, err);
    case S_EVALUATOR:
        return evaluator_at(ps, name, line, err);
    case N_SECTIONS:
        break;
    }
    return NULL;
}

static int unknown_key(const struct parse *ps, enum section s, const char *name, int line,
                       struct pd_err *err) {
    char known[800] = "", text[840];
    for (int i = 0; i < N_KEYS; i++) {
        size_t n = strlen(known);
        if (keys[i].section == s)
            snprintf(known + n, sizeof known - n, "%s%s", n ? ", " : "", keys[i].name);
    }
    if (s == S_DATA && *known) {
        size_t n = strlen(known);
        snprintf(known + n, sizeof known - n, ", ");
        data_schema_keys(0, known + n + 2, sizeof known - n - 2);
    }
    return pd_fail(err, PD_ECONF, "%s:%d: unknown key '%s' in [%s]%s", ps->file, line, name,
                   section_name[s], pd_suggest(text, sizeof text, name, known));
}

static int add_setting(const struct parse *ps, const char *name, const char *value, int line,
                       struct pd_err *err) {
    struct optimizer_ini *o = &ps->m->optimizer;
    for (uint32_t i = 0; i < o->n_settings; i++)
        if (!strcmp(o->setting[i].name.text, name))
            return pd_fail(err, PD_ECONF, "%s:%d: %s is given twice (first on line %d)", ps->file,
                           line, name, o->setting[i].name.line);
    if (o->n_settings == NN_MAX_SETTINGS)
        return pd_fail(err, PD_ECONF, "%s:%d: more than %d settings in [optimizer]", ps->file, line,
                       NN_MAX_SETTINGS);
    struct optimizer_setting *s = &o->setting[o->n_settings];
    int rc = set_name(&s->name, name, strlen(name), ps->file, line, "key", err);
    if (!rc && (!*value || pd_fmt(s->value, sizeof s->value, "%s", value)))
        rc = pd_fail(err, PD_ECONF, "%s:%d: %s is empty or too long", ps->file, line, name);
    o->n_settings += !rc;
    return rc;
}

const char *model_ini_setting(const struct model_ini *m, const char *name) {
    const struct optimizer_ini *o = &m->optimizer;
    for (uint32_t i = 0; i < o->n_settings; i++)
        if (!strcmp(o->setting[i].name.text, name))
            return o->setting[i].value;
    return NULL;
}

static int add_data_setting(const struct parse *ps, const char *field, const char *key,
                            const char *value, int line, struct pd_err *err) {
    struct model_ini *m = ps->m;
    struct data_setting *grown =
                            pd_realloc(m->data_setting, (m->n_data_settings + 1) * sizeof *grown),
                        *s;
    if (!grown)
        return pd_fail(err, PD_ENOMEM, "%s: out of memory", ps->file);
    m->data_setting = grown;
    s = &grown[m->n_data_settings];
    *s = (struct data_setting){.line = line};
    if (*field &&
        (!name_ok(field, strlen(field)) || pd_fmt(s->field, sizeof s->field, "%s", field)))
        return pd_fail(err, PD_ECONF,
                       "%s:%d: [field %s]: a name is 1 to %d letters, digits or _ . -", ps->file,
                       line, field, NN_NAME_MAX - 1);
    if (!*value)
        return pd_fail(err, PD_ECONF, "%s:%d: %s is empty", ps->file, line, key);
    if (pd_fmt(s->key, sizeof s->key, "%s", key))
        return unknown_key(ps, *field ? S_FIELD : S_DATA, key, line, err);
    if (!(s->value = pd_strdup(value)))
        return pd_fail(err, PD_ENOMEM, "%s: out of memory", ps->file);
    m->n_data_settings++;
    return 0;
}

/* Names the line of the section, where on_pair knows only the line of its first pair. */
static int on_section(void *arg, const char *section, int line, struct pd_err *err) {
    enum section which;
    return strcmp(section, "train") ? find_section(arg, section, line, &which, err) : 0;
}

static int on_pair(void *arg, const char *section, const char *name, const char *value, int line,
                   struct pd_err *err) {
    struct parse *ps = arg;
    enum section which;
    if (!strcmp(section, "train"))
        return 0;
    if (!*section)
        return pd_fail(err, PD_ECONF, "%s:%d: '%s' stands before the first [section]", ps->file,
                       line, name);
    void *base = section_at(ps, section, line, &which, err);
    if (!base)
        return err && err->code ? err->code : PD_ECONF;
    const char *of = section + strcspn(section, " \t");
    if (which == S_FIELD || (which == S_DATA && data_schema_key(0, name)))
        return add_data_setting(ps, which == S_FIELD ? of + strspn(of, " \t") : "", name, value,
                                line, err);
    for (int i = 0; i < N_KEYS; i++)
        if (keys[i].section == which && !strcmp(keys[i].name, name))
            return set_value(ps, section, &keys[i], base, value, line, err);
    if (which == S_OPTIMIZER)
        return add_setting(ps, name, value, line, err);
    return unknown_key(ps, which, name, line, err);
}

/* --- in and out --- */

int model_ini_read(struct model_ini **out, const char *path, const char *text, struct pd_err *err) {
    struct model_ini *m = pd_calloc(1, sizeof *m);
    if (!m)
        return pd_fail(err, PD_ENOMEM, "%s: out of memory", path);
    struct parse ps = {m, m->file};
    int rc = PD_ECONF;
    if (pd_fmt(m->file, sizeof m->file, "%s", path) || pd_fmt(m->dir, sizeof m->dir, "%s", path)) {
        pd_fail(err, PD_ECONF, "path too long: %s", path);
        goto fail;
    }
    char *slash = strrchr(m->dir, '/');
    if (slash)
        slash[slash == m->dir] = 0;
    else
        memcpy(m->dir, ".", 2);
    rc = text ? pd_ini_read_text(path, text, strlen(text), on_section, on_pair, &ps, err)
              : pd_ini_read(path, on_section, on_pair, &ps, err);
    if (!rc && m->data.vocabulary_file.line)
        rc = model_ini_scan_vocabulary(m, err);
    if (!rc)
        rc = model_ini_make_schema(m, err);
    if (rc)
        goto fail;
    *out = m;
    return 0;
fail:
    model_ini_free(m);
    return rc;
}

void model_ini_free(struct model_ini *m) {
    if (!m)
        return;
    free(m->data.fields.at);
    for (uint32_t i = 0; i < m->n_layers; i++) {
        free(m->layer[i].inputs.at);
        free(m->layer[i].param.at);
    }
    for (uint32_t i = 0; i < m->n_costs; i++)
        free(m->cost[i].input.at);
    for (uint32_t i = 0; i < m->n_data_settings; i++)
        free((char *)(uintptr_t)m->data_setting[i].value);
    free(m->data_setting);
    data_schema_free(m->schema);
    free(m->layer);
    free(m->cost);
    free(m->evaluator);
    free(m);
}
