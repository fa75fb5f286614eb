/* SPDX-License-Identifier: Apache-2.0 */
/* models.c - see models.h. */
#include "agent/client/models.h"

#include "agent/core/msg.h"
#include "agent/core/passes.h"
#include "wire/client_bodies.h"
#include "wire/msg.h"

enum {
    MODELS_MAX = 10000,            /* in one answer, so that it fits into a frame */
    MANIFEST_BYTES_MAX = 256 << 20 /* src/model/reader.c reads no larger one */
};

/* The files of a model's folder, except the manifest. */
static json_t *files_of(const char *dir) {
    json_t *files = json_array();
    const struct dirent *e;
    DIR *d = opendir(dir);
    while (d && (e = readdir(d)))
        if (*e->d_name != '.' && strcmp(e->d_name, "manifest.json"))
            json_array_append_new(files, wire_text(e->d_name, strlen(e->d_name)));
    pd_closedir(d);
    return files;
}

static json_t *read_manifest(const char *path) {
    struct pd_buf text = {0};
    json_t *m = NULL;
    struct stat st;
    if (!stat(path, &st) && S_ISREG(st.st_mode) &&
        !pd_read_file(path, MANIFEST_BYTES_MAX, &text, NULL))
        m = json_loadb((const char *)text.data, text.len, JSON_REJECT_DUPLICATES, NULL);
    pd_buf_release(&text);
    return m;
}

/* NULL: the folder is no saved model. */
static json_t *model_of(const char *output, const char *name, int with_files) {
    char dir[PATH_MAX], manifest[PATH_MAX];
    if (node_paths_join(output, name, dir, NULL) ||
        node_paths_join(dir, "manifest.json", manifest, NULL))
        return NULL;
    json_t *m = read_manifest(manifest), *out = NULL, *files = with_files ? files_of(dir) : NULL;
    const struct listed_model x = {.name = name,
                                   .n_parts = (int64_t)json_array_size(json_object_get(m, "parts")),
                                   .state = json_is_object(json_object_get(m, "resume")),
                                   .config = with_files ? msg_str(m, "config") : "",
                                   .files = files};
    if (!strcmp(msg_str(m, "format"), "paddle-model"))
        out = wire_put(&wire_listed_model, &x);
    json_decref(files);
    json_decref(m);
    return out;
}

static json_t *all_models(const char *output) {
    json_t *models = json_array();
    const struct dirent *e;
    DIR *d = opendir(output);
    while (d && (e = readdir(d)) && json_array_size(models) < MODELS_MAX) {
        json_t *m = node_paths_name_ok(e->d_name) ? model_of(output, e->d_name, 0) : NULL;
        if (m)
            json_array_append_new(models, m);
    }
    pd_closedir(d);
    return models;
}

static int on_models(struct client *c, const struct wire_frame *f, const json_t *body,
                     struct pd_err *err) {
    const struct node_paths *p = &client_core(c)->paths;
    struct ag_models m;
    struct ag_models_answer a = {0};
    char output[PATH_MAX], by[80], better[8];
    if (wire_get(&wire_ag_models, &m, body, err) || node_paths_join(p->dir, "output", output, err))
        return err->code;
    if (*m.name && !node_paths_name_ok(m.name))
        return pd_fail(err, PD_EPROTO, "'%s' is no name of a model", m.name);
    if (*m.name) {
        a.models = json_array();
        json_array_append_new(a.models, model_of(output, m.name, 1)); /* NULL adds nothing */
    } else {
        a.models = all_models(output);
    }
    a.tests = passes_values(p, by, better);
    a.by = by;
    a.better = better;
    json_t *answer = wire_put(&wire_ag_models_answer, &a);
    json_decref(a.models);
    json_decref(a.tests);
    return client_answer(c, f, answer, err);
}

static const struct client_request requests[] = {{WIRE_AG_MODELS, 1, 1, on_models, NULL}, {0}};

const struct client_service models_service = {.name = "models", .requests = requests};
