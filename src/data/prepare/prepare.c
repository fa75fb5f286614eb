/* SPDX-License-Identifier: Apache-2.0 */
/* prepare.c - paddlectl prepare for texts: read, shuffle, hold out, count, encode, deal.
 *
 * The whole text is in memory: words between single blanks, a NUL after each line. The dictionary
 * counts training lines only, so that held-out words can be unknown, as in later use. */
#include "data/prepare/prepare.h"

#include "data/prepare/dict.h"
#include "data/read/reader.h"
#include "data/read/shuffle_buffer.h"
#include "data/input/lines.h"
#include "data/prepare/shards.h"
#include "data/prepare/tokens.h"

void data_prepare_defaults(struct data_prepare_opts *o) {
    *o = (struct data_prepare_opts){.out = ".",
                                    .format = "lines",
                                    .tokens = "words",
                                    .min_word_freq = 1,
                                    .shards = 1,
                                    .share = 1,
                                    .shuffle = 1,
                                    .seed = 1};
}

struct corpus {
    const struct data_text_format *format;
    const struct data_tokenizer *tokens;
    struct data_shuffle_buffer lines;
    struct pd_buf scratch; /* words of a line */
    uint64_t words;
};

static int check_options(const struct data_prepare_opts *o, struct corpus *c, struct pd_err *err) {
    for (c->format = data_text_formats; c->format->name && strcmp(c->format->name, o->format);)
        c->format++;
    for (c->tokens = data_tokenizers; c->tokens->name && strcmp(c->tokens->name, o->tokens);)
        c->tokens++;
    if (!o->n_inputs)
        return pd_fail(err, PD_EUSAGE, "no input file is given: which file should be prepared?");
    if (!c->format->name)
        return pd_fail(err, PD_EUSAGE, "format is lines or wordnet, not '%s'", o->format);
    if (!c->tokens->name)
        return pd_fail(err, PD_EUSAGE, "tokens is words or blanks, not '%s'", o->tokens);
    if (data_shards_check(o->shards, o->holdout, err))
        return PD_EUSAGE;
    if (!(o->share > 0 && o->share <= 1))
        return pd_fail(err, PD_EUSAGE, "share is above 0 and at most 1, not %g", o->share);
    return 0;
}

/* --- reading --- */

static int add_line(struct corpus *c, const char *s, size_t n, struct pd_err *err) {
    struct pd_buf *b = &c->scratch;
    const char *end = s + n;
    size_t len;
    pd_buf_clear(b);
    for (const char *w; (w = c->tokens->next(s, end, &len)); s = w + len) {
        if (b->len)
            pd_put(b, " ", 1);
        pd_put(b, w, len);
        c->words++;
    }
    pd_put(b, "", 1);
    if (b->failed)
        return pd_fail(err, PD_ENOMEM, "out of memory for a line of %zu bytes", n);
    data_token_lower(c->tokens, (char *)b->data, b->len);
    return data_shuffle_buffer_add(&c->lines, b->data, b->len, err);
}

static int read_line(void *arg, const char *shown, uint64_t number, const char *line, size_t n,
                     struct pd_err *err) {
    struct corpus *c = arg;
    if (memchr(line, 0, n))
        return pd_fail(err, PD_EDATA, "%s:%llu: the line contains a NUL byte: is this a text file?",
                       shown, (unsigned long long)number);
    return c->format->find(&line, &n) ? add_line(c, line, n, err) : 0;
}

/* A text of another language may have no word of the kind that is looked for. */
static int read_all(struct corpus *c, const char *const *input, size_t n, struct pd_err *err) {
    struct data_lines l;
    const char *others = n > 1 ? " and the other files" : "";
    int rc = data_lines_init(&l, err);
    for (size_t i = 0; !rc && i < n; i++)
        rc = data_lines_each(&l, input[i], read_line, c, err);
    data_lines_release(&l);
    if (!rc && !c->lines.n)
        rc = pd_fail(err, PD_EDATA, "there is no text in %s%s", input[0], others);
    if (!rc && !c->words)
        rc = pd_fail(err, PD_EUSAGE, "there is no word in %s%s: --tokens=%s finds %s", input[0],
                     others, c->tokens->name,
                     c->tokens->lower_case ? "words of the letters a to z, and numbers; "
                                             "--tokens=blanks takes any text between blanks"
                                           : "text between blanks");
    return rc;
}

