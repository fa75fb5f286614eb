/* SPDX-License-Identifier: Apache-2.0 */
/* infer.c - see infer.h. */
#include "train/infer/infer.h"

#include "model/table.h"
#include "nn/graph/graph.h"
#include "nn/kernels/kernel.h"
#include "train/infer/infer_names.h"
#include "train/input/streams.h"

struct param_source { /* values of a parameter */
    float *w;         /* dense: all; table: the rows of the batch */
    size_t cap;       /* rows that fit */
    struct model_table *table;
};

struct infer {
    const struct train_infer *x;
    struct model *model;
    struct nn_graph *graph;
    struct nn_feed *feed;
    struct nn_exec *exec;
    struct pd_batch batch;
    struct train_streams *streams;
    struct param_source *source; /* [n_params] */
    struct data_schema schema;   /* of the graph, without subsample: every sample has its line */
    const char *layer;
    struct infer_names names;
    struct infer_words words;
    struct pd_buf out;
    uint32_t top;   /* as in train_infer, with its default; 0: all values */
    uint32_t *best; /* [top] */
    uint64_t n_samples;
};

static int load_graph(struct infer *f, struct pd_err *err) {
    char path[PATH_MAX];
    if (f->x->config)
        return nn_graph_load(&f->graph, f->x->config, err);
    if (pd_fmt(path, sizeof path, "%s/train.ini", f->x->workspace))
        return pd_fail(err, PD_EUSAGE, "path too long: %s", f->x->workspace);
    int rc = nn_graph_load_text(&f->graph, path, model_info(f->model)->config, err);
    if (rc)
        pd_err_prefix(err, "the train.ini of model %s", f->x->model);
    if (rc == PD_ENOENT)
        pd_err_prefix(err, "'%s' is not the model's workspace, use --workspace=FOLDER",
                      f->x->workspace);
    return rc;
}

/* Reads a dense parameter or opens a table. The model's shape must equal the network's. */
static int open_param(struct infer *f, uint32_t i, struct pd_err *err) {
    const struct nn_param *p = nn_graph_param(f->graph, i);
    const struct model_param *q = model_find_param(f->model, p->name);
    struct param_source *s = &f->source[i];
    if (!q)
        return pd_fail(err, PD_EDATA, "model %s has no parameter '%s'", f->x->model, p->name);
    if (p->kind == NN_TABLE) {
        if (q->kind != MODEL_TABLE || q->dim != p->cols)
            return pd_fail(
                err, PD_EDATA,
                "'%s' is a table with rows of %llu values in the network, but not in model %s",
                p->name, (unsigned long long)p->cols, f->x->model);
        return model_table_open(&s->table, f->model, p->name, err);
    }
    uint64_t n = p->rows * p->cols;
    if (q->kind != MODEL_DENSE || model_param_values(q) != n)
        return pd_fail(err, PD_EDATA,
                       "'%s' has %llu x %llu values in the network, but not in model %s", p->name,
                       (unsigned long long)p->rows, (unsigned long long)p->cols, f->x->model);
    if (!(s->w = pd_alloc64(n * sizeof *s->w)))
        return pd_fail(err, PD_ENOMEM, "out of memory for '%s'", p->name);
    return model_read_dense(f->model, p->name, 0, n, s->w, err);
}

/* Sets needed[k] for each field that the layer reads, also through its inputs. */
static void mark_needed(const struct model_ini *m, const char *name, uint8_t *seen,
                        uint8_t needed[PD_MAX_FIELDS]) {
    const int k = data_schema_find(m->schema, name);
    if (k >= 0)
        needed[k] = 1;
    for (uint32_t i = 0; i < m->n_layers; i++) {
        const struct layer_ini *l = &m->layer[i];
        if (seen[i] || strcmp(l->name.text, name))
            continue;
        seen[i] = 1;
        for (uint32_t j = 0; j < l->inputs.n; j++)
            mark_needed(m, l->inputs.at[j].text, seen, needed);
    }
}

static void mark_label(struct infer *f, const char *name, const uint8_t needed[PD_MAX_FIELDS]) {
    const int k = data_schema_find(&f->schema, name);
    if (k >= 0 && !needed[k])
        f->schema.may_lack[k] = 1;
}

/* Lines may lack the labels of costs and evaluators that the layer does not read. */
static void find_labels(struct infer *f) {
    const struct model_ini *m = nn_graph_model(f->graph);
    uint8_t seen[NN_MAX_LAYERS] = {0}, needed[PD_MAX_FIELDS] = {0};
    mark_needed(m, f->layer, seen, needed);
    for (uint32_t i = 0; i < m->n_costs; i++)
        mark_label(f, m->cost[i].label.text, needed);
    for (uint32_t i = 0; i < m->n_evaluators; i++)
        mark_label(f, m->evaluator[i].label.text, needed);
    f->schema.complete_for = data_schema_n_lacking(&f->schema) ? NULL : f->layer;
}

