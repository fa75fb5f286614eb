/* SPDX-License-Identifier: Apache-2.0 */
/* format.c - the table of formats. */
#include "data/schema/format.h"

static int check_ngram(struct data_schema *s, struct pd_err *err) {
    if (s->start_id == s->end_id)
        return pd_fail(
            err, PD_ECONF,
            "format %s needs the ids of <s> and <e>: give a vocabulary_file that has both, "
            "or start_id and end_id",
            s->format->name);
    if (s->vocabulary && (s->start_id >= s->vocabulary || s->end_id >= s->vocabulary))
        return pd_fail(err, PD_ECONF,
                       "start_id %llu or end_id %llu is not below the vocabulary, %llu",
                       (unsigned long long)s->start_id, (unsigned long long)s->end_id,
                       (unsigned long long)s->vocabulary);
    return 0;
}

static int kinds(const struct data_schema *s, enum pd_field_kind a, enum pd_field_kind b,
                 const char *want, struct pd_err *err) {
    if (s->n_fields == 2 && s->field[0].batch.kind == a && s->field[1].batch.kind == b)
        return 0;
    return pd_fail(err, PD_ECONF, "format %s has two fields: %s", s->format->name, want);
}

static int check_skipgram(struct data_schema *s, struct pd_err *err) {
    return kinds(s, PD_ID, PD_ID, "the word (an id) and a word near it (an id)", err);
}

static int check_cbow(struct data_schema *s, struct pd_err *err) {
    int rc = kinds(s, PD_ID, PD_LIST, "the word (an id) and the words near it (a list)", err);
    if (!rc && s->field[1].batch.max_ids < 2 * s->window)
        s->field[1].batch.max_ids = 2 * s->window;
    return rc;
}

static int check_libsvm(struct data_schema *s, struct pd_err *err) {
    if (s->n_fields != 2 || s->field[0].batch.kind == PD_LIST || s->field[1].batch.kind == PD_ID)
        return pd_fail(err, PD_ECONF,
                       "format libsvm has two fields: the label (label or dense) and the features "
                       "(list or dense)");
    if (s->field[0].batch.kind == PD_DENSE && s->field[0].batch.width != 1)
        return pd_fail(err, PD_ECONF, "field '%s': the label is one number",
                       s->field[0].batch.name);
    if (s->field[1].missing_value != 0)
        return pd_fail(err, PD_ECONF,
                       "field '%s': an index that a line does not name is 0, not missing_value",
                       s->field[1].batch.name);
    return 0;
}

static int check_idx(struct data_schema *s, struct pd_err *err) {
    int rc =
        kinds(s, PD_DENSE, PD_ID, "the image (dense, of size pixels) and its label (label)", err);
    if (!rc && (s->field[0].transform != DATA_AS_IT_IS || s->field[0].missing_value != 0))
        rc = pd_fail(err, PD_ECONF, "field '%s': pixels have neither transform nor missing_value",
                     s->field[0].batch.name);
    return rc;
}

#define CRITEO_DENSE "I1 I2 I3 I4 I5 I6 I7 I8 I9 I10 I11 I12 I13"
#define CRITEO_CATEGORIES                                                                         \
    "C1 C2 C3 C4 C5 C6 C7 C8 C9 C10 C11 C12 C13 C14 C15 C16 C17 C18 C19 C20 C21 C22 C23 C24 C25 " \
    "C26"

static const struct data_preset criteo[] = {{"label", "vocabulary", "2"},
                                            {"dense", "columns", CRITEO_DENSE},
                                            {"dense", "transform", "log"},
                                            {NULL, NULL, NULL}};
static const struct data_preset libsvm[] = {
    {"label", "vocabulary", "2"}, {"features", "weights", "true"}, {NULL, NULL, NULL}};
static const struct data_preset idx[] = {
    {"image", "size", "784"}, {"label", "vocabulary", "10"}, {NULL, NULL, NULL}};

static const struct data_format formats[] = {
    /* ended by name NULL */
    {.name = "ids",
     .vocabulary = 1,
     .only_ids = 1,
     .line = data_line_ids,
     .text_line = "one sample per line, one id per field"},
    {.name = "ngram",
     .vocabulary = 1,
     .markers = 1,
     .text = 1,
     .only_ids = 1,
     .line = data_line_ngram,
     .check = check_ngram,
     .text_line = "a line is a sentence; samples are the windows over <s> line <e>"},
    {.name = "skipgram",
     .fields = "center context",
     .vocabulary = 1,
     .text = 1,
     .line = data_line_skipgram,
     .check = check_skipgram,
     .text_line = "a line is a sentence; samples are pairs of a word and a word near it"},
    {.name = "cbow",
     .fields = "center context:list",
     .vocabulary = 1,
     .text = 1,
     .line = data_line_cbow,
     .check = check_cbow,
     .text_line = "a line is a sentence; samples are a word and the list of words near it"},
    {.name = "csv",
     .any_fields = 1,
     .separator = ",",
     .line = data_line_columns,
     .text_line = "columns between commas, quotes"},
    {.name = "tsv",
     .any_fields = 1,
     .separator = "\t",
     .line = data_line_columns,
     .text_line = "columns between tabs"},
    {.name = "criteo",
     .any_fields = 1,
     .separator = "\t",
     .columns = "label " CRITEO_DENSE " " CRITEO_CATEGORIES,
     .fields = "label:label dense:dense " CRITEO_CATEGORIES,
     .preset = criteo,
     .line = data_line_columns,
     .text_line = "Criteo's click logs: a label, 13 counts, 26 categories between tabs"},
    {.name = "movielens",
     .any_fields = 1,
     .separator = "::",
     .columns = "user movie rating time",
     .fields = "user:id movie:id rating:dense",
     .line = data_line_columns,
     .text_line = "MovieLens ratings: user::movie::rating::time"},
    {.name = "libsvm",
     .fields = "label:label features:list",
     .preset = libsvm,
     .line = data_line_libsvm,
     .check = check_libsvm,
     .text_line = "a label, then index:value pairs"},
    {.name = "idx",
     .fields = "image:dense label:label",
     .preset = idx,
     .records = 1,
     .line = data_record_idx,
     .check = check_idx,
     .text_line = "MNIST's images, each file with its file of labels"},
    {.name = NULL},
};

const struct data_format *data_format_find(const char *name) {
    for (const struct data_format *f = formats; f->name; f++)
        if (!strcmp(f->name, name))
            return f;
    return NULL;
}

void data_format_names(char *out, size_t cap) {
    size_t n = 0;
    *out = 0;
    for (const struct data_format *f = formats; f->name && n < cap; f++, n = strlen(out))
        snprintf(out + n, cap - n, "%s%s", n ? ", " : "", f->name);
}
