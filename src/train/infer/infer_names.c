/* SPDX-License-Identifier: Apache-2.0 */
/* infer_names.c - see infer_names.h. */
#include "train/infer/infer_names.h"

enum { WORDS_MAX = 1 << 30 };

/* The first cost of classes that takes `layer`; NULL: none. */
static const struct cost_ini *class_cost(const struct model_ini *m, const char *layer) {
    for (uint32_t i = 0; i < m->n_costs; i++) {
        const struct cost_ini *c = &m->cost[i];
        if (c->input.n && !strcmp(c->input.at[0].text, layer) &&
            (!strcmp(c->type.text, "cross_entropy") ||
             !strcmp(c->type.text, "binary_cross_entropy")))
            return c;
    }
    return NULL;
}

/* Ends each line with a NUL, and sets names->word to the beginnings of the lines. */
static int split_words(struct infer_names *names, struct pd_err *err) {
    char *text = (char *)names->words.data, *end = text + names->words.len;
    uint32_t n = 0;
    if (!(names->word = pd_calloc(names->n, sizeof *names->word)))
        return pd_oom(err, "the words of the vocabulary");
    for (char *s = text; s < end && n < names->n; n++) {
        char *newline = memchr(s, '\n', (size_t)(end - s));
        names->word[n] = (uint32_t)(s - text);
        if (newline)
            *newline = 0;
        size_t len = strlen(s);
        if (len && s[len - 1] == '\r')
            s[len - 1] = 0;
        pd_make_printable(s);
        s = newline ? newline + 1 : end;
    }
    names->n = n;
    return 0;
}

static int read_words(struct infer_names *names, const struct model_ini *m, struct pd_err *err) {
    char path[PATH_MAX];
    int rc = model_ini_vocabulary_path(m, path, err);
    if (!rc)
        rc = pd_read_file(path, WORDS_MAX, &names->words, err);
    return rc ? rc : split_words(names, err);
}

int train_infer_names_init(struct infer_names *names, const struct nn_graph *g, const char *layer,
                           struct pd_err *err) {
    const struct model_ini *m = nn_graph_model(g);
    const struct cost_ini *c = class_cost(m, layer);
    *names = (struct infer_names){0};
    pd_buf_init(&names->words);
    int k = c ? data_schema_find(m->schema, c->label.text) : -1;
    if (k < 0)
        return 0;
    names->label = &m->schema->field[k];
    names->binary = !strcmp(c->type.text, "binary_cross_entropy");
    if (names->binary &&
        (names->label->batch.vocabulary != 2 || nn_graph_layer_size(g, layer) != 1))
        return 0;
    if (names->label->n_values) {
        names->n = (uint32_t)names->label->batch.vocabulary;
        return 0;
    }
    if (names->binary || names->label->type != DATA_ID || !m->data.vocabulary_file.line ||
        names->label->batch.vocabulary != m->data.vocabulary.value)
        return 0;
    names->n = nn_graph_layer_size(g, layer);
    return read_words(names, m, err);
}

void train_infer_names_release(struct infer_names *names) {
    pd_buf_release(&names->words);
    free(names->word);
    names->word = NULL;
}

const char *train_infer_names_get(const struct infer_names *names, uint32_t k) {
    if (k >= names->n)
        return NULL;
    if (names->word)
        return (const char *)names->words.data + names->word[k];
    for (uint32_t i = 0; i < names->label->n_values; i++)
        if (names->label->value[i].id == k)
            return names->label->value[i].text;
    return NULL;
}

static const char *next_word(const void *arg, const char *s, const char *end, uint64_t *id) {
    const struct infer_words *words = arg;
    char word[DICT_MAX_WORD];
    size_t n;
    if (!(s = words->tokens->next(s, end, &n)))
        return NULL;
    if (n <= sizeof word) {
        memcpy(word, s, n);
        data_token_lower(words->tokens, word, n);
        *id = data_dict_id(words->dict, word, n);
    } else {
        *id = data_dict_unk(words->dict);
    }
    return s + n;
}

int train_infer_words_init(struct infer_words *words, struct data_schema *schema,
                           const struct model_ini *m, const char *tokens, struct pd_err *err) {
    char path[PATH_MAX];
    const struct data_tokenizer *t = data_tokenizers;
    while (t->name && strcmp(t->name, tokens))
        t++;
    if (!t->name)
        return pd_fail(err, PD_EUSAGE, "tokens is words or blanks, not '%s'", tokens);
    if (!m->data.vocabulary_file.line || !data_schema_is_ids(schema))
        return pd_fail(err, PD_EUSAGE,
                       "%s: --tokens needs data of ids, and a vocabulary_file that has their words",
                       m->file);
    int rc = model_ini_vocabulary_path(m, path, err);
    if (!rc)
        rc = data_dict_read(&words->dict, path, err);
    if (rc)
        return rc;
    words->tokens = t;
    schema->next_word = next_word;
    schema->words = words;
    return 0;
}

void train_infer_words_release(struct infer_words *words) {
    data_dict_free(words->dict);
    *words = (struct infer_words){0};
}
