/* SPDX-License-Identifier: Apache-2.0 */
/* schema_field.c - fields: those that [data] names, their presets from the format, and the keys of
 * [field NAME]. Types are set first, then the other keys in the order of the table; then each field
 * is completed and checked. */
#include "data/schema/schema_internal.h"

/* --- keys of [field NAME] --- */

static const struct {
    const char *name;
    enum data_type type;
    enum pd_field_kind kind;
} types[] = {
    {"id", DATA_ID, PD_ID},
    {"list", DATA_LIST, PD_LIST},
    {"dense", DATA_DENSE, PD_DENSE},
    {"category", DATA_CATEGORY, PD_ID},
    {"categories", DATA_CATEGORIES, PD_LIST},
    {"label", DATA_LABEL, PD_ID},
};

static int set_type(struct schema_build *m, struct data_field *f, const char *v,
                    struct pd_err *err) {
    (void)m;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (!strcmp(v, types[i].name)) {
            f->type = types[i].type;
            f->batch.kind = types[i].kind;
            return 0;
        }
    return pd_fail(err, PD_ECONF, "it is id, list, dense, category, categories or label, not '%s'",
                   v);
}

static int set_field_columns(struct schema_build *m, struct data_field *f, const char *v,
                             struct pd_err *err) {
    (void)m;
    return data_value_names(v, &f->column, &f->n_columns, err);
}

static int set_size(struct schema_build *m, struct data_field *f, const char *v,
                    struct pd_err *err) {
    uint64_t n;
    int rc = data_value_whole(v, 1, PD_MAX_WIDTH, &n, err);
    if (rc)
        return rc;
    if (f->type != DATA_DENSE)
        return pd_fail(err, PD_ECONF, "only a dense field has a size");
    f->batch.width = (uint32_t)n;
    m->has_size[f - m->s->field] = 1;
    return 0;
}

static int set_vocabulary(struct schema_build *m, struct data_field *f, const char *v,
                          struct pd_err *err) {
    if (f->type == DATA_DENSE)
        return pd_fail(err, PD_ECONF, "a dense field has no vocabulary");
    m->has_vocabulary[f - m->s->field] = 1;
    return data_value_whole(v, 0, (uint64_t)4e18, &f->batch.vocabulary, err);
}

static int set_max_ids(struct schema_build *m, struct data_field *f, const char *v,
                       struct pd_err *err) {
    (void)m;
    uint64_t n;
    int rc = data_value_whole(v, 1, PD_MAX_LIST, &n, err);
    if (!rc && f->batch.kind != PD_LIST)
        rc = pd_fail(err, PD_ECONF, "only a list has max_ids");
    if (!rc)
        f->batch.max_ids = (uint32_t)n;
    return rc;
}

static int set_weights(struct schema_build *m, struct data_field *f, const char *v,
                       struct pd_err *err) {
    (void)m;
    int rc = data_value_truth(v, &f->batch.weighted, err);
    if (!rc && f->batch.kind != PD_LIST)
        f->batch.weighted = 0;
    return rc;
}

static int set_field_separator(struct schema_build *m, struct data_field *f, const char *v,
                               struct pd_err *err) {
    (void)m;
    return data_value_separator(v, f->separator, err);
}

static int set_weight_separator(struct schema_build *m, struct data_field *f, const char *v,
                                struct pd_err *err) {
    (void)m;
    return data_value_separator(v, f->weight_separator, err);
}

static int only_dense(const struct data_field *f, struct pd_err *err) {
    return f->type == DATA_DENSE ? 0 : pd_fail(err, PD_ECONF, "only a dense field has this key");
}

static int set_transform(struct schema_build *m, struct data_field *f, const char *v,
                         struct pd_err *err) {
    (void)m;
    if (only_dense(f, err))
        return PD_ECONF;
    if (strcmp(v, "none") && strcmp(v, "log"))
        return pd_fail(err, PD_ECONF, "it is none or log, not '%s'", v);
    f->transform = v[0] == 'l' ? DATA_LOG : DATA_AS_IT_IS;
    return 0;
}

static int set_missing_value(struct schema_build *m, struct data_field *f, const char *v,
                             struct pd_err *err) {
    (void)m;
    return only_dense(f, err) ? PD_ECONF : data_value_number(v, &f->missing_value, err);
}

/* One value per number of the field, or one value for all. */
static int per_column(struct data_field *f, const char *v, float **out, struct pd_err *err) {
    uint32_t n = 0;
    int rc = data_value_numbers(v, out, &n, err);
    if (rc)
        return rc;
    if (only_dense(f, err))
        return PD_ECONF;
    if (n != 1 && n != f->batch.width)
        return pd_fail(err, PD_ECONF, "%u numbers for a field of %u", n, f->batch.width);
    if (n < f->batch.width) {
        float *all = pd_calloc(f->batch.width, sizeof *all);
        if (!all)
            return pd_oom(err, "the fields of a sample");
        for (uint32_t i = 0; i < f->batch.width; i++)
            all[i] = **out;
        free(*out);
        *out = all;
    }
    return 0;
}

