/* schema.c - see schema.h. Settings are applied in an order of their own: format, the other keys of [data], fields with what the
 * format presets for them, their types, the other keys of [field NAME]; then every field is completed and checked. */
#include "data/schema.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/str.h"
#include "data/format.h"

struct make {
    struct data_schema *s;
    const struct data_setting *set;
    size_t n;
    int *line;
    uint8_t *has_size, *has_vocabulary; /* [n_fields] was the key given (or preset)? */
};

struct key {
    int field;   /* of [field NAME], else of [data] */
    const char *name;
    int (*set)(struct make *m, struct data_field *f, const char *value, struct pd_err *err);
};

/* --- values -------------------------------------------------------------------------------------- */

static const char blanks[] = " \t,";

static int truth(const char *v, int *out, struct pd_err *err) {
    if (strcmp(v, "true") && strcmp(v, "false"))
        return pd_fail(err, PD_ECONF, "it is true or false, not '%s'", v);
    *out = v[0] == 't';
    return 0;
}

static int whole(const char *v, uint64_t lo, uint64_t hi, uint64_t *out, struct pd_err *err) {
    if (pd_parse_u64(v, hi, out) || *out < lo)
        return pd_fail(err, PD_ECONF, "it is a whole number from %llu to %llu, not '%s'", (unsigned long long)lo,
                       (unsigned long long)hi, v);
    return 0;
}

/* A separator: a few characters, or the name of one that is awkward in an ini file. */
static int separator(const char *v, char out[8], struct pd_err *err) {
    static const struct {
        const char *name, *text;
    } named[] = {{"tab", "\t"}, {"blank", " "}, {"comma", ","}, {"semicolon", ";"}, {"bar", "|"}, {"colon", ":"}};
    for (size_t i = 0; i < sizeof named / sizeof named[0]; i++)
        if (!strcmp(v, named[i].name))
            v = named[i].text;
    if (!*v || strlen(v) > 3 || strchr(v, '"') || pd_fmt(out, 8, "%s", v))
        return pd_fail(err, PD_ECONF, "it is 1 to 3 characters (no quotes), or tab, blank, comma, semicolon, bar, colon; not '%s'", v);
    return 0;
}

static int names(const char *v, char (**out)[PD_FIELD_NAME], uint32_t *n, struct pd_err *err) {
    uint32_t k = 0;
    for (const char *p = v + strspn(v, blanks); *p; p += strcspn(p, blanks), p += strspn(p, blanks))
        k++;
    if (!k || k > 65536)
        return pd_fail(err, PD_ECONF, "it is a list of names");
    free(*out);
    *n = 0;
    if (!(*out = pd_calloc(k, sizeof **out)))
        return pd_fail(err, PD_ENOMEM, "out of memory");
    for (const char *p = v + strspn(v, blanks); *p; p += strspn(p, blanks)) {
        size_t len = strcspn(p, blanks);
        if (len >= PD_FIELD_NAME)
            return pd_fail(err, PD_ECONF, "'%.*s' is longer than %d characters", (int)(len < 200 ? len : 200), p, PD_FIELD_NAME - 1);
        memcpy((*out)[(*n)++], p, len);
        p += len;
    }
    return 0;
}

static int numbers(const char *v, float **out, uint32_t *n, struct pd_err *err) {
    char (*text)[PD_FIELD_NAME] = NULL;
    uint32_t k = 0;
    int rc = names(v, &text, &k, err);
    free(*out);
    *out = rc ? NULL : pd_calloc(k, sizeof **out);
    if (!rc && !*out)
        rc = pd_fail(err, PD_ENOMEM, "out of memory");
    for (uint32_t i = 0; !rc && i < k; i++) {
        double d;
        if (pd_parse_f64(text[i], -1e30, 1e30, &d))
            rc = pd_fail(err, PD_ECONF, "'%s' is not a number", text[i]);
        else
            (*out)[i] = (float)d;
    }
    *n = k;
    free(text);
    return rc;
}

