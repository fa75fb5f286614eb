/* SPDX-License-Identifier: Apache-2.0 */
/* parse_plan.c - see parse_plan.h. */
#include "data/schema/parse_plan.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "data/schema/format.h"
#include "data/input/lines.h"

uint64_t data_hash_salt(const char *salt) { return XXH3_64bits(salt, strlen(salt)); }
uint64_t data_hash(uint64_t salt, const char *s, size_t n) {
    return XXH3_64bits_withSeed(s, n, salt);
}

/* --- columns --- */

static int is_blank(char c) { return c == ' ' || c == '\t'; }

/* A column that begins with a quote: "" inside stands for one quote; the closing quote must be
 * followed by the separator or the end. */
static int quoted_column(const struct data_schema *s, struct data_cursor *c, char **from,
                         char **to) {
    char *r = c->at + 1, *w = r;
    size_t n_sep = strlen(s->separator);
    *from = w;
    for (;; r++) {
        if (r == c->end)
            return -1;
        if (*r == '"' && !(r + 1 < c->end && r[1] == '"'))
            break;
        r += *r == '"';
        *w++ = *r;
    }
    *to = w;
    r++;
    while (s->trim && r < c->end && is_blank(*r))
        r++;
    c->more = r < c->end;
    if (!c->more)
        return 1;
    if ((size_t)(c->end - r) < n_sep || memcmp(r, s->separator, n_sep))
        return -1;
    c->at = r + n_sep;
    return 1;
}

static char *find_separator(const struct data_schema *s, char *at, char *end) {
    size_t n = strlen(s->separator);
    if (n == 1) {
        char sep = s->separator[0];
        while (at < end && *at != sep)
            at++;
        return at;
    }
    char *p = memmem(at, (size_t)(end - at), s->separator, n);
    return p ? p : end;
}

int data_next_column(const struct data_schema *s, struct data_cursor *c, char **from, char **to) {
    if (!c->more)
        return 0;
    if (s->quotes) {
        char *p = c->at;
        while (s->trim && p < c->end && is_blank(*p))
            p++;
        if (p < c->end && *p == '"') {
            c->at = p;
            return quoted_column(s, c, from, to);
        }
    }
    char *stop = find_separator(s, c->at, c->end);
    *from = c->at;
    *to = stop;
    c->more = stop < c->end;
    c->at = stop + (c->more ? strlen(s->separator) : 0);
    while (s->trim && *from < *to && is_blank(**from))
        ++*from;
    while (s->trim && *from < *to && is_blank((*to)[-1]))
        --*to;
    return 1;
}

/* A name in a header may contain characters that names in train.ini can't: they become _. */
static void as_name(const char *from, const char *to, char out[PD_FIELD_NAME]) {
    size_t n = (size_t)(to - from) < PD_FIELD_NAME - 1 ? (size_t)(to - from) : PD_FIELD_NAME - 1;
    for (size_t i = 0; i < n; i++) {
        char c = from[i];
        int ok = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                 c == '_' || c == '.' || c == '-';
        out[i] = ok ? c : '_';
    }
    out[n] = 0;
}

static int names_of_header(const struct data_schema *s, char *line, size_t n,
                           char (**names)[PD_FIELD_NAME], uint32_t *n_names) {
    struct data_cursor c = {line, line + n, 1};
    char *from, *to;
    int rc;
    *n_names = 0;
    if (!(*names = pd_calloc(n + 1, sizeof **names)))
        return PD_ENOMEM;
    while ((rc = data_next_column(s, &c, &from, &to)) == 1)
        as_name(from, to, (*names)[(*n_names)++]);
    return rc;
}

static int by_column(const void *a, const void *b) {
    const struct data_action *x = a, *y = b;
    if (x->column != y->column)
        return x->column < y->column ? -1 : 1;
    return x->field != y->field ? (x->field < y->field ? -1 : 1)
                                : (x->slot > y->slot) - (x->slot < y->slot);
}

/* Lines without the columns that only fields of may_lack have: the actions for the columns that
 * they have. */
