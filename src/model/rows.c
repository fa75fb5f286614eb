/* SPDX-License-Identifier: Apache-2.0 */
/* rows.c - reads the rows of a saved table, regardless of the number of parts and layers. See
 * model.h. */
#include "model/model_internal.h"

/* Iterates over the relevant entries of a table in the order of the manifest. For each part: the
 * layers from the highest down to the layer with all rows, or only the highest (top_only). */
struct entry_walk {
    const char *name;
    enum model_kind kind; /* MODEL_TABLE includes MODEL_CHANGES */
    int top_only;
    size_t part, entry, top; /* top: highest layer of this part */
    int hidden;              /* a higher layer has all rows */
};

static int wanted(const struct entry_walk *w, const struct open_entry *x) {
    int same = x->e.kind == w->kind || (w->kind == MODEL_TABLE && x->e.kind == MODEL_CHANGES);
    return same && !strcmp(x->e.name, w->name);
}

/* 1: the file that the walk has reached is relevant. */
static int is_relevant(const struct model *m, struct entry_walk *w) {
    if (model_is_top(m, w->part)) {
        w->top = w->part;
        w->hidden = 0;
    }
    return (!m->only || w->top == m->first) && (w->top == w->part || (!w->top_only && !w->hidden));
}

/* 1: *x is the next entry, in file *at; 0: there is none. */
static int next_entry(struct model *m, struct entry_walk *w, size_t *at,
                      const struct open_entry **x, struct pd_err *err) {
    for (; w->part < m->info.n_parts; w->part++, w->entry = 0) {
        if (!w->entry && !is_relevant(m, w))
            continue;
        int rc = model_use_part(m, w->part, err);
        if (rc)
            return rc;
        const struct open_part *p = &m->parts[w->part];
        while (w->entry < p->n_entries) {
            *x = &p->entries[w->entry++];
            if (!wanted(w, *x))
                continue;
            w->hidden |= (*x)->e.kind == MODEL_TABLE;
            *at = w->part;
            return 1;
        }
    }
    return 0;
}

static const uint64_t *keys_of(const struct model *m, size_t part, const struct open_entry *x) {
    return (const uint64_t *)(const void *)(m->parts[part].map + x->keys);
}

static const float *floats_at(const struct model *m, size_t part, uint64_t offset) {
    return (const float *)(const void *)(m->parts[part].map + offset);
}

static int check_table(const struct model *m, const char *name, struct pd_err *err) {
    const struct model_param *p = model_find_param(m, name);
    return p && p->kind == MODEL_TABLE
               ? 0
               : pd_fail(err, PD_ENOENT, "%s has no table '%s'", m->folder, name);
}

int model_each_span(struct model *m, const char *name,
                    int (*each)(void *arg, const struct model_span *s, struct pd_err *err),
                    void *arg, struct pd_err *err) {
    struct entry_walk w = {.name = name, .kind = MODEL_TABLE};
    const struct open_entry *x = NULL;
    size_t at = 0;
    int rc = check_table(m, name, err);
    if (rc)
        return rc;
    while ((rc = next_entry(m, &w, &at, &x, err)) == 1) {
        const struct model_span s = {keys_of(m, at, x), floats_at(m, at, x->values), x->e.count,
                                     w.top};
        if (s.n && (rc = each(arg, &s, err)))
            return rc;
    }
    return rc;
}

int model_history(struct model *m, const char *name, const double **pairs, uint64_t *n,
                  struct pd_err *err) {
    struct entry_walk w = {.name = name, .kind = MODEL_HISTORY, .top_only = 1};
    const struct open_entry *x = NULL;
    size_t at = 0;
    *n = 0;
    int rc = next_entry(m, &w, &at, &x, err); /* all entries have the same layout */
    if (rc == 1) {
        *pairs = (const double *)(const void *)(m->parts[at].map + x->values);
        *n = x->e.count;
    }
    return rc < 0 ? rc : 0;
}

