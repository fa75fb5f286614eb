/* fold_lines.c - see fold_lines.h. */
#include "launcher/text/fold_lines.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "launcher/text/fold.h"

static const char *text_or_none(const char *s) { return s ? s : ""; }

/* Walk over both texts. Where each has its own host's name, step over the names; *name is then 1.
 * Returns the length of the step in a's text, or 0 at a difference and at the end. */
static size_t step(const struct fold_line *a, const char *p, const struct fold_line *b,
                   const char **q, int *name) {
    size_t n = strlen(a->name), m = strlen(b->name);
    int in_a = n && !strncmp(p, a->name, n), in_b = m && !strncmp(*q, b->name, m);
    *name = in_a && in_b;
    size_t k = *name ? n : in_a == in_b && *p && *p == **q;
    *q += *name ? m : k;
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
    for (size_t k; (k = step(a, p, b, &q, &name));)
        p += k;
    return !*p && !*q;
}

/* a's text with `who` where it differs from b's by the hosts' names; the caller frees it. */
static char *replace_name(const struct fold_line *a, const struct fold_line *b, const char *who) {
    const char *p = a->text, *q = b->text;
    struct pd_buf text;
    int name;
    if (!strcmp(p, q))
        return pd_strdup(p);
    pd_buf_init(&text);
    for (size_t k; (k = step(a, p, b, &q, &name)); p += k)
        pd_put(&text, name ? who : p, name ? strlen(who) : k);
    pd_put_u8(&text, 0);
    if (!text.failed)
        return (char *)text.data;
    pd_buf_release(&text);
    return NULL;
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
    char *said = pd_calloc(n ? n : 1, 1);
    for (size_t i = 0; i < n; i++) {
        size_t k = 0, last = i;
        if (!v[i].text || (said && said[i]))
            continue;
        for (size_t j = i; j < n && names && said; j++)
            if (v[j].text && !said[j] && is_same(&v[i], &v[j])) {
                said[j] = 1;
                names[k++] = v[last = j].name;
            }
        if (k > 1)
            pass_group(&v[i], &v[last], names, k, fn, arg);
        else
            pass_alone(&v[i], fn, arg);
    }
    free(said);
    free(names);
}

void fold_print(void *file, const char *before, const char *who, const char *text, size_t n_hosts) {
    (void)n_hosts;
    fprintf(file, "%s%s: %s\n", before, who, text);
}
