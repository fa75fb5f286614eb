/* SPDX-License-Identifier: Apache-2.0 */
/* config.c - see config.h. */
#include "train/config.h"

#include "conf/settings.h"
#include "ps/plan/update_rule.h"

enum { MAX_CONFIG = 1 << 20 };

/* The text must be UTF-8, because the manifest is JSON. Check before the training, not after. */
static int check_text(const struct train_config *c, const char *path, struct pd_err *err) {
    int line = 1;
    const char *text = (const char *)c->text.data;
    size_t valid = pd_utf8_valid(text, c->text.len);
    for (size_t i = 0; i < valid; i++)
        line += text[i] == '\n';
    return valid == c->text.len
               ? 0
               : pd_fail(err, PD_ECONF, "%s:%d: this line is not UTF-8", path, line);
}

static int read_text(struct train_config *c, const char *path, struct pd_err *err) {
    int rc = pd_read_file(path, MAX_CONFIG, &c->text, err);
    if (rc != PD_EIO && rc != PD_EDATA)
        return rc;
    if (err)
        err->code = PD_ECONF; /* the wrong file: a folder, a huge file, a device */
    return PD_ECONF;
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

/* Under geo the trainers create rows, so the servers cannot decide about them. */
static int check_rows(const struct train_config *c, const struct pd_options *o, const char *path,
                      struct pd_err *err) {
    const struct ps_update_rule *rule = ps_update_rule_at((size_t)o->update);
    for (uint32_t i = 0; rule->adds && !o->local && i < nn_graph_n_params(c->graph); i++) {
        const struct nn_param *p = nn_graph_param(c->graph, i);
        if (pd_row_life_active(&p->life))
            return pd_fail(err, PD_ECONF,
                           "%s:%d: table '%s': rows cannot be admitted or age under update = %s, "
                           "where trainers create them",
                           path, p->line, p->name, rule->name);
    }
    return 0;
}

int train_config_load(struct train_config *c, const struct pd_options *o, const char *path,
                      struct pd_err *err) {
    int line[PD_MAX_SETTINGS] = {0};
    memset(c, 0, sizeof *c);
    pd_buf_init(&c->text);
    int rc = read_text(c, path, err);
    if (!rc)
        rc = pd_settings_apply(o, path, &c->text, line, err);
    pd_put_u8(&c->text, 0);
    if (!rc && c->text.failed)
        rc = pd_oom(err, "the text of train.ini");
    if (rc)
        return rc;
    c->text.len--;
    rc = nn_graph_load_text(&c->graph, path, (const char *)c->text.data, err);
    if (!rc)
        rc = check_text(c, path, err);
    if (!rc)
        rc = check_rows(c, o, path, err);
    if (!rc)
        rc = read_optimizer(&c->optimizer, nn_graph_model(c->graph), err);
    if (rc)
        pd_settings_blame(o, path, line, err);
    return rc;
}

void train_config_release(struct train_config *c) {
    nn_graph_free(c->graph);
    pd_buf_release(&c->text);
    memset(c, 0, sizeof *c);
}
