/* SPDX-License-Identifier: Apache-2.0 */
/* params.c - see params.h. */
#include "train/params.h"

#include "nn/kernels/kernel.h"

/* A parameter: dense [rows x cols], or the rows of a table that the batch uses. */
struct param_slot {
    int id;
    const struct nn_param *param;
    const float
        *local; /* dense: the values in the memory of a local client; else NULL: see now.w */
    struct param_values {
        float *w;
        const uint64_t *keys; /* owned by the feed */
        size_t n_keys;        /* rows in use */
        size_t cap;           /* rows that fit */
    } now, next;              /* next: tables only, rows of the next feed */
};

struct grad_buffer {     /* gradients of one parameter */
    float *g;            /* zeros from row n_dirty on */
    size_t cap, n_dirty; /* rows */
    uint64_t *used;      /* tables: a bit for each row of the feed */
    uint64_t *keys;      /* scratch for a push of some rows */
    int pushed, lent;    /* lent: g belongs to the client */
};

struct train_grads {
    struct train_grads *next;
    uint32_t first, n; /* samples of the feed that the set belongs to */
    enum train_grads_kind what;
    uint32_t n_feed; /* samples of the whole feed */
    int some;        /* only the rows in `used` are valid */
    struct grad_buffer of[];
};

struct train_params {
    struct ps_client *client;
    struct train_grads *free, *pushed;
    const struct nn_feed *feed, *next_feed; /* feed whose rows are in use; feed of the next step */
    uint32_t *seen; /* scratch for a push: shows and clicks of a table's rows */
    size_t cap_seen;
    uint32_t n;
    struct param_slot slot[];
};

static size_t n_rows(const struct param_slot *s) {
    return s->param->kind == NN_TABLE ? s->now.n_keys : s->param->rows;
}

static size_t n_values(const struct param_slot *s) { return n_rows(s) * s->param->cols; }

static int declare(struct ps_client *c, const struct nn_param *p) {
    if (p->kind == NN_TABLE) {
        struct ps_table_spec t = {.name = p->name,
                                  .dim = (uint32_t)p->cols,
                                  .n_rows = p->rows,
                                  .init_mean = (float)p->init_mean,
                                  .init_std = (float)p->init_std,
                                  .lr_factor = (float)p->lr_factor,
                                  .l1 = (float)p->l1,
                                  .l2 = (float)p->l2,
                                  .life = &p->life};
        return ps_declare_table(c, &t);
    }
    struct ps_dense_spec d = {.name = p->name,
                              .n_dims = p->rows > 1 ? 2 : 1,
                              .shape = {p->rows, p->cols},
                              .init_mean = (float)p->init_mean,
                              .init_std = (float)p->init_std,
                              .lr_factor = (float)p->lr_factor,
                              .l1 = (float)p->l1,
                              .l2 = (float)p->l2,
                              .average = (float)p->average};
    if (p->rows == 1)
        d.shape[0] = p->cols;
    return ps_declare_dense(c, &d);
}

/* Makes room for `rows` rows; old contents are lost. */
static int make_room(const struct param_slot *s, struct param_values *v, size_t rows) {
    if (rows <= v->cap && v->w)
        return 0;
    free(v->w);
    v->cap = s->param->kind == NN_TABLE ? rows + rows / 2 : rows;
    v->w = pd_alloc64(v->cap * s->param->cols * sizeof(float));
    if (!v->w)
        v->cap = 0;
    return v->w ? 0 : PD_ENOMEM;
}

int train_params_new(struct train_params **out, const struct nn_graph *g, struct ps_client *c,
                     struct pd_err *err) {
    uint32_t n = nn_graph_n_params(g);
    struct train_params *p = pd_calloc(1, sizeof *p + n * sizeof p->slot[0]);
    int rc = p ? 0 : PD_ENOMEM;
    for (uint32_t i = 0; i < n && !rc; i++) {
        struct param_slot *s = &p->slot[i];
        p->client = c;
        p->n = i + 1;
        s->param = nn_graph_param(g, i);
        s->id = declare(c, s->param);
        rc = s->id < 0 ? s->id : 0;
    }
    if (rc) {
        if (p && ps_client_err(c)->code)
            pd_err_copy(err, ps_client_err(c));
        else
            pd_oom(err, "the parameters");
        train_params_free(p);
        return rc;
    }
    *out = p;
    return 0;
}

static void grads_free(const struct train_params *p, struct train_grads *g) {
    for (uint32_t i = 0; i < p->n; i++) {
        if (!g->of[i].lent)
            free(g->of[i].g);
        free(g->of[i].used);
        free(g->of[i].keys);
    }
    free(g);
}

