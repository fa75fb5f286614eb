/* SPDX-License-Identifier: Apache-2.0 */
/* categories.c - see categories.h. Lines are split into columns as the reader splits them. Columns
 * that are not categories are copied unchanged. */
#include "data/prepare/categories.h"

#include "data/prepare/dict.h"
#include "data/schema/format.h"

struct category_column {            /* a column of the file */
    const struct data_field *field; /* NULL: not a category */
    uint64_t salt;
    uint32_t dict; /* index into `dict`; columns with the same salt share a dictionary */
};

struct category_dict {
    struct data_dict *words;
    const char *name; /* name of the first column that uses the dictionary */
    uint64_t salt;
};

struct data_categories {
    const struct data_parse_plan *plan;
    enum data_encode encode;
    uint64_t buckets, rare;
    int finished;
    struct category_column *column; /* [plan->n_columns] */
    struct category_dict *dict;
    uint32_t n_dicts;
    struct pd_buf scratch; /* copy of the line: the cursor removes quotes in place */
    struct pd_buf joined;  /* new contents of a column */
};

int data_encode_of(const char *text) {
    static const char *const name[] = {"text", "index", "hash"};
    for (int i = 0; i < 3; i++)
        if (!strcmp(text, name[i]))
            return i;
    return -1;
}

static int is_category(const struct data_field *f) {
    return f->type == DATA_CATEGORY || f->type == DATA_CATEGORIES;
}

static int dict_of(struct data_categories *c, uint64_t salt, const char *name, uint32_t *out,
                   struct pd_err *err) {
    uint32_t i = 0;
    while (i < c->n_dicts && c->dict[i].salt != salt)
        i++;
    *out = i;
    if (i < c->n_dicts)
        return 0;
    c->dict[i] = (struct category_dict){.name = name, .salt = salt};
    int rc = data_dict_new(&c->dict[i].words, DATA_DICT_CATEGORIES, err);
    c->n_dicts += !rc;
    return rc;
}

static int map_columns(struct data_categories *c, struct pd_err *err) {
    const struct data_parse_plan *p = c->plan;
    const struct data_schema *s = p->schema;
    int rc = 0;
    for (uint32_t i = 0; i < p->n_actions && !rc; i++) {
        const struct data_action *a = &p->action[i], *next = i + 1 < p->n_actions ? a + 1 : NULL,
                                 *last = i ? a - 1 : NULL;
        const struct data_field *f = &s->field[a->field];
        const char *name = f->column[a->slot];
        if (!is_category(f))
            continue;
        if ((next && next->column == a->column) || (last && last->column == a->column))
            return pd_fail(err, PD_EUSAGE,
                           "column '%s' is a category and also belongs to another field: it can't "
                           "be rewritten",
                           name);
        c->column[a->column] = (struct category_column){.field = f, .salt = a->salt};
        rc = dict_of(c, a->salt, name, &c->column[a->column].dict, err);
    }
    return rc || c->n_dicts
               ? rc
               : pd_fail(err, PD_EUSAGE, "format %s has no category columns here", s->format->name);
}

int data_categories_new(struct data_categories **out, const struct data_parse_plan *plan,
                        enum data_encode encode, uint64_t buckets, struct pd_err *err) {
    struct data_categories *c = pd_calloc(1, sizeof *c);
    if (!c)
        return pd_fail(err, PD_ENOMEM, "out of memory for categories");
    *c = (struct data_categories){.plan = plan, .encode = encode, .buckets = buckets};
    pd_buf_init(&c->scratch);
    pd_buf_init(&c->joined);
    c->column = pd_calloc(plan->n_columns + 1, sizeof *c->column);
    c->dict = pd_calloc(plan->n_actions + 1, sizeof *c->dict);
    int rc = c->column && c->dict ? map_columns(c, err)
                                  : pd_fail(err, PD_ENOMEM, "out of memory for categories");
    if (rc)
        data_categories_free(c);
    else
        *out = c;
    return rc;
}

void data_categories_free(struct data_categories *c) {
    if (!c)
        return;
    for (uint32_t i = 0; i < c->n_dicts; i++)
        data_dict_free(c->dict[i].words);
    pd_buf_release(&c->scratch);
    pd_buf_release(&c->joined);
    free(c->column);
    free(c->dict);
    free(c);
}

/* --- walking a line --- */