static int read_test(struct corpus *test, const struct corpus *c, const char *pattern,
                     struct pd_err *err) {
    struct data_files files = {0};
    test->format = c->format;
    test->tokens = c->tokens;
    int rc = data_files_expand(&files, ".", pattern, err);
    if (!rc)
        rc = read_all(test, (const char *const *)files.path, files.n, err);
    data_files_release(&files);
    return rc;
}

static const char *line_of(const struct corpus *c, uint64_t i) {
    size_t n;
    return data_shuffle_buffer_get(&c->lines, i, &n);
}

/* --- writing --- */

static int held_out(const struct data_prepare_opts *o, uint64_t i) {
    return o->holdout && (i + 1) % o->holdout == 0;
}

static int has_test(const struct data_prepare_opts *o) { return o->holdout || o->test; }

/* Returns the start of the next word of a line, *n its length, *s moved behind it; NULL at the end.
 */
static const char *next_word(const char **s, size_t *n) {
    const char *w = *s;
    if (!*w)
        return NULL;
    *n = strcspn(w, " ");
    *s = w + *n + (w[*n] == ' ');
    return w;
}

static int make_dict(struct data_dict **out, const struct corpus *c,
                     const struct data_prepare_opts *o, uint64_t n, struct pd_err *err) {
    if (o->dict)
        return data_dict_read(out, o->dict, err);
    struct data_dict *d = NULL;
    int rc = data_dict_new(&d, DATA_DICT_WORDS, err);
    for (uint64_t i = 0; !rc && i < n; i++) {
        const char *s = line_of(c, i);
        size_t len;
        for (const char *w; !rc && !held_out(o, i) && (w = next_word(&s, &len));)
            rc = data_dict_count(d, w, len, err);
    }
    if (!rc)
        rc = data_dict_finish(d, o->min_word_freq, err);
    if (rc) {
        data_dict_free(d);
        return rc;
    }
    *out = d;
    return 0;
}

struct prepare_part { /* training or held out */
    struct data_shards shards;
    uint64_t words, unknown;
    uint64_t *count; /* [dictionary size] occurrences of each word written; NULL: not needed */
};

static int encode_line(struct prepare_part *p, const struct data_dict *d, int drop, const char *s,
                       struct pd_err *err) {
    struct pd_buf *b = data_shards_buf(&p->shards);
    size_t n;
    int first = 1;
    for (const char *w; (w = next_word(&s, &n));) {
        uint64_t id = data_dict_id(d, w, n);
        int unknown = id == data_dict_unk(d);
        p->words++;
        p->unknown += (uint64_t)unknown;
        if (unknown && drop)
            continue;
        pd_put_fmt(b, "%s%" PRIu64, first ? "" : " ", id);
        if (p->count)
            p->count[id]++;
        first = 0;
    }
    return data_shards_line(&p->shards, err);
}

static int encode(const struct corpus *c, const struct data_prepare_opts *o, uint64_t n,
                  const struct corpus *own_test, const struct data_dict *d,
                  struct prepare_part *train, struct prepare_part *test, struct pd_err *err) {
    int rc = 0;
    for (uint64_t i = 0; !rc && i < n; i++)
        rc = encode_line(held_out(o, i) ? test : train, d, o->drop_unknown, line_of(c, i), err);
    for (uint64_t i = 0; !rc && i < own_test->lines.n; i++)
        rc = encode_line(test, d, o->drop_unknown, line_of(own_test, i), err);
    if (!rc)
        rc = data_shards_flush(&train->shards, err);
    if (!rc && has_test(o))
        rc = data_shards_flush(&test->shards, err);
    return rc;
}

static int remove_file(const char *out, const char *name, struct pd_err *err) {
    char path[PATH_MAX];
    if (pd_fmt(path, sizeof path, "%s/%s", out, name))
        return pd_fail(err, PD_EIO, "path too long: %s", out);
    return unlink(path) && errno != ENOENT
               ? pd_fail_errno(err, PD_EIO, errno, "cannot remove %s", path)
               : 0;
}

static int write_file(const struct pd_buf *text, const char *out, const char *name,
                      struct pd_err *err) {
    char path[PATH_MAX];
    if (text->failed)
        return pd_fail(err, PD_ENOMEM, "out of memory for %s", name);
    if (pd_fmt(path, sizeof path, "%s/%s", out, name))
        return pd_fail(err, PD_EIO, "path too long: %s", out);
    return pd_write_file_atomic(path, text->data, text->len, 0644, err);
}