/* --- keys of [data] ------------------------------------------------------------------------------ */

static int set_nothing(struct make *m, struct data_field *f, const char *v, struct pd_err *err) {
    (void)m, (void)f, (void)v, (void)err;
    return 0;
}

static int set_columns(struct make *m, struct data_field *f, const char *v, struct pd_err *err) {
    (void)f;
    return names(v, &m->s->column, &m->s->n_columns, err);
}

static int set_header(struct make *m, struct data_field *f, const char *v, struct pd_err *err) {
    (void)f;
    return truth(v, &m->s->header, err);
}

static int set_separator(struct make *m, struct data_field *f, const char *v, struct pd_err *err) {
    (void)f;
    return separator(v, m->s->separator, err);
}

static int set_missing(struct make *m, struct data_field *f, const char *v, struct pd_err *err) {
    (void)f;
    return pd_fmt(m->s->missing, sizeof m->s->missing, "%s", v) ? pd_fail(err, PD_ECONF, "it is too long") : 0;
}

static int set_quotes(struct make *m, struct data_field *f, const char *v, struct pd_err *err) {
    (void)f;
    return truth(v, &m->s->quotes, err);
}

static int set_trim(struct make *m, struct data_field *f, const char *v, struct pd_err *err) {
    (void)f;
    return truth(v, &m->s->trim, err);
}

static int set_window(struct make *m, struct data_field *f, const char *v, struct pd_err *err) {
    (void)f;
    uint64_t n;
    int rc = whole(v, 1, 100, &n, err);
    if (!rc)
        m->s->window = (uint32_t)n;
    return rc;
}

static int set_subsample(struct make *m, struct data_field *f, const char *v, struct pd_err *err) {
    (void)f;
    return pd_parse_f64(v, 0, 1, &m->s->subsample) ? pd_fail(err, PD_ECONF, "it is a number from 0 to 1, not '%s'", v) : 0;
}

static int set_counts(struct make *m, struct data_field *f, const char *v, struct pd_err *err) {
    (void)f;
    return pd_fmt(m->s->counts, sizeof m->s->counts, "%s", v) ? pd_fail(err, PD_ECONF, "it is too long") : 0;
}

/* --- keys of [field NAME] ------------------------------------------------------------------------ */

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

static int set_type(struct make *m, struct data_field *f, const char *v, struct pd_err *err) {
    (void)m;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (!strcmp(v, types[i].name)) {
            f->type = types[i].type;
            f->batch.kind = types[i].kind;
            return 0;
        }
    return pd_fail(err, PD_ECONF, "it is id, list, dense, category, categories or label, not '%s'", v);
}

static int set_field_columns(struct make *m, struct data_field *f, const char *v, struct pd_err *err) {
    (void)m;
    return names(v, &f->column, &f->n_columns, err);
}

static int set_size(struct make *m, struct data_field *f, const char *v, struct pd_err *err) {
    uint64_t n;
    int rc = whole(v, 1, PD_MAX_WIDTH, &n, err);
    if (rc)
        return rc;
    if (f->type != DATA_DENSE)
        return pd_fail(err, PD_ECONF, "only a dense field has a size");
    f->batch.width = (uint32_t)n;
    m->has_size[f - m->s->field] = 1;
    return 0;
}

static int set_vocabulary(struct make *m, struct data_field *f, const char *v, struct pd_err *err) {
    if (f->type == DATA_DENSE)
        return pd_fail(err, PD_ECONF, "a dense field has none");
    m->has_vocabulary[f - m->s->field] = 1;
    return whole(v, 0, (uint64_t)4e18, &f->batch.vocabulary, err);
}

