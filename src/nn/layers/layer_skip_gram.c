/* SPDX-License-Identifier: Apache-2.0 */
/* layer_skip_gram.c - word2vec's skip-gram with negative sampling: compares a word with each word
 * of its context, and with K drawn words that many neighbouring words of the text share. The
 * formulas are in the row at the end of the file.
 *
 * A context word belongs to several neighbouring samples. So a chunk of at most `share` samples has
 * each distinct context word once, with its number of occurrences as weight: U words, 1 to 2 a
 * sample if a list has 6. The work for the drawn ids is then three matrix products:
 *
 *     s[U,K] = in n^T;  g = scale * weight * sigmoid(s);  d in[U,D] = g n;  d n[K,D] = g^T in
 *
 * state.extra of a chunk begins with that of its first sample (at most P pairs, see struct chunk):
 *
 *     [P]      sigmoid(c.t) - 1 of each pair
 *     [P]      the index of each pair's row among the U rows (uint32_t)
 *     [P]      rows of `in` (uint32_t)
 *     [U x K]  sigmoid(s)
 */
#include "nn/kernels/kernel.h"
#include "nn/kernels/kernel_rows.h"
#include "nn/graph/sampler.h"

enum { MAX_PAIRS = 4096, IN = 0, OUT = 1 }; /* MAX_PAIRS: of a chunk */
enum { USE_NEAR, USE_WORD, USE_DRAWN };

static const char *const takes[] = {"inputs",         "size",        "negatives", "share",
                                    "scale",          "counts",      "power",     "sparse_update",
                                    "is_distributed", NN_PARAM_KEYS, NULL};

static size_t hash_size(size_t pairs) {
    size_t n = 64;
    while (n < 2 * pairs)
        n *= 2;
    return n;
}

static int shape(struct nn_build *b, struct nn_node *self, struct pd_err *err) {
    const struct layer_ini *ini = self->ini;
    const struct nn_node *near = &b->g->node[self->in[0]],
                         *word = &b->g->node[self->in[self->n_in - 1]];
    uint64_t D = nn_build_size(b, self), V = word->field.vocabulary;
    if (self->n_in != 2 || near->type || word->type || near->field.kind != PD_LIST ||
        near->field.weighted || word->field.kind != PD_ID)
        return pd_fail(err, PD_ECONF,
                       "%s:%d: layer '%s': skip_gram takes a field of lists without weights and a "
                       "field of ids as its inputs",
                       b->file, ini->inputs.line, self->name);
    if (near->field.max_ids > MAX_PAIRS)
        return pd_fail(
            err, PD_ECONF,
            "%s:%d: layer '%s' takes lists of at most %d ids; those of '%s' may have %u (max_ids)",
            b->file, ini->inputs.line, self->name, MAX_PAIRS, near->name, near->field.max_ids);
    if (!D || !ini->negatives.line)
        return pd_fail(err, PD_ECONF, "%s:%d: layer '%s' needs %s", b->file, self->line, self->name,
                       D ? "negatives, how many ids are drawn" : "a size");
    size_t P = MAX_PAIRS, K = (size_t)ini->negatives.value, R = nn_row_padded(D);
    self->size = 1;
    self->dim = (uint32_t)K;
    self->rate = ini->scale.line ? (float)ini->scale.value : 1;
    self->n_extra = near->field.max_ids * (self->dim + 3);
    self->n_work = P * (2 * R + K + 2) + 2 * (K + 1) * R + K + hash_size(P);
    enum nn_kind kind = ini->sparse_update.value || ini->is_distributed.value ? NN_TABLE : NN_DENSE;
    int rc = nn_build_param(b, self, IN, "in", kind, near->field.vocabulary, D,
                            ini->init_std.line ? ini->init_std.value : 0.3 / (double)D, err);
    if (!rc)
        rc = nn_build_param(b, self, OUT, "out", kind, V, D, 0, err);
    if (!rc)
        rc = nn_sampler_add(b, self, V, 0.75, 0, err);
    if (rc < 0)
        return rc;
    self->option = rc;
    rc = 0;
    if (kind == NN_TABLE) {
        rc = nn_build_use(b, self, USE_NEAR, IN, near->number, err);
        if (!rc)
            rc = nn_build_use(b, self, USE_WORD, OUT, word->number, err);
        if (!rc)
            rc = nn_build_use_drawn(b, self, USE_DRAWN, OUT, (uint32_t)self->option, err);
    }
    return rc;
}