static int write_dict(const struct data_dict *d, const char *out, struct pd_err *err) {
    struct pd_buf text = {0};
    data_dict_print(d, &text);
    int rc = write_file(&text, out, "dict.txt", err);
    pd_buf_release(&text);
    return rc;
}

static int write_counts(const struct data_dict *d, const uint64_t *count, const char *out,
                        struct pd_err *err) {
    struct pd_buf text = {0};
    for (uint64_t i = 0; i < data_dict_size(d); i++)
        pd_put_fmt(&text, "%" PRIu64 "\n", count[i]);
    int rc = write_file(&text, out, "counts.txt", err);
    pd_buf_release(&text);
    return rc;
}

static int open_parts(const struct data_prepare_opts *o, struct prepare_part *train,
                      struct prepare_part *test, struct pd_err *err) {
    char dir[PATH_MAX];
    if (pd_fmt(dir, sizeof dir, "%s/train_data_dir", o->out))
        return pd_fail(err, PD_EIO, "path too long: %s", o->out);
    int rc = data_shards_start(&train->shards, dir, "train.txt", o->shards, err);
    if (rc || !has_test(o))
        return rc;
    if (pd_fmt(dir, sizeof dir, "%s/test_data_dir", o->out))
        return pd_fail(err, PD_EIO, "path too long: %s", o->out);
    return data_shards_start(&test->shards, dir, "test.txt", o->shards, err);
}

/* Removes held-out lines of an earlier run: their ids belong to another dictionary. */
static int clear_held_out(const struct data_prepare_opts *o, struct pd_err *err) {
    char dir[PATH_MAX];
    if (pd_fmt(dir, sizeof dir, "%s/test_data_dir", o->out))
        return pd_fail(err, PD_EIO, "path too long: %s", o->out);
    return data_shards_clear(dir, "test.txt", err);
}

int data_prepare(const struct data_prepare_opts *o, struct data_prepare_counts *counts,
                 struct pd_err *err) {
    struct corpus c = {0}, own_test = {0};
    struct data_dict *d = NULL;
    struct prepare_part train = {0}, test = {0};
    pd_buf_init(&c.scratch);
    pd_buf_init(&own_test.scratch);
    int rc = check_options(o, &c, err);
    if (!rc)
        rc = read_all(&c, o->input, o->n_inputs, err);
    if (!rc && o->test)
        rc = read_test(&own_test, &c, o->test, err);
    if (!rc && o->shuffle)
        data_shuffle_buffer_shuffle(&c.lines, pd_rng_key(o->seed, PD_RNG_SHUFFLE, 0, 0));
    uint64_t n = (uint64_t)((double)c.lines.n * o->share);
    n = n ? n : 1;
    if (!rc)
        rc = make_dict(&d, &c, o, n, err);
    if (!rc)
        rc = open_parts(o, &train, &test, err);
    if (!rc && !(train.count = pd_calloc(data_dict_size(d), sizeof *train.count)))
        rc = pd_fail(err, PD_ENOMEM, "out of memory for the counts of words");
    if (!rc)
        rc = encode(&c, o, n, &own_test, d, &train, &test, err);
    /* The old dictionary is removed first and the new one written last. An interrupted run thus
     * leaves no dictionary rather than a dictionary that does not match the shards. */
    if (!rc)
        rc = remove_file(o->out, "dict.txt", err);
    if (!rc)
        rc = remove_file(o->out, "counts.txt", err);
    if (!rc)
        rc = data_shards_commit(&train.shards, err);
    if (!rc)
        rc = has_test(o) ? data_shards_commit(&test.shards, err) : clear_held_out(o, err);
    if (!rc)
        rc = write_counts(d, train.count, o->out, err);
    if (!rc)
        rc = write_dict(d, o->out, err);
    if (!rc)
        *counts = (struct data_prepare_counts){.lines = c.lines.n + own_test.lines.n,
                                               .words = c.words + own_test.words,
                                               .vocabulary = data_dict_size(d),
                                               .train_lines = train.shards.lines,
                                               .train_words = train.words,
                                               .train_unknown = train.unknown,
                                               .test_lines = test.shards.lines,
                                               .test_words = test.words,
                                               .test_unknown = test.unknown};
    data_shards_release(&train.shards);
    data_shards_release(&test.shards);
    data_dict_free(d);
    free(train.count);
    pd_buf_release(&c.scratch);
    pd_buf_release(&own_test.scratch);
    data_shuffle_buffer_release(&c.lines);
    data_shuffle_buffer_release(&own_test.lines);
    return rc;
}