int model_has_seen(struct model *m, const char *name, struct pd_err *err) {
    struct entry_walk w = {.name = name, .kind = MODEL_WAITING, .top_only = 1};
    const struct open_entry *x = NULL;
    size_t at = 0;
    return next_entry(m, &w, &at, &x, err);
}

int model_each_waiting(struct model *m, const char *name,
                       int (*each)(void *arg, uint64_t key, uint32_t state, struct pd_err *err),
                       void *arg, struct pd_err *err) {
    struct entry_walk w = {.name = name, .kind = MODEL_WAITING, .top_only = 1};
    const struct open_entry *x = NULL;
    size_t at = 0;
    int rc;
    while ((rc = next_entry(m, &w, &at, &x, err)) == 1)
        for (uint64_t i = 0; i < x->e.count; i++) {
            uint32_t state;
            memcpy(&state, m->parts[at].map + x->values + 4 * i, sizeof state);
            if ((rc = each(arg, keys_of(m, at, x)[i], state, err)))
                return rc;
        }
    return rc;
}

/* --- all rows with their state --- */

struct row_sink {
    int (*each)(void *arg, uint64_t key, const float *row, const float *state, uint32_t width,
                struct pd_err *err);
    void *arg;
};

/* The position in one layer. */
struct layer {
    const uint64_t *keys;
    const float *rows, *state; /* state NULL: none */
    uint64_t at, n;
    uint32_t dim, width;
};

static struct layer layer_of(const struct model *m, size_t part, const struct open_entry *x) {
    return (struct layer){.keys = keys_of(m, part, x),
                          .rows = floats_at(m, part, x->values),
                          .state = x->e.state_width ? floats_at(m, part, x->state) : NULL,
                          .n = x->e.count,
                          .dim = x->e.dim,
                          .width = x->e.state_width};
}

static int give_row(struct layer *l, const struct row_sink *to, struct pd_err *err) {
    uint64_t i = l->at++;
    return to->each(to->arg, l->keys[i], l->rows + i * l->dim,
                    l->state ? l->state + i * l->width : NULL, l->width, err);
}

/* Merges the layers of a part, highest first: takes the least of their next keys from the highest
 * layer that has it; the other layers skip it. */
static int merge(struct layer *l, size_t n, const struct row_sink *to, struct pd_err *err) {
    int rc = 0;
    while (!rc && n == 1 && l->at < l->n)
        rc = give_row(l, to, err);
    while (!rc && n > 1) {
        struct layer *least = NULL;
        for (size_t i = 0; i < n; i++)
            if (l[i].at < l[i].n && (!least || l[i].keys[l[i].at] < least->keys[least->at]))
                least = &l[i];
        if (!least)
            return 0;
        uint64_t key = least->keys[least->at];
        rc = give_row(least, to, err);
        for (struct layer *below = least + 1; below < l + n; below++)
            below->at += below->at < below->n && below->keys[below->at] == key;
    }
    return rc;
}

int model_each_state(struct model *m, const char *name,
                     int (*each)(void *arg, uint64_t key, const float *row, const float *state,
                                 uint32_t width, struct pd_err *err),
                     void *arg, struct pd_err *err) {
    const struct row_sink to = {each, arg};
    struct entry_walk w = {.name = name, .kind = MODEL_TABLE};
    struct layer layers[MODEL_LAYERS_MAX + 1];
    const struct open_entry *x = NULL;
    size_t at = 0, n = 0, top = 0;
    int more, rc = check_table(m, name, err);
    if (rc)
        return rc;
    do {
        more = next_entry(m, &w, &at, &x, err);
        if (n && (more <= 0 || w.top != top)) {
            rc = merge(layers, n, &to, err);
            n = 0;
        }
        top = w.top;
        if (more == 1 && n > MODEL_LAYERS_MAX)
            rc = pd_fail(err, PD_EDATA, "%s: table '%s' is in a part more than once", m->folder,
                         name);
        else if (more == 1)
            layers[n++] = layer_of(m, at, x);
    } while (!rc && more == 1);
    return rc ? rc : more;
}