/* Neighbouring samples [first, first + n) of the execution, which share the drawn ids. */
struct chunk {
    uint32_t first, n;
    /* R: D padded, the width of rows in exec.work; at: first place in the draws */
    size_t K, D, R, at;
    const uint32_t *offset;   /* [n + 1]: of their lists */
    uint32_t n_pairs, n_rows; /* n_rows: U */
    float *own, *sig;         /* in state.extra */
    uint32_t *local, *row;
    /* in exec.work: */
    float *in, *din, *drawn, *ddrawn; /* [U,R] twice, [K,R] twice */
    float *word, *dword;              /* [R] */
    float *weight, *g, *pair;         /* [U], [U,K], [P] */
    /* [K]; place: a hash table over rows, with the index in `row` plus 1 */
    uint32_t *drawn_row, *place;
};

static size_t place_of(uint32_t row, size_t mask) { return row * UINT32_C(0x9E3779B1) >> 7 & mask; }

static size_t id_row(const struct nn_exec *e, const struct nn_node *self, int use,
                     const uint64_t *ids, size_t i) {
    return e->g->param[self->param[use != USE_NEAR]].kind == NN_TABLE
               ? e->feed->slot[self->use[use]][i]
               : ids[i];
}

static size_t word_row(const struct nn_exec *e, const struct nn_node *self, uint32_t i) {
    return id_row(e, self, USE_WORD, e->feed->col[e->g->node[self->in[1]].number].ids,
                  e->first + i);
}

/* Set up the chunk that begins with sample `first`, and its memory. */
static void chunk_open(const struct nn_exec *e, const struct nn_node *self, uint32_t first,
                       struct chunk *c) {
    const struct nn_column *near = &e->feed->col[e->g->node[self->in[0]].number];
    const uint32_t *group = e->feed->draw[self->option].group + e->first,
                   *offset = near->offset + e->first;
    size_t K = self->dim, D = e->g->param[self->param[IN]].cols, R = nn_row_padded(D),
           P = MAX_PAIRS;
    uint32_t end = first + 1;
    while (end < e->n && group[end] == group[first] && offset[end + 1] - offset[first] <= P)
        end++;
    *c = (struct chunk){.first = first,
                        .n = end - first,
                        .K = K,
                        .D = D,
                        .R = R,
                        .at = group[first] * K,
                        .offset = offset + first,
                        .n_pairs = offset[end] - offset[first]};
    float *x = e->state[self->id].extra + (size_t)first * self->n_extra, *work = e->work;
    c->own = x;
    c->local = (uint32_t *)(void *)(x + c->n_pairs);
    c->row = (uint32_t *)(void *)(x + 2 * (size_t)c->n_pairs);
    c->sig = x + 3 * (size_t)c->n_pairs;
    c->in = work;
    c->din = c->in + P * R;
    c->drawn = c->din + P * R;
    c->ddrawn = c->drawn + K * R;
    c->word = c->ddrawn + K * R;
    c->dword = c->word + R;
    c->g = c->dword + R;
    c->weight = c->g + P * K;
    c->pair = c->weight + P;
    c->drawn_row = (uint32_t *)(void *)(c->pair + P);
    c->place = c->drawn_row + K;
}

/* Find the distinct rows of `in` of the chunk's pairs. */
static void find_rows(const struct nn_exec *e, const struct nn_node *self, struct chunk *c) {
    const uint64_t *ids = e->feed->col[e->g->node[self->in[0]].number].ids;
    size_t mask = hash_size(c->n_pairs) - 1;
    memset(c->place, 0, (mask + 1) * sizeof *c->place);
    for (uint32_t p = 0; p < c->n_pairs; p++) {
        uint32_t row = (uint32_t)id_row(e, self, USE_NEAR, ids, c->offset[0] + p);
        size_t h = place_of(row, mask);
        while (c->place[h] && c->row[c->place[h] - 1] != row)
            h = (h + 1) & mask;
        if (!c->place[h]) {
            c->row[c->n_rows++] = row;
            c->place[h] = c->n_rows;
        }
        c->local[p] = c->place[h] - 1;
    }
}