static void tell_empty(void *arg, const char *message) {
    (void)arg;
    fprintf(stderr, "infer: %s\n", message);
}

static int open_data(struct infer *f, struct pd_err *err) {
    const struct train_infer *x = f->x;
    const struct model_ini *m = nn_graph_model(f->graph);
    const char *data = strcmp(x->data, "-") ? x->data : "/dev/stdin";
    struct data_spec spec = {.schema = &f->schema, .on_bad = tell_empty};
    const struct train_files files = {".", data, "data", PD_DATA_SHARED};
    f->schema = *m->schema;
    f->schema.subsample = 0;
    f->schema.tells_empty = data_schema_is_ids(m->schema);
    if (!data_schema_is_text(m->schema))
        find_labels(f);
    int rc = x->tokens ? train_infer_words_init(&f->words, &f->schema, m, x->tokens, err) : 0;
    if (!rc)
        rc = train_streams_new(&f->streams, &spec, &files, 1, 0, 1, x->batch_size, 0, err);
    if (!rc &&
        pd_batch_init(&f->batch, nn_graph_field(f->graph, 0), m->schema->n_fields, x->batch_size))
        rc = pd_fail(err, PD_ENOMEM, "out of memory for a batch of %u samples", x->batch_size);
    if (!rc)
        rc = nn_feed_new(&f->feed, f->graph, x->batch_size, err);
    if (!rc)
        rc = nn_graph_admit(f->graph, 1, x->batch_size, x->batch_size, err);
    if (!rc)
        rc = nn_exec_new(&f->exec, f->graph, x->batch_size, err);
    return rc ? rc : nn_gemm_room(1, err);
}

static int open_all(struct infer *f, struct pd_err *err) {
    const struct train_infer *x = f->x;
    int rc = model_open(&f->model, x->model, err);
    if (!rc && x->trust)
        model_skip_checksums(f->model);
    if (!rc)
        rc = model_verify(f->model, err);
    if (!rc)
        rc = load_graph(f, err);
    if (rc)
        return rc;
    uint32_t size;
    const struct model_ini *m = nn_graph_model(f->graph);
    if (!x->layer && m->n_costs && !strcmp(m->cost[0].type.text, "sum"))
        return pd_fail(err, PD_EUSAGE,
                       "the network predicts nothing, since its cost '%s' is layer '%s' itself: "
                       "--layer=NAME prints another layer, and 'paddlectl export' writes vectors",
                       m->cost[0].name.text, nn_graph_cost_input(f->graph, 0));
    f->layer = x->layer ? x->layer : nn_graph_cost_input(f->graph, 0);
    if (!(size = nn_graph_layer_size(f->graph, f->layer)))
        return pd_fail(err, PD_EUSAGE, "the network has no layer '%s'", f->layer);
    if (!x->ids && (rc = train_infer_names_init(&f->names, f->graph, f->layer, err)))
        return rc;
    const uint32_t many = f->names.n && f->names.binary ? 2 : size;
    if (x->top > many)
        return pd_fail(err, PD_EUSAGE, "layer '%s' has %u outputs, not %u", f->layer, many, x->top);
    f->top = x->top || !f->names.n ? x->top : many < INFER_TOP ? many : INFER_TOP;
    f->source = pd_calloc(nn_graph_n_params(f->graph), sizeof *f->source);
    f->best = pd_calloc(f->top, sizeof *f->best);
    if (!f->source || !f->best)
        return pd_oom(err, "the results");
    for (uint32_t i = 0; i < nn_graph_n_params(f->graph) && !rc; i++)
        rc = open_param(f, i, err);
    if (!rc)
        model_random_access(f->model);
    return rc ? rc : open_data(f, err);
}

static void close_all(struct infer *f) {
    for (uint32_t i = 0; f->source && i < nn_graph_n_params(f->graph); i++) {
        free(f->source[i].w);
        model_table_close(f->source[i].table);
    }
    free(f->source);
    free(f->best);
    nn_exec_free(f->exec);
    nn_feed_free(f->feed);
    pd_batch_release(&f->batch);
    train_streams_free(f->streams);
    nn_graph_free(f->graph);
    model_close(f->model);
    train_infer_names_release(&f->names);
    train_infer_words_release(&f->words);
    pd_buf_release(&f->out);
}

