/* SPDX-License-Identifier: Apache-2.0 */
/* manifest.c - converts manifest.json to and from struct model_manifest. */
#include <jansson.h>

#include "model/model.h"

enum { MAX_PARAMS = 1 << 16, MAX_PARTS = 1 << 18, MAX_STREAMS = 1 << 16 };

void model_resume_release(struct model_resume *r) {
    for (size_t i = 0; i < r->n_streams; i++)
        free(r->streams[i]);
    free(r->streams);
    free(r->data);
    memset(r, 0, sizeof *r);
}

void model_manifest_release(struct model_manifest *m) {
    free(m->params);
    free(m->parts);
    free(m->config);
    model_resume_release(&m->resume);
    memset(m, 0, sizeof *m);
}

uint64_t model_param_values(const struct model_param *p) {
    uint64_t n = 1;
    for (uint32_t i = 0; i < p->n_dims; i++)
        n *= p->shape[i];
    return n;
}

/* --- writing --- */

static json_t *param_json(const struct model_param *p) {
    if (p->kind == MODEL_TABLE)
        return json_pack("{s:s, s:s, s:I, s:I, s:I}", "name", p->name, "kind", "table", "dim",
                         (json_int_t)p->dim, "rows", (json_int_t)p->rows, "n_rows",
                         (json_int_t)p->n_rows);
    json_t *shape = json_array();
    for (uint32_t i = 0; i < p->n_dims; i++)
        json_array_append_new(shape, json_integer((json_int_t)p->shape[i]));
    return json_pack("{s:s, s:s, s:o}", "name", p->name, "kind", "dense", "shape", shape);
}

static json_t *part_json(const struct model_part *p) {
    char hex[2 * sizeof p->hash + 1];
    pd_hex(hex, p->hash, sizeof p->hash);
    json_t *o = json_pack("{s:s, s:I, s:s, s:I}", "file", p->file, "bytes", (json_int_t)p->bytes,
                          "xxh3_128", hex, "rows", (json_int_t)p->rows);
    if (o && p->layer && json_object_set_new(o, "layer", json_integer(p->layer))) {
        json_decref(o);
        return NULL;
    }
    return o;
}

static json_t *resume_json(const struct model_resume *r) {
    json_t *streams = json_array();
    for (size_t i = 0; i < r->n_streams; i++)
        json_array_append_new(streams, json_string(r->streams[i]));
    json_t *o = json_pack("{s:I, s:I, s:I, s:I, s:o}", "updates", (json_int_t)r->updates, "samples",
                          (json_int_t)r->samples, "pass", (json_int_t)r->pass, "batch",
                          (json_int_t)r->batch, "streams", streams);
    if (o && r->data && json_object_set_new(o, "data", json_string(r->data))) {
        json_decref(o);
        return NULL;
    }
    return o;
}

static json_t *best_json(const struct model_best *b) {
    return json_pack("{s:s, s:f, s:I}", "metric", b->metric, "value", b->value, "pass",
                     (json_int_t)b->pass);
}

int model_manifest_write(const struct model_manifest *m, struct pd_buf *out, struct pd_err *err) {
    json_t *params = json_array(), *parts = json_array();
    for (size_t i = 0; i < m->n_params; i++)
        json_array_append_new(params, param_json(&m->params[i]));
    for (size_t i = 0; i < m->n_parts; i++)
        json_array_append_new(parts, part_json(&m->parts[i]));
    json_t *root = json_pack("{s:s, s:i, s:I, s:I, s:b, s:o, s:o, s:s}", "format", "paddle-model",
                             "version", 1, "step", (json_int_t)m->step, "pass", (json_int_t)m->pass,
                             "optimizer_state", m->optimizer_state, "parameters", params, "parts",
                             parts, "config", m->config ? m->config : "");
    if (root && m->optimizer_state &&
        json_object_set_new(root, "resume", resume_json(&m->resume))) {
        json_decref(root);
        root = NULL;
    }
    if (root && *m->best.metric && json_object_set_new(root, "best", best_json(&m->best))) {
        json_decref(root);
        root = NULL;
    }
    char *text = root ? json_dumps(root, JSON_INDENT(1) | JSON_PRESERVE_ORDER) : NULL;
    json_decref(root);
    if (!text)
        return pd_fail(
            err, PD_EDATA,
            "cannot write the manifest: the configuration is not UTF-8, or memory is short");
    pd_put(out, text, strlen(text));
    pd_put(out, "\n", 1);
    free(text);
    return out->failed ? pd_fail(err, PD_ENOMEM, "no memory for a manifest") : 0;
}

/* --- reading --- */

static int whole(const json_t *o, const char *key, uint64_t *out) {
    const json_t *v = json_object_get(o, key);
    if (!json_is_integer(v) || json_integer_value(v) < 0)
        return -1;
    *out = (uint64_t)json_integer_value(v);
    return 0;
}

static int text(const json_t *o, const char *key, char *out, size_t cap) {
    const char *s = json_string_value(json_object_get(o, key));
    return s && *s ? pd_fmt(out, cap, "%s", s) : -1;
}

