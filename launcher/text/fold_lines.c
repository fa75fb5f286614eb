/* SPDX-License-Identifier: Apache-2.0 */
/* fold_lines.c - see fold_lines.h. */
#include "launcher/text/fold_lines.h"

#include "launcher/text/fold.h"

static const char *text_or_none(const char *s) { return s ? s : ""; }

/* The names of two hosts. */
struct name_pair {
    const char *a, *b;
    size_t a_len, b_len;
};

static struct name_pair pair_of(const struct fold_line *a, const struct fold_line *b) {
    return (struct name_pair){a->name, b->name, strlen(a->name), strlen(b->name)};
}

/* 1: the text begins with this name. */
static int has_name(const char *text, const char *name, size_t len) {
    return len && *text == *name && !strncmp(text, name, len);
}

/* Walk over both texts. Where each has its own host's name, step over the names; *name is then 1.
 * Returns the length of the step in a's text, or 0 at a difference and at the end. */
static size_t step(const struct name_pair *v, const char *p, const char **q, int *name) {
    int in_a = has_name(p, v->a, v->a_len), in_b = has_name(*q, v->b, v->b_len);
    *name = in_a && in_b;
    size_t k = *name ? v->a_len : in_a == in_b && *p && *p == **q;
    *q += *name ? v->b_len : k;
    return k;
}

/* Equal texts, apart from the hosts' own names. */
static int is_same(const struct fold_line *a, const struct fold_line *b) {
    const char *p = a->text, *q = b->text;
    int name;
    if (strcmp(text_or_none(a->before), text_or_none(b->before)))
        return 0;
    if (!strcmp(p, q))
        return 1;
    const struct name_pair v = pair_of(a, b);
    for (size_t k; (k = step(&v, p, &q, &name));)
        p += k;
    return !*p && !*q;
}

/* a's text with `who` where it differs from b's by the hosts' names; the caller frees it. */
static char *replace_name(const struct fold_line *a, const struct fold_line *b, const char *who) {
    const char *p = a->text, *q = b->text;
    struct pd_buf text = {0};
    int name;
    if (!strcmp(p, q))
        return pd_strdup(p);
    const struct name_pair v = pair_of(a, b);
    for (size_t k; (k = step(&v, p, &q, &name)); p += k)
        pd_put(&text, name ? who : p, name ? strlen(who) : k);
    pd_put_u8(&text, 0);
    if (!text.failed)
        return (char *)text.data;
    pd_buf_release(&text);
    return NULL;
}

/* --- lines that may be equal --- */

/* Two hash tables over the lines, so that thousands of different lines are not all compared. Equal
 * lines have equal hashes of the text as it is, or of the text without the host's own name. The
 * lines of a bucket are a list in ascending order. */
enum { AS_IT_IS, WITHOUT_NAME, N_TABLES };
static const size_t NONE = SIZE_MAX;

struct entry {
    uint64_t hash[N_TABLES];
    size_t next[N_TABLES];
    int said;
};

static uint64_t add_byte(uint64_t h, unsigned char c) { /* FNV-1a */
    return (h ^ c) * 0x100000001b3u;
}

static uint64_t hash_of(const struct fold_line *l, int table) {
    const size_t len = table == WITHOUT_NAME ? strlen(l->name) : 0;
    uint64_t h = 0xcbf29ce484222325u;
    for (const char *p = text_or_none(l->before); *p; p++)
        h = add_byte(h, (unsigned char)*p);
    h = add_byte(h, 0);
    for (const char *p = l->text; *p;) {
        const int name = has_name(p, l->name, len);
        h = add_byte(h, name ? 0 : (unsigned char)*p);
        p += name ? len : 1;
    }
    return h ^ h >> 32;
}

/* The caller frees the entries. NULL: no memory. */
static struct entry *make_tables(const struct fold_line *v, size_t n) {
    size_t size = 16;
    while (size < n)
        size *= 2;
    struct entry *e = pd_calloc(n ? n : 1, sizeof *e);
    size_t *heads = pd_malloc(N_TABLES * size * sizeof *heads);
    if (!e || !heads) {
        free(e);
        free(heads);
        return NULL;
    }
    for (size_t i = 0; i < N_TABLES * size; i++)
        heads[i] = NONE;
    for (size_t i = n; i--;)
        for (int t = 0; t < N_TABLES && v[i].text; t++) {
            e[i].hash[t] = hash_of(&v[i], t);
            size_t *head = &heads[(size_t)t * size + (e[i].hash[t] & (size - 1))];
            e[i].next[t] = *head;
            *head = i;
        }
    free(heads);
    return e;
}

/* The next line that may equal line i: the first one in both lists, of which `at` are the places.
 * It may lie in both lists. */
static size_t next_line(const struct entry *e, size_t at[N_TABLES]) {
    const size_t j = at[0] < at[1] ? at[0] : at[1];
    for (int t = 0; t < N_TABLES && j != NONE; t++)
        if (at[t] == j)
            at[t] = e[j].next[t];
    return j;
}

static int same_hash(const struct entry *a, const struct entry *b) {
    return a->hash[AS_IT_IS] == b->hash[AS_IT_IS] || a->hash[WITHOUT_NAME] == b->hash[WITHOUT_NAME];
}

static void pass_alone(const struct fold_line *l, fold_on_line *fn, void *arg) {
    char who[300];
    snprintf(who, sizeof who, "%s%s", l->name, text_or_none(l->more));
    fn(arg, text_or_none(l->before), who, l->text, 1);
}

static void pass_group(const struct fold_line *first, const struct fold_line *last,
                       const char *const *names, size_t n, fold_on_line *fn, void *arg) {
    char *who = fold_hosts(names, n), *text = who ? replace_name(first, last, who) : NULL;
    fn(arg, text_or_none(first->before), who ? who : first->name, text ? text : first->text, n);
    free(text);
    free(who);
}

void fold_lines(const struct fold_line *v, size_t n, fold_on_line *fn, void *arg) {
    const char **names = pd_calloc(n ? n : 1, sizeof *names);
    struct entry *e = names ? make_tables(v, n) : NULL;
    for (size_t i = 0; i < n; i++) {
        size_t k = 0, last = i, at[N_TABLES] = {i, i};
        if (!v[i].text || (e && e[i].said))
            continue;
        for (size_t j; e && (j = next_line(e, at)) != NONE;)
            if (!e[j].said && same_hash(&e[i], &e[j]) && is_same(&v[i], &v[j])) {
                e[j].said = 1;
                names[k++] = v[last = j].name;
            }
        if (k > 1)
            pass_group(&v[i], &v[last], names, k, fn, arg);
        else
            pass_alone(&v[i], fn, arg);
    }
    free(e);
    free(names);
}

void fold_print(void *file, const char *before, const char *who, const char *text, size_t n_hosts) {
    (void)n_hosts;
    fprintf(file, "%s%s: %s\n", before, who, text);
}