static void copy_row(const struct chunk *c, const float *from, size_t row, float *to) {
    memcpy(to, from + row * c->D, c->D * sizeof *to);
    memset(to + c->D, 0, (c->R - c->D) * sizeof *to);
}

/* Copy the rows to exec.work, one after the other. */
static void copy_rows(const struct nn_exec *e, const struct nn_node *self, const struct chunk *c) {
    for (uint32_t u = 0; u < c->n_rows; u++)
        copy_row(c, e->w[self->param[IN]], c->row[u], c->in + u * c->R);
    for (size_t k = 0; k < c->K; k++) {
        c->drawn_row[k] =
            (uint32_t)id_row(e, self, USE_DRAWN, e->feed->draw[self->option].ids, c->at + k);
        copy_row(c, e->w[self->param[OUT]], c->drawn_row[k], c->drawn + k * c->R);
    }
}

static int is_drawn(const struct chunk *c, size_t row) {
    int found = 0;
    for (size_t k = 0; k < c->K; k++)
        found |= c->drawn_row[k] == row;
    return found;
}

/* softplus(c.n) of row u and drawn id k. */
static float drawn_cost(const struct chunk *c, uint32_t u, size_t k) {
    float z = nn_dot(c->R, c->in + u * c->R, c->drawn + k * c->R);
    nn_softplus(1, &z, &z);
    return z;
}

/* pair = softplus(-c.t) of all pairs; own = sigmoid(c.t) - 1. */
static void pair_costs(const struct nn_exec *e, const struct nn_node *self, struct chunk *c) {
    for (uint32_t s = 0; s < c->n; s++) {
        uint32_t p = c->offset[s] - c->offset[0];
        copy_row(c, e->w[self->param[OUT]], word_row(e, self, c->first + s), c->word);
        nn_rows_dot(c->offset[s + 1] - c->offset[s], c->local + p, c->R, c->in, c->word,
                    c->own + p);
    }
    nn_scale(c->n_pairs, -1, c->own);
    nn_softplus(c->n_pairs, c->own, c->pair);
    nn_sigmoid(c->n_pairs, c->own, c->own);
    nn_scale(c->n_pairs, -1, c->own);
}

static void forward(struct nn_exec *e, const struct nn_node *self) {
    struct chunk c;
    for (uint32_t i = 0; i < e->n; i += c.n) {
        chunk_open(e, self, i, &c);
        find_rows(e, self, &c);
        copy_rows(e, self, &c);
        nn_gemm(0, 1, c.n_rows, c.K, c.R, 1, c.in, c.drawn, 0, c.sig);
        nn_sigmoid_costs(c.n_rows, c.K, c.sig, c.weight);
        pair_costs(e, self, &c);
        for (uint32_t s = 0, p = 0; s < c.n; s++) {
            size_t row = word_row(e, self, i + s);
            int also = is_drawn(&c, row);
            float sum = 0;
            for (; p < c.offset[s + 1] - c.offset[0]; p++) {
                float drawn = c.weight[c.local[p]];
                for (size_t k = 0; also && k < c.K; k++)
                    if (c.drawn_row[k] == row)
                        drawn -= drawn_cost(&c, c.local[p], k);
                sum += c.pair[p] + self->rate * drawn;
            }
            e->state[self->id].y[i + s] = sum;
        }
    }
}