static int read_param(const json_t *o, struct model_param *p) {
    char kind[16];
    uint64_t dim, values = 1;
    if (text(o, "name", p->name, sizeof p->name) || text(o, "kind", kind, sizeof kind))
        return -1;
    if (!strcmp(kind, "table")) {
        p->kind = MODEL_TABLE;
        if (whole(o, "dim", &dim) || dim < 1 || dim > 1 << 20 || whole(o, "rows", &p->rows) ||
            whole(o, "n_rows", &p->n_rows))
            return -1;
        p->dim = (uint32_t)dim;
        return 0;
    }
    const json_t *shape = json_object_get(o, "shape");
    if (strcmp(kind, "dense") || json_array_size(shape) < 1 ||
        json_array_size(shape) > MODEL_DIMS_MAX)
        return -1;
    p->kind = MODEL_DENSE;
    p->n_dims = (uint32_t)json_array_size(shape);
    for (uint32_t i = 0; i < p->n_dims; i++) {
        json_int_t v = json_integer_value(json_array_get(shape, i));
        if (v < 1 || (uint64_t)v > (UINT64_C(1) << 40) / values)
            return -1;
        values *= p->shape[i] = (uint64_t)v;
    }
    return 0;
}

static int read_part(const json_t *o, struct model_part *p) {
    char hex[2 * sizeof p->hash + 1];
    uint64_t layer = 0;
    if (json_object_get(o, "layer") && (whole(o, "layer", &layer) || layer > MODEL_LAYERS_MAX))
        return -1;
    p->layer = (uint32_t)layer;
    return text(o, "file", p->file, sizeof p->file) || strchr(p->file, '/') || p->file[0] == '.' ||
           whole(o, "bytes", &p->bytes) || whole(o, "rows", &p->rows) ||
           text(o, "xxh3_128", hex, sizeof hex) || pd_unhex(p->hash, sizeof p->hash, hex);
}

static int read_resume(const json_t *o, struct model_resume *r) {
    const json_t *streams = json_object_get(o, "streams");
    size_t n = json_array_size(streams);
    if (whole(o, "updates", &r->updates) || whole(o, "samples", &r->samples) ||
        whole(o, "pass", &r->pass) || whole(o, "batch", &r->batch) || !json_is_array(streams) ||
        n > MAX_STREAMS || !(r->streams = pd_calloc(n, sizeof *r->streams)))
        return -1;
    for (; r->n_streams < n; r->n_streams++) {
        const char *s = json_string_value(json_array_get(streams, r->n_streams));
        if (!s || !(r->streams[r->n_streams] = pd_strdup(s)))
            return -1;
    }
    const char *data = json_string_value(json_object_get(o, "data"));
    if (data && !(r->data = pd_strdup(data)))
        return -1;
    return 0;
}

static int read_best(const json_t *o, struct model_best *b) {
    const json_t *value = json_object_get(o, "value");
    b->value = json_number_value(value);
    return !json_is_number(value) || text(o, "metric", b->metric, sizeof b->metric) ||
           whole(o, "pass", &b->pass);
}

static int read_root(const json_t *root, struct model_manifest *m, struct pd_err *err) {
    char format[32];
    uint64_t version;
    if (text(root, "format", format, sizeof format) || strcmp(format, "paddle-model") ||
        whole(root, "version", &version))
        return pd_fail(err, PD_EDATA, "not the manifest of a model");
    if (version != 1)
        return pd_fail(err, PD_EDATA, "model of format version %llu, this program reads 1",
                       (unsigned long long)version);
    const json_t *params = json_object_get(root, "parameters"),
                 *parts = json_object_get(root, "parts");
    const char *config = json_string_value(json_object_get(root, "config"));
    size_t n_params = json_array_size(params), n_parts = json_array_size(parts);
    if (whole(root, "step", &m->step) || whole(root, "pass", &m->pass) || !config ||
        !json_is_array(params) || !json_is_array(parts) || n_params > MAX_PARAMS ||
        n_parts > MAX_PARTS)
        return pd_fail(err, PD_EDATA,
                       "the manifest lacks one of step, pass, parameters, parts, config");
    m->optimizer_state = json_is_true(json_object_get(root, "optimizer_state"));
    if (m->optimizer_state && read_resume(json_object_get(root, "resume"), &m->resume))
        return pd_fail(err, PD_EDATA, "the manifest's resume is malformed");
    if (json_object_get(root, "best") && read_best(json_object_get(root, "best"), &m->best))
        return pd_fail(err, PD_EDATA, "the manifest's best is malformed");
    m->params = pd_calloc(n_params, sizeof *m->params);
    m->parts = pd_calloc(n_parts, sizeof *m->parts);
    m->config = pd_strdup(config);
    if (!m->params || !m->parts || !m->config)
        return pd_fail(err, PD_ENOMEM, "no memory for a manifest");
    for (; m->n_params < n_params; m->n_params++)
        if (read_param(json_array_get(params, m->n_params), &m->params[m->n_params]))
            return pd_fail(err, PD_EDATA, "the manifest's parameter %zu is malformed", m->n_params);
    for (; m->n_parts < n_parts; m->n_parts++)
        if (read_part(json_array_get(parts, m->n_parts), &m->parts[m->n_parts]))
            return pd_fail(err, PD_EDATA, "the manifest's part %zu is malformed", m->n_parts);
    for (size_t i = 0; i < n_parts; i++)
        if (m->parts[i].layer &&
            (i + 1 == n_parts || m->parts[i + 1].layer != m->parts[i].layer - 1))
            return pd_fail(err, PD_EDATA, "the manifest lacks the layer below %s",
                           m->parts[i].file);
    return 0;
}

int model_manifest_parse(struct model_manifest *m, const char *p, size_t n, struct pd_err *err) {
    json_error_t je;
    memset(m, 0, sizeof *m);
    json_t *root = json_loadb(p, n, JSON_REJECT_DUPLICATES, &je);
    if (!root)
        return pd_fail(err, PD_EDATA, "manifest, line %d: %s", je.line, je.text);
    int rc = read_root(root, m, err);
    json_decref(root);
    if (rc)
        model_manifest_release(m);
    return rc;
}
