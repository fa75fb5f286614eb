/* SPDX-License-Identifier: Apache-2.0 */
/* format_ids.c - lines of decimal ids between blanks, or of words (data_schema.next_word): samples,
 * sentences, or words and their neighbours. */
#include "data/schema/block.h"
#include "data/schema/format.h"

static int push(struct data_parser *p, uint64_t id) {
    if (pd_grow(p->ids, p->cap_ids, p->n_ids + 1))
        return PD_ENOMEM;
    p->ids[p->n_ids++] = id;
    return 0;
}

static int is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

static int read_words(struct data_parser *p, const char *s, const char *end) {
    uint64_t id;
    while ((s = p->schema->next_word(p->schema->words, s, end, &id)))
        if (push(p, id))
            return PD_ENOMEM;
    return 0;
}

/* Appends the line's ids to p->ids. */
static int read_ids(struct data_parser *p, const char *s, size_t n) {
    const char *end = s + n;
    uint64_t vocabulary = p->schema->vocabulary;
    if (p->schema->next_word)
        return read_words(p, s, end);
    for (;;) {
        while (s < end && is_blank(*s))
            s++;
        if (s == end)
            return 0;
        const char *start = s;
        uint64_t v = 0;
        while (s < end && !is_blank(*s))
            s++;
        if (!data_parse_id(start, s, &v))
            return data_bad_text(p, start, s, "is not an id");
        if (vocabulary && v >= vocabulary)
            return data_bad(p, "id %" PRIu64 " is not below the vocabulary, %" PRIu64, v,
                            vocabulary);
        if (push(p, v))
            return PD_ENOMEM;
    }
}

static int one_sample(struct data_parser *p, const uint64_t *ids) {
    struct pd_batch *b = data_sample_begin(p);
    if (!b)
        return PD_ENOMEM;
    for (uint32_t k = 0; k < b->n_fields; k++)
        b->ids[k][b->n] = ids[k];
    data_sample_end(p);
    return 0;
}

/* Makes room among the line's ids for the fields that it lacks. */
static int spread_ids(struct data_parser *p) {
    const struct data_schema *s = p->schema;
    size_t from = p->n_ids;
    while (p->n_ids < s->n_fields)
        if (push(p, 0))
            return PD_ENOMEM;
    for (uint32_t k = s->n_fields; k-- > 0;)
        p->ids[k] = s->may_lack[k] ? 0 : p->ids[--from];
    return 0;
}

int data_line_ids(struct data_parser *p, const char *s, size_t n) {
    p->n_ids = 0;
    int rc = read_ids(p, s, n);
    if (rc || !p->n_ids)
        return rc;
    const uint32_t n_fields = p->schema->n_fields;
    const uint32_t least = n_fields - data_schema_n_lacking(p->schema);
    if (least < n_fields && p->n_ids == least && (rc = spread_ids(p)))
        return rc;
    if (p->n_ids == n_fields)
        return one_sample(p, p->ids);
    if (least < n_fields)
        return data_bad(p, "%zu ids, but there are %u fields, or %u without the label", p->n_ids,
                        n_fields, least);
    rc = data_bad(p, "%zu ids, but there are %u fields", p->n_ids, n_fields);
    return p->n_ids < n_fields ? data_bad_short(p) : rc;
}

const char *data_no_sample(struct data_parser *p) {
    const size_t n = p->n_ids, marks = p->schema->format->markers ? 2 : 0;
    if (n <= marks / 2)
        (void)data_bad(p, "no answer: the line has no words");
    else if (marks)
        (void)data_bad(p,
                       "no answer: the sentence has %zu word%s, with <s> and <e> %zu, and the "
                       "network reads %u",
                       n - marks, n - marks == 1 ? "" : "s", n, p->schema->n_fields);
    else
        (void)data_bad(p, "no answer: a word needs another one near it");
    return p->why;
}

int data_line_ngram(struct data_parser *p, const char *s, size_t n) {
    p->n_ids = 0;
    int rc = push(p, p->schema->start_id);
    if (!rc)
        rc = read_ids(p, s, n);
    if (rc || p->n_ids == 1)
        return rc;
    rc = push(p, p->schema->end_id);
    for (size_t i = 0; !rc && i + p->schema->n_fields <= p->n_ids; i++)
        rc = one_sample(p, p->ids + i);
    return rc;
}

/* Subsampling: drops words and draws the width of the window of each word that stays. Both are
 * functions of (seed, pass, stream, offset of the line, number of the word). As in word2vec, a
 * window has 1 to `window` words on each side, and words are dropped before windows are made.
 * Afterwards p->ids holds the words, then the widths. */
static int draw(struct data_parser *p, const char *s, size_t n) {
    struct pd_rng_key key = pd_rng_key(p->seed, PD_RNG_WINDOW, p->pass, p->stream);
    uint64_t line = p->block->file << 44 ^ (p->block->offset + p->where.at);
    p->n_ids = 0;
    int rc = read_ids(p, s, n);
    size_t words = p->n_ids, kept = 0;
    for (size_t i = 0; !rc && i < words; i++) {
        uint32_t r[4];
        uint64_t id = p->ids[i];
        pd_rng_u32x4(key, line, i, r);
        if (p->plan->keep && (float)(r[0] >> 8) * 0x1p-24f >= p->plan->keep[id])
            continue;
        p->ids[kept++] = id;
        rc = push(p, 1 + ((uint64_t)r[1] * p->schema->window >> 32)); /* widths follow the words */
    }
    p->n_ids = kept;
    if (!rc && kept)
        memmove(p->ids + kept, p->ids + words, kept * sizeof *p->ids);
    return rc;
}

int data_line_skipgram(struct data_parser *p, const char *s, size_t n) {
    int rc = draw(p, s, n);
    size_t words = p->n_ids;
    if (rc || !words)
        return rc;
    const uint64_t *width = p->ids + words;
    for (size_t i = 0; !rc && i < words; i++) {
        size_t lo = i > width[i] ? i - width[i] : 0,
               hi = i + width[i] < words ? i + width[i] : words - 1;
        for (size_t j = lo; !rc && j <= hi; j++)
            if (j != i)
                rc = one_sample(p, (const uint64_t[]){p->ids[i], p->ids[j]});
    }
    return rc;
}

int data_line_cbow(struct data_parser *p, const char *s, size_t n) {
    int rc = draw(p, s, n);
    size_t words = p->n_ids;
    if (rc || !words)
        return rc;
    const uint64_t *width = p->ids + words;
    for (size_t i = 0; !rc && i < words && words > 1; i++) {
        size_t lo = i > width[i] ? i - width[i] : 0,
               hi = i + width[i] < words ? i + width[i] : words - 1;
        struct pd_batch *b = data_sample_begin(p);
        if (!b)
            return PD_ENOMEM;
        b->ids[0][b->n] = p->ids[i];
        for (size_t j = lo; !rc && j <= hi; j++)
            if (j != i)
                rc = data_sample_add_id(p, 1, p->ids[j], 1);
        if (!rc)
            data_sample_end(p);
    }
    return rc;
}