struct line_walk {
    struct data_cursor cursor;
    uint32_t column;
    const char *raw; /* the column as it is in the line */
    size_t n_raw;
    char *from, *to; /* without quotes and blanks, in scratch */
    int more;        /* a separator follows */
};

static int walk_begin(struct data_categories *c, struct line_walk *w, const char *line, size_t n,
                      struct pd_err *err) {
    pd_buf_clear(&c->scratch);
    pd_put(&c->scratch, line, n);
    pd_put(&c->scratch, "", 1);
    if (c->scratch.failed)
        return pd_fail(err, PD_ENOMEM, "out of memory for a line of %zu bytes", n);
    char *s = (char *)c->scratch.data;
    *w = (struct line_walk){.cursor = {s, s + n, 1}, .column = UINT32_MAX};
    return 0;
}

static int walk_next(struct data_categories *c, struct line_walk *w, const char *line) {
    const struct data_schema *s = c->plan->schema;
    const char *base = (const char *)c->scratch.data, *start = w->cursor.at;
    if (data_next_column(s, &w->cursor, &w->from, &w->to) != 1 || ++w->column >= c->plan->n_columns)
        return 0;
    w->more = w->cursor.more;
    w->raw = line + (start - base);
    w->n_raw = (size_t)((w->more ? w->cursor.at - strlen(s->separator) : w->cursor.end) - start);
    return 1;
}

static int missing(const struct data_schema *s, const struct line_walk *w) {
    size_t n = (size_t)(w->to - w->from);
    return n == 0 || (*s->missing && n == strlen(s->missing) && !memcmp(w->from, s->missing, n));
}

/* Returns the next text of a column that holds several; NULL at the end. */
static const char *next_item(const struct data_field *f, const char **at, const char *end,
                             size_t *n) {
    size_t n_sep = strlen(f->separator);
    while (*at < end) {
        const char *from = *at, *stop = memmem(from, (size_t)(end - from), f->separator, n_sep);
        *n = (size_t)((stop ? stop : end) - from);
        *at = stop ? stop + n_sep : end;
        if (*n)
            return from;
    }
    return NULL;
}

static int one_text(const struct data_field *f) {
    return f->type == DATA_CATEGORY || f->n_columns > 1;
}

/* --- counting --- */

int data_categories_count(struct data_categories *c, const char *line, size_t n,
                          struct pd_err *err) {
    const struct data_schema *s = c->plan->schema;
    struct line_walk w;
    int rc = walk_begin(c, &w, line, n, err);
    while (!rc && walk_next(c, &w, line)) {
        const struct category_column *col = &c->column[w.column];
        if (!col->field)
            continue;
        struct data_dict *d = c->dict[col->dict].words;
        const char *at = w.from;
        size_t len;
        if (missing(s, &w))
            rc = col->field->type == DATA_CATEGORY ? data_dict_count(d, "", 0, err) : 0;
        else if (one_text(col->field))
            rc = data_dict_count(d, w.from, (size_t)(w.to - w.from), err);
        else
            for (const char *item; !rc && (item = next_item(col->field, &at, w.to, &len));)
                rc = data_dict_count(d, item, len, err);
    }
    return rc;
}

int data_categories_finish(struct data_categories *c, uint64_t min_count, struct pd_err *err) {
    int rc = 0;
    for (uint32_t i = 0; i < c->n_dicts && !rc; i++)
        rc = data_dict_finish(c->dict[i].words, min_count, err);
    c->finished = !rc;
    return rc;
}

/* --- rewriting --- */

/* Appends the encoded text to *out. 1 if it differs from the original. */
static int put_item(struct data_categories *c, const struct category_column *col, const char *s,
                    size_t n, struct pd_buf *out) {
    uint64_t index = c->finished ? data_dict_id(c->dict[col->dict].words, s, n) : 1;
    c->rare += index == 0;
    switch (c->encode) {
    case DATA_ENCODE_INDEX:
        pd_put_fmt(out, "%" PRIu64, index);
        return 1;
    case DATA_ENCODE_HASH: {
        uint64_t h =
            index ? data_hash(col->salt, s, n) : data_hash(col->salt, DATA_RARE, strlen(DATA_RARE));
        pd_put_fmt(out, "%" PRIu64, c->buckets ? h % c->buckets : h);
        return 1;
    }
    case DATA_ENCODE_TEXT:
        break;
    }
    pd_put(out, index ? s : DATA_RARE, index ? n : strlen(DATA_RARE));
    return index == 0;
}

