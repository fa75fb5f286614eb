/* SPDX-License-Identifier: Apache-2.0 */
/* format_libsvm.c - "label index:value index:value ...", sparse or dense. "qid:N" is skipped; #
 * begins a comment. */
#include "data/schema/block.h"
#include "data/schema/format.h"

static int is_blank(char c) { return c == ' ' || c == '\t'; }

static int label(struct data_parser *p, struct pd_batch *b, const char *s, const char *end) {
    const struct data_field *f = &p->schema->field[0];
    double x;
    for (uint32_t i = 0; i < f->n_values; i++)
        if (strlen(f->value[i].text) == (size_t)(end - s) &&
            !memcmp(f->value[i].text, s, (size_t)(end - s))) {
            b->ids[0][b->n] = f->value[i].id;
            return 0;
        }
    if (f->n_values || !data_parse_number(s + (s < end && *s == '+'), end, &x) ||
        !isfinite((float)x)) {
        const int rc = data_bad_text(p, s, end, "is not a label");
        return memchr(s, ':', (size_t)(end - s)) ? data_bad_short(p) : rc;
    }
    if (b->values[0]) {
        b->values[0][b->n] = (float)x;
        return 0;
    }
    x = x == -1 && f->batch.vocabulary == 2 ? 0 : x; /* -1 and 1 also name the two classes */
    if (x < 0 || x != floor(x) || x >= (double)f->batch.vocabulary)
        return data_bad_text(p, s, end, "is not a class of the label");
    b->ids[0][b->n] = (uint64_t)x;
    return 0;
}

static int feature(struct data_parser *p, struct pd_batch *b, const char *s, const char *end) {
    const struct pd_field *f = &p->schema->field[1].batch;
    const char *colon = memchr(s, ':', (size_t)(end - s));
    uint64_t id;
    double x = 1;
    if (colon && colon - s == 3 && !memcmp(s, "qid", 3))
        return 0;
    if (!data_parse_id(s, colon ? colon : end, &id) ||
        (colon && !data_parse_number(colon + 1, end, &x)) || !isfinite((float)x))
        return data_bad_text(p, s, end, "is not index:value");
    if (f->kind == PD_DENSE) {
        if (id < 1 || id > f->width)
            return data_bad_text(p, s, end,
                                 "has an index outside the field's size (they count from 1)");
        b->values[1][(size_t)b->n * f->width + id - 1] = (float)x;
        return 0;
    }
    if (f->vocabulary && id >= f->vocabulary)
        return data_bad(p, "index %" PRIu64 " is not below the vocabulary, %" PRIu64, id,
                        f->vocabulary);
    return data_sample_add_id(p, 1, id, (float)x);
}

/* Scales all values of a dense sample; values that the line does not name are 0 before. */
static int scale(struct data_parser *p, struct pd_batch *b) {
    const struct data_field *f = &p->schema->field[1];
    float *v = b->values[1] + (size_t)b->n * f->batch.width;
    for (uint32_t i = 0; i < f->batch.width; i++)
        if (!data_scale(p->plan, f, i, (double)v[i], &v[i]))
            return data_bad(p, "the value of index %u is too large a number", i + 1);
    return 0;
}

int data_line_libsvm(struct data_parser *p, const char *s, size_t n) {
    const char *hash = memchr(s, '#', n), *end = hash ? hash : s + n;
    struct pd_batch *b = data_sample_begin(p);
    const struct pd_field *f = &p->schema->field[1].batch;
    int rc = 0, words = 0;
    if (!b)
        return PD_ENOMEM;
    if (f->kind == PD_DENSE)
        memset(b->values[1] + (size_t)b->n * f->width, 0, f->width * sizeof(float));
    data_sample_lacks(p);
    for (; !rc; words++) {
        while (s < end && is_blank(*s))
            s++;
        if (s == end)
            break;
        const char *start = s;
        while (s < end && !is_blank(*s))
            s++;
        if (words || !p->schema->may_lack[0])
            rc = words ? feature(p, b, start, s) : label(p, b, start, s);
        else if (memchr(start, ':', (size_t)(s - start))) /* there is no label */
            rc = feature(p, b, start, s);
    }
    if (!rc && words && f->kind == PD_DENSE)
        rc = scale(p, b);
    if (!rc && words)
        data_sample_end(p);
    return rc;
}
