/* SPDX-License-Identifier: Apache-2.0 */
/* fold.c - see fold.h.
 *
 * A name is a pattern (the text with a mark in place of each run of digits) and a vector of
 * numbers. If several vectors of a pattern agree in all places but one, they become one vector with
 * a set in that place. This is repeated for every place until nothing changes. At the end sets are
 * written as ranges. */
#include "launcher/text/fold.h"

enum { MARK = 1, PLACES_MAX = 8, DIGITS_MAX = 18 };

struct number { /* "007": value 7, 3 digits */
    uint64_t value;
    unsigned digits;
};

struct set {
    /* ascending; the digits of "007" and "7" make them different */
    struct number *v;
    size_t n;
};

struct fold_item {
    char *pattern; /* NULL: merged into another item, or moved */
    unsigned n_places;
    struct set place[PLACES_MAX];
};

static int is_digit(char c) { return c >= '0' && c <= '9'; }

/* The length of the part of the name that is folded. */
static size_t foldable(const char *s) {
    const char *colon = strchr(s, ':');
    if (strpbrk(s, "[],") || (colon && strchr(colon + 1, ':')))
        return 0;
    return colon ? (size_t)(colon - s) : strlen(s);
}

static int take_apart(struct fold_item *it, const char *name) {
    size_t end = foldable(name), n = 0;
    memset(it, 0, sizeof *it);
    it->pattern = pd_malloc(strlen(name) + 1);
    for (size_t i = 0; it->pattern && (name[i] || !i);) {
        size_t k = 0;
        while (i + k < end && is_digit(name[i + k]))
            k++;
        /* copy unchanged */
        if (!k || k > DIGITS_MAX || it->n_places == PLACES_MAX) {
            memcpy(it->pattern + n, name + i, k ? k : 1);
            n += k ? k : 1;
            i += k ? k : 1;
            if (i && !name[i - 1])
                return 0;
            continue;
        }
        struct set *s = &it->place[it->n_places++];
        if (!(s->v = pd_malloc(sizeof *s->v)))
            return -1;
        *s->v = (struct number){0, (unsigned)k};
        s->n = 1;
        for (size_t d = 0; d < k; d++)
            s->v->value = s->v->value * 10 + (uint64_t)(name[i + d] - '0');
        it->pattern[n++] = MARK;
        i += k;
    }
    if (!it->pattern)
        return -1;
    it->pattern[n] = 0;
    return 0;
}

static int cmp_number(const struct number *a, const struct number *b) {
    if (a->digits != b->digits)
        return a->digits < b->digits ? -1 : 1;
    return a->value < b->value ? -1 : a->value > b->value;
}

static int cmp_set(const struct set *a, const struct set *b) {
    for (size_t i = 0; i < a->n && i < b->n; i++) {
        int c = cmp_number(&a->v[i], &b->v[i]);
        if (c)
            return c;
    }
    return a->n < b->n ? -1 : a->n > b->n;
}

/* Compare by pattern, then by all places but `except`. */
static int cmp_others(const struct fold_item *a, const struct fold_item *b, unsigned except) {
    int c = strcmp(a->pattern, b->pattern);
    for (unsigned k = 0; !c && k < a->n_places; k++)
        if (k != except)
            c = cmp_set(&a->place[k], &b->place[k]);
    return c;
}

static int cmp_items(const void *x, const void *y, void *arg) {
    const struct fold_item *a = x, *b = y;
    unsigned last = *(const unsigned *)arg;
    int c = cmp_others(a, b, last);
    return c || last >= a->n_places ? c : cmp_set(&a->place[last], &b->place[last]);
}

static void item_release(struct fold_item *it) {
    for (unsigned k = 0; k < it->n_places; k++)
        free(it->place[k].v);
    free(it->pattern);
    it->pattern = NULL;
    it->n_places = 0;
}

static int cmp_number_v(const void *a, const void *b) { return cmp_number(a, b); }

