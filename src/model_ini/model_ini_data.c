/* SPDX-License-Identifier: Apache-2.0 */
/* model_ini_data.c - what the keys of [data] stand for: the vocabulary file, the schema. */
#include "model_ini/model_ini_internal.h"

/* --- the vocabulary file --- */

int model_ini_vocabulary_path(const struct model_ini *m, char path[PATH_MAX], struct pd_err *err) {
    const struct ini_text *file = &m->data.vocabulary_file;
    const int is_absolute = *file->text == '/';
    return pd_fmt(path, PATH_MAX, "%s%s%s", is_absolute ? "" : m->dir, is_absolute ? "" : "/",
                  file->text)
               ? pd_fail(err, PD_ECONF, "%s:%d: path too long", m->file, file->line)
               : 0;
}

int model_ini_scan_vocabulary(struct model_ini *m, struct pd_err *err) {
    struct data_ini *d = &m->data;
    char path[PATH_MAX], word[8];
    if (model_ini_vocabulary_path(m, path, err))
        return err->code;
    FILE *f = fopen(path, "re");
    if (!f)
        return pd_fail_errno(err, errno == ENOENT ? PD_ENOENT : PD_ECONF, errno,
                             "%s:%d: cannot open vocabulary_file %s", m->file,
                             d->vocabulary_file.line, path);
    uint64_t n = 0;
    size_t len = 0;
    int c, last = '\n';
    while ((c = getc_unlocked(f)) != EOF || last != '\n') {
        if (c != '\n' && c != EOF) {
            if (len < sizeof word)
                word[len] = (char)c;
            len++;
            last = c;
            continue;
        }
        /* carriage return of another system */
        len -= len && len <= sizeof word && word[len - 1] == '\r';
        struct ini_size *marker = len == 3 && !memcmp(word, "<s>", 3)   ? &d->start_id
                                  : len == 3 && !memcmp(word, "<e>", 3) ? &d->end_id
                                                                        : NULL;
        if (marker && !marker->line) {
            marker->value = n;
            marker->line = d->vocabulary_file.line;
        }
        n++;
        len = 0;
        last = '\n';
        if (c == EOF)
            break;
    }
    int bad = ferror(f);
    fclose(f);
    if (bad)
        return pd_fail(err, PD_EIO, "cannot read %s", path);
    if (n == 0)
        return pd_fail(err, PD_ECONF, "%s:%d: vocabulary_file %s is empty", m->file,
                       d->vocabulary_file.line, path);
    if (d->vocabulary.line && d->vocabulary.value != n)
        return pd_fail(err, PD_ECONF, "%s:%d: vocabulary is %llu, but %s has %llu lines", m->file,
                       d->vocabulary.line, (unsigned long long)d->vocabulary.value, path,
                       (unsigned long long)n);
    d->vocabulary.value = n;
    d->vocabulary.line = d->vocabulary_file.line;
    return 0;
}

/* --- the data --- */

static const struct data_setting *data_setting(const struct model_ini *m, const char *key) {
    for (uint32_t i = 0; i < m->n_data_settings; i++)
        if (!*m->data_setting[i].field && !strcmp(m->data_setting[i].key, key))
            return &m->data_setting[i];
    return NULL;
}

int model_ini_make_schema(struct model_ini *m, struct pd_err *err) {
    struct data_ini *d = &m->data;
    const struct data_setting *format = data_setting(m, "format"),
                              *fields = data_setting(m, "fields");
    int line = 0;
    if (!format)
        return 0; /* nn_graph_load reports it, if it is needed */
    int rc = data_schema_make(&m->schema, m->data_setting, m->n_data_settings, d->vocabulary.value,
                              d->start_id.value, d->end_id.value, &line, err);
    if (rc) {
        char where[PATH_MAX + 20];
        snprintf(where, sizeof where, "%s:%d", m->file, line ? line : d->line);
        pd_err_prefix(err, "%s", where);
        return rc;
    }
    d->format.line = format->line;
    snprintf(d->format.text, sizeof d->format.text, "%s", data_schema_format(m->schema));
    d->fields.line = fields ? fields->line : format->line;
    if (!(d->fields.at = pd_calloc(m->schema->n_fields, sizeof *d->fields.at)))
        return pd_fail(err, PD_ENOMEM, "%s: out of memory", m->file);
    for (d->fields.n = 0; d->fields.n < m->schema->n_fields; d->fields.n++) {
        struct ini_name *to = &d->fields.at[d->fields.n];
        memcpy(to->text, m->schema->field[d->fields.n].batch.name, sizeof to->text);
        to->line = d->fields.line;
    }
    return 0;
}
