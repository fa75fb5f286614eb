/* SPDX-License-Identifier: Apache-2.0 */
/* sampler.c - see sampler.h. */
#include "nn/graph/sampler.h"

#include "nn/graph/alias_sampler.h"

enum { MAX_COUNTED = 1 << 28 };

static int read_counts(const struct nn_build *b, const struct ini_text *file, double power,
                       double *weight, uint64_t n, struct pd_err *err) {
    char path[2 * PATH_MAX], line[4096];
    const char *name = file->text;
    snprintf(path, sizeof path, "%s%s%s", *name == '/' ? "" : b->g->model->dir,
             *name == '/' ? "" : "/", name);
    FILE *f = fopen(path, "re");
    if (!f)
        return pd_fail_errno(err, errno == ENOENT ? PD_ENOENT : PD_ECONF, errno,
                             "%s:%d: cannot open counts %s", b->file, file->line, path);
    uint64_t i = 0;
    double sum = 0;
    int rc = 0;
    for (; !rc && fgets(line, sizeof line, f); i++) {
        size_t end = strcspn(line, "\r\n");
        line[end] = 0;
        while (end && (line[end - 1] == ' ' || line[end - 1] == '\t'))
            line[--end] = 0;
        size_t at = end;
        while (at && line[at - 1] != ' ' && line[at - 1] != '\t')
            at--;
        if (i >= n || pd_parse_f64(line + at, 0, 1e18, &weight[i]))
            rc = pd_fail(err, PD_ECONF, "%s:%llu: %s", path, (unsigned long long)i + 1,
                         i >= n ? "more lines than the vocabulary has ids"
                                : "the last word of the line is no count");
        else
            sum += weight[i] = weight[i] > 0 ? pow(weight[i], power) : 0;
    }
    fclose(f);
    if (!rc && (i != n || !(sum > 0)))
        rc = pd_fail(err, PD_ECONF, "%s:%d: counts %s has %llu lines for %llu ids%s", b->file,
                     file->line, path, (unsigned long long)i, (unsigned long long)n,
                     sum > 0 ? "" : ", and all are 0");
    return rc;
}

/* nn_sampler.log_q. NULL: out of memory. */
static float *log_probabilities(const double *weight, uint64_t n) {
    float *log_q = pd_calloc(n, sizeof *log_q);
    double sum = 0, least = INFINITY;
    for (uint64_t i = 0; i < n; i++) {
        sum += weight[i];
        least = weight[i] > 0 && weight[i] < least ? weight[i] : least;
    }
    for (uint64_t i = 0; log_q && i < n; i++)
        log_q[i] = (float)log((weight[i] > 0 ? weight[i] : least) / sum);
    return log_q;
}

int nn_sampler_add(struct nn_build *b, const struct nn_node *self, uint64_t vocabulary,
                   double power, int log_q, struct pd_err *err) {
    const struct layer_ini *ini = self->ini;
    struct nn_graph *g = b->g;
    if (vocabulary < 2 || vocabulary > MAX_COUNTED)
        return pd_fail(
            err, PD_ECONF, "%s:%d: layer '%s' draws from a vocabulary of 2 to %d ids, not %llu",
            b->file, self->line, self->name, MAX_COUNTED, (unsigned long long)vocabulary);
    struct nn_sampler *grown = pd_realloc(g->sampler, (g->n_samplers + 1) * sizeof *grown);
    double *weight = pd_calloc(vocabulary, sizeof *weight);
    if (grown)
        g->sampler = grown;
    int rc = grown && weight ? 0 : nn_build_no_memory(b, err);
    if (ini->power.line)
        power = ini->power.value;
    if (!rc && ini->counts.line)
        rc = read_counts(b, &ini->counts, power, weight, vocabulary, err);
    for (uint64_t i = 0; !rc && !ini->counts.line && i < vocabulary; i++)
        weight[i] = pow((double)i + 1, -power);
    if (!rc) {
        struct nn_sampler *s = &g->sampler[g->n_samplers];
        *s = (struct nn_sampler){.number = self->number,
                                 .n = self->dim,
                                 .share = ini->share.line ? (uint32_t)ini->share.value : 1};
        s->log_q = log_q ? log_probabilities(weight, vocabulary) : NULL;
        s->alias = nn_alias_new(weight, (uint32_t)vocabulary);
        rc = (int)g->n_samplers++; /* freed with the graph */
        if (!s->alias || (log_q && !s->log_q))
            rc = nn_build_no_memory(b, err);
    }
    free(weight);
    return rc;
}

void nn_samplers_free(struct nn_graph *g) {
    for (uint32_t i = 0; i < g->n_samplers; i++) {
        nn_alias_free(g->sampler[i].alias);
        free(g->sampler[i].log_q);
    }
    free(g->sampler);
}

static void draw(const struct nn_sampler *s, const struct nn_feed *f, uint32_t i, uint64_t *out) {
    struct pd_rng_key key = pd_rng_key(f->seed, PD_RNG_SAMPLE, f->pass, f->stream[i]);
    for (uint32_t k = 0; k < s->n; k += 2) {
        uint32_t u[4];
        pd_rng_u32x4(key, f->index[i] / s->share, (uint64_t)s->number << 32 | k / 2, u);
        out[k] = nn_alias_draw(s->alias, u[0], u[1]);
        if (k + 1 < s->n)
            out[k + 1] = nn_alias_draw(s->alias, u[2], u[3]);
    }
}

int nn_draw_fill(struct nn_draw *d, const struct nn_sampler *s, const struct nn_feed *f) {
    if (nn_feed_grow(&d->group, &d->group_cap, f->n, sizeof *d->group))
        return PD_ENOMEM;
    d->n_groups = 0;
    for (uint32_t i = 0; i < f->n; i++) {
        int first = i == 0 || f->stream[i] != f->stream[i - 1] ||
                    f->index[i] / s->share != f->index[i - 1] / s->share;
        d->n_groups += (uint32_t)first;
        d->group[i] = d->n_groups - 1;
    }
    if (nn_feed_grow(&d->ids, &d->ids_cap, (size_t)d->n_groups * s->n, sizeof *d->ids))
        return PD_ENOMEM;
    for (uint32_t i = 0; i < f->n; i++)
        if (i == 0 || d->group[i] != d->group[i - 1])
            draw(s, f, i, d->ids + (size_t)d->group[i] * s->n);
    return 0;
}
