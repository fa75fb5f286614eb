/* SPDX-License-Identifier: Apache-2.0 */
/* schema.c - see schema.h. Settings are applied in a fixed order: format, the other keys of [data],
 * then the fields (schema_field.c). */
#include "data/schema/schema.h"

#include "data/schema/schema_internal.h"

/* --- keys of [data] --- */

static int set_nothing(struct schema_build *m, struct data_field *f, const char *v,
                       struct pd_err *err) {
    (void)m, (void)f, (void)v, (void)err;
    return 0;
}

static int set_columns(struct schema_build *m, struct data_field *f, const char *v,
                       struct pd_err *err) {
    (void)f;
    return data_value_names(v, &m->s->column, &m->s->n_columns, err);
}

static int set_header(struct schema_build *m, struct data_field *f, const char *v,
                      struct pd_err *err) {
    (void)f;
    return data_value_truth(v, &m->s->header, err);
}

static int set_separator(struct schema_build *m, struct data_field *f, const char *v,
                         struct pd_err *err) {
    (void)f;
    return data_value_separator(v, m->s->separator, err);
}

static int set_missing(struct schema_build *m, struct data_field *f, const char *v,
                       struct pd_err *err) {
    (void)f;
    return data_value_text(v, m->s->missing, sizeof m->s->missing, err);
}

static int set_quotes(struct schema_build *m, struct data_field *f, const char *v,
                      struct pd_err *err) {
    (void)f;
    return data_value_truth(v, &m->s->quotes, err);
}

static int set_trim(struct schema_build *m, struct data_field *f, const char *v,
                    struct pd_err *err) {
    (void)f;
    return data_value_truth(v, &m->s->trim, err);
}

static int set_window(struct schema_build *m, struct data_field *f, const char *v,
                      struct pd_err *err) {
    (void)f;
    uint64_t n;
    int rc = data_value_whole(v, 1, 100, &n, err);
    if (!rc)
        m->s->window = (uint32_t)n;
    return rc;
}

static int set_subsample(struct schema_build *m, struct data_field *f, const char *v,
                         struct pd_err *err) {
    (void)f;
    return pd_parse_f64(v, 0, 1, &m->s->subsample)
               ? pd_fail(err, PD_ECONF, "it is a number from 0 to 1, not '%s'", v)
               : 0;
}

static int set_counts(struct schema_build *m, struct data_field *f, const char *v,
                      struct pd_err *err) {
    (void)f;
    return data_value_text(v, m->s->counts, sizeof m->s->counts, err);
}

/* In the order in which they are applied. */
static const struct schema_key data_keys[] = {
    {"format", set_nothing},      {"columns", set_columns}, {"header", set_header},
    {"separator", set_separator}, {"missing", set_missing}, {"quotes", set_quotes},
    {"trim", set_trim},           {"window", set_window},   {"subsample", set_subsample},
    {"counts_file", set_counts},  {"fields", set_nothing},  {NULL, NULL},
};

int data_schema_key(int field, const char *key) {
    for (const struct schema_key *k = field ? data_field_keys : data_keys; k->name; k++)
        if (!strcmp(k->name, key))
            return 1;
    return 0;
}

void data_schema_keys(int field, char *known, size_t cap) {
    for (const struct schema_key *k = field ? data_field_keys : data_keys; k->name; k++) {
        size_t n = strlen(known);
        if (n < cap)
            snprintf(known + n, cap - n, "%s%s", n ? ", " : "", k->name);
    }
}

/* --- making --- */

const struct data_setting *data_setting_find(const struct schema_build *m, const char *field,
                                             const char *key) {
    for (size_t i = 0; i < m->n; i++)
        if (!strcmp(m->set[i].field, field) && !strcmp(m->set[i].key, key))
            return &m->set[i];
    return NULL;
}

int data_setting_apply(struct schema_build *m, const struct schema_key *k, struct data_field *f,
                       const char *value, int line, struct pd_err *err) {
    *m->line = line;
    int rc = k->set(m, f, value, err);
    if (rc && f)
        pd_err_prefix(err, "field '%s': %s", f->batch.name, k->name);
    else if (rc)
        pd_err_prefix(err, "%s", k->name);
    return rc;
}

int data_schema_find(const struct data_schema *s, const char *name) {
    for (uint32_t k = 0; k < s->n_fields; k++)
        if (!strcmp(s->field[k].batch.name, name))
            return (int)k;
    return -1;
}

static int check_settings(struct schema_build *m, struct pd_err *err) {
    for (size_t i = 0; i < m->n; i++) {
        const struct data_setting *s = &m->set[i], *first = data_setting_find(m, s->field, s->key);
        char known[400] = "", text[440];
        *m->line = s->line;
        if (!data_schema_key(*s->field != 0, s->key)) {
            data_schema_keys(*s->field != 0, known, sizeof known);
            return pd_fail(err, PD_ECONF, "unknown key '%s' in [%s]%s", s->key,
                           *s->field ? "field" : "data",
                           pd_suggest(text, sizeof text, s->key, known));
        }
        if (first != s)
            return pd_fail(err, PD_ECONF, "%s is given twice (first on line %d)", s->key,
                           first->line);
        if (*s->field && data_schema_find(m->s, s->field) < 0)
            return pd_fail(err, PD_ECONF, "[field %s]: 'fields' of [data] does not name this field",
                           s->field);
    }
    return 0;
}