static int set_mean(struct schema_build *m, struct data_field *f, const char *v,
                    struct pd_err *err) {
    (void)m;
    return per_column(f, v, &f->mean, err);
}

static int set_std(struct schema_build *m, struct data_field *f, const char *v,
                   struct pd_err *err) {
    (void)m;
    int rc = per_column(f, v, &f->std, err);
    for (uint32_t i = 0; !rc && i < f->batch.width; i++)
        if (!(f->std[i] > 0))
            rc = pd_fail(err, PD_ECONF, "a standard deviation is above 0");
    return rc;
}

/* "no|none yes|y": classes are separated by blanks, spellings of a class by bars. */
static int set_values(struct schema_build *m, struct data_field *f, const char *v,
                      struct pd_err *err) {
    (void)m;
    uint32_t k = 1, id = 0;
    if (f->type != DATA_LABEL)
        return pd_fail(err, PD_ECONF, "only a label has values");
    for (const char *p = v; *p; p++)
        k += strchr(" \t|", *p) != NULL;
    free(f->value);
    f->n_values = 0;
    if (!(f->value = pd_calloc(k, sizeof *f->value)))
        return pd_oom(err, "the fields of a sample");
    for (const char *p = v + strspn(v, " \t"); *p; id++, p += strspn(p, " \t"))
        do {
            p += *p == '|';
            size_t len = strcspn(p, " \t|");
            struct data_value *to = &f->value[f->n_values];
            if (!len || len >= sizeof to->text)
                return pd_fail(err, PD_ECONF, "a value is empty or longer than %zu characters",
                               sizeof to->text - 1);
            memcpy(to->text, p, len);
            to->id = id;
            f->n_values++;
            p += len;
        } while (*p == '|');
    f->batch.vocabulary = id;
    return f->n_values ? 0 : pd_fail(err, PD_ECONF, "no value is given");
}

static int set_salt(struct schema_build *m, struct data_field *f, const char *v,
                    struct pd_err *err) {
    (void)m;
    return data_value_text(v, f->salt, sizeof f->salt, err);
}

/* In the order in which they are applied: later keys may use what earlier keys set. */
const struct schema_key data_field_keys[] = {
    {"type", set_type},
    {"columns", set_field_columns},
    {"size", set_size},
    {"vocabulary", set_vocabulary},
    {"values", set_values},
    {"weights", set_weights},
    {"max_ids", set_max_ids},
    {"separator", set_field_separator},
    {"weight_separator", set_weight_separator},
    {"transform", set_transform},
    {"missing_value", set_missing_value},
    {"mean", set_mean},
    {"std", set_std},
    {"salt", set_salt},
    {NULL, NULL},
};

/* --- making --- */