static int make_actions_without(struct data_parse_plan *p, char (*name)[PD_FIELD_NAME],
                                struct pd_err *err) {
    const struct data_schema *s = p->schema;
    uint32_t *number = pd_calloc(p->n_columns + 1, sizeof *number), n = 0;
    p->action_without = pd_calloc(p->n_actions + 1, sizeof *p->action_without);
    if (!number || !p->action_without) {
        free(number);
        return pd_oom(err, "the fields of a sample");
    }
    for (uint32_t c = 0; c < p->n_columns; c++) {
        int only_lacking = 0, is_used = 0;
        for (uint32_t k = 0; k < s->n_fields; k++)
            for (uint32_t i = 0; i < s->field[k].n_columns; i++)
                if (!strcmp(name[c], s->field[k].column[i])) {
                    only_lacking |= s->may_lack[k];
                    is_used |= !s->may_lack[k];
                }
        number[c] = n;
        n += !only_lacking || is_used;
    }
    for (uint32_t i = 0; i < p->n_actions; i++) {
        p->action_without[i] = p->action[i];
        p->action_without[i].column = number[p->action[i].column];
    }
    p->n_columns_without = n < p->n_columns ? n : 0;
    free(number);
    return 0;
}

static int make_actions(struct data_parse_plan *p, char (*name)[PD_FIELD_NAME], uint32_t n,
                        struct pd_err *err) {
    const struct data_schema *s = p->schema;
    uint32_t total = 0;
    for (uint32_t k = 0; k < s->n_fields; k++)
        total += s->field[k].n_columns;
    p->n_columns = n;
    if (!(p->action = pd_calloc(total + 1, sizeof *p->action)))
        return pd_oom(err, "the fields of a sample");
    for (uint32_t k = 0; k < s->n_fields; k++)
        for (uint32_t i = 0; i < s->field[k].n_columns; i++) {
            const struct data_field *f = &s->field[k];
            uint32_t c = 0;
            if (s->may_lack[k])
                continue;
            while (c < n && strcmp(name[c], f->column[i]))
                c++;
            if (c == n)
                return pd_fail(err, PD_ECONF, "field '%s': the header has no column '%s'",
                               f->batch.name, f->column[i]);
            p->action[p->n_actions++] =
                (struct data_action){c, k, i, data_hash_salt(*f->salt ? f->salt : f->column[i])};
        }
    qsort(p->action, p->n_actions, sizeof *p->action, by_column);
    return s->n_columns && data_schema_n_lacking(s) ? make_actions_without(p, name, err) : 0;
}

/* 1 if the file can be opened again and read from its beginning; a pipe can't. */
static int can_reopen(const char *path) {
    struct stat st;
    return strcmp(path, "-") && (stat(path, &st) || S_ISREG(st.st_mode));
}

/* Reads the names of the columns from the first line of `path`. */
static int read_header(struct data_parse_plan *p, const char *dir, const char *first,
                       struct pd_err *err) {
    struct data_lines l;
    char path[PATH_MAX], *line, (*name)[PD_FIELD_NAME] = NULL;
    size_t n;
    uint32_t n_names = 0;
    int as_given = first[0] == '/' || !strcmp(dir, ".");
    if (pd_fmt(path, sizeof path, "%s%s%s", as_given ? "" : dir, as_given ? "" : "/", first))
        return pd_fail(err, PD_EIO, "path too long: %s/%s", dir, first);
    if (!can_reopen(path))
        return pd_fail(
            err, PD_EUSAGE,
            "the header of a pipe can't name the columns, because a pipe is read only once: "
            "give columns = ... in [data]");
    int rc = data_lines_init(&l, err);
    if (!rc)
        rc = data_lines_open(&l, path, first, 0, 0, err);
    if (!rc && (rc = data_lines_next(&l, &line, &n, err)) >= 0)
        rc = rc ? 0
                : pd_fail(err, PD_EDATA, "%s: the file is empty, but should have a header", first);
    if (!rc && n && line[n - 1] == '\r')
        n--;
    if (!rc && !(p->header = pd_malloc(n + 1)))
        rc = pd_oom(err, "the fields of a sample");
    if (!rc) {
        memcpy(p->header, line, n);
        p->n_header = n;
        rc = names_of_header(p->schema, line, n, &name, &n_names);
        rc = rc == PD_ENOMEM ? pd_fail(err, rc, "out of memory")
             : rc ? pd_fail(err, PD_EDATA, "%s:1: the header's quotes do not match", first)
                  : 0;
    }
    if (!rc)
        rc = make_actions(p, name, n_names, err);
    free(name);
    data_lines_release(&l);
    return rc;
}