static int begin_schema(struct schema_build *m, struct pd_err *err) {
    struct data_schema *s = m->s;
    const struct data_setting *given = data_setting_find(m, "", "format");
    char known[200], text[240];
    if (!given)
        return pd_fail(err, PD_ECONF, "[data] has no key 'format'");
    *m->line = given->line;
    if (!(s->format = data_format_find(given->value))) {
        data_format_names(known, sizeof known);
        return pd_fail(err, PD_ECONF, "unknown data format '%s'%s", given->value,
                       pd_suggest(text, sizeof text, given->value, known));
    }
    if (s->format->separator)
        memcpy(s->separator, s->format->separator, strlen(s->format->separator) + 1);
    s->quotes = s->trim = !strcmp(s->format->name, "csv");
    s->window = 5;
    int rc = s->format->columns
                 ? data_value_names(s->format->columns, &s->column, &s->n_columns, err)
                 : 0;
    for (const struct schema_key *k = data_keys; k->name && !rc; k++) {
        const struct data_setting *x = data_setting_find(m, "", k->name);
        if (x)
            rc = data_setting_apply(m, k, NULL, x->value, x->line, err);
    }
    return rc;
}

static int finish_schema(struct schema_build *m, struct pd_err *err) {
    struct data_schema *s = m->s;
    const struct data_setting *format = data_setting_find(m, "", "format");
    int rc = 0;
    for (uint32_t k = 0; k < s->n_fields && !rc; k++)
        rc = data_field_set(m, &s->field[k], err);
    if (!rc)
        rc = check_settings(m, err);
    *m->line = rc ? *m->line : format->line;
    for (uint32_t k = 0; k < s->n_fields && !rc; k++)
        rc = data_field_complete(m, &s->field[k], err);
    if (!rc && s->format->any_fields && !s->n_columns && !s->header)
        rc = pd_fail(err, PD_ECONF,
                     "format %s needs the names of the columns: columns = ..., or header = true",
                     s->format->name);
    if (!rc && !s->format->any_fields && (s->n_columns || s->header))
        rc = pd_fail(err, PD_ECONF, "format %s has no columns and no header", s->format->name);
    if (!rc && s->subsample > 0 && !*s->counts)
        rc = pd_fail(err, PD_ECONF, "subsample needs the words' counts: counts_file");
    return !rc && s->format->check ? s->format->check(s, err) : rc;
}

int data_schema_make(struct data_schema **out, const struct data_setting *set, size_t n,
                     uint64_t vocabulary, uint64_t start_id, uint64_t end_id, int *line,
                     struct pd_err *err) {
    struct schema_build m = {.set = set, .n = n, .line = line};
    *line = 0;
    if (!(m.s = pd_calloc(1, sizeof *m.s)))
        return pd_oom(err, "the fields of a sample");
    m.s->vocabulary = vocabulary;
    m.s->start_id = start_id;
    m.s->end_id = end_id;
    int rc = begin_schema(&m, err);
    if (!rc)
        rc = data_fields_add(&m, err);
    if (!rc)
        rc = finish_schema(&m, err);
    free(m.has_size);
    free(m.has_vocabulary);
    if (rc) {
        data_schema_free(m.s);
        return rc;
    }
    *out = m.s;
    return 0;
}

int data_schema_plain(struct data_schema **out, const char *format, uint32_t n_fields,
                      uint64_t vocabulary, uint64_t start_id, uint64_t end_id, struct pd_err *err) {
    char list[PD_MAX_FIELDS * 6] = "";
    int line;
    if (n_fields < 1 || n_fields > PD_MAX_FIELDS)
        return pd_fail(err, PD_ECONF, "there are %u fields; 1 to %d are allowed", n_fields,
                       PD_MAX_FIELDS);
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

uint32_t data_schema_n_lacking(const struct data_schema *s) {
    uint32_t n = 0;
    for (uint32_t k = 0; k < s->n_fields; k++)
        n += s->may_lack[k];
    return n;
}

const char *data_schema_format(const struct data_schema *s) { return s->format->name; }
int data_schema_is_text(const struct data_schema *s) { return s->format->text; }

int data_schema_is_ids(const struct data_schema *s) { return s->format->vocabulary; }

int data_schema_lacks_vocabulary(const struct data_schema *s) {
    int lacks = 0;
    for (uint32_t k = 0; k < s->n_fields; k++)
        lacks |= s->format->vocabulary && s->field[k].batch.kind != PD_DENSE &&
                 !s->field[k].batch.vocabulary;
    return lacks;
}