static int name_ok(const char *s) {
    for (const char *p = s; *p; p++)
        if (!((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9') ||
              strchr("_.-", *p)))
            return 0;
    return *s != 0;
}

/* The type that the format gives to the field with this name, or NULL. */
static const char *preset_type(const struct data_format *fmt, const char *name) {
    static const char *const kinds[] = {"id", "list", "dense", "category", "categories", "label"};
    size_t n = strlen(name);
    for (const char *p = fmt->fields ? fmt->fields : ""; *p;
         p += strcspn(p, " "), p += strspn(p, " ")) {
        if (strncmp(p, name, n) || (p[n] && !strchr(": ", p[n])))
            continue;
        for (size_t i = 0; p[n] == ':' && i < sizeof kinds / sizeof kinds[0]; i++)
            if (strcspn(p + n + 1, " ") == strlen(kinds[i]) &&
                !strncmp(p + n + 1, kinds[i], strlen(kinds[i])))
                return kinds[i];
        return fmt->any_fields ? "category" : "id";
    }
    return fmt->any_fields ? NULL : "id";
}

/* NAME or NAME:TYPE. */
static int add_field(struct schema_build *m, const char *text, int line, struct pd_err *err) {
    struct data_schema *s = m->s;
    struct data_field *f = &s->field[s->n_fields];
    const char *colon = strchr(text, ':'), *type = colon ? colon + 1 : NULL;
    size_t len = colon ? (size_t)(colon - text) : strlen(text);
    *m->line = line;
    memcpy(f->batch.name, text, len);
    if (!name_ok(f->batch.name))
        return pd_fail(err, PD_ECONF,
                       "fields: a name is 1 to %d letters, digits or _ . -, not '%s'",
                       PD_FIELD_NAME - 1, text);
    if (data_schema_find(s, f->batch.name) >= 0)
        return pd_fail(err, PD_ECONF, "field '%s' is named twice", f->batch.name);
    f->batch.width = 1;
    f->batch.max_ids = 128;
    memcpy(f->separator, s->format->any_fields ? "|" : " ", 2);
    memcpy(f->weight_separator, ":", 2);
    s->n_fields++;
    const struct data_setting *given = data_setting_find(m, f->batch.name, "type");
    if (given && type)
        return pd_fail(err, PD_ECONF, "field '%s': its type is given twice (also on line %d)",
                       f->batch.name, given->line);
    if (given) {
        type = given->value;
        *m->line = given->line;
    } else if (!type && !(type = preset_type(s->format, f->batch.name)))
        return pd_fail(err, PD_ECONF,
                       "field '%s' has no type: NAME:TYPE in fields, or type = in [field %s]: id, "
                       "list, dense, category, "
                       "categories, label",
                       f->batch.name, f->batch.name);
    int rc = set_type(m, f, type, err);
    if (rc)
        pd_err_prefix(err, "field '%s': type", f->batch.name);
    return rc;
}

int data_fields_add(struct schema_build *m, struct pd_err *err) {
    const struct data_setting *given = data_setting_find(m, "", "fields");
    const char *text = given ? given->value : m->s->format->fields;
    char(*list)[PD_FIELD_NAME] = NULL;
    uint32_t n = 0;
    *m->line = given ? given->line : 0;
    if (!text)
        return pd_fail(err, PD_ECONF, "[data] has no key 'fields'");
    int rc = data_value_names(text, &list, &n, err);
    if (!rc && n > PD_MAX_FIELDS)
        rc = pd_fail(err, PD_ECONF, "%u fields; there can be 1 to %d", n, PD_MAX_FIELDS);
    if (!rc) {
        m->s->field = pd_calloc(n, sizeof *m->s->field);
        m->has_size = pd_calloc(n, 1);
        m->has_vocabulary = pd_calloc(n, 1);
        if (!m->s->field || !m->has_size || !m->has_vocabulary)
            rc = pd_oom(err, "the fields of a sample");
    }
    for (uint32_t i = 0; !rc && i < n; i++)
        rc = add_field(m, list[i], *m->line, err);
    free(list);
    return rc;
}

/* 1 if the key applies: train.ini may have given the format's field another type. */
static int preset_fits(const struct data_field *f, const struct schema_key *k) {
    return f->type == DATA_DENSE ? k->set != set_vocabulary
                                 : k->set != set_transform && k->set != set_size;
}

/* Sets the keys of a field: those given, then the format's presets. */
int data_field_set(struct schema_build *m, struct data_field *f, struct pd_err *err) {
    int rc = 0;
    for (const struct schema_key *k = data_field_keys; k->name && !rc; k++) {
        if (k->set == set_type)
            continue;
        const struct data_setting *s = data_setting_find(m, f->batch.name, k->name);
        const char *value = s ? s->value : NULL;
        for (const struct data_preset *p = m->s->format->preset; p && p->field && !s && !value; p++)
            if (!strcmp(p->field, f->batch.name) && !strcmp(p->key, k->name) && preset_fits(f, k))
                value = p->value;
        if (value)
            rc = data_setting_apply(m, k, f, value, s ? s->line : 0, err);
        /* mean and std need the number of values, which is known after columns and size. */
        if (!rc && k->set == set_size && f->type == DATA_DENSE && m->s->format->any_fields) {
            uint32_t n = f->n_columns ? f->n_columns : 1;
            if (m->has_size[f - m->s->field] && f->batch.width != n)
                rc = pd_fail(err, PD_ECONF, "field '%s': size is %u, but it has %u columns",
                             f->batch.name, f->batch.width, n);
            f->batch.width = n;
        }
    }
    return rc;
}

static int has_column(const struct data_schema *s, const char *name) {
    for (uint32_t i = 0; i < s->n_columns; i++)
        if (!strcmp(s->column[i], name))
            return 1;
    return 0;
}

int data_field_complete(struct schema_build *m, struct data_field *f, struct pd_err *err) {
    struct data_schema *s = m->s;
    uint32_t k = (uint32_t)(f - s->field);
    if (f->batch.kind != PD_LIST)
        f->batch.max_ids = 1;
    if (s->format->vocabulary && f->batch.kind != PD_DENSE && !m->has_vocabulary[k])
        f->batch.vocabulary = s->vocabulary;
    if (f->type == DATA_LABEL && !f->batch.vocabulary)
        f->batch.vocabulary = 2;
    if (!s->format->any_fields)
        return f->n_columns ? pd_fail(err, PD_ECONF, "field '%s': format %s has no columns",
                                      f->batch.name, s->format->name)
                            : 0;
    if (!f->n_columns) {
        if (!(f->column = pd_calloc(1, sizeof *f->column)))
            return pd_oom(err, "the fields of a sample");
        memcpy(f->column[0], f->batch.name, PD_FIELD_NAME);
        f->n_columns = 1;
    }
    if (f->n_columns > 1 && f->batch.kind == PD_ID)
        return pd_fail(err, PD_ECONF, "field '%s' takes one column, not %u", f->batch.name,
                       f->n_columns);
    if (f->batch.kind == PD_LIST && f->batch.max_ids < f->n_columns)
        f->batch.max_ids = f->n_columns;
    for (uint32_t i = 0; i < f->n_columns && s->n_columns; i++)
        if (!has_column(s, f->column[i])) {
            const struct data_setting *given = data_setting_find(m, f->batch.name, "columns");
            given = given ? given : data_setting_find(m, "", "fields");
            *m->line = given ? given->line : 0;
            return pd_fail(err, PD_ECONF,
                           "field '%s': there is no column '%s' among the columns of [data]",
                           f->batch.name, f->column[i]);
        }
    return 0;
}
