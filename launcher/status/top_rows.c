/* SPDX-License-Identifier: Apache-2.0 */
/* top_rows.c - see top_rows.h. */
#include "launcher/status/top_rows.h"

/* A difference in waiting that is more than chance. */
static const double WAIT_MORE = 0.2;

int top_sort_parse(const char *text, enum top_sort *out) {
    static const char *const names[] = {[TOP_WAIT] = "wait",
                                        [TOP_CPU] = "cpu",
                                        [TOP_MEMORY] = "memory",
                                        [TOP_SPEED] = "speed",
                                        [TOP_NODE] = "node"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (!strcmp(text ? text : "wait", names[i])) {
            *out = (enum top_sort)i;
            return 0;
        }
    return -1;
}

/* The age of the newest progress of any trainer; -1: there is none. */
static double newest(const struct top_row *rows, size_t n) {
    double least = -1;
    for (size_t i = 0; i < n; i++)
        if (rows[i].is_trainer && rows[i].age_s >= 0 && (least < 0 || rows[i].age_s < least))
            least = rows[i].age_s;
    return least;
}

static int is_silent(const struct top_row *r, double newest_s) {
    return r->is_trainer && r->age_s >= 0 && r->age_s > newest_s + TOP_SILENT_S;
}

/* What is sorted by, the smallest first. */
struct key {
    int group;
    double v;
};

static struct key key_of(const struct top_row *r, enum top_sort by, double newest_s) {
    const struct key last = {9, 0};
    if (by == TOP_NODE)
        return (struct key){0, 0};
    if (!r->is_running)
        return last;
    if (by == TOP_MEMORY)
        return (struct key){0, -(double)r->memory};
    if (by == TOP_SPEED && r->is_trainer)
        return r->rate < 0 ? (struct key){1, 0} : (struct key){0, r->rate};
    if (by == TOP_WAIT && r->is_stopped)
        return (struct key){-1, 0};
    if (by == TOP_WAIT && is_silent(r, newest_s))
        return (struct key){0, -r->age_s};
    if (by == TOP_WAIT && r->is_trainer)
        return r->wait < 0 ? (struct key){2, 0} : (struct key){1, r->wait};
    return r->cpu < 0 ? (struct key){4, 0} : (struct key){3, -r->cpu};
}

struct order {
    enum top_sort by;
    double newest_s;
};

static int compare(const void *a, const void *b, void *arg) {
    const struct order *o = arg;
    const struct top_row *x = a, *y = b;
    const struct key k = key_of(x, o->by, o->newest_s), m = key_of(y, o->by, o->newest_s);
    return k.group != m.group               ? (k.group > m.group) - (k.group < m.group)
           : k.v < m.v                      ? -1
           : k.v > m.v                      ? 1
           : x->node != y->node             ? (x->node > y->node) - (x->node < y->node)
           : x->is_trainer != y->is_trainer ? y->is_trainer - x->is_trainer
                                            : (x->rank > y->rank) - (x->rank < y->rank);
}

void top_rows_sort(struct top_row *rows, size_t n, enum top_sort by) {
    struct order o = {by, newest(rows, n)};
    qsort_r(rows, n, sizeof *rows, compare, &o);
}

void top_rows_verdict(const struct top_row *rows, size_t n, char *out, size_t cap) {
    const double newest_s = newest(rows, n);
    const struct top_row *least = NULL, *silent = NULL, *stopped = NULL;
    double next = -1; /* the second smallest part that waits */
    *out = 0;
    for (size_t i = 0; i < n; i++) {
        const struct top_row *r = &rows[i];
        if (r->is_stopped && !stopped)
            stopped = r;
        if (is_silent(r, newest_s) && (!silent || r->age_s > silent->age_s))
            silent = r;
        if (!r->is_trainer || r->wait < 0)
            continue;
        if (!least || r->wait < least->wait) {
            next = least ? least->wait : -1;
            least = r;
        } else if (next < 0 || r->wait < next) {
            next = r->wait;
        }
    }
    if (stopped)
        snprintf(out, cap, "%s %lld on %.100s is stopped by a signal (kill -CONT %lld)",
                 stopped->role, (long long)stopped->rank, stopped->host, (long long)stopped->pid);
    else if (silent)
        snprintf(out, cap, "trainer %lld on %.100s has made no progress for %.0f s",
                 (long long)silent->rank, silent->host, silent->age_s);
    else if (least && next - least->wait >= WAIT_MORE)
        snprintf(out, cap,
                 "trainer %lld on %.100s holds the others up: it waits %.0f %% of its time, they "
                 "at least %.0f %%",
                 (long long)least->rank, least->host, least->wait * 100, next * 100);
}