/* Appends a column's new text, quoted if its characters require quotes. */
static void put_column(const struct data_schema *s, const struct pd_buf *text, struct pd_buf *out) {
    const char *p = (const char *)text->data;
    int quote =
        s->quotes && text->len &&
        (memchr(p, '"', text->len) || memmem(p, text->len, s->separator, strlen(s->separator)) ||
         strchr(" \t", p[0]) || strchr(" \t", p[text->len - 1]));
    if (!quote) {
        pd_put(out, p, text->len);
        return;
    }
    pd_put(out, "\"", 1);
    for (size_t i = 0; i < text->len; i++)
        pd_put(out, p[i] == '"' ? "\"\"" : p + i, p[i] == '"' ? 2 : 1);
    pd_put(out, "\"", 1);
}

static void rewrite_column(struct data_categories *c, const struct line_walk *w,
                           struct pd_buf *out) {
    const struct data_schema *s = c->plan->schema;
    const struct category_column *col = &c->column[w->column];
    const char *at = w->from;
    size_t n;
    int changed = 0, gone = missing(s, w);
    pd_buf_clear(&c->joined);
    if (gone && col->field->type == DATA_CATEGORY && c->encode != DATA_ENCODE_TEXT)
        changed = put_item(c, col, "", 0, &c->joined);
    else if (!gone && one_text(col->field))
        changed = put_item(c, col, w->from, (size_t)(w->to - w->from), &c->joined);
    else if (!gone)
        for (const char *item; (item = next_item(col->field, &at, w->to, &n));) {
            if (c->joined.len)
                pd_put(&c->joined, col->field->separator, strlen(col->field->separator));
            changed |= put_item(c, col, item, n, &c->joined);
        }
    if (changed)
        put_column(s, &c->joined, out);
    else
        pd_put(out, w->raw, w->n_raw);
}

int data_categories_rewrite(struct data_categories *c, const char *line, size_t n,
                            struct pd_buf *out, struct pd_err *err) {
    const struct data_schema *s = c->plan->schema;
    struct line_walk w;
    int rc = walk_begin(c, &w, line, n, err);
    while (!rc && walk_next(c, &w, line)) {
        if (c->column[w.column].field)
            rewrite_column(c, &w, out);
        else
            pd_put(out, w.raw, w.n_raw);
        if (w.more)
            pd_put(out, s->separator, strlen(s->separator));
    }
    return !rc && (out->failed || c->joined.failed)
               ? pd_fail(err, PD_ENOMEM, "out of memory for a line of %zu bytes", n)
               : rc;
}

/* --- results --- */

uint64_t data_categories_distinct(const struct data_categories *c) {
    uint64_t n = 0;
    for (uint32_t i = 0; i < c->n_dicts && c->finished; i++)
        n += data_dict_size(c->dict[i].words) - 1;
    return n;
}

uint64_t data_categories_rare(const struct data_categories *c) { return c->rare; }

/* Makes a file name of a column name, which may contain characters that file names can't. */
static int file_of(const char *dir, const char *name, char out[PATH_MAX], struct pd_err *err) {
    if (pd_fmt(out, PATH_MAX, "%s/%s.tsv", dir, name))
        return pd_fail(err, PD_EIO, "path too long: %s", dir);
    for (char *p = out + strlen(dir) + 1; *p; p++)
        if (*p == '/')
            *p = '_';
    return 0;
}

int data_categories_save(const struct data_categories *c, const char *dir, struct pd_err *err) {
    struct pd_buf text = {0};
    char path[PATH_MAX];
    int rc = pd_mkdirs(dir, 0777, err);
    for (uint32_t i = 0; i < c->n_dicts && !rc; i++) {
        pd_buf_clear(&text);
        data_dict_print_counts(c->dict[i].words, &text);
        if (text.failed)
            rc = pd_fail(err, PD_ENOMEM, "out of memory for the vocabulary of '%s'",
                         c->dict[i].name);
        else if (!(rc = file_of(dir, c->dict[i].name, path, err)))
            rc = pd_write_file_atomic(path, text.data, text.len, 0644, err);
    }
    pd_buf_release(&text);
    return rc;
}