void train_params_free(struct train_params *p) {
    if (!p)
        return;
    for (uint32_t i = 0; i < p->n; i++) {
        free(p->slot[i].now.w);
        free(p->slot[i].next.w);
    }
    train_grads_reclaim(p);
    while (p->free) {
        struct train_grads *g = p->free;
        p->free = g->next;
        grads_free(p, g);
    }
    free(p->seen);
    free(p);
}

int train_params_pull_dense(struct train_params *p) {
    int rc = 0;
    for (uint32_t i = 0; i < p->n && !rc; i++) {
        struct param_slot *s = &p->slot[i];
        if (s->param->kind != NN_DENSE ||
            (s->local = ps_local_dense(p->client, s->id, n_values(s))))
            continue;
        rc = make_room(s, &s->now, s->param->rows);
        if (!rc)
            rc = ps_pull_dense(p->client, s->id, s->now.w, n_values(s));
    }
    return rc;
}

static int pull_rows(struct train_params *p, const struct nn_feed *feed, int next,
                     enum ps_pull_mode mode, struct pd_err *err) {
    *(next ? &p->next_feed : &p->feed) = feed;
    for (uint32_t i = 0; i < p->n; i++) {
        struct param_slot *s = &p->slot[i];
        struct param_values *v = next ? &s->next : &s->now;
        uint32_t n = 0;
        if (s->param->kind != NN_TABLE)
            continue;
        v->keys = nn_feed_keys(feed, i, &n);
        if (make_room(s, v, n))
            return pd_fail(err, PD_ENOMEM, "%s: out of memory for %u rows", s->param->name, n);
        v->n_keys = n;
        int rc = !n     ? 0
                 : next ? ps_pull_rows_next(p->client, s->id, n, v->keys, v->w)
                        : ps_pull_rows(p->client, s->id, n, v->keys, v->w, mode);
        if (rc)
            return pd_err_copy(err, ps_client_err(p->client));
    }
    return 0;
}

int train_params_pull_rows(struct train_params *p, const struct nn_feed *feed, int train,
                           struct pd_err *err) {
    return pull_rows(p, feed, 0, train ? PS_CREATE : PS_NO_CREATE, err);
}

int train_params_pull_next_rows(struct train_params *p, const struct nn_feed *feed,
                                struct pd_err *err) {
    return pull_rows(p, feed, 1, PS_CREATE, err);
}

void train_params_next_rows(struct train_params *p) {
    p->feed = p->next_feed;
    for (uint32_t i = 0; i < p->n; i++)
        if (p->slot[i].param->kind == NN_TABLE) {
            struct param_values v = p->slot[i].now;
            p->slot[i].now = p->slot[i].next;
            p->slot[i].next = v;
        }
}

void train_params_bind(struct train_params *p, struct nn_exec *exec, struct train_grads *g) {
    for (uint32_t i = 0; i < p->n; i++)
        nn_exec_bind(exec, i, p->slot[i].local ? p->slot[i].local : p->slot[i].now.w,
                     g && !p->slot[i].param->is_static ? g->of[i].g : NULL);
}

/* --- gradients --- */

static size_t n_words(size_t rows) { return (rows + 63) / 64; }

/* Allocates a larger buffer. A dense buffer never grows: it is allocated once, in memory that a
 * local server reads, and is reused when the values after its step have arrived. */
static int grow(const struct train_params *p, const struct param_slot *s, struct grad_buffer *b) {
    int table = s->param->kind == NN_TABLE;
    size_t cap = table ? n_rows(s) + n_rows(s) / 2 + 1 : s->param->rows,
           bytes = cap * s->param->cols * sizeof *b->g;
    free(b->g);
    free(b->used);
    free(b->keys);
    *b = (struct grad_buffer){.cap = cap,
                              .g = table ? NULL : ps_lend(p->client, bytes / sizeof *b->g)};
    b->lent = b->g != NULL;
    if (!b->g)
        b->g = pd_alloc64(bytes);
    if (table) {
        b->used = pd_calloc(n_words(cap), sizeof *b->used);
        b->keys = pd_calloc(cap, sizeof *b->keys);
    }
    if (!b->g || (table && (!b->used || !b->keys))) {
        b->cap = 0;
        return PD_ENOMEM;
    }
    memset(b->g, 0, bytes);
    return 0;
}