static int set_max_ids(struct make *m, struct data_field *f, const char *v, struct pd_err *err) {
    (void)m;
    uint64_t n;
    int rc = whole(v, 1, PD_MAX_LIST, &n, err);
    if (!rc && f->batch.kind != PD_LIST)
        rc = pd_fail(err, PD_ECONF, "only a list has it");
    if (!rc)
        f->batch.max_ids = (uint32_t)n;
    return rc;
}

static int set_weights(struct make *m, struct data_field *f, const char *v, struct pd_err *err) {
    (void)m;
    int rc = truth(v, &f->batch.weighted, err);
    if (!rc && f->batch.kind != PD_LIST)
        f->batch.weighted = 0;
    return rc;
}

static int set_field_separator(struct make *m, struct data_field *f, const char *v, struct pd_err *err) {
    (void)m;
    return separator(v, f->separator, err);
}

static int set_weight_separator(struct make *m, struct data_field *f, const char *v, struct pd_err *err) {
    (void)m;
    return separator(v, f->weight_separator, err);
}

static int set_transform(struct make *m, struct data_field *f, const char *v, struct pd_err *err) {
    (void)m;
    if (strcmp(v, "none") && strcmp(v, "log"))
        return pd_fail(err, PD_ECONF, "it is none or log, not '%s'", v);
    f->transform = v[0] == 'l' ? DATA_LOG : DATA_AS_IT_IS;
    return 0;
}

static int set_missing_value(struct make *m, struct data_field *f, const char *v, struct pd_err *err) {
    (void)m;
    double d;
    if (pd_parse_f64(v, -1e30, 1e30, &d))
        return pd_fail(err, PD_ECONF, "'%s' is not a number", v);
    f->missing_value = (float)d;
    return 0;
}

/* One number for each of the field's, or one for all. */
static int per_column(struct data_field *f, const char *v, float **out, struct pd_err *err) {
    uint32_t n = 0;
    int rc = numbers(v, out, &n, err);
    if (rc)
        return rc;
    if (f->type != DATA_DENSE)
        return pd_fail(err, PD_ECONF, "only a dense field has it");
    if (n != 1 && n != f->batch.width)
        return pd_fail(err, PD_ECONF, "%u numbers for a field of %u", n, f->batch.width);
    if (n < f->batch.width) {
        float *all = pd_calloc(f->batch.width, sizeof *all);
        if (!all)
            return pd_fail(err, PD_ENOMEM, "out of memory");
        for (uint32_t i = 0; i < f->batch.width; i++)
            all[i] = **out;
        free(*out);
        *out = all;
    }
    return 0;
}

static int set_mean(struct make *m, struct data_field *f, const char *v, struct pd_err *err) {
    (void)m;
    return per_column(f, v, &f->mean, err);
}

static int set_std(struct make *m, struct data_field *f, const char *v, struct pd_err *err) {
    (void)m;
    int rc = per_column(f, v, &f->std, err);
    for (uint32_t i = 0; !rc && i < f->batch.width; i++)
        if (!(f->std[i] > 0))
            rc = pd_fail(err, PD_ECONF, "a standard deviation is above 0");
    return rc;
}

/* "no|none yes|y": classes between blanks, spellings of one between bars. */
static int set_values(struct make *m, struct data_field *f, const char *v, struct pd_err *err) {
    (void)m;
    uint32_t k = 1, id = 0;
    if (f->type != DATA_LABEL)
        return pd_fail(err, PD_ECONF, "only a label has them");
    for (const char *p = v; *p; p++)
        k += strchr(" \t|", *p) != NULL;
    free(f->value);
    f->n_values = 0;
    if (!(f->value = pd_calloc(k, sizeof *f->value)))
        return pd_fail(err, PD_ENOMEM, "out of memory");
    for (const char *p = v + strspn(v, " \t"); *p; id++, p += strspn(p, " \t"))
        do {
            p += *p == '|';
            size_t len = strcspn(p, " \t|");
            struct data_value *to = &f->value[f->n_values];
            if (!len || len >= sizeof to->text)
                return pd_fail(err, PD_ECONF, "a value is empty or longer than %zu characters", sizeof to->text - 1);
            memcpy(to->text, p, len);
            to->id = id;
            f->n_values++;
            p += len;
        } while (*p == '|');
    f->batch.vocabulary = id;
    return f->n_values ? 0 : pd_fail(err, PD_ECONF, "there is none");
}