static int bind(struct infer *f, struct pd_err *err) {
    for (uint32_t i = 0; i < nn_graph_n_params(f->graph); i++) {
        struct param_source *s = &f->source[i];
        size_t dim = nn_graph_param(f->graph, i)->cols;
        uint32_t n = 0;
        const uint64_t *keys = s->table ? nn_feed_keys(f->feed, i, &n) : NULL;
        if (s->table && (!s->w || n > s->cap)) {
            free(s->w);
            s->cap = n + n / 2 + 1;
            if (!(s->w = pd_alloc64(s->cap * dim * sizeof *s->w)))
                return pd_fail(err, PD_ENOMEM, "out of memory for %zu rows", s->cap);
        }
        for (uint32_t k = 0; k < n; k++) {
            const float *row = model_table_find(s->table, keys[k]);
            if (row)
                memcpy(s->w + k * dim, row, dim * sizeof *row);
            else
                memset(s->w + k * dim, 0, dim * sizeof *s->w);
        }
        nn_exec_bind(f->exec, i, s->w, NULL);
    }
    return 0;
}

/* Selects the `top` largest of y, largest first; equal values by index. */
static void select_best(struct infer *f, const float *y, uint32_t size) {
    uint32_t top = f->top, n = 0;
    for (uint32_t k = 0; k < size; k++) {
        uint32_t at = n;
        while (at > 0 && y[k] > y[f->best[at - 1]])
            at--;
        if (at >= top)
            continue;
        n += n < top;
        memmove(f->best + at + 1, f->best + at, (n - 1 - at) * sizeof *f->best);
        f->best[at] = k;
    }
}

/* "word:value ..." or "class:value ..." of the `top` largest of y. */
static void put_best(struct infer *f, const float *y, uint32_t size) {
    select_best(f, y, size);
    for (uint32_t i = 0; i < f->top; i++) {
        const uint32_t k = f->best[i];
        const char *name = train_infer_names_get(&f->names, k);
        if (name)
            pd_put_fmt(&f->out, "%s%s:%.4g", i ? " " : "", name, (double)y[k]);
        else
            pd_put_fmt(&f->out, "%s%u:%.*g", i ? " " : "", k, f->names.n ? 4 : 9, (double)y[k]);
    }
}

static int write_batch(struct infer *f, uint32_t n, struct pd_err *err) {
    uint32_t size;
    const float *y = nn_exec_output(f->exec, f->layer, &size);
    pd_buf_clear(&f->out);
    for (uint32_t i = 0; i < n; i++, y += size) {
        if (f->top && f->names.n && f->names.binary)
            put_best(f, (const float[]){1 - *y, *y}, 2);
        else if (f->top)
            put_best(f, y, size);
        for (uint32_t k = 0; !f->top && k < size; k++)
            pd_put_fmt(&f->out, "%s%.9g", k ? " " : "", (double)y[k]);
        pd_put_u8(&f->out, '\n');
    }
    if (f->out.failed)
        return pd_oom(err, "the results");
    if (pd_write_all(f->x->out_fd, f->out.data, f->out.len))
        return pd_fail_errno(err, PD_EIO, errno, "cannot write the predictions");
    f->n_samples += n;
    return 0;
}

static int run(struct infer *f, struct pd_err *err) {
    int rc = 0, n;
    while (!rc && (n = train_streams_next(f->streams, &f->batch, err)) != 0) {
        struct nn_cost cost;
        if (n < 0)
            return n;
        rc = nn_feed_set(f->feed, &f->batch, err);
        if (!rc)
            rc = bind(f, err);
        if (rc)
            break;
        nn_exec_forward(f->exec, f->feed, 0, (uint32_t)n, NN_TEST, 0, 0, &cost);
        rc = write_batch(f, (uint32_t)n, err);
    }
    return rc;
}

int train_infer(const struct train_infer *x, uint64_t *n_samples, struct pd_err *err) {
    struct infer f = {.x = x};
    pd_buf_init(&f.out);
    int rc = open_all(&f, err);
    if (!rc)
        rc = run(&f, err);
    const struct model_ini *m = f.graph ? nn_graph_model(f.graph) : NULL;
    if (err->code == PD_EDATA && !x->tokens && m && data_schema_is_ids(m->schema) &&
        m->data.vocabulary_file.line) {
        const struct pd_err why = *err;
        *err = (struct pd_err){0};
        pd_fail(err, why.code, "%.700s; if these are sentences, give --tokens=words", why.msg);
    }
    if (n_samples)
        *n_samples = f.n_samples;
    close_all(&f);
    return rc;
}
