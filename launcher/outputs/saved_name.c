/* SPDX-License-Identifier: Apache-2.0 */
/* saved_name.c - see saved_name.h. */
#include "launcher/outputs/saved_name.h"

/* Reads `prefix` and at least `least` digits. Returns the text behind them; NULL: no such text. */
static const char *number(const char *s, const char *prefix, size_t least, uint64_t *out) {
    if (!pd_starts_with(s, prefix))
        return NULL;
    s += strlen(prefix);
    const size_t n = strspn(s, "0123456789");
    if (n < least || n > 18)
        return NULL;
    *out = strtoull(s, NULL, 10);
    return s + n;
}

int saved_name_parse(const char *name, struct saved_name *out) {
    *out = (struct saved_name){0};
    const char *rest = number(name, "pass-", 5, &out->pass);
    if (!rest)
        return -1;
    if (!strcmp(rest, "-stopped"))
        out->stopped = 1;
    else if (*rest) {
        out->inside = 1;
        rest = number(rest, "-batch-", 6, &out->batch);
        return rest && !*rest ? 0 : -1;
    }
    return 0;
}

/* 0: inside, 1: stopped, 2: complete */
static int rank_of(const struct saved_name *n) { return n->inside ? 0 : n->stopped ? 1 : 2; }

int saved_name_compare(const struct saved_name *a, const struct saved_name *b) {
    const int x = rank_of(a), y = rank_of(b);
    return a->pass != b->pass ? (a->pass > b->pass) - (a->pass < b->pass)
           : x != y           ? x - y
                              : (a->batch > b->batch) - (a->batch < b->batch);
}

const char *saved_pass_text(const char *name, char out[SAVED_PASS_TEXT]) {
    struct saved_name n;
    *out = 0;
    if (saved_name_parse(name, &n))
        return out;
    int at = snprintf(out, SAVED_PASS_TEXT, "pass %llu", (unsigned long long)n.pass + 1);
    if (n.inside)
        snprintf(out + at, SAVED_PASS_TEXT - (size_t)at, ", batch %llu",
                 (unsigned long long)n.batch);
    if (n.stopped)
        snprintf(out + at, SAVED_PASS_TEXT - (size_t)at, ", stopped");
    return out;
}