static int set_salt(struct make *m, struct data_field *f, const char *v, struct pd_err *err) {
    (void)m;
    return pd_fmt(f->salt, sizeof f->salt, "%s", v) ? pd_fail(err, PD_ECONF, "it is too long") : 0;
}

/* In the order in which they are applied: later ones may ask for what earlier ones set. */
static const struct key keys[] = {
    {0, "format", set_nothing},
    {0, "columns", set_columns},
    {0, "header", set_header},
    {0, "separator", set_separator},
    {0, "missing", set_missing},
    {0, "quotes", set_quotes},
    {0, "trim", set_trim},
    {0, "window", set_window},
    {0, "subsample", set_subsample},
    {0, "counts_file", set_counts},
    {0, "fields", set_nothing},
    {1, "type", set_type},
    {1, "columns", set_field_columns},
    {1, "size", set_size},
    {1, "vocabulary", set_vocabulary},
    {1, "values", set_values},
    {1, "weights", set_weights},
    {1, "max_ids", set_max_ids},
    {1, "separator", set_field_separator},
    {1, "weight_separator", set_weight_separator},
    {1, "transform", set_transform},
    {1, "missing_value", set_missing_value},
    {1, "mean", set_mean},
    {1, "std", set_std},
    {1, "salt", set_salt},
};
enum { N_KEYS = sizeof keys / sizeof keys[0] };

int data_schema_key(int field, const char *key) {
    for (int i = 0; i < N_KEYS; i++)
        if (keys[i].field == field && !strcmp(keys[i].name, key))
            return 1;
    return 0;
}

void data_schema_keys(int field, char *known, size_t cap) {
    for (int i = 0; i < N_KEYS; i++) {
        size_t n = strlen(known);
        if (keys[i].field == field && n < cap)
            snprintf(known + n, cap - n, "%s%s", n ? ", " : "", keys[i].name);
    }
}

/* --- making -------------------------------------------------------------------------------------- */

static const struct data_setting *find(const struct make *m, const char *field, const char *key) {
    for (size_t i = 0; i < m->n; i++)
        if (!strcmp(m->set[i].field, field) && !strcmp(m->set[i].key, key))
            return &m->set[i];
    return NULL;
}

int data_schema_find(const struct data_schema *s, const char *name) {
    for (uint32_t k = 0; k < s->n_fields; k++)
        if (!strcmp(s->field[k].batch.name, name))
            return (int)k;
    return -1;
}

static int set_one(struct make *m, const struct key *k, struct data_field *f, const char *value, int line, struct pd_err *err) {
    *m->line = line;
    int rc = k->set(m, f, value, err);
    if (rc && f)
        pd_err_prefix(err, "field '%s': %s", f->batch.name, k->name);
    else if (rc)
        pd_err_prefix(err, "%s", k->name);
    return rc;
}