/* The items a[0..run) agree except in place k: merge their sets into a[0]. */
static int merge_run(struct fold_item *a, size_t run, unsigned k) {
    size_t total = 0, n = 0;
    for (size_t i = 0; i < run; i++)
        total += a[i].place[k].n;
    struct number *v = pd_malloc(total * sizeof *v);
    if (!v)
        return -1;
    for (size_t i = 0; i < run; i++) {
        memcpy(v + n, a[i].place[k].v, a[i].place[k].n * sizeof *v);
        n += a[i].place[k].n;
        if (i)
            item_release(&a[i]);
    }
    qsort(v, n, sizeof *v, cmp_number_v);
    size_t kept = 1;
    for (size_t i = 1; i < n; i++)
        if (cmp_number(&v[i], &v[kept - 1]))
            v[kept++] = v[i];
    free(a[0].place[k].v);
    a[0].place[k] = (struct set){v, kept};
    return 0;
}

/* Merge along place k; without a place k, equal names become one. 1: something was merged. */
static int merge_along(struct fold_item *a, size_t *n, unsigned k) {
    size_t kept = 0, run;
    qsort_r(a, *n, sizeof *a, cmp_items, &k);
    for (size_t i = 0; i < *n; i += run) {
        for (run = 1; i + run < *n && !cmp_others(&a[i], &a[i + run], k);)
            run++;
        if (run > 1 && k < a[i].n_places && merge_run(a + i, run, k))
            return -1;
        for (size_t j = 1; j < run; j++)
            if (a[i + j].pattern)
                item_release(&a[i + j]);
        struct fold_item first = a[i];
        memset(&a[i], 0, sizeof a[i]); /* moved */
        a[kept++] = first;
    }
    int merged = kept < *n;
    *n = kept;
    return merged;
}

static int merge_all(struct fold_item *a, size_t *n) {
    for (int merged = 1; merged;) {
        merged = 0;
        /* the last number first: usually it is the number that counts hosts */
        for (unsigned k = PLACES_MAX + 1; k-- > 0;) {
            int rc = merge_along(a, n, k);
            if (rc < 0)
                return -1;
            merged |= rc;
        }
    }
    return 0;
}

static void put_number(struct pd_buf *b, const struct number *x) {
    pd_put_fmt(b, "%0*llu", (int)x->digits, (unsigned long long)x->value);
}

static int has_leading_zero(const struct number *x) {
    uint64_t least = 1;
    for (unsigned i = 1; i < x->digits; i++)
        least *= 10;
    return x->digits > 1 && x->value < least;
}

static void put_set(struct pd_buf *b, const struct set *s) {
    /* Padded numbers form a range only if their lengths are equal: "[08-100]" would read as neither
     * 99 nor 099. */
    int padded = 0;
    for (size_t i = 0; i < s->n; i++)
        padded |= has_leading_zero(&s->v[i]);
    if (s->n > 1)
        pd_put_u8(b, '[');
    for (size_t i = 0, end; i < s->n; i = end) {
        for (end = i + 1; end < s->n && s->v[end].value == s->v[end - 1].value + 1; end++)
            if (padded && s->v[end].digits != s->v[i].digits)
                break;
        if (i)
            pd_put_u8(b, ',');
        put_number(b, &s->v[i]);
        if (end > i + 1) {
            pd_put_u8(b, '-');
            put_number(b, &s->v[end - 1]);
        }
    }
    if (s->n > 1)
        pd_put_u8(b, ']');
}

static void put_item(struct pd_buf *b, const struct fold_item *it) {
    unsigned k = 0;
    for (const char *p = it->pattern; *p; p++)
        if (*p == MARK && k < it->n_places)
            put_set(b, &it->place[k++]);
        else
            pd_put_u8(b, (uint8_t)*p);
}

char *fold_hosts(const char *const *names, size_t n) {
    struct fold_item *a = pd_calloc(n ? n : 1, sizeof *a);
    struct pd_buf b = {0};
    size_t n_items = 0;
    unsigned none = PLACES_MAX;
    int bad = !a;
    for (; !bad && n_items < n; n_items++)
        bad = take_apart(&a[n_items], names[n_items]);
    size_t all = n_items;
    bad = bad || merge_all(a, &n_items);
    if (!bad)
        qsort_r(a, n_items, sizeof *a, cmp_items, &none);
    for (size_t i = 0; !bad && i < n_items; i++) {
        if (i)
            pd_put_u8(&b, ',');
        put_item(&b, &a[i]);
    }
    pd_put_u8(&b, 0);
    for (size_t i = 0; a && i < all; i++)
        item_release(&a[i]);
    free(a);
    if (!bad && !b.failed)
        return (char *)b.data;
    pd_buf_release(&b);
    return NULL;
}
