/* SPDX-License-Identifier: Apache-2.0 */
/* format_columns.c - csv, tsv, criteo, movielens: splits a line into columns and gives each to the
 * fields that use it. */
#include "data/schema/block.h"
#include "data/schema/format.h"

static int missing(const struct data_schema *s, const char *from, const char *to) {
    size_t n = (size_t)(to - from);
    return n == 0 || (*s->missing && n == strlen(s->missing) && !memcmp(from, s->missing, n));
}

static int dense(struct data_parser *p, const struct data_field *f, uint32_t slot, const char *from,
                 const char *to, float *out) {
    double x;
    if (missing(p->schema, from, to)) {
        *out = f->missing_value;
        return 0;
    }
    if (!data_parse_number(from, to, &x))
        return data_bad_text(p, from, to, "is not a number");
    return data_scale(p->plan, f, slot, x, out)
               ? 0
               : data_bad_text(p, from, to, "is too large a number");
}

static int below(struct data_parser *p, const struct data_field *f, uint64_t id) {
    if (!f->batch.vocabulary || id < f->batch.vocabulary)
        return 0;
    return data_bad(p, "field '%s': id %" PRIu64 " is not below its vocabulary, %" PRIu64,
                    f->batch.name, id, f->batch.vocabulary);
}

static int decimal(struct data_parser *p, const struct data_field *f, const char *from,
                   const char *to, uint64_t *out) {
    return data_parse_id(from, to, out) ? below(p, f, *out)
                                        : data_bad_text(p, from, to, "is not an id");
}

static uint64_t hashed(const struct data_field *f, uint64_t salt, const char *from,
                       const char *to) {
    uint64_t h = data_hash(salt, from, (size_t)(to - from));
    return f->batch.vocabulary ? h % f->batch.vocabulary : h;
}

static int label(struct data_parser *p, const struct data_field *f, const char *from,
                 const char *to, uint64_t *out) {
    size_t n = (size_t)(to - from);
    for (uint32_t i = 0; i < f->n_values; i++)
        if (strlen(f->value[i].text) == n && !memcmp(f->value[i].text, from, n)) {
            *out = f->value[i].id;
            return 0;
        }
    return f->n_values ? data_bad_text(p, from, to, "is none of the label's values")
                       : decimal(p, f, from, to, out);
}

/* "3|17:0.5|8": the ids of a list, each with an optional weight. */
static int list(struct data_parser *p, uint32_t k, uint64_t salt, const char *from,
                const char *to) {
    const struct data_field *f = &p->schema->field[k];
    size_t n_sep = strlen(f->separator), n_wsep = strlen(f->weight_separator);
    while (from < to) {
        const char *stop = memmem(from, (size_t)(to - from), f->separator, n_sep),
                   *end = stop ? stop : to, *id_end = end;
        double weight = 1;
        uint64_t id;
        if (f->batch.weighted && f->type == DATA_LIST) {
            const char *w = memmem(from, (size_t)(end - from), f->weight_separator, n_wsep);
            id_end = w ? w : end;
            if (w && (!data_parse_number(w + n_wsep, end, &weight) || fabs(weight) > 1e30))
                return data_bad_text(p, w + n_wsep, end, "is not a weight");
        }
        int rc = from == end ? 1 : 0; /* no id between two separators in a row */
        if (!rc && f->type == DATA_LIST)
            rc = decimal(p, f, from, id_end, &id);
        else if (!rc)
            id = hashed(f, salt, from, id_end);
        if (rc < 0 || (!rc && (rc = data_sample_add_id(p, k, id, (float)weight))))
            return rc;
        from = stop ? stop + n_sep : to;
    }
    return 0;
}

static int apply(struct data_parser *p, const struct data_action *a, struct pd_batch *b,
                 const char *from, const char *to) {
    const struct data_field *f = &p->schema->field[a->field];
    int gone = missing(p->schema, from, to);
    switch (f->type) {
    case DATA_DENSE:
        return dense(p, f, a->slot, from, to,
                     &b->values[a->field][(size_t)b->n * f->batch.width + a->slot]);
    case DATA_CATEGORY:
        b->ids[a->field][b->n] = hashed(f, a->salt, from, gone ? from : to);
        return 0;
    case DATA_ID:
        return decimal(p, f, from, to, &b->ids[a->field][b->n]);
    case DATA_LABEL:
        return label(p, f, from, to, &b->ids[a->field][b->n]);
    case DATA_CATEGORIES:
        if (f->n_columns > 1)
            return gone ? 0 : data_sample_add_id(p, a->field, hashed(f, a->salt, from, to), 1);
        return gone ? 0 : list(p, a->field, a->salt, from, to);
    case DATA_LIST:
        return gone ? 0 : list(p, a->field, a->salt, from, to);
    }
    return PD_EDATA;
}