static int name_ok(const char *s) {
    for (const char *p = s; *p; p++)
        if (!((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9') || strchr("_.-", *p)))
            return 0;
    return *s != 0;
}

/* The type that the format's own list gives to this name, or NULL. */
static const char *preset_type(const struct data_format *fmt, const char *name) {
    static const char *const kinds[] = {"id", "list", "dense", "category", "categories", "label"};
    size_t n = strlen(name);
    for (const char *p = fmt->fields ? fmt->fields : ""; *p; p += strcspn(p, " "), p += strspn(p, " ")) {
        if (strncmp(p, name, n) || (p[n] && !strchr(": ", p[n])))
            continue;
        for (size_t i = 0; p[n] == ':' && i < sizeof kinds / sizeof kinds[0]; i++)
            if (strcspn(p + n + 1, " ") == strlen(kinds[i]) && !strncmp(p + n + 1, kinds[i], strlen(kinds[i])))
                return kinds[i];
        return fmt->any_fields ? "category" : "id";
    }
    return fmt->any_fields ? NULL : "id";
}

/* NAME or NAME:TYPE. */
static int add_field(struct make *m, const char *text, int line, struct pd_err *err) {
    struct data_schema *s = m->s;
    struct data_field *f = &s->field[s->n_fields];
    const char *colon = strchr(text, ':'), *type = colon ? colon + 1 : NULL;
    size_t len = colon ? (size_t)(colon - text) : strlen(text);
    *m->line = line;
    memcpy(f->batch.name, text, len);
    if (!name_ok(f->batch.name))
        return pd_fail(err, PD_ECONF, "fields: a name is 1 to %d letters, digits or _ . -, not '%s'", PD_FIELD_NAME - 1, text);
    if (data_schema_find(s, f->batch.name) >= 0)
        return pd_fail(err, PD_ECONF, "field '%s' is named twice", f->batch.name);
    f->batch.width = 1;
    f->batch.max_ids = 128;
    memcpy(f->separator, s->format->any_fields ? "|" : " ", 2);
    memcpy(f->weight_separator, ":", 2);
    s->n_fields++;
    const struct data_setting *given = find(m, f->batch.name, "type");
    if (given && type)
        return pd_fail(err, PD_ECONF, "field '%s': its type is given twice (also on line %d)", f->batch.name, given->line);
    if (given) {
        type = given->value;
        *m->line = given->line;
    } else if (!type && !(type = preset_type(s->format, f->batch.name)))
        return pd_fail(err, PD_ECONF, "field '%s' has no type: NAME:TYPE in fields, or type = in [field %s]: id, list, dense, category, "
                       "categories, label", f->batch.name, f->batch.name);
    int rc = set_type(m, f, type, err);
    if (rc)
        pd_err_prefix(err, "field '%s': type", f->batch.name);
    return rc;
}

static int add_fields(struct make *m, struct pd_err *err) {
    const struct data_setting *given = find(m, "", "fields");
    const char *text = given ? given->value : m->s->format->fields;
    char (*list)[PD_FIELD_NAME] = NULL;
    uint32_t n = 0;
    *m->line = given ? given->line : 0;
    if (!text)
        return pd_fail(err, PD_ECONF, "[data] has no key 'fields'");
    int rc = names(text, &list, &n, err);
    if (!rc && n > PD_MAX_FIELDS)
        rc = pd_fail(err, PD_ECONF, "%u fields; there can be 1 to %d", n, PD_MAX_FIELDS);
    if (!rc) {
        m->s->field = pd_calloc(n, sizeof *m->s->field);
        m->has_size = pd_calloc(n, 1);
        m->has_vocabulary = pd_calloc(n, 1);
        if (!m->s->field || !m->has_size || !m->has_vocabulary)
            rc = pd_fail(err, PD_ENOMEM, "out of memory");
    }
    for (uint32_t i = 0; !rc && i < n; i++)
        rc = add_field(m, list[i], *m->line, err);
    free(list);
    return rc;
}

/* Keys of a field: those given, then what the format presets. */
static int set_field(struct make *m, struct data_field *f, struct pd_err *err) {
    int rc = 0;
    for (int i = 0; i < N_KEYS && !rc; i++) {
        const struct key *k = &keys[i];
        if (!k->field || k->set == set_type)
            continue;
        const struct data_setting *s = find(m, f->batch.name, k->name);
        const char *value = s ? s->value : NULL;
        for (const struct data_preset *p = m->s->format->preset; p && p->field && !s && !value; p++)
            if (!strcmp(p->field, f->batch.name) && !strcmp(p->key, k->name) &&
                !(f->type == DATA_DENSE && !strcmp(k->name, "vocabulary")))
                value = p->value;
        if (value)
            rc = set_one(m, k, f, value, s ? s->line : 0, err);
        /* mean and std count numbers: how many there are is known once columns and size are. */
        if (!rc && k->set == set_size && f->type == DATA_DENSE && m->s->format->any_fields) {
            uint32_t n = f->n_columns ? f->n_columns : 1;
            if (m->has_size[f - m->s->field] && f->batch.width != n)
                rc = pd_fail(err, PD_ECONF, "field '%s': size is %u, but it has %u columns", f->batch.name, f->batch.width, n);
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

static int complete(struct make *m, struct data_field *f, struct pd_err *err) {
    struct data_schema *s = m->s;
    uint32_t k = (uint32_t)(f - s->field);
    if (f->batch.kind != PD_LIST)
        f->batch.max_ids = 1;
    if (s->format->vocabulary && f->batch.kind != PD_DENSE && !m->has_vocabulary[k])
        f->batch.vocabulary = s->vocabulary;
    if (f->type == DATA_LABEL && !f->batch.vocabulary)
        f->batch.vocabulary = 2;
    if (!s->format->any_fields)
        return f->n_columns ? pd_fail(err, PD_ECONF, "field '%s': format %s has no columns", f->batch.name, s->format->name) : 0;
    if (!f->n_columns) {
        if (!(f->column = pd_calloc(1, sizeof *f->column)))
            return pd_fail(err, PD_ENOMEM, "out of memory");
        memcpy(f->column[0], f->batch.name, PD_FIELD_NAME);
        f->n_columns = 1;
    }
    if (f->n_columns > 1 && f->batch.kind == PD_ID)
        return pd_fail(err, PD_ECONF, "field '%s': it takes one column, not %u", f->batch.name, f->n_columns);
    if (f->batch.kind == PD_LIST && f->batch.max_ids < f->n_columns)
        f->batch.max_ids = f->n_columns;
    for (uint32_t i = 0; i < f->n_columns && s->n_columns; i++)
        if (!has_column(s, f->column[i]))
            return pd_fail(err, PD_ECONF, "field '%s': there is no column '%s'", f->batch.name, f->column[i]);
    return 0;
}

static int check_settings(struct make *m, struct pd_err *err) {
    for (size_t i = 0; i < m->n; i++) {
        const struct data_setting *s = &m->set[i], *first = find(m, s->field, s->key);
        char known[400] = "";
        *m->line = s->line;
        if (!data_schema_key(*s->field != 0, s->key)) {
            data_schema_keys(*s->field != 0, known, sizeof known);
            return pd_fail(err, PD_ECONF, "unknown key '%s' in [%s] (known: %s)", s->key, *s->field ? "field" : "data", known);
        }
        if (first != s)
            return pd_fail(err, PD_ECONF, "%s is given twice (first on line %d)", s->key, first->line);
        if (*s->field && data_schema_find(m->s, s->field) < 0)
            return pd_fail(err, PD_ECONF, "[field %s]: fields does not name it", s->field);
    }
    return 0;
}

static int begin(struct make *m, struct pd_err *err) {
    struct data_schema *s = m->s;
    const struct data_setting *given = find(m, "", "format");
    char known[200];
    if (!given)
        return pd_fail(err, PD_ECONF, "[data] has no key 'format'");
    *m->line = given->line;
    if (!(s->format = data_format_find(given->value))) {
        data_format_names(known, sizeof known);
        return pd_fail(err, PD_ECONF, "unknown data format '%s' (known: %s)", given->value, known);
    }
    if (s->format->separator)
        memcpy(s->separator, s->format->separator, strlen(s->format->separator) + 1);
    s->quotes = s->trim = !strcmp(s->format->name, "csv");
    s->window = 5;
    int rc = s->format->columns ? names(s->format->columns, &s->column, &s->n_columns, err) : 0;
    for (int i = 0; i < N_KEYS && !rc; i++) {
        const struct data_setting *x = keys[i].field ? NULL : find(m, "", keys[i].name);
        if (x)
            rc = set_one(m, &keys[i], NULL, x->value, x->line, err);
    }
    return rc;
}

static int finish(struct make *m, struct pd_err *err) {
    struct data_schema *s = m->s;
    const struct data_setting *format = find(m, "", "format");
    int rc = 0;
    for (uint32_t k = 0; k < s->n_fields && !rc; k++)
        rc = set_field(m, &s->field[k], err);
    if (!rc)
        rc = check_settings(m, err);
    *m->line = rc ? *m->line : format->line;
    for (uint32_t k = 0; k < s->n_fields && !rc; k++)
        rc = complete(m, &s->field[k], err);
    if (!rc && s->format->any_fields && !s->n_columns && !s->header)
        rc = pd_fail(err, PD_ECONF, "format %s needs the names of the columns: columns = ..., or header = true", s->format->name);
    if (!rc && !s->format->any_fields && (s->n_columns || s->header))
        rc = pd_fail(err, PD_ECONF, "format %s has no columns and no header", s->format->name);
    if (!rc && s->subsample > 0 && !*s->counts)
        rc = pd_fail(err, PD_ECONF, "subsample needs the words' counts: counts_file");
    return !rc && s->format->check ? s->format->check(s, err) : rc;
}

int data_schema_make(struct data_schema **out, const struct data_setting *set, size_t n, uint64_t vocabulary, uint64_t start_id,
                     uint64_t end_id, int *line, struct pd_err *err) {
    struct make m = {.set = set, .n = n, .line = line};
    *line = 0;
    if (!(m.s = pd_calloc(1, sizeof *m.s)))
        return pd_fail(err, PD_ENOMEM, "out of memory");
    m.s->vocabulary = vocabulary;
    m.s->start_id = start_id;
    m.s->end_id = end_id;
    int rc = begin(&m, err);
    if (!rc)
        rc = add_fields(&m, err);
    if (!rc)
        rc = finish(&m, err);
    free(m.has_size);
    free(m.has_vocabulary);
    if (rc) {
        data_schema_free(m.s);
        return rc;
    }
    *out = m.s;
    return 0;
}

int data_schema_plain(struct data_schema **out, const char *format, uint32_t n_fields, uint64_t vocabulary, uint64_t start_id,
                      uint64_t end_id, struct pd_err *err) {
    char list[PD_MAX_FIELDS * 6] = "";
    int line;
    if (n_fields < 1 || n_fields > PD_MAX_FIELDS)
        return pd_fail(err, PD_ECONF, "%u fields; there can be 1 to %d", n_fields, PD_MAX_FIELDS);
    for (uint32_t k = 0, at = 0; k < n_fields; k++)
        at += (uint32_t)snprintf(list + at, sizeof list - at, "f%u ", k);
    const struct data_setting set[] = {{"", "format", format, 0}, {"", "fields", list, 0}};
    return data_schema_make(out, set, 2, vocabulary, start_id, end_id, &line, err);
}

void data_schema_free(struct data_schema *s) {
    if (!s)
        return;
    for (uint32_t k = 0; s->field && k < s->n_fields; k++) {
        free(s->field[k].column);
        free(s->field[k].mean);
        free(s->field[k].std);
        free(s->field[k].value);
    }
    free(s->field);
    free(s->column);
    free(s);
}

const char *data_schema_format(const struct data_schema *s) { return s->format->name; }
int data_schema_is_text(const struct data_schema *s) { return s->format->text; }

int data_schema_lacks_vocabulary(const struct data_schema *s) {
    int lacks = 0;
    for (uint32_t k = 0; k < s->n_fields; k++)
        lacks |= s->format->vocabulary && s->field[k].batch.kind != PD_DENSE && !s->field[k].batch.vocabulary;
    return lacks;
}