/* g[U,K]: the gradients of the products c.n_k. */
static void drawn_gradient(const struct nn_exec *e, const struct nn_node *self,
                           const struct chunk *c) {
    const float *dy = e->state[self->id].dy + c->first;
    memset(c->weight, 0, c->n_rows * sizeof *c->weight);
    for (uint32_t s = 0, p = 0; s < c->n; s++)
        for (; p < c->offset[s + 1] - c->offset[0]; p++)
            c->weight[c->local[p]] += dy[s];
    for (uint32_t u = 0; u < c->n_rows; u++)
        nn_times(c->K, self->rate * c->weight[u], c->sig + u * c->K, c->g + u * c->K);
    for (uint32_t s = 0; s < c->n; s++) {
        size_t row = word_row(e, self, c->first + s);
        int also = is_drawn(c, row);
        for (size_t k = 0; also && k < c->K; k++)
            for (uint32_t p = c->offset[s] - c->offset[0];
                 c->drawn_row[k] == row && p < c->offset[s + 1] - c->offset[0]; p++)
                c->g[c->local[p] * c->K + k] -= self->rate * dy[s] * c->sig[c->local[p] * c->K + k];
    }
}

/* Add the gradients of the products c.t to din and, unless dout is NULL, to the words' rows. */
static void pair_gradient(const struct nn_exec *e, const struct nn_node *self, struct chunk *c,
                          float *dout) {
    const float *dy = e->state[self->id].dy + c->first;
    for (uint32_t s = 0; s < c->n; s++) {
        uint32_t p = c->offset[s] - c->offset[0], n = c->offset[s + 1] - c->offset[s];
        size_t row = word_row(e, self, c->first + s);
        copy_row(c, e->w[self->param[OUT]], row, c->word);
        memset(c->dword, 0, c->R * sizeof *c->dword);
        nn_times(n, dy[s], c->own + p, c->pair);
        nn_rows_dot_grad(n, c->local + p, c->R, c->pair, c->in, c->word, c->din, c->dword);
        if (dout)
            nn_add(c->D, c->dword, dout + row * c->D);
    }
}

static void backward(struct nn_exec *e, const struct nn_node *self) {
    float *din = e->grad[self->param[IN]], *dout = e->grad[self->param[OUT]];
    struct chunk c;
    for (uint32_t i = 0; i < e->n; i += c.n) {
        chunk_open(e, self, i, &c);
        for (uint32_t p = 0; p < c.n_pairs; p++)
            c.n_rows = c.local[p] + 1 > c.n_rows ? c.local[p] + 1 : c.n_rows;
        copy_rows(e, self, &c);
        drawn_gradient(e, self, &c);
        nn_gemm(0, 0, c.n_rows, c.R, c.K, 1, c.g, c.drawn, 0, c.din);
        nn_gemm(1, 0, c.K, c.R, c.n_rows, 1, c.g, c.in, 0, c.ddrawn);
        pair_gradient(e, self, &c, dout);
        for (size_t k = 0; dout && k < c.K; k++)
            nn_add(c.D, c.ddrawn + k * c.R, dout + c.drawn_row[k] * c.D);
        for (uint32_t u = 0; din && u < c.n_rows; u++)
            nn_add(c.D, c.din + u * c.R, din + c.row[u] * c.D);
    }
}

const struct nn_layer nn_layer_skip_gram = {
    .name = "skip_gram",
    .takes = takes,
    .shape = shape,
    .forward = forward,
    .backward = backward,
    .text = "the cost of a word against the words near it and ids drawn at random: word2vec",
    .formula = "inputs    a field of lists (the context words c) and a field of ids t (the word)\n"
               "shapes    in[V,D], a row for each context word; out[V,D], a row for each predicted "
               "or drawn\n"
               "          word; both tables with sparse_update -> y[B,1]; D = size\n"
               "forward   y = sum over the list's c of softplus(-in_c.out_t) + scale * sum_k\n"
               "          softplus(in_c.out_nk), for a cost of type sum; a drawn word that is t "
               "does not count\n"
               "backward  d(in_c.out_t) = sigmoid(in_c.out_t) - 1;  d(in_c.out_nk) = scale "
               "sigmoid(in_c.out_nk)\n"
               "draws     as negative_sampling\n"
               "initial   in: normal, std 0.3/D; out: 0\n",
    .source = "negative-sampling",
    .example = "[layer near]\n"
               "type = skip_gram\n"
               "inputs = tags word\n"
               "size = 100\n"
               "negatives = 64\n"
               "share = 512\n"
               "scale = 0.08\n"
               "sparse_update = true\n"
               "\n"
               "[cost cost]\n"
               "type = sum\n"
               "input = near\n",
};