/* 1 if the gradient of this parameter is computed for all pieces at once. */
static int together(const struct param_slot *s, const struct train_grads *g) {
    return g->what != TRAIN_GRADS_ALONE && nn_param_is_joint(s->param, g->n_feed);
}

/* Resets the set to zeros, with room for the rows of the feed. */
static int make_ready(const struct train_params *p, struct train_grads *g) {
    g->some = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        const struct param_slot *s = &p->slot[i];
        struct grad_buffer *b = &g->of[i];
        b->pushed = 0;
        if (together(s, g) && g->what == TRAIN_GRADS_OTHER)
            continue;
        if ((!b->g || n_rows(s) > b->cap) && grow(p, s, b))
            return PD_ENOMEM;
        if (!together(s, g))
            memset(b->g, 0, b->n_dirty * s->param->cols * sizeof *b->g);
        if (b->used)
            memset(b->used, 0, n_words(b->n_dirty) * sizeof *b->used);
        b->n_dirty = n_rows(s);
    }
    return 0;
}

int train_grads_take(struct train_params *p, enum train_grads_kind what, struct train_grads **out,
                     struct pd_err *err) {
    struct train_grads *g = p->free;
    if (g)
        p->free = g->next;
    else if (!(g = pd_calloc(1, sizeof *g + p->n * sizeof g->of[0])))
        return pd_fail(err, PD_ENOMEM, "out of memory for gradients");
    g->what = what;
    g->n_feed = nn_feed_n(p->feed);
    if (make_ready(p, g)) {
        grads_free(p, g);
        return pd_fail(err, PD_ENOMEM, "out of memory for gradients");
    }
    g->first = 0;
    g->n = g->n_feed;
    *out = g;
    return 0;
}

void train_grads_mark_samples(struct train_params *p, struct train_grads *g,
                              const struct nn_feed *feed, uint32_t first, uint32_t n) {
    g->some = 1;
    g->first = first;
    g->n = n;
    for (uint32_t i = 0; i < p->n; i++)
        if (p->slot[i].param->kind == NN_TABLE)
            nn_feed_mark_keys(feed, i, first, n, g->of[i].used);
}

/* The first row at or after `from` in the set. The set holds all rows of dense parameters. */
static size_t next_row(const struct train_grads *g, const struct grad_buffer *b, size_t from,
                       size_t n) {
    if (!g->some || !b->used || from >= n)
        return from;
    uint64_t word = b->used[from / 64] >> from % 64;
    if (word)
        return from + (size_t)__builtin_ctzll(word);
    for (size_t k = from / 64 + 1; k < n_words(n); k++)
        if (b->used[k])
            return k * 64 + (size_t)__builtin_ctzll(b->used[k]);
    return n;
}

/* Clears `from` while its data is in the cache, so that its next user need not. Slices of a table
 * are whole words of `used`. */
void train_grads_add_slice(const struct train_params *p, struct train_grads *into,
                           struct train_grads *from, uint32_t k, uint32_t n) {
    for (uint32_t i = 0; i < p->n; i++) {
        const struct param_slot *s = &p->slot[i];
        struct grad_buffer *a = &into->of[i], *b = &from->of[i];
        size_t cols = s->param->cols;
        if (together(s, from))
            continue;
        if (!b->used) {
            size_t blocks = (n_values(s) + 15) / 16, lo = blocks * k / n * 16,
                   hi = blocks * (k + 1) / n * 16;
            hi = hi < n_values(s) ? hi : n_values(s);
            if (lo < hi)
                nn_add_clear(hi - lo, b->g + lo, a->g + lo);
            continue;
        }
        size_t words = n_words(n_rows(s)), lo = words * k / n, hi = words * (k + 1) / n,
               end = hi * 64 < n_rows(s) ? hi * 64 : n_rows(s);
        for (size_t r = lo < hi ? next_row(from, b, lo * 64, end) : end; r < end;
             r = next_row(from, b, r + 1, end))
            if (a->used[r / 64] >> r % 64 & 1) {
                nn_add_clear(cols, b->g + r * cols, a->g + r * cols);
            } else {
                memcpy(a->g + r * cols, b->g + r * cols, cols * sizeof *b->g);
                memset(b->g + r * cols, 0, cols * sizeof *b->g);
            }
        for (size_t w = lo; w < hi; w++) {
            a->used[w] |= b->used[w];
            b->used[w] = 0;
        }
    }
}

