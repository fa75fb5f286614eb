/* config.c - see config.h. */
#include "train/config.h"

#include <string.h>

#include "base/fs.h"
#include "base/str.h"

enum { MAX_CONFIG = 1 << 20 };

/* The text must be UTF-8, because the manifest is JSON. Check before the training, not after. */
static int read_text(struct train_config *c, const char *path, struct pd_err *err) {
    int rc = pd_read_file(path, MAX_CONFIG, &c->text, err), line = 1;
    if (rc)
        return rc;
    const char *text = (const char *)c->text.data;
    size_t valid = pd_utf8_valid(text, c->text.len);
    for (size_t i = 0; i < valid; i++)
        line += text[i] == '\n';
    return valid == c->text.len
               ? 0
               : pd_fail(err, PD_ECONF, "%s:%d: this line is not UTF-8", path, line);
}

/* Converts [optimizer] for the servers. */
static int read_optimizer(struct ps_optim_conf *c, const struct model_ini *m, struct pd_err *err) {
    const struct optimizer_ini *o = &m->optimizer;
    int rc = ps_optim_conf_init(c, o->type.text, err), line = o->type.line;
    for (uint32_t i = 0; i < o->n_settings && !rc; i++) {
        line = o->setting[i].name.line;
        rc = ps_optim_conf_set(c, o->setting[i].name.text, o->setting[i].value, err);
    }
    if (!rc) {
        line = o->line;
        rc = ps_optim_conf_check(c, err);
    }
    if (rc)
        pd_err_prefix(err, "%.250s:%d", m->file, line);
    return rc;
}

int train_config_load(struct train_config *c, const char *path, struct pd_err *err) {
    memset(c, 0, sizeof *c);
    pd_buf_init(&c->text);
    int rc = nn_graph_load(&c->graph, path, err);
    if (!rc)
        rc = read_text(c, path, err);
    return rc ? rc : read_optimizer(&c->optimizer, nn_graph_model(c->graph), err);
}

void train_config_release(struct train_config *c) {
    nn_graph_free(c->graph);
    pd_buf_release(&c->text);
    memset(c, 0, sizeof *c);
}