/* --- subsampling --- */

/* Reads counts_file: the count of word i is in line i. As in word2vec, a word of frequency f stays
 * with probability (sqrt(f/t) + 1) * t/f. */
static int read_counts(struct data_parse_plan *p, const char *dir, struct pd_err *err) {
    const struct data_schema *s = p->schema;
    char path[PATH_MAX], text[64];
    double total = 0;
    int absolute = s->counts[0] == '/';
    if (pd_fmt(path, sizeof path, "%s%s%s", absolute ? "" : dir, absolute ? "" : "/", s->counts))
        return pd_fail(err, PD_ECONF, "path too long: %s", s->counts);
    FILE *f = fopen(path, "re");
    if (!f)
        return pd_fail_errno(err, PD_ECONF, errno, "cannot open counts_file %s", path);
    double *count = pd_calloc(s->vocabulary, sizeof *count);
    p->keep = pd_calloc(s->vocabulary, sizeof *p->keep);
    int rc = count && p->keep
                 ? 0
                 : pd_fail(err, PD_ENOMEM, "out of memory for the counts of %llu words",
                           (unsigned long long)s->vocabulary);
    while (!rc && p->n_keep < s->vocabulary && fgets(text, sizeof text, f)) {
        uint64_t v;
        text[strcspn(text, "\r\n")] = 0;
        if (pd_parse_u64(text, INT64_MAX, &v))
            rc = pd_fail(err, PD_EDATA, "%s:%llu: '%s' is not a count", path,
                         (unsigned long long)p->n_keep + 1, text);
        else
            total += count[p->n_keep++] = (double)v;
    }
    if (!rc && (p->n_keep < s->vocabulary || fgetc(f) != EOF))
        rc = pd_fail(err, PD_EDATA, "%s: the file does not have one count for each of %llu words",
                     path, (unsigned long long)s->vocabulary);
    fclose(f);
    for (uint64_t i = 0; !rc && i < p->n_keep; i++) {
        double rel = total > 0 ? count[i] / total / s->subsample : 0,
               keep = rel > 0 ? (sqrt(rel) + 1) / rel : 1;
        p->keep[i] = keep < 1 ? (float)keep : 1;
    }
    free(count);
    return rc;
}

int data_parse_plan_new(struct data_parse_plan **out, const struct data_schema *s, const char *dir,
                        const char *first_dir, const char *first, struct pd_err *err) {
    struct data_parse_plan *p = pd_calloc(1, sizeof *p);
    int rc = 0;
    if (!p)
        return pd_fail(err, PD_ENOMEM, "out of memory for a data reader");
    p->schema = s;
    for (uint32_t k = 0; s->format->only_ids && !rc && k < s->n_fields; k++)
        if (s->field[k].batch.kind != PD_ID)
            rc = pd_fail(err, PD_ECONF, "format %s: field '%s' can only be an id", s->format->name,
                         s->field[k].batch.name);
    for (int i = 0; i < PLAN_LOGS; i++)
        p->log[i] = (float)log1p(i);
    if (!rc && s->format->any_fields && s->n_columns)
        rc = make_actions(p, s->column, s->n_columns, err);
    else if (!rc && s->format->any_fields && first)
        rc = read_header(p, first_dir, first, err);
    if (!rc && s->subsample > 0)
        rc = read_counts(p, dir, err);
    if (rc) {
        data_parse_plan_free(p);
        return rc;
    }
    *out = p;
    return 0;
}

void data_parse_plan_free(struct data_parse_plan *p) {
    if (!p)
        return;
    free(p->action);
    free(p->action_without);
    free(p->header);
    free(p->keep);
    free(p);
}