void train_grads_add_done(struct train_params *p, struct train_grads *into,
                          struct train_grads *from) {
    const uint32_t end = into->first + into->n > from->first + from->n ? into->first + into->n
                                                                       : from->first + from->n;
    into->first = from->first < into->first ? from->first : into->first;
    into->n = end - into->first;
    for (uint32_t i = 0; i < p->n; i++)
        if (!together(&p->slot[i], from))
            from->of[i].n_dirty = 0;
    from->next = p->free;
    p->free = from;
}

/* 0 for the sum of a running mean. */
static int is_gradient(const struct param_slot *s) { return !(s->param->average > 0); }

/* Sums in double and in a fixed order, so that equal gradients give equal bits. */
void train_grads_clip(const struct train_params *p, struct train_grads *g, uint64_t n_samples,
                      double max_norm) {
    double sum = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        const struct grad_buffer *b = &g->of[i];
        size_t n = is_gradient(&p->slot[i]) ? n_rows(&p->slot[i]) : 0,
               cols = p->slot[i].param->cols;
        for (size_t r = next_row(g, b, 0, n); r < n; r = next_row(g, b, r + 1, n))
            for (size_t k = r * cols; k < (r + 1) * cols; k++)
                sum += (double)b->g[k] * (double)b->g[k];
    }
    double norm = sqrt(sum) / (double)n_samples;
    if (!(norm > max_norm)) /* NaN: the servers report it */
        return;
    const float scale = (float)(max_norm / norm);
    for (uint32_t i = 0; i < p->n; i++) {
        const struct grad_buffer *b = &g->of[i];
        size_t n = is_gradient(&p->slot[i]) ? n_rows(&p->slot[i]) : 0,
               cols = p->slot[i].param->cols;
        for (size_t r = next_row(g, b, 0, n); r < n; r = next_row(g, b, r + 1, n))
            nn_scale(cols, scale, b->g + r * cols);
    }
}

/* Collects shows and clicks of the rows of parameter `param` from the set's samples into p->seen.
 */
static int collect_seen(struct train_params *p, uint32_t param, const struct train_grads *g) {
    const size_t want = 2 * n_rows(&p->slot[param]);
    if (want > p->cap_seen) {
        free(p->seen);
        p->cap_seen = want + want / 2;
        p->seen = pd_calloc(p->cap_seen, sizeof *p->seen);
        if (!p->seen) {
            p->cap_seen = 0;
            return PD_ENOMEM;
        }
    }
    nn_feed_count_shown(p->feed, param, g->first, g->n, p->seen);
    return 0;
}

/* Compacts the rows of the set. If these are all rows of the feed, the keys need not be sent again.
 */
static int push_rows(struct train_params *p, uint32_t param, const struct train_grads *g,
                     struct grad_buffer *b) {
    const struct param_slot *s = &p->slot[param];
    size_t n = n_rows(s), cols = s->param->cols, held = g->some ? 0 : n;
    const int life = pd_row_life_active(&s->param->life);
    int rc = life && n ? collect_seen(p, param, g) : 0;
    for (size_t r = g->some && !rc ? next_row(g, b, 0, n) : n; r < n;
         r = next_row(g, b, r + 1, n)) {
        if (held != r)
            memcpy(b->g + held * cols, b->g + r * cols, cols * sizeof *b->g);
        if (held != r && life)
            memcpy(p->seen + 2 * held, p->seen + 2 * r, 2 * sizeof *p->seen);
        b->keys[held++] = s->now.keys[r];
    }
    const uint64_t *keys = held == n ? s->now.keys : b->keys;
    if (rc || !held)
        return rc;
    return life ? ps_push_seen_rows(p->client, s->id, held, keys, b->g, p->seen)
                : ps_push_rows(p->client, s->id, held, keys, b->g);
}

int train_grads_push_one(struct train_params *p, struct train_grads *g, uint32_t param) {
    const struct param_slot *s = &p->slot[param];
    struct grad_buffer *b = &g->of[param];
    if (b->pushed || s->param->is_static)
        return 0;
    b->pushed = 1;
    return s->param->kind == NN_DENSE ? ps_push_dense(p->client, s->id, b->g, n_values(s))
                                      : push_rows(p, param, g, b);
}

int train_grads_push(struct train_params *p, struct train_grads *g) {
    int rc = 0;
    for (uint32_t i = 0; i < p->n && !rc; i++)
        rc = train_grads_push_one(p, g, i);
    g->next = p->pushed;
    p->pushed = g;
    return rc;
}

void train_grads_reclaim(struct train_params *p) {
    while (p->pushed) {
        struct train_grads *g = p->pushed;
        p->pushed = g->next;
        g->next = p->free;
        p->free = g;
    }
}