/* As data_next_column, for the common case: one character between columns, no quotes, no trimming.
 */
static inline int next_plain(char separator, struct data_cursor *c, char **from, char **to) {
    if (!c->more)
        return 0;
    char *stop = memchr(c->at, separator, (size_t)(c->end - c->at));
    *from = c->at;
    *to = stop ? stop : c->end;
    c->more = stop != NULL;
    c->at = stop ? stop + 1 : c->end;
    return 1;
}

static const struct separator_name {
    const char *text, *name;
} separators[] = {{"\t", "tabs"}, {",", "commas"}, {";", "semicolons"}, {"|", "bars"}};

enum { N_SEPARATORS = sizeof separators / sizeof separators[0] };

/* Says what separates the columns; for a line of one column, which separators it has instead. */
static int bad_columns(struct data_parser *p, const char *s, size_t n, uint32_t columns) {
    const char *own = p->schema->separator;
    char name[16], other[40] = "", least[40] = "";
    snprintf(name, sizeof name, "'%s'", own);
    for (int i = 0; i < N_SEPARATORS; i++) {
        uint32_t many = 0;
        if (!strcmp(separators[i].text, own))
            snprintf(name, sizeof name, "%s", separators[i].name);
        for (size_t k = 0; columns == 1 && k < n; k++)
            many += s[k] == *separators[i].text;
        if (many && !*other)
            snprintf(other, sizeof other, " (the line has %u %s)", many, separators[i].name);
    }
    if (p->plan->n_columns_without)
        snprintf(least, sizeof least, ", or %u without the label", p->plan->n_columns_without);
    int rc = data_bad(p, "%u column%s, but there should be %u between %s%s%s", columns,
                      columns == 1 ? "" : "s", p->plan->n_columns, name, least, other);
    return columns < p->plan->n_columns ? data_bad_short(p) : rc;
}

static int bad_quotes(struct data_parser *p, uint32_t column) {
    return data_bad(p, "column %u: its quotes do not match (a sample is one line)", column + 1);
}

/* infer: the number of columns tells whether the line has those of the label. */
static int line_of_either(struct data_parser *p, struct pd_batch *b, char *s, size_t n) {
    const struct data_parse_plan *plan = p->plan;
    struct data_cursor c = {s, s + n, 1};
    char *from, *to;
    uint32_t columns = 0;
    int rc;
    p->n_ids = 0;
    for (; (rc = data_next_column(p->schema, &c, &from, &to)) == 1; columns++) {
        if (pd_grow(p->ids, p->cap_ids, p->n_ids + 2))
            return PD_ENOMEM;
        p->ids[p->n_ids++] = (uint64_t)(from - s);
        p->ids[p->n_ids++] = (uint64_t)(to - s);
    }
    if (rc < 0)
        return bad_quotes(p, columns);
    if (columns != plan->n_columns && columns != plan->n_columns_without)
        return bad_columns(p, s, n, columns);
    const struct data_action *a = columns == plan->n_columns ? plan->action : plan->action_without;
    for (uint32_t i = 0; i < plan->n_actions && !rc; i++)
        rc = apply(p, &a[i], b, s + p->ids[2 * a[i].column], s + p->ids[2 * a[i].column + 1]);
    if (!rc)
        data_sample_end(p);
    return rc;
}

int data_line_columns(struct data_parser *p, const char *s, size_t n) {
    const struct data_parse_plan *plan = p->plan;
    struct pd_batch *b = data_sample_begin(p);
    /* Quotes are removed in place: the text belongs to the block. */
    struct data_cursor c = {(char *)(uintptr_t)s, (char *)(uintptr_t)s + n, 1};
    char *from, *to;
    uint32_t column = 0, a = 0;
    int rc, bad = 0, plain = !p->schema->quotes && !p->schema->trim && !p->schema->separator[1];
    if (!b)
        return PD_ENOMEM;
    data_sample_lacks(p);
    if (plan->n_columns_without)
        return line_of_either(p, b, c.at, n);
    for (; (rc = plain ? next_plain(p->schema->separator[0], &c, &from, &to)
                       : data_next_column(p->schema, &c, &from, &to)) == 1;
         column++)
        for (; !bad && a < plan->n_actions && plan->action[a].column == column; a++)
            bad = apply(p, &plan->action[a], b, from, to);
    if (bad == PD_ENOMEM || (bad && rc < 0))
        return bad;
    if (rc < 0)
        return bad_quotes(p, column);
    if (column != plan->n_columns) /* explains more than the text of a column */
        return bad_columns(p, s, n, column);
    if (!bad)
        data_sample_end(p);
    return bad;
}
